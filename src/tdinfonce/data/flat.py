"""Flat data as D4RL stores it: rows of observations and actions, and a flag on the last row of each episode."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tdinfonce.data.check import FEWEST_STEPS, Raw, check_field, refuse
from tdinfonce.data.store import BLOCK, empty

__all__ = ["FIELDS", "Field", "assemble", "read_flags"]

REQUIRED = ("observations", "actions")
ENDS = ("timeouts",)
ACHIEVED = ("achieved_goals",)
GOALS = ("goals", "infos/goal", "desired_goals")
"""What each goal may be called; the first that is there is read."""
FIELDS = (*REQUIRED, *ENDS, *ACHIEVED, *GOALS)
"""All that is read of a file."""
IMAGE_AXES = 4
LISTED = 30
"""Names that a message shows."""


class Field(NamedTuple):
    """One array of a file, not yet read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int, np.ndarray], None]
    """Fills an array with the rows from a first one on. Rows are asked for in order."""


def assemble(
    file: str,
    fields: Mapping[str, Field],
    memory_limit: int,
    *,
    ends: Sequence[str] = ENDS,
    held: Iterable[str] | None = None,
    fewest_steps: int = FEWEST_STEPS,
    images: bool = False,
) -> Raw:
    """Check shapes, then read. Rewards are never looked at: goals make ours.

    Args:
        file: how to call it in messages.
        fields: the arrays, by name.
        memory_limit: larger data sets, in bytes, are memory-mapped.
        ends: the flags of which any ends an episode. In files ``terminals`` is none: D4RL's mark reached goals.
        held: the names of all that is there, if that is more than the fields.
        fewest_steps: a shorter remnant behind the last flag is left out.
        images: whether observations may be images in uint8, ``[rows, height, width, channels]``.
    """
    missing = [name for name in (*REQUIRED, *ends) if name not in fields]
    if missing:
        there = sorted(fields if held is None else held)
        listed = ", ".join(there[:LISTED]) + (", …" if len(there) > LISTED else "")
        raise refuse(file, missing[0], f"is missing; there is: {listed or 'nothing'}")
    observation, action = (fields[name] for name in REQUIRED)
    seen = images and observation.dtype == np.uint8 and len(observation.shape) == IMAGE_AXES
    sizes = (None,) * (IMAGE_AXES if seen else 2)
    check_field(file, "observations", observation.shape, observation.dtype, sizes=sizes)
    rows = observation.shape[0]
    whole = action.dtype.kind in "iub" and action.shape in ((rows,), (rows, 1))
    if not whole:
        check_field(file, "actions", action.shape, action.dtype, sizes=(rows, None))
    achieved, goals = (next((name for name in names if name in fields), None) for names in (ACHIEVED, GOALS))
    for name in (achieved, goals):
        if name is not None:
            check_field(file, name, fields[name].shape, fields[name].dtype, sizes=(rows, None))
    start, length = _cut(file, {name: fields[name] for name in ends}, rows, fewest_steps)
    wanted = {"observations": observation.shape, "actions": (rows, 1) if whole else action.shape}
    wanted |= {} if achieved is None else {achieved: fields[achieved].shape}
    kinds = {name: np.dtype(np.uint8 if seen and name == "observations" else np.float32) for name in wanted}
    mapped = sum(kinds[name].itemsize * math.prod(shape) for name, shape in wanted.items()) > memory_limit
    arrays = {name: empty(shape, mapped=mapped, dtype=kinds[name]) for name, shape in wanted.items()}
    for name, array in arrays.items():
        _read(fields[name], array.reshape(fields[name].shape))
    desired = None if goals is None else _goals(fields[goals], start, rows)
    names = ("observations", "actions", achieved or "observations", goals or "")
    at = None if achieved is None else arrays[achieved]
    locate = "row {}".format
    return Raw(file, arrays["observations"], arrays["actions"], at, start, length, desired, names, locate, whole=whole)


def _read(field: Field, array: np.ndarray) -> None:
    for first in range(0, len(array), BLOCK):
        field.read(first, array[first : first + BLOCK])


def _cut(file: str, ends: Mapping[str, Field], rows: int, fewest: int) -> tuple[np.ndarray, np.ndarray]:
    """First row and number of steps of each episode.

    The state behind an episode's last action is not stored, so n rows make n - 1 steps. Rows behind the last flag are
    an episode too; a remnant that is too short for one, which D4RL's files have, is left out.
    """
    ended = np.zeros(rows, bool)
    for name, field in ends.items():
        ended |= read_flags(file, name, field, rows)
    last = np.nonzero(ended)[0]
    if not len(last):
        raise refuse(file, " and ".join(ends), "marks no end of an episode; set it on the last row of each")
    if rows - 1 - last[-1] > fewest:
        last = np.append(last, rows - 1)
    start = np.concatenate([[0], last[:-1] + 1])
    return start, last - start


def read_flags(file: str, name: str, field: Field, rows: int) -> np.ndarray:
    """``[rows]``, an array that must hold nothing but true and false."""
    check_field(file, name, field.shape, field.dtype, sizes=(rows,))
    flags = np.zeros(rows, np.float32)
    _read(field, flags)
    odd = np.nonzero((flags != 0) & (flags != 1))[0]
    if len(odd):
        raise refuse(file, name, f"is {flags[odd[0]]}; it must be true or false", f"row {odd[0]}")
    return flags == 1


def _goals(field: Field, start: np.ndarray, rows: int) -> np.ndarray:
    """The goal at the first row of each episode."""
    goals = np.zeros((len(start), field.shape[1]), np.float32)
    for first in range(0, rows, BLOCK):
        block = np.zeros((min(BLOCK, rows - first), field.shape[1]), np.float32)
        field.read(first, block)
        inside = (start >= first) & (start < first + BLOCK)
        goals[inside] = block[start[inside] - first]
    return goals
