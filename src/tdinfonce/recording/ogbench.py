"""OGBench's data sets made here: its environments, its scripted oracles, its recipe; an ant walks by a policy of ours.

The wheel has the oracles and no script that records with them, so the loop is here. What follows OGBench's recipe:
starts, goals, noise and lengths of episodes.
"""

from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.data.writer import Recorded
from tdinfonce.envs.ogbench import NAMES, Chance, OGBenchEnv, environment_of, goal_spaces, open_ogbench
from tdinfonce.errors import UserError
from tdinfonce.recording.waypoints import AntPolicy

__all__ = ["OGBenchRecorder", "ogbench_sets"]

LENGTHS = {"navigate": 1000, "stitch": 200, "play": 1000}
GIANT_LENGTH = 2000
"""Of an episode of `navigate` in the giant mazes."""
STITCH_CELLS = 4
POINT_NOISE, ANT_NOISE = 0.5, 0.2
STACKED = {"double": (0.0, 0.25), "triple": (0.05, 0.35), "quadruple": (0.1, 0.5)}
"""Between what the chance lies that a cube belongs on another one; drawn for each episode."""
Step = Callable[[np.ndarray], tuple[Any, dict[str, Any]]]


def ogbench_sets() -> list[str]:
    """What can be made: mazes of a point or an ant, cubes and puzzles."""
    return [
        name
        for name in NAMES
        if (name.startswith(("ogbench:pointmaze-", "ogbench:antmaze-")) and _kind(name) in ("navigate", "stitch"))
        or (name.startswith(("ogbench:cube-", "ogbench:puzzle-")) and _kind(name) == "play" and "octuple" not in name)
    ]


def _kind(name: str) -> str:
    return name.removesuffix("-v0").rpartition("-")[2]


class OGBenchRecorder:
    """Records the episodes of one data set."""

    def __init__(self, name: str, policy: Path | None) -> None:
        """Open the environment, and the file of the ant's policy if it takes one."""
        ant = "antmaze-" in name
        if ant and policy is None:
            raise UserError(f"{name} needs a policy that walks: a file of weights (.npz) or a run folder")
        if not ant and policy is not None:
            raise UserError(f"{name} is made by OGBench's own oracle; leave out policy")
        follow = AntPolicy(policy) if ant and policy is not None else None
        self._kind, self._follow, self._chance = _kind(name), follow, Chance()
        self._maze = "maze-" in name
        self.noise = (ANT_NOISE if ant else POINT_NOISE) if self._maze else 0.0
        self.length = GIANT_LENGTH if "giant-navigate" in name else LENGTHS[self._kind]
        world = OGBenchEnv(name, open_ogbench(name), goal_spaces(name)[0])
        self.spec, self.grid = world.spec, world.grid
        world.close()
        how: dict[str, Any] = {} if self._maze else {"mode": "data_collection"}
        self._env = open_ogbench(name, terminate_at_goal=False, max_episode_steps=self.length + 1, **how)
        self._inner = self._env.unwrapped
        size = environment_of(name).removesuffix("-v0").rpartition("-")[2]
        self._stacked = STACKED.get(size, (0.0, 0.0))
        self._oracles = {} if self._maze else _oracles(self._env)
        self.about = {"kind": self._kind, "goal": "all", "ogbench": metadata.version("ogbench")}

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()

    def record(self, seed: int, index: int) -> Recorded:
        """Episode ``index`` of the data set with this seed; all chance, OGBench's own too, comes from these two."""
        rng = seeding.generator(seed, "dataset", index)
        number = seeding.derive(seed, "dataset", index)
        self._env.action_space.seed(number)
        states: list[np.ndarray] = []
        actions: list[np.ndarray] = []
        successes: list[bool] = []

        def step(action: np.ndarray) -> tuple[Any, dict[str, Any]]:
            action = np.clip(action, -1, 1).astype(np.float32)
            observation, _, _, _, info = self._env.step(action)
            states.append(observation)
            actions.append(action)
            successes.append(bool(info["success"]))
            return observation, info

        with self._chance.of(number):
            begin = self._walk if self._maze else self._play
            begin(number, rng, states, step)
        found = [np.stack(part).astype(np.float32) for part in (states, actions)]
        return Recorded(found[0], None, None, found[1], np.array(successes))

    def _walk(self, number: int, rng: np.random.Generator, states: list[np.ndarray], step: Step) -> None:
        """From cell to cell. `navigate`: to a corner or crossing, and then to another one. `stitch`: to a cell that is
        four cells off, to stay there.
        """
        inner = self._inner
        cells, corners = _cells(inner.maze_map)
        start = cells[int(rng.integers(len(cells)))]
        goals = corners if self._kind == "navigate" else self._around(start, cells)
        task = {"init_ij": start, "goal_ij": goals[int(rng.integers(len(goals)))]}
        observation, _ = self._env.reset(seed=number, options={"task_info": task})
        states.append(observation)
        for _ in range(self.length):
            place = inner.get_xy()
            target, _ = inner.get_oracle_subgoal(place, inner.cur_goal_xy)
            action = self._steer(observation, place, np.asarray(target), rng)
            observation, info = step(action + self.noise * rng.standard_normal(action.shape))
            if info["success"] and self._kind == "navigate":
                goal = goals[int(rng.integers(len(goals)))]
                inner.set_goal(goal_xy=inner.add_noise(inner.ij_to_xy(goal)))

    def _around(self, start: tuple[int, int], cells: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The cells at OGBench's distance for stitching, or the start itself if there is none."""
        away = self._inner.get_oracle_subgoal(*[self._inner.ij_to_xy(start)] * 2)[1]
        return [cell for cell in cells if away[cell] == STITCH_CELLS] or [start]

    def _steer(
        self, observation: np.ndarray, place: np.ndarray, target: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        if self._follow is not None:
            return self._follow(observation, target, rng)
        way = target - place
        return way / (float(np.linalg.norm(way)) + 1e-6)

    def _play(self, number: int, rng: np.random.Generator, states: list[np.ndarray], step: Step) -> None:
        """One task after the other, each by the oracle for it."""
        observation, info = self._env.reset(seed=number)
        stacked = float(rng.uniform(*self._stacked))
        states.append(observation)
        oracle = self._oracles[info["privileged/target_task"]]
        oracle.reset(observation, info)
        for _ in range(self.length):
            observation, info = step(np.asarray(oracle.select_action(observation, info)))
            if oracle.done:
                fresh, said = self._inner.set_new_target(p_stack=stacked)
                oracle = self._oracles[said["privileged/target_task"]]
                oracle.reset(fresh, said)


def _cells(walls: np.ndarray) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The free cells, and those of them that are no straight passage."""
    cells = [(int(row), int(column)) for row, column in np.argwhere(walls == 0)]

    def passage(row: int, column: int) -> bool:
        up, down, left, right = (bool(walls[row + r, column + c]) for r, c in ((-1, 0), (1, 0), (0, -1), (0, 1)))
        return up == down and left == right and up != left

    return cells, [cell for cell in cells if not passage(*cell)]


def _oracles(env: Any) -> dict[str, Any]:
    """Who does the tasks of an arm, by what the environment calls them."""
    place = "ogbench.manipspace.oracles.plan"
    if hasattr(env.unwrapped, "_num_buttons"):
        return {"button": import_module(f"{place}.button_plan").ButtonPlanOracle(env=env, gripper_always_closed=True)}
    return {"cube": import_module(f"{place}.cube_plan").CubePlanOracle(env=env)}
