"""A ball that is pushed through a maze: gymnasium-robotics' PointMaze, with a goal radius of 0.5 as in D4RL."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tdinfonce.envs._maze import Body, Cell, Grid, MazeEnv, load_maze
from tdinfonce.envs._simulators import load
from tdinfonce.types import EnvSpec, GoalEnv

__all__ = ["NAMES", "goal_spaces", "make"]

MAZES = {"umaze": ("U_MAZE", 300), "medium": ("MEDIUM_MAZE", 600), "large": ("LARGE_MAZE", 800)}
"""The map of gymnasium-robotics, and the steps of an episode there."""
NAMES = {f"pointmaze-{size}": f"push a ball through the {size} maze, between any two cells" for size in MAZES} | {
    f"pointmaze-{size}-far": f"the same, to a goal at least half of the longest way off ({size})" for size in MAZES
}


def goal_spaces(name: str) -> tuple[str, ...]:
    """The ball's position."""
    return ("achieved",)


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make a maze."""
    size, _, far = name.removeprefix("pointmaze-").partition("-")
    map_name, steps = MAZES[size]
    ball, maze_map = _assets(map_name)
    grid, model = load_maze(ball, maze_map, 1.0, 0.4, from_corner=False, render=render)
    body = Body(1, 5.0, lambda rng, positions, velocities: None, _anywhere, _anywhere)
    spec = EnvSpec(name, observation_size=4, action_size=2, goal_size=2, episode_length=steps, tolerance=0.5)
    return MazeEnv(spec, grid, model, body, _any_cells(grid, far=bool(far)), render=render)


def _assets(map_name: str) -> tuple[str, Any]:
    robotics, maps = load("gymnasium_robotics"), load("gymnasium_robotics.envs.maze.maps")
    folder = os.path.dirname(robotics.__file__)
    return os.path.join(folder, "envs", "assets", "point", "point.xml"), getattr(maps, map_name)


def _anywhere(rng: np.random.Generator) -> np.ndarray:
    """Up to a quarter of a cell from its middle."""
    return rng.uniform(-0.25, 0.25, 2)


def _any_cells(grid: Grid, *, far: bool) -> Callable[[np.random.Generator], tuple[Cell, Cell, bool]]:
    """Two different cells, all pairs alike."""
    pairs = [(a, b) for a in grid.cells for b in grid.cells if a != b]
    if far:
        longest = max(grid.steps(a, b) for a, b in pairs)
        pairs = [(a, b) for a, b in pairs if 2 * grid.steps(a, b) >= longest]

    def pick(rng: np.random.Generator) -> tuple[Cell, Cell, bool]:
        start, goal = pairs[int(rng.integers(len(pairs)))]
        return start, goal, True

    return pick
