"""D4RL's AntMaze: its ant, its mazes in its coordinates, its evaluation starts and goals.

Gymnasium's ant has the same limbs as D4RL's, and differs in four numbers, which are set here. Coordinates are D4RL's,
so its data sets and this environment speak of the same places.
"""

import os
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable

import numpy as np

from tdinfonce.envs._maze import Body, Cell, Grid, MazeEnv, load_maze
from tdinfonce.envs._simulators import load
from tdinfonce.types import EnvSpec, GoalEnv

__all__ = ["NAMES", "goal_spaces", "make"]

SETS = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
NAMES = {f"antmaze-{name}": f"walk an ant through D4RL's {name.partition('-')[0]} maze" for name in SETS}
MAZES = {"umaze": ("U_MAZE", 700, (0, 8)), "medium": ("MEDIUM_MAZE", 1000, (20, 20))}
MAZES |= {"large": ("LARGE_MAZE", 1000, (32, 24))}
"""The map of gymnasium-robotics (its walls are D4RL's), the steps of an episode, and the evaluation goal."""
SCALE = 4.0
TIMESTEP, FRAME_SKIP, TORQUE = 0.02, 5, 30
CONTACT = {"solref": ".02 1", "solimp": ".8 .8 .01"}
FLOOR = {"rgb1": "0.2 0.3 0.4", "rgb2": "0.1 0.2 0.3"}


def goal_spaces(name: str) -> tuple[str, ...]:
    """The ant's position in the plane."""
    return ("achieved",)


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make a maze. The sets of one maze differ in their data only."""
    map_name, steps, place = MAZES[name.removeprefix("antmaze-").partition("-")[0]]
    from tdinfonce.envs.pointmaze import _assets

    maze_map = _assets(map_name)[1]
    ant = _ant_file()
    try:
        grid, model = load_maze(ant, maze_map, SCALE, 0.5, from_corner=True, render=render)
    finally:
        os.unlink(ant)
    body = Body(FRAME_SKIP, None, _pose, _start_noise, _goal_noise)
    spec = EnvSpec(name, observation_size=29, action_size=8, goal_size=2, episode_length=steps, tolerance=0.5)
    return MazeEnv(spec, grid, model, body, _evaluation(grid, place), render=render)


def _ant_file() -> str:
    """Gymnasium's ant with D4RL's time step, motors and contacts, as a temporary file."""
    folder = os.path.dirname(load("gymnasium.envs.mujoco").__file__)
    tree = ET.parse(os.path.join(folder, "assets", "ant.xml"))
    changes = {"./option": {"timestep": str(TIMESTEP)}, "./default/geom": CONTACT}
    changes |= {"./asset/texture[@name='texplane']": FLOOR, "./asset/material[@name='MatPlane']": {"reflectance": "0"}}
    changes |= {".//geom[@name='torso_geom']": {"rgba": "0.3 0.9 0.5 1"}}
    for path, values in changes.items():
        node = tree.find(path)
        assert node is not None, path
        node.attrib.update(values)
    for motor in tree.iterfind("./actuator/motor"):
        motor.set("gear", str(TORQUE))
    handle, path = tempfile.mkstemp(suffix=".xml")
    with open(handle, "wb") as file:
        tree.write(file)
    return path


def _pose(rng: np.random.Generator, positions: np.ndarray, velocities: np.ndarray) -> None:
    positions += rng.uniform(-0.1, 0.1, positions.shape)
    velocities += 0.1 * rng.standard_normal(velocities.shape)


def _start_noise(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 0.25 * SCALE, 2)


def _goal_noise(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 0.25 * SCALE, 2) + rng.uniform(0, 0.125 * SCALE, 2)


def _evaluation(grid: Grid, place: tuple[int, int]) -> Callable[[np.random.Generator], tuple[Cell, Cell, bool]]:
    """D4RL's test: from the first cell to the maze's goal cell, version 2: another point of that cell each time."""
    start, goal = grid.cell((0, 0)), grid.cell(place)
    return lambda rng: (start, goal, False)
