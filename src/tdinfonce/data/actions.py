"""Actions of data sets in the units that agents see: [-1, 1], or one-hot where they are discrete."""

import contextlib
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdinfonce.data.check import Raw, Units, refuse
from tdinfonce.data.store import BLOCK, empty
from tdinfonce.errors import UserError

__all__ = ["ActionBounds", "normalise_actions", "parse_bounds"]

ROUNDING = 1e-3
"""Actions may leave their bounds by so much of half the range; they are clipped."""
MOST_DISCRETE = 1000
"""More different whole numbers than this are no choice of actions."""
SHOWN = 8
"""Coordinates that a message shows."""

ActionBounds = int | tuple[float | Sequence[float], float | Sequence[float]]
"""How many discrete actions there are, or the smallest and the largest action: numbers, or one for each coordinate."""


def parse_bounds(bounds: ActionBounds | None, size: int) -> Units | None:
    """Check bounds that somebody gave for actions of this size."""
    if bounds is None:
        return None
    if isinstance(bounds, numbers.Integral) and not isinstance(bounds, bool):
        if not 1 <= bounds <= MOST_DISCRETE:
            raise UserError(f"action_bounds={bounds} would be the number of discrete actions: 1 to {MOST_DISCRETE}")
        return Units(choices=int(bounds))
    try:
        ends: Any = bounds
        low, high = (np.broadcast_to(np.asarray(end, np.float64), size) for end in ends)
    except (TypeError, ValueError):
        problem = f"must be a pair (low, high), each a number or {size} of them, or how many discrete actions there are"
        raise UserError(f"action_bounds {problem}; got {bounds!r}") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise UserError(f"action_bounds must be finite, and low not above high; got {bounds!r}")
    return Units(tuple(low.tolist()), tuple(high.tolist()))


def normalise_actions(
    raw: Raw, bounds: ActionBounds | None, default: ActionBounds | None, steps: np.ndarray, memory_limit: int
) -> tuple[np.ndarray, Units]:
    """Bring actions to [-1, 1] where they are, or make one-hot ones; says in which units they were.

    Args:
        raw: has the actions, and what the data themselves say of their units.
        bounds: given by somebody who knows better.
        default: taken if neither says anything.
        steps: ``[rows]``, the rows whose action was taken; other rows hold anything.
        memory_limit: larger data sets, in bytes, are memory-mapped.
    """
    given = parse_bounds(bounds, raw.action.shape[1])
    if raw.units.normalised:
        if given:
            raise refuse(raw.file, raw.fields[1], "lies in [-1, 1] already; leave action_bounds out")
        _scale(raw, Units(), steps)
        return raw.action, raw.units
    units = given or raw.units
    if given and given.choices and raw.units.choices:
        units = given._replace(low=raw.units.low)  # how many is given; which is the first, the data know
    if not (units.low or units.choices):
        with contextlib.suppress(UserError):  # bounds of another size are no use; who has them compares the sizes
            units = parse_bounds(default, raw.action.shape[1]) or units
    if units.choices or (raw.whole and not units.low and _range(raw, steps)[0][0] >= 0):
        return _one_hot(raw, units, steps, memory_limit)
    if not units.low:
        units = _measured(raw, steps)
    if set(units.low) == {-1.0} and set(units.high) == {1.0}:
        units = Units()
    _scale(raw, units, steps)
    return raw.action, units


def _range(raw: Raw, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each coordinate."""
    low, high = (np.full(raw.action.shape[1], end) for end in (np.inf, -np.inf))
    for first in range(0, len(raw.action), BLOCK):
        taken = raw.action[first : first + BLOCK][steps[first : first + BLOCK]]
        low = np.minimum(low, taken.min(axis=0, initial=np.inf))
        high = np.maximum(high, taken.max(axis=0, initial=-np.inf))
    return low, high


def _measured(raw: Raw, steps: np.ndarray) -> Units:
    """No bounds if all lies in [-1, 1], else those that the data reach, which is said."""
    low, high = _range(raw, steps)
    if max(-low.min(), high.max()) <= 1 + ROUNDING:
        return Units()
    message = (
        f"{raw.file}: {raw.fields[1]} leave [-1, 1] and nothing says their bounds; the smallest and the largest found, "
        f"{_shown(low)} and {_shown(high)}, are taken for them. Name the true ones with action_bounds=(low, high)"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=2)
    return Units(tuple(low.tolist()), tuple(high.tolist()))


def _shown(values: np.ndarray) -> str:
    more = ", …" if len(values) > SHOWN else ""
    return f"[{', '.join(f'{value:g}' for value in values[:SHOWN])}{more}]"


def _scale(raw: Raw, units: Units, steps: np.ndarray) -> None:
    """In place, block by block; without bounds nothing but rounding errors beyond 1 changes."""
    low, high = (np.array(end) if end else np.array([value]) for end, value in ((units.low, -1.0), (units.high, 1.0)))
    middle, half = (high + low) / 2, np.where(high > low, (high - low) / 2, 1.0)
    for first in range(0, len(raw.action), BLOCK):
        block = raw.action[first : first + BLOCK]
        scaled = (block - middle) / half
        wrong = (np.abs(scaled) > 1 + ROUNDING) & steps[first : first + BLOCK, None]
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            ends = f"[{low[column % len(low)]:g}, {high[column % len(high)]:g}]"
            problem = f"coordinate {column} is {block[row, column]:g}; actions lie in {ends}"
            if units.low:
                problem += "; name other bounds with action_bounds=(low, high)"
            raise refuse(raw.file, raw.fields[1], problem, raw.locate(first + int(row)))
        np.clip(scaled, -1, 1, out=scaled)
        block[...] = scaled


def _one_hot(raw: Raw, units: Units, steps: np.ndarray, memory_limit: int) -> tuple[np.ndarray, Units]:
    """Whole numbers, counted from the first action on, as one-hot rows; rows that are one-hot already stay."""
    if 1 < units.choices == raw.action.shape[1] and _is_one_hot(raw.action, steps):
        return raw.action, units
    if raw.action.shape[1] != 1:
        raise refuse(raw.file, raw.fields[1], "must hold one whole number for each row: the actions are discrete")
    first_action = int(units.low[0]) if units.low else 0
    count = units.choices or int(_range(raw, steps)[1][0]) + 1
    if count > MOST_DISCRETE:
        problem = f"would be {count:,} discrete actions; store them as floats, or give action_bounds=(low, high)"
        raise refuse(raw.file, raw.fields[1], problem)
    rows = len(raw.action)
    action = empty((rows, count), mapped=4 * rows * (raw.observation.shape[1] + count) > memory_limit)
    index = np.arange(count)
    for first in range(0, rows, BLOCK):
        block, taken = raw.action[first : first + BLOCK] - first_action, steps[first : first + BLOCK]
        chosen = (block == index) & taken[:, None]
        lost = np.nonzero(taken & ~chosen.any(axis=1))[0]
        if len(lost):
            found, last = raw.action[first + lost[0], 0], first_action + count - 1
            problem = f"is {found:g}; an action is one of {first_action} to {last}"
            raise refuse(raw.file, raw.fields[1], problem, raw.locate(first + int(lost[0])))
        action[first : first + BLOCK] = chosen
    return action, units._replace(choices=count, high=())


def _is_one_hot(action: np.ndarray, steps: np.ndarray) -> bool:
    """Whether every action that was taken is a row of zeros and a single one."""
    for first in range(0, len(action), BLOCK):
        taken = action[first : first + BLOCK][steps[first : first + BLOCK]]
        if not (((taken == 0) | (taken == 1)).all() and (taken.sum(axis=1) == 1).all()):
            return False
    return True
