"""Four rooms of cells with doors between them, and four actions: no simulator, thousands of steps a second."""

import numpy as np

from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["NAMES", "ROOMS", "GridEnv", "goal_spaces", "make"]

NAMES = {"grid": "walk through four rooms, cell by cell, with four discrete actions; no simulator"}
ROOMS = (
    "...#...",
    ".......",
    "...#...",
    "#.###.#",
    "...#...",
    "...#...",
    ".......",
)
"""The map, north up: # is a wall."""
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
"""Rows and columns that an action moves: north, east, south, west."""


def goal_spaces(name: str) -> tuple[str, ...]:
    """The cell is the only goal."""
    return ("achieved",)


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make the rooms."""
    return GridEnv()


class GridEnv:
    """One cell a step, 30 steps; walls stop. A goal is reached on its own cell only.

    A state is its row and its column, one-hot: neighbours behind a wall look as different as cells far apart.
    """

    spec = EnvSpec(
        "grid",
        observation_size=2 * len(ROOMS),
        action_size=4,
        goal_size=2 * len(ROOMS),
        episode_length=30,
        tolerance=0.5,
        discrete=True,
    )

    def __init__(self) -> None:
        """Read the map."""
        self.walls = np.array([[cell == "#" for cell in row] for row in ROOMS])
        self._free = np.argwhere(~self.walls)

    def reset(self, seed: int) -> Start:
        """Draw two different free cells uniformly: start and goal."""
        rng = np.random.default_rng(seed)
        self._cell, self._goal = self._free[rng.choice(len(self._free), 2, replace=False)]
        self._time = 0
        here = features(self._cell)
        return Start(here, here, features(self._goal), self._distance())

    def step(self, action: np.ndarray) -> Step:
        """Move to the next cell, unless it is a wall."""
        cell = self._cell + MOVES[self.spec.native_action(action)]
        if np.all((cell >= 0) & (cell < len(ROOMS))) and not self.walls[tuple(cell)]:
            self._cell = cell
        self._time += 1
        here, distance = features(self._cell), self._distance()
        return Step(here, here, distance == 0, distance, self._time >= self.spec.episode_length)

    def render(self) -> np.ndarray:
        """White cells and grey walls, the goal in green, the walker in red."""
        image = np.where(self.walls[..., None], np.uint8(110), np.uint8(255)).repeat(3, axis=2)
        image = image.repeat(14, axis=0).repeat(14, axis=1)
        for (row, column), colour, edge in ((self._goal, (40, 160, 60), 2), (self._cell, (200, 40, 40), 4)):
            image[14 * row + edge : 14 * (row + 1) - edge, 14 * column + edge : 14 * (column + 1) - edge] = colour
        return image

    def close(self) -> None:
        """Nothing to free."""

    def _distance(self) -> float:
        return float(np.abs(self._cell - self._goal).sum())


def features(cell: np.ndarray) -> np.ndarray:
    """The row and the column of a cell, each one-hot."""
    return np.eye(len(ROOMS), dtype=np.float32)[cell].ravel()
