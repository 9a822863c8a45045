"""The one validation of data that comes from outside. Every refusal is one line that names file, field and row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.formats._store import BLOCK, empty
from tdinfonce.errors import UserError

__all__ = ["Raw", "check_field", "check_lengths", "finish", "goal_indices", "refuse"]

FEWEST_STEPS = 2
ROUNDING = 1e-3
"""Actions may leave [-1, 1] by so much; they are clipped."""


class Raw(NamedTuple):
    """What a reader found, before its values are trusted."""

    file: str
    observation: np.ndarray
    action: np.ndarray
    achieved: np.ndarray | None
    """None: coordinates of the observation."""
    start: np.ndarray
    length: np.ndarray
    goal: np.ndarray | None
    """None: the last state of each episode."""
    fields: tuple[str, str, str, str]
    """What observation, action, achieved and goal are called in the file."""
    locate: Callable[[int], str]
    """Where a row of the arrays is in the file."""


def refuse(file: str, field: str, problem: str, where: str = "") -> UserError:
    """The one line."""
    place = ", ".join(part for part in (field, where) if part)
    return UserError(" ".join(": ".join(part for part in (file, place, problem) if part).split()))


def check_field(file: str, field: str, shape: tuple[int, ...], dtype: Any, *, sizes: tuple[int | None, ...]) -> None:
    """Numbers of the right shape; None is any size of at least one."""
    kind = np.dtype(dtype)
    if kind.hasobject or kind.kind not in "fiub" or kind.names is not None:
        raise refuse(file, field, f"must hold plain numbers; its type is {kind}")
    wanted = "[" + ", ".join("any" if size is None else str(size) for size in sizes) + "]"
    fits = len(shape) == len(sizes) and all(
        n >= 1 if size is None else n == size for n, size in zip(shape, sizes, strict=True)
    )
    if not fits:
        raise refuse(file, field, f"must have shape {wanted}; it has {list(shape)}")


def check_lengths(file: str, field: str, start: np.ndarray, length: np.ndarray, locate: Callable[[int], str]) -> None:
    """No empty and no one-step episodes."""
    if len(length) == 0:
        raise refuse(file, field, "there is no episode")
    short = np.nonzero(length < FEWEST_STEPS)[0]
    if len(short):
        index, steps = int(short[0]), int(length[short[0]])
        words = "is empty" if steps < 1 else "has one step"
        where = locate(int(start[index]))
        raise refuse(file, field, f"episode {index} {words}; at least {FEWEST_STEPS} are needed", where)


def goal_indices(text: str, size: int, file: str, field: str) -> list[int]:
    """Parse ``0:2`` or ``0,1``: the coordinates of an observation of this size that make the goal."""
    found: list[int] = []
    try:
        for part in text.split(","):
            first, colon, last = part.partition(":")
            low = max(int(first), -1)  # no need to write down more than the first wrong one
            found += range(low, min(int(last), max(low, size) + 1)) if colon else [low]
    except ValueError:
        raise UserError(f"a goal is written 0:2 or 0,1; got '{text}'") from None
    if not found or len(set(found)) != len(found):
        raise UserError(f"a goal names at least one coordinate, and each once; got '{text}'")
    wrong = [index for index in found if not 0 <= index < size]
    if wrong:
        raise refuse(
            file, field, f"the goal asks for coordinate {wrong[0]}, but an observation has {size} (0 to {size - 1})"
        )
    return found


def finish(raw: Raw, goal: str | None, memory_limit: int) -> Episodes:
    """Check the values, cut out the goals, and give the episodes."""
    rows, size = raw.observation.shape
    observation_field, action_field, achieved_field, goal_field = raw.fields
    check_lengths(raw.file, observation_field, raw.start, raw.length, raw.locate)
    indices = None if goal is None else goal_indices(goal, size, raw.file, observation_field)
    achieved = raw.achieved
    if achieved is None:
        if indices is None:
            raise refuse(
                raw.file,
                observation_field,
                f"say which of its {size} coordinates make the goal, for example --goal 0:2",
            )
        achieved = empty((rows, len(indices)), mapped=4 * rows * (size + raw.action.shape[1]) > memory_limit)
    elif indices is not None and len(indices) != achieved.shape[1]:
        raise refuse(raw.file, achieved_field, f"has {achieved.shape[1]} coordinates, but --goal names {len(indices)}")
    for first in range(0, rows, BLOCK):
        block = slice(first, first + BLOCK)
        _finite(raw, observation_field, raw.observation[block], first)
        _finite(raw, action_field, raw.action[block], first)
        _bounded(raw, action_field, raw.action[block], first)
        if raw.achieved is None:
            achieved[block] = raw.observation[block][:, indices]
        else:
            _finite(raw, achieved_field, achieved[block], first)
            if indices is not None:
                _equal(raw, achieved_field, achieved[block], raw.observation[block][:, indices], first)
    raw.action[raw.start + raw.length] = 0.0
    return Episodes(raw.observation, achieved, raw.action, raw.start, raw.length, _goals(raw, achieved, goal_field))


def _goals(raw: Raw, achieved: np.ndarray, field: str) -> np.ndarray:
    if raw.goal is None:
        return np.ascontiguousarray(achieved[raw.start + raw.length])
    if raw.goal.shape[1] != achieved.shape[1]:
        raise refuse(raw.file, field, f"has {raw.goal.shape[1]} coordinates; a goal has {achieved.shape[1]}")
    bad = np.nonzero(~np.isfinite(raw.goal).all(axis=1))[0]
    if len(bad):
        where = raw.locate(int(raw.start[bad[0]]))
        raise refuse(raw.file, field, f"{raw.goal[bad[0]].tolist()} is not a finite goal", where)
    return raw.goal


def _finite(raw: Raw, field: str, block: np.ndarray, first: int) -> None:
    if np.isfinite(block).all():
        return
    row, column = np.argwhere(~np.isfinite(block))[0]
    raise refuse(raw.file, field, f"coordinate {column} is {block[row, column]}", raw.locate(first + int(row)))


def _bounded(raw: Raw, field: str, block: np.ndarray, first: int) -> None:
    if np.abs(block).max(initial=0.0) > 1 + ROUNDING:
        row, column = np.argwhere(np.abs(block) > 1 + ROUNDING)[0]
        problem = f"coordinate {column} is {block[row, column]:g}; actions lie in [-1, 1]"
        raise refuse(raw.file, field, problem, raw.locate(first + int(row)))
    np.clip(block, -1, 1, out=block)


def _equal(raw: Raw, field: str, block: np.ndarray, sliced: np.ndarray, first: int) -> None:
    wrong = np.nonzero(~np.isclose(block, sliced, rtol=1e-4, atol=1e-4).all(axis=1))[0]
    if len(wrong):
        problem = "is not what --goal cuts out of the observation"
        raise refuse(raw.file, field, problem, raw.locate(first + int(wrong[0])))
