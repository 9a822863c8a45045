"""Logged data as an estimator of a policy sees them: states, actions, where episodes begin and how they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.data import Episodes, from_arrays, open_dataset
from tdinfonce.data.actions import ActionBounds
from tdinfonce.errors import UserError

__all__ = ["Logged", "Terminal", "open_logged"]

Terminal = str | Callable[[np.ndarray], Any] | Any
"""Which last states are never left: ``"absorbing"``, those that the data call terminal; ``"continue"``, none; a
function of observations; or one bool for each episode."""

MOST_STATES = 2_000
"""So few different states, each seen often, are known by number."""
OFTEN = 10
PAIR = ("observations", "actions")


@dataclass(frozen=True)
class Logged:
    """Transitions. Row ``start[e] + t`` is time t of episode e."""

    state: np.ndarray
    """``[states, n]`` in the units of the data, or ``[states]``, whole numbers where the data have them so."""
    which: np.ndarray
    """``[rows]``, the state of each."""
    table: bool
    """Whether states are known by number."""
    action: np.ndarray
    """``[rows, action_size]``: in [-1, 1], or one-hot."""
    start: np.ndarray
    length: np.ndarray
    terminal: np.ndarray
    """``[episodes]``, whether the last state is never left."""
    episodes: Episodes
    """For the units of actions."""

    @property
    def actions(self) -> int:
        """How many discrete actions there are; 0: they are not discrete."""
        return self.episodes.actions

    @property
    def taken(self) -> np.ndarray:
        """``[transitions]``, the rows whose action was taken, in order."""
        return np.concatenate([np.arange(f, f + n) for f, n in zip(self.start, self.length, strict=True)])

    def encode(self, observation: Any) -> np.ndarray:
        """``[rows]`` numbers of states, or scaled ``[rows, n]``, of what a user gives."""
        array = np.asarray(observation, np.float32)
        array = array.reshape(-1, 1) if self.state.ndim == 1 or array.ndim == 0 else np.atleast_2d(array)
        flat = self.state.reshape(len(self.state), -1)
        if array.ndim != 2 or array.shape[1] != flat.shape[1] or not np.isfinite(array).all():
            wanted = "whole numbers" if self.state.ndim == 1 else f"rows of {flat.shape[1]} finite numbers"
            raise UserError(f"observation must be {wanted}, as in the data; got shape {list(np.shape(observation))}")
        if not self.table:
            return self.scale(array)
        known = {row.tobytes(): number for number, row in enumerate(flat.astype(np.float32) + 0.0)}
        found = [known.get(row.tobytes(), -1) for row in array + 0.0]
        if -1 in found:
            raise UserError(f"the data were never in the state {array[found.index(-1)].tolist()}: start elsewhere")
        return np.array(found)

    def scale(self, observation: np.ndarray) -> np.ndarray:
        """Coordinates of mean 0 and deviation 1 over the data."""
        centre, spread = self.state.mean(axis=0, dtype=np.float64), self.state.std(axis=0, dtype=np.float64)
        return ((observation - centre) / np.where(spread > 1e-6, spread, 1)).astype(np.float32)

    def encode_action(self, action: Any, rows: int, source: str) -> np.ndarray:
        """``[rows, action_size]`` of actions in the data's units."""
        array = np.asarray(action)
        size = self.action.shape[1]
        low, high = (np.array(end, np.float64) for end in (self.episodes.action_low, self.episodes.action_high))
        if array.dtype.kind not in "iufb" or not np.isfinite(array).all():
            raise UserError(f"{source} gave actions that are not finite numbers")
        if self.actions:
            number = array.reshape(-1) - (int(low[0]) if low.size else 0)
            if array.shape not in ((rows,), (rows, 1)) or (number != np.round(number)).any():
                wanted = f"[{rows}] (whole numbers) or [{rows}, {size}] (probabilities)"
                raise UserError(f"{source} must give actions of shape {wanted}; got shape {list(array.shape)}")
            if number.min() < 0 or number.max() >= size:
                raise UserError(f"{source} gave action {array.max():g}, but the data have {size} actions")
            return np.eye(size, dtype=np.float32)[number.astype(int)]
        if array.shape != (rows, size):
            raise UserError(f"{source} must give actions of shape [{rows}, {size}]; got shape {list(array.shape)}")
        if low.size:
            array = (array - (high + low) / 2) / np.where(high > low, (high - low) / 2, 1.0)
        if np.abs(array).max(initial=0) > 1 + 1e-3:
            raise UserError(f"{source} gave actions beyond the bounds of the data's; is it in the data's units?")
        return np.clip(array, -1, 1).astype(np.float32)

    def decode_action(self, action: np.ndarray) -> np.ndarray:
        """Actions in the data's units: whole numbers, or rows."""
        low, high = (np.array(end, np.float64) for end in (self.episodes.action_low, self.episodes.action_high))
        if self.actions:
            return np.argmax(action, axis=-1) + (int(low[0]) if low.size else 0)
        return (high + low) / 2 + (high - low) / 2 * action if low.size else action


def open_logged(data: Any, terminal: Terminal, table: bool | None, action_bounds: ActionBounds | None) -> Logged:
    """Read, check and number."""
    bounds = {} if isinstance(data, Episodes) else {"goal": "all", "action_bounds": action_bounds}
    if isinstance(data, str | Path):
        episodes, numbers = open_dataset(data, fewest_steps=1, **bounds), False  # type: ignore[arg-type]
    else:
        data, numbers = _columns(data)
        episodes = from_arrays(data, fewest_steps=1, **bounds)  # type: ignore[arg-type]
    rows = np.concatenate([np.arange(f, f + n + 1) for f, n in zip(episodes.start, episodes.length, strict=True)])
    length = episodes.length
    start = np.cumsum(length + 1) - length - 1
    observation = episodes.observation[rows].reshape(len(rows), -1)
    state, which = _number(observation, numbers, table)
    logged = Logged(state, which, len(state) < len(rows) or table is True, episodes.action[rows], start, length,
                    np.zeros(len(start), bool), episodes)  # fmt: skip
    return replace(logged, terminal=_terminal(terminal, logged))


def _columns(data: Any) -> tuple[Any, bool]:
    """The data with observations as columns, and whether they were whole numbers by themselves."""

    def whole(array: Any) -> bool:
        return np.ndim(array) == 1 and np.asarray(array).dtype.kind in "iu"

    if isinstance(data, Mapping):
        return _column(data), whole(data.get("observations", data.get("observation")))
    if hasattr(data, "columns"):
        name = next((n for n in ("observations", "observation") if n in data.columns), None)
        return data, name is not None and whole(data[name])
    if isinstance(data, list | tuple) and len(data):
        pairs = [dict(zip(PAIR, e, strict=True)) if isinstance(e, list | tuple) and len(e) == 2 else e for e in data]
        if all(isinstance(e, Mapping) for e in pairs):
            return [_column(e) for e in pairs], _columns(pairs[0])[1]
    return data, False


def _column(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays whose observations, if they are numbers, stand in a column."""
    found = {name: values.get(name) for name in ("observations", "observation")}
    return dict(values) | {n: np.asarray(v)[:, None] for n, v in found.items() if v is not None and np.ndim(v) == 1}


def _number(observation: np.ndarray, numbers: bool, table: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """States and which one each row is; each once if they are to be known by number."""
    if table is False or (table is None and not numbers and _many(observation)):
        return observation, np.arange(len(observation))
    state, which = np.unique(observation, axis=0, return_inverse=True)
    which = which.reshape(-1)
    one_hot = bool(np.isin(state, (0, 1)).all() and (state.sum(axis=1) == 1).all())
    few = len(state) <= MOST_STATES and OFTEN * len(state) <= len(observation)
    if not (table or numbers or one_hot or few):
        return observation, np.arange(len(observation))
    return (state[:, 0].astype(np.int64) if numbers else state), which


def _many(observation: np.ndarray) -> bool:
    """Whether a look at a few rows shows that hardly any comes twice: then sorting all can be spared."""
    some = observation[:: max(len(observation) // 20_000, 1)]
    return len(some) > 2 * MOST_STATES and len(np.unique(some, axis=0)) > MOST_STATES


def _terminal(terminal: Terminal, logged: Logged) -> np.ndarray:
    count = len(logged.start)
    if isinstance(terminal, str):
        if terminal not in ("absorbing", "continue"):
            raise UserError(f"terminal must be absorbing, continue, a function or an array; got '{terminal}'")
        known = logged.episodes.terminal
        return np.zeros(count, bool) if known is None or terminal == "continue" else known
    last = logged.which[logged.start + logged.length]
    flags = np.asarray(terminal(logged.state[last]) if callable(terminal) else terminal)
    if flags.shape != (count,) or flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
        raise UserError(f"terminal must be one bool for each of the {count} episodes; got shape {list(flags.shape)}")
    return flags.astype(bool)
