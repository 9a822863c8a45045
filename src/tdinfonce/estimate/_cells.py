"""Place cells on a grid, direction cells and bins: what successor features are made of."""

import numpy as np

__all__ = ["Cells"]

DIRECTIONS, SPREAD = 6, np.pi / 4
"""Cells for the direction of a movement, and how wide each is, as RatInABox has it."""


class Cells:
    """About so many Gaussian place cells and bins, each on a grid over a box of positions."""

    def __init__(self, states: np.ndarray, cells: int, bins: int) -> None:
        """Cover the box that ``states`` lie in; movements are measured by their mean."""
        low, high = states[:, :2].min(axis=0), states[:, :2].max(axis=0)
        self._centres, self._width = _grid(low, high, cells)
        self._middles, _ = _grid(low, high, bins)
        self._speed = float(np.linalg.norm(states[:, -2:], axis=1).mean()) + 1e-8

    @property
    def count_bins(self) -> int:
        """How many bins."""
        return len(self._middles)

    def bins(self, positions: np.ndarray) -> np.ndarray:
        """``[rows]``, the bin with the nearest middle."""
        return np.argmin(_squares(positions, self._middles), axis=1)

    def place(self, states: np.ndarray) -> np.ndarray:
        """``[rows, cells]``, 1 at a cell's centre, and 0.61 at that of the next one."""
        found: np.ndarray = np.exp(-_squares(states, self._centres) / (2 * self._width**2))
        return found

    def velocity(self, states: np.ndarray) -> np.ndarray:
        """``[rows, 1 + directions]``: 1, then the length of the movement times the tuning to its direction."""
        x, y = states[:, -2:].T
        apart = np.arctan2(y, x)[:, None] - 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
        tuned = np.exp((np.cos(apart) - 1) / SPREAD**2)
        return np.concatenate([np.ones((len(states), 1)), tuned * (np.hypot(x, y) / self._speed)[:, None]], axis=1)

    def basis(self, states: np.ndarray) -> np.ndarray:
        """``[rows, cells · (1 + directions)]``: each place cell times 1 and times each direction."""
        found: np.ndarray = (self.place(states)[:, :, None] * self.velocity(states)[:, None]).reshape(len(states), -1)
        return found


def _grid(low: np.ndarray, high: np.ndarray, about: int) -> tuple[np.ndarray, float]:
    """The middles of about so many equal fields of a box, nearly square, and their side."""
    shape = np.maximum(1, np.round((high - low) / np.sqrt(np.prod(high - low) / about))).astype(int)
    side = (high - low) / shape
    x, y = (low[i] + side[i] * (np.arange(shape[i]) + 0.5) for i in (0, 1))
    return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2), float(side.mean())


def _squares(positions: np.ndarray, centres: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.square(positions[:, None, :2] - centres).sum(axis=-1)
    return found
