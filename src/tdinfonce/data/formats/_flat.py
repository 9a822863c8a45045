"""Flat data as D4RL stores it: rows of observations and actions, and a flag on the last row of each episode."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.formats._check import FEWEST_STEPS, Raw, check_field, finish, refuse
from tdinfonce.data.formats._store import BLOCK, empty

__all__ = ["GOAL_FIELDS", "Field", "assemble"]

REQUIRED = ("observations", "actions", "timeouts")
GOAL_FIELDS = ("goals", "infos/goal")


class Field(NamedTuple):
    """One array of a file, not yet read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int, np.ndarray], None]
    """Fills an array with the rows from a first one on. Rows are asked for in order."""


def assemble(file: str, fields: Mapping[str, Field], goal: str | None, memory_limit: int) -> Episodes:
    """Check shapes, then read. ``terminals`` and rewards are never looked at: goals make our rewards."""
    missing = [name for name in REQUIRED if name not in fields]
    if missing:
        raise refuse(file, missing[0], f"is missing; the file has: {', '.join(sorted(fields)) or 'nothing'}")
    observation, action, timeout = (fields[name] for name in REQUIRED)
    check_field(file, "observations", observation.shape, observation.dtype, sizes=(None, None))
    rows, size = observation.shape
    check_field(file, "actions", action.shape, action.dtype, sizes=(rows, None))
    check_field(file, "timeouts", timeout.shape, timeout.dtype, sizes=(rows,))
    goals = next((name for name in GOAL_FIELDS if name in fields), None)
    if goals is not None:
        check_field(file, goals, fields[goals].shape, fields[goals].dtype, sizes=(rows, None))
    start, length = _cut(file, timeout, rows)
    mapped = 4 * rows * (size + action.shape[1]) > memory_limit
    arrays = [empty(field.shape, mapped=mapped) for field in (observation, action)]
    for field, array in zip((observation, action), arrays, strict=True):
        for first in range(0, rows, BLOCK):
            field.read(first, array[first : first + BLOCK])
    wanted = None if goals is None else _goals(fields[goals], start, rows)
    names = ("observations", "actions", "observations", goals or "")
    raw = Raw(file, arrays[0], arrays[1], None, start, length, wanted, names, lambda row: f"row {row}")
    return finish(raw, goal, memory_limit)


def _cut(file: str, timeout: Field, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """First row and number of steps of each episode.

    The state behind an episode's last action is not stored, so n rows make n - 1 steps. Rows behind the last flag are
    an episode too; a remnant that is too short for one, which D4RL's files have, is left out.
    """
    flags = np.zeros(rows, np.float32)
    for first in range(0, rows, BLOCK):
        timeout.read(first, flags[first : first + BLOCK])
    odd = np.nonzero((flags != 0) & (flags != 1))[0]
    if len(odd):
        raise refuse(file, "timeouts", f"is {flags[odd[0]]}; it must be true or false", f"row {odd[0]}")
    last = np.nonzero(flags)[0]
    if not len(last):
        raise refuse(file, "timeouts", "marks no end of an episode; set it on the last row of each")
    if rows - 1 - last[-1] > FEWEST_STEPS:
        last = np.append(last, rows - 1)
    start = np.concatenate([[0], last[:-1] + 1])
    return start, last - start


def _goals(field: Field, start: np.ndarray, rows: int) -> np.ndarray:
    """The goal at the first row of each episode."""
    goals = np.zeros((len(start), field.shape[1]), np.float32)
    for first in range(0, rows, BLOCK):
        block = np.zeros((min(BLOCK, rows - first), field.shape[1]), np.float32)
        field.read(first, block)
        inside = (start >= first) & (start < first + BLOCK)
        goals[inside] = block[start[inside] - first]
    return goals
