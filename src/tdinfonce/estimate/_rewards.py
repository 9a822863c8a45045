"""Rewards of logged data: one or several functions, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.estimate._logged import Logged

__all__ = ["Reward", "Rewards"]

Reward = Callable[..., Any]
"""Of observations, or of observations and actions, in the units of the data: one number for each row, or several."""


class Rewards:
    """One or several rewards as one function of states and encoded actions, checked."""

    def __init__(self, reward: Reward | Sequence[Reward], logged: Logged) -> None:
        functions = list(reward) if isinstance(reward, Sequence) else [reward]
        if not functions or not all(callable(function) for function in functions):
            raise UserError("reward must be a function of observations (and actions), or a list of such functions")
        self._functions, self._logged = functions, logged
        self._both = [_arguments(function) > 1 for function in functions]
        self.of_action = any(self._both)
        self._single = not isinstance(reward, Sequence)
        self._wide = False

    def of(self, state: np.ndarray, action: np.ndarray | None) -> np.ndarray:
        """``[rows, rewards]``."""
        columns = []
        for function, both in zip(self._functions, self._both, strict=True):
            if both and action is None:
                raise UserError("of the data's own behaviour, a reward of actions cannot be told for other starts")
            given = (state, self._logged.decode_action(action)) if both and action is not None else (state,)
            found = np.asarray(function(*given), np.float64)
            if found.ndim not in (1, 2) or len(found) != len(state):
                problem = f"one number for each of {len(state)} rows, or several; got shape {list(found.shape)}"
                raise UserError(f"the reward must return {problem}")
            if not np.isfinite(found).all():
                raise UserError("the reward returned numbers that are not finite")
            self._wide |= found.ndim == 2
            columns.append(found.reshape(len(state), -1))
        return np.concatenate(columns, axis=1)

    def logged(self, which: np.ndarray, logged: Logged) -> np.ndarray:
        """``[states, rewards]``, the mean over what was done in these states; where nothing was, 0."""
        if not self.of_action:
            return self.of(logged.state[which], None)
        rows = logged.taken
        found = self.of(logged.state[logged.which[rows]], logged.action[rows])
        total, count = np.zeros((len(logged.state), found.shape[1])), np.zeros(len(logged.state))
        np.add.at(total, logged.which[rows], found)
        np.add.at(count, logged.which[rows], 1)
        if (count[which] == 0).any() and not logged.table:
            # The last row of an episode has no action: what was done in the row before stands for it.
            last = logged.start + logged.length
            total[last], count[last] = total[last - 1], 1
        return total[which] / np.maximum(count[which], 1)[:, None]

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """One column less if one number was returned for each row."""
        return values[:, 0] if self._single and not self._wide else values


def _arguments(function: Reward) -> int:
    """How many arguments it must be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # such as numpy's own
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters)
