"""Place cells on a grid, direction cells and bins: what successor features are made of."""

import numpy as np

__all__ = ["Cells"]

DIRECTIONS, SPREAD = 6, np.pi / 4
"""Cells for the direction of a movement, and how wide each is, as RatInABox has it."""


class Cells:
    """About so many Gaussian place cells, one in the middle of each of as many bins, over a box of positions."""

    def __init__(self, states: np.ndarray, about: int) -> None:
        """Cover the box that ``states`` lie in; movements are measured by their mean."""
        low, high = states[:, :2].min(axis=0), states[:, :2].max(axis=0)
        shape = np.maximum(1, np.round((high - low) / np.sqrt(np.prod(high - low) / about))).astype(int)
        side = (high - low) / shape
        x, y = (low[i] + side[i] * (np.arange(shape[i]) + 0.5) for i in (0, 1))
        self.centres = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        self._width = float(side.mean())
        self._speed = float(np.linalg.norm(states[:, -2:], axis=1).mean()) + 1e-8

    @property
    def count(self) -> int:
        """How many place cells, and bins."""
        return len(self.centres)

    def bins(self, positions: np.ndarray) -> np.ndarray:
        """``[rows]``, the nearest centre of each."""
        return np.argmin(self._squares(positions), axis=1)

    def place(self, states: np.ndarray) -> np.ndarray:
        """``[rows, count]``, 1 at the centre, and at a distance of one bin 0.61."""
        found: np.ndarray = np.exp(-self._squares(states) / (2 * self._width**2))
        return found

    def velocity(self, states: np.ndarray) -> np.ndarray:
        """``[rows, 1 + directions]``: 1, then the length of the movement times the tuning to its direction."""
        x, y = states[:, -2:].T
        apart = np.arctan2(y, x)[:, None] - 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
        tuned = np.exp((np.cos(apart) - 1) / SPREAD**2)
        return np.concatenate([np.ones((len(states), 1)), tuned * (np.hypot(x, y) / self._speed)[:, None]], axis=1)

    def basis(self, states: np.ndarray) -> np.ndarray:
        """``[rows, count · (1 + directions)]``: each place cell times 1 and times each direction."""
        found: np.ndarray = (self.place(states)[:, :, None] * self.velocity(states)[:, None]).reshape(len(states), -1)
        return found

    def _squares(self, positions: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.square(positions[:, None, :2] - self.centres).sum(axis=-1)
        return found
