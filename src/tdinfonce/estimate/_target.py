"""What a policy that is to be evaluated does in states: probabilities of discrete actions, or draws of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.estimate._logged import Logged
from tdinfonce.plans.policy import TrainedPolicy, load

__all__ = ["BEHAVIOUR", "Choices", "Policy", "follow", "make_policy"]

BEHAVIOUR = "behaviour"
DRAWS = 16
"""Actions drawn in each state of a policy that is not deterministic."""

Policy = str | Path | TrainedPolicy | Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Choices:
    """What a policy does in each of some states."""

    action: np.ndarray
    """``[choices, states, action_size]``, encoded."""
    chance: np.ndarray
    """``[choices, states]``, sums to 1 in each state."""

    def draw(self, rng: np.random.Generator, which: np.ndarray, count: int) -> np.ndarray:
        """``[count, rows, action_size]``, actions for rows that are in these states."""
        if len(self.action) == 1:
            return self.action[:, which]
        edges = np.cumsum(self.chance, axis=0)[:-1, which]
        chosen = (rng.random((count, 1, len(which))) > edges).sum(axis=1)
        return self.action[chosen, which]

    def at(self, which: np.ndarray) -> Choices:
        """The same in some of the states."""
        return Choices(self.action[:, which], self.chance[:, which])

    def each(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each choice the states where it may be made, the action and its chance there."""
        for action, chance in zip(self.action, self.chance, strict=True):
            on = np.flatnonzero(chance > 0)
            if len(on):
                yield on, action[on], chance[on, None]


def follow(choices: Choices, logged: Logged, sample: np.ndarray) -> Choices:
    """What data can follow of a policy: where an action was never taken in a state, what was done there stands for it.

    No data say where such an action leads. A critic guesses, and one that bootstraps from its own guesses drifts away:
    with 1,000 transitions of ICU-Sepsis its values were wrong by 38%, and by 50% after more updates; so by 2%.

    Args:
        choices: in each state of the data.
        logged: the data, of discrete actions, and states that are known by number.
        sample: ``[episodes]``, those that count.
    """
    rows = np.concatenate([f + np.arange(n) for f, n in zip(logged.start[sample], logged.length[sample], strict=True)])
    count = np.zeros((len(logged.state), logged.actions))
    np.add.at(count, (logged.which[rows], np.argmax(logged.action[rows], axis=1)), 1)
    total = count.sum(axis=1, keepdims=True)
    chance = np.einsum("csa,cs->sa", choices.action, choices.chance)
    known = np.where((count > 0) | (total == 0), chance, 0)
    lost = np.maximum(1 - known.sum(axis=1, keepdims=True), 0)
    chance = known + lost * count / np.maximum(total, 1)
    return Choices(_every_action(logged.actions, len(chance)), chance.T)


def make_policy(policy: Policy, goal: Any, logged: Logged) -> Callable[[np.ndarray], Choices] | None:
    """A function of states as the data have them; None: the behaviour of the data."""
    if isinstance(policy, str) and policy == BEHAVIOUR:
        if goal is not None:
            raise UserError("a goal is what a run is told to reach; the data's own behaviour takes none")
        return None
    if isinstance(policy, str | Path):
        if not Path(policy).is_dir():
            raise UserError(f"policy must be a function, a run folder or '{BEHAVIOUR}'; there is no folder {policy}")
        policy = load(policy)
    if isinstance(policy, TrainedPolicy):
        return _of_run(policy, goal, logged)
    if not callable(policy):
        raise UserError(f"policy must be a function, a run or '{BEHAVIOUR}'; got {type(policy).__name__}")
    if goal is not None:
        raise UserError("a goal is what a run is told to reach; a function takes observations alone")
    function = policy

    def choose(state: np.ndarray) -> Choices:
        first, again = _call(function, state, logged), _call(function, state, logged)
        if np.array_equal(first.action, again.action) and np.array_equal(first.chance, again.chance):
            return first
        if len(first.action) > 1:
            raise UserError("the policy gave other probabilities for the same observations; it must not change")
        more = [first, again, *(_call(function, state, logged) for _ in range(DRAWS - 2))]
        return Choices(np.concatenate([c.action for c in more]), np.full((DRAWS, len(state)), 1 / DRAWS))

    return choose


def _of_run(policy: TrainedPolicy, goal: Any, logged: Logged) -> Callable[[np.ndarray], Choices]:
    if goal is None:
        raise UserError("a run acts for a goal: name the one it is evaluated with (goal)")
    if policy.spec.action_size != logged.action.shape[1] or policy.spec.discrete != bool(logged.actions):
        kind = " discrete" if policy.spec.discrete else ""
        sizes = f"{policy.spec.action_size}{kind}, the data {logged.action.shape[1]}"
        raise UserError(f"the run and the data do not have the same actions: the run has {sizes}")

    def choose(state: np.ndarray) -> Choices:
        try:
            action = policy.act(state.reshape(len(state), -1), goal, normalised=True)
        except ValueError as error:
            raise UserError(f"the run does not fit the data: {error}") from error
        return Choices(np.asarray(action, np.float32)[None], np.ones((1, len(state))))

    return choose


def _call(function: Callable[[np.ndarray], Any], state: np.ndarray, logged: Logged) -> Choices:
    found = np.asarray(function(state))
    if not (logged.actions and found.shape == (len(state), logged.actions) and (logged.actions > 1)):
        return Choices(logged.encode_action(found, len(state), "the policy")[None], np.ones((1, len(state))))
    total = found.sum(axis=1)
    if not (np.isfinite(found).all() and (found >= 0).all() and np.allclose(total, 1, atol=1e-4)):
        raise UserError("the policy gave probabilities that are not finite, are negative, or do not sum to 1")
    return Choices(_every_action(logged.actions, len(state)), found.T / total)


def _every_action(actions: int, states: int) -> np.ndarray:
    return np.broadcast_to(np.eye(actions, dtype=np.float32)[:, None], (actions, states, actions))
