"""OGBench's .npz files: as published, and in the two forms that its loader makes of them.

A row is a state and the action taken there; ``terminals`` is 1 where an episode ends. Three forms differ in where the
state behind an episode's last action is:

- as published: in a row of its own, the one that is marked, and the action of this row means nothing;
- ``compact_dataset=True``: likewise; the row before it is marked, too, and ``valids`` is 0 in the last one alone;
- ``compact_dataset=False``: in the last row of ``next_observations``, which otherwise repeats the observations, one row
  on. It is put behind its episode here.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.data.check import Raw, Units, check_field, refuse
from tdinfonce.data.finish import WHOLE
from tdinfonce.data.flat import Field, assemble, read_flags
from tdinfonce.data.formats.npz import ends_at_terminals, open_fields

__all__ = ["READS", "accepts", "open", "record"]

READS = "an .npz file of OGBench's"
NEEDED = ("observations", "actions", "terminals")
NAME = re.compile(
    r"^((?:visual-)?(?:pointmaze|antmaze|humanoidmaze|antsoccer|cube|scene|puzzle|powderworld)-[a-z0-9-]+-v\d+)(-val)?$"
)
"""What OGBench calls its files."""


def accepts(path: Path) -> bool:
    """By the names of its arrays."""
    return ends_at_terminals(path)


def open(path: Path, memory_limit: int) -> Raw:
    """Any of the three forms; without a word from somebody the goal is the whole observation, as in OGBench."""
    file = str(path)
    with open_fields(path) as fields:
        for name in NEEDED:
            if name not in fields:
                raise refuse(file, name, f"is missing; there is: {', '.join(sorted(fields))}")
        ended = _ends(file, fields)
        last = np.flatnonzero(ended)
        if "next_observations" in fields:
            raw = _assemble(file, _longer(file, fields, last), _marks(len(ended), last), memory_limit)
            behind = last + np.arange(len(last)) + 1  # the rows that were put in
            raw = raw._replace(locate=lambda row: f"row {row - int(np.searchsorted(behind, row, side='right'))}")
        else:
            raw = _assemble(file, {name: fields[name] for name in NEEDED[:2]}, ended, memory_limit)
    size = raw.action.shape[1]
    units = Units() if raw.whole else Units((-1.0,) * size, (1.0,) * size)
    return raw._replace(units=units, usual_goal=WHOLE)


def record(path: Path) -> dict[str, Any]:
    """The environment, if the file is called as OGBench calls it."""
    named = NAME.match(path.stem)
    return {"env": f"ogbench:{named[1]}"} if named else {}


def _assemble(file: str, fields: dict[str, Field], ended: np.ndarray, memory_limit: int) -> Raw:
    def flags(first: int, out: np.ndarray) -> None:
        out[...] = ended[first : first + len(out)]

    marked = fields | {"terminals": Field(ended.shape, ended.dtype, flags)}
    return assemble(file, marked, memory_limit, ends=("terminals",), images=True)


def _ends(file: str, fields: dict[str, Field]) -> np.ndarray:
    """``[rows]``, the last row of each episode, whatever the form."""
    shape = fields["observations"].shape
    rows = shape[0] if shape else 0
    ended = read_flags(file, "terminals", fields["terminals"], rows)
    if "valids" in fields:
        if "next_observations" in fields:
            raise refuse(file, "valids and next_observations", "are two forms of the same data; a file has one of them")
        final = ~read_flags(file, "valids", fields["valids"], rows)
        wrong = np.flatnonzero(ended != (final | np.append(final[1:], False)))
        if len(wrong):
            problem = "must be 1 in the row whose valids is 0 and in the one before, and nowhere else"
            raise refuse(file, "terminals", problem, f"row {wrong[0]}")
        ended = final
    if not ended.any():
        raise refuse(file, "terminals", "marks no end of an episode; it is 1 on the last row of each")
    if not ended[-1]:
        problem = "does not end an episode, although it is the last: the file is cut, or terminals mean something else"
        raise refuse(file, "terminals", problem, f"row {rows - 1}")
    twice = np.flatnonzero(ended[1:] & ended[:-1])
    if len(twice) and "next_observations" not in fields:
        problem = "is 1 as in the row before: of OGBench's compact form valids is missing, or an episode has one state"
        raise refuse(file, "terminals", problem, f"row {twice[0] + 1}")
    return ended


def _marks(rows: int, last: np.ndarray) -> np.ndarray:
    """``[rows + episodes]``, true where a state was put behind its episode."""
    ended = np.zeros(rows + len(last), bool)
    ended[last + np.arange(len(last)) + 1] = True
    return ended


def _longer(file: str, fields: dict[str, Field], last: np.ndarray) -> dict[str, Field]:
    """Observations and actions with a row more for each episode."""
    now, later, action = (fields[name] for name in ("observations", "next_observations", "actions"))
    check_field(file, "next_observations", later.shape, later.dtype, sizes=now.shape)
    if later.dtype != now.dtype:
        raise refuse(file, "next_observations", f"is {later.dtype}, but observations are {now.dtype}")
    if not action.shape or action.shape[0] != now.shape[0]:
        raise refuse(file, "actions", f"must have {now.shape[0]} rows; it has shape {list(action.shape)}")
    whole = len(last) + now.shape[0]
    return {
        "observations": Field((whole, *now.shape[1:]), now.dtype, _Longer(file, now, later, last).read),
        "actions": Field((whole, *action.shape[1:]), action.dtype, _Longer(file, action, None, last).read),
    }


class _Longer:
    """An array with one row more behind each episode: the last of what came next, or zeros."""

    def __init__(self, file: str, now: Field, later: Field | None, last: np.ndarray) -> None:
        self._file, self._now, self._later, self._last = file, now, later, last
        self._behind = last + np.arange(len(last)) + 1
        self._before: np.ndarray | None = None

    def read(self, first: int, out: np.ndarray) -> None:
        """The next rows."""
        begun, ended = np.searchsorted(self._behind, [first, first + len(out)])
        source = first - int(begun)
        inserted = np.zeros(len(out), bool)
        inserted[self._behind[begun:ended] - first] = True
        now = np.zeros((len(out) - int(ended - begun), *out.shape[1:]), out.dtype)
        if len(now):
            self._now.read(source, now)
        out[~inserted] = now
        if self._later is None:
            out[inserted] = 0
            return
        later = np.zeros_like(now)
        if len(now):
            self._later.read(source, later)
        held = later if self._before is None else np.concatenate([self._before, later])
        first_held = source - (len(held) - len(later))
        if len(now):
            self._compare(held[:-1], now[len(now) + 1 - len(held) :], first_held)
        out[inserted] = held[self._last[begun:ended] - first_held]
        self._before = held[-1:]

    def _compare(self, later: np.ndarray, now: np.ndarray, first: int) -> None:
        """What came next must be the observation of the next row, within an episode."""
        same = (later == now) | ((later != later) & (now != now))  # NaN, which is refused elsewhere, equals itself
        rows = first + np.arange(len(later))
        wrong = np.flatnonzero(~same.all(axis=tuple(range(1, same.ndim))) & ~np.isin(rows, self._last))
        if len(wrong):
            problem = "is not the observation of the row behind it; terminals mark the last row of an episode"
            raise refuse(self._file, "next_observations", problem, f"row {rows[wrong[0]]}")
