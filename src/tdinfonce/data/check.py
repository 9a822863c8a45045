"""The one validation of data that comes from outside. Every refusal is one line that names file, field and row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["FEWEST_STEPS", "Raw", "Units", "check_field", "check_lengths", "goal_indices", "refuse", "row_in_episode"]

FEWEST_STEPS = 2


class Units(NamedTuple):
    """What is known of the actions of a data set."""

    low: tuple[float, ...] = ()
    """The smallest action; empty: not known. Of discrete ones, the first."""
    high: tuple[float, ...] = ()
    choices: int = 0
    """How many discrete actions there are; 0: they are not discrete, or it is not known."""
    normalised: bool = False
    """Whether the data hold them in [-1, 1], or one-hot, already."""


class Raw(NamedTuple):
    """What a reader found, before its values are trusted."""

    file: str
    observation: np.ndarray
    """``[rows, size]``, or images in uint8, ``[rows, height, width, channels]``, which are their own goals."""
    action: np.ndarray
    achieved: np.ndarray | None
    """None: coordinates of the observation."""
    start: np.ndarray
    length: np.ndarray
    goal: np.ndarray | None
    """None: nobody commanded one; the last state of each episode stands for it."""
    fields: tuple[str, str, str, str]
    """What observation, action, achieved and goal are called in the file."""
    locate: Callable[[int], str]
    """Where a row of the arrays is in the file."""
    units: Units = Units()
    """What the file says of its actions."""
    whole: bool = False
    """Whether actions are stored as integers, one for each row: discrete ones, if none is negative."""
    terminal: np.ndarray | None = None
    """``[episodes]``, whether the last state of each is one that is never left; None: it is not known."""
    renewed: tuple[np.ndarray, np.ndarray] | None = None
    """Rows in which a new goal was commanded in the midst of an episode, and those goals."""
    usual_goal: str | None = None
    """What of an observation makes the goal if nobody says it, as `open_dataset` takes it."""


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


def check_lengths(
    file: str, field: str, start: np.ndarray, length: np.ndarray, locate: Callable[[int], str], fewest: int
) -> None:
    """No episodes of fewer steps."""
    if len(length) == 0:
        raise refuse(file, field, "there is no episode")
    short = np.nonzero(length < fewest)[0]
    if len(short):
        index, steps = int(short[0]), int(length[short[0]])
        words = "is empty" if steps < 1 else "has one step"
        where = locate(int(start[index]))
        raise refuse(file, field, f"episode {index} {words}; at least {fewest} are needed", where)


def row_in_episode(start: np.ndarray) -> Callable[[int], str]:
    """Names a row by its episode, where episodes begin at these rows."""

    def locate(row: int) -> str:
        episode = int(np.searchsorted(start, row, side="right")) - 1
        return f"episode {episode}, row {row - int(start[episode])}"

    return locate


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
