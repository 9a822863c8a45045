"""The paper's gridworld: 25 cells, 5 actions. (Its "125 states" are the 125 state-action pairs.)"""

import numpy as np

from tdinfonce.tabular.mdp import Mdp

__all__ = ["ACTIONS", "MOVES", "cell", "gridworld", "state"]

ACTIONS = ("up", "down", "left", "right", "stay")
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))


def gridworld(size: int = 5, *, slip: float = 0.0) -> Mdp:
    """A square grid where a move into the wall stays in place.

    Args:
        size: cells on a side.
        slip: chance that an action is replaced by one drawn uniformly from all five.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1; got {size}")
    if not 0 <= slip <= 1:
        raise ValueError(f"slip must be a probability; got {slip}")
    moves = np.zeros((size * size, len(MOVES), size * size))
    for row in range(size):
        for column in range(size):
            for action, (down, right) in enumerate(MOVES):
                target = (min(max(row + down, 0), size - 1), min(max(column + right, 0), size - 1))
                moves[state(row, column, size), action, state(*target, size)] = 1
    return Mdp((1 - slip) * moves + slip * moves.mean(axis=1, keepdims=True))


def state(row: int, column: int, size: int = 5) -> int:
    """The number of a cell."""
    return row * size + column


def cell(number: int, size: int = 5) -> tuple[int, int]:
    """The row and column of a state."""
    return divmod(number, size)
