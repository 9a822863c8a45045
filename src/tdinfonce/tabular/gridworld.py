"""The paper's gridworld: 25 cells, 5 actions. (Its "125 states" are the 125 state-action pairs.)"""

import itertools
from collections.abc import Sequence

import numpy as np

from tdinfonce.tabular.mdp import Mdp, Trajectories

__all__ = ["ACTIONS", "MOVES", "cell", "follow_words", "gridworld", "sample_paths", "shortest_path", "state", "z_words"]

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


def follow_words(start: int, word: str, steps: int | None = None, size: int = 5) -> tuple[list[int], list[int]]:
    """States and actions of a path spelt in first letters (``"RRDU"``), then staying for what is left of ``steps``."""
    letters = {name[0].upper(): number for number, name in enumerate(ACTIONS)}
    actions = [letters[letter] for letter in word.ljust(len(word) if steps is None else steps, "S")]
    states = [start]
    for action in actions:
        row, column = cell(states[-1], size)
        target = (row + MOVES[action][0], column + MOVES[action][1])
        if not all(0 <= x < size for x in target):
            raise ValueError(f"the path {word!r} from state {start} runs into the wall")
        states.append(state(*target, size))
    return states, actions


def sample_paths(
    paths: Sequence[tuple[int, str]], share: Sequence[float], rng: np.random.Generator, *, transitions: int, steps: int
) -> Trajectories:
    """Episodes drawn from a few fixed paths.

    Args:
        paths: (start, word) of each, see `follow_words`.
        share: the chance of each path.
        rng: the source of randomness.
        transitions: how many in all; a whole number of episodes that holds at least as many.
        steps: actions of each episode; a shorter path stays where it ends.
    """
    walked = [follow_words(start, word, steps) for start, word in paths]
    which = rng.choice(len(paths), size=-(-transitions // steps), p=share)
    states, actions = (np.array(column) for column in zip(*walked, strict=True))
    return Trajectories(states[which], actions[which], np.full(len(which), steps))


def z_words(size: int = 5) -> list[tuple[int, str]]:
    """The zig-zag paths of the stitching data: from each corner to the opposite one, starting along either side."""
    paths = []
    for down, right in itertools.product((True, False), (True, False)):
        start = state(0 if down else size - 1, 0 if right else size - 1, size)
        vertical, horizontal = "D" if down else "U", "R" if right else "L"
        paths += [(start, (horizontal + vertical) * (size - 1)), (start, (vertical + horizontal) * (size - 1))]
    return paths


def shortest_path(data: Trajectories, start: int, goal: int) -> int | None:
    """Fewest steps from start to goal along transitions of the data, or None where they do not connect."""
    real = np.arange(data.actions.shape[1]) < data.lengths[:, None]
    edges = set(zip(data.states[:, :-1][real].tolist(), data.states[:, 1:][real].tolist(), strict=True))
    reached, frontier, steps = {start}, {start}, 0
    while goal not in reached:
        frontier = {after for before, after in edges if before in frontier} - reached
        if not frontier:
            return None
        reached |= frontier
        steps += 1
    return steps
