"""Behaviour that makes data in mazes: breadth-first waypoints, and controllers that follow them. numpy alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["AntPolicy", "Waypoints", "pd_controller"]

Follow = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""(observation, waypoint, chance) → action in [-1, 1]."""
LAYERS = ("fc0", "fc1", "last_fc", "last_fc_log_std")
CLOSE = 0.25
"""A waypoint is done when it is nearer than this, in cells."""


class Waypoints:
    """Where to head on the shortest way to a goal: the next cell's centre, and in the goal's cell the goal."""

    def __init__(self, grid: Any) -> None:
        """Use the cells of a maze."""
        self._grid = grid

    def begin(self, xy: np.ndarray, goal: np.ndarray) -> None:
        """A new goal: forget the way."""
        self._goal, self._last = goal, self._grid.cell(goal)
        self._cell = self._grid.towards(self._grid.cell(xy), self._last)

    def towards(self, xy: np.ndarray) -> np.ndarray:
        """The point to head for. It changes when it is reached, or when something pushed us off the way."""
        grid, here = self._grid, self._grid.cell(xy)
        if self._cell == self._last and grid.steps(here, self._last) <= 1:
            return self._goal
        centre = grid.centre(self._cell)
        reached = np.hypot(*(centre - xy)) < CLOSE * grid.scale
        if reached or grid.steps(here, self._cell) > 1:
            self._cell = grid.towards(self._cell if reached else here, self._last)
            centre = grid.centre(self._cell)
        return self._goal if self._cell == self._last else centre


def pd_controller(observation: np.ndarray, waypoint: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Push a ball towards a point: ten times the way left, less the speed."""
    return np.clip(10.0 * (waypoint - observation[:2]) - observation[2:4], -1, 1)


class AntPolicy:
    """The goal-reaching ant of D4RL, from a file of plain arrays: two layers, a tanh-Gaussian over torques.

    It sees joint positions, velocities and the direction to the next waypoint, stretched to length 10.
    """

    def __init__(self, path: str | Path) -> None:
        """Read the arrays and check that they fit together."""
        from tdinfonce.data.formats.npz import read_arrays

        sizes = {"fc0": (256, 29), "fc1": (256, 256), "last_fc": (8, 256), "last_fc_log_std": (8, 256)}
        arrays = read_arrays(path, [f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")])
        for layer, shape in sizes.items():
            if arrays[f"{layer}.weight"].shape != shape or arrays[f"{layer}.bias"].shape != shape[:1]:
                raise UserError(f"{path}: {layer}.weight must have shape {list(shape)}, and its bias one number a row")
        self._first, self._second, mean, spread = (
            (np.ascontiguousarray(arrays[f"{n}.weight"], np.float32), arrays[f"{n}.bias"].astype(np.float32))
            for n in LAYERS
        )
        self._head = np.concatenate([mean[0], spread[0]]), np.concatenate([mean[1], spread[1]])

    def __call__(self, observation: np.ndarray, waypoint: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Sample an action."""
        way = waypoint - observation[:2]
        way = 10.0 * way / max(float(np.hypot(*way)), 1e-6)
        hidden = np.concatenate([observation[2:], way]).astype(np.float32)
        for weight, bias in (self._first, self._second):
            hidden = np.maximum(weight @ hidden + bias, 0)
        weight, bias = self._head
        out = weight @ hidden + bias
        deviation = np.exp(np.clip(out[8:], -20, 2))
        return np.tanh(out[:8] + deviation * rng.standard_normal(8))
