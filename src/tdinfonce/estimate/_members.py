"""Critics of a fixed policy, each fitted on some of the logged episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.estimate._logged import Logged
from tdinfonce.estimate._target import Choices, follow
from tdinfonce.estimate.predictor import Config, Predictor, Steps, fit
from tdinfonce.networks.critic import TableCritic
from tdinfonce.occupancy import Occupancy

__all__ = ["Member", "build_steps", "fit_member"]

CANDIDATES = 4_096
"""Where states are too many to take all."""
MOST_PAIRS = 16_000_000
"""Logits at once."""
MOST_DRAWN = 64_000_000
"""Numbers that the policy's actions may take."""


@dataclass(frozen=True)
class Member:
    """A critic with the states by which it answers."""

    predictor: Predictor
    candidate: np.ndarray
    """``[candidates]``, which states."""
    prior: np.ndarray
    """``[candidates]``, how often each is one by chance."""
    sample: np.ndarray
    """``[episodes]``, those it was fitted on."""
    idle: np.ndarray | None
    """``[states]``, those that are never left, where nothing is done; None if states have no number."""
    followed: Choices | None = None
    """What the critic was fitted to, in each state of the data, where this is not the policy itself."""

    def weights(self, state: np.ndarray, action: np.ndarray, place: np.ndarray) -> np.ndarray:
        """``[rows, candidates]``, the occupancy from each state and action."""
        if self.idle is not None:
            action = np.where(self.idle[state][:, None], np.float32(0), action)
        logits = _logits(self.predictor, *map(jnp.asarray, (state, action, place)))
        return Occupancy.of_logits(self.candidate, logits, 0.0, prior=self.prior).weights

    def expectation(self, state: np.ndarray, action: np.ndarray, place: np.ndarray, values: np.ndarray) -> np.ndarray:
        """``[rows, rewards]``, the mean of what each candidate has, ``[candidates, rewards]``, block by block."""
        rows = max(MOST_PAIRS // len(self.candidate), 1)
        blocks = (slice(i, i + rows) for i in range(0, len(state), rows))
        return np.concatenate([self.weights(state[b], action[b], place) @ values for b in blocks])


@eqx.filter_jit
def _logits(predictor: Predictor, state: Any, action: Any, place: Any) -> Any:
    return predictor.logits(state, action, place)


def fit_member(
    logged: Logged,
    choices: Choices | None,
    config: Config,
    updates: int,
    rng: np.random.Generator,
    sample: np.ndarray,
    seed: int,
) -> Member:
    """One critic, on some of the episodes."""
    followed = follow(choices, logged, sample) if choices is not None and logged.table and logged.actions else None
    steps, taken = build_steps(logged, followed or choices, rng, sample)
    critic: Any = None
    if logged.table:
        key = jax.random.PRNGKey(seed + 1_000_003)
        sizes = {"hidden": config.hidden[-1], "representation_size": config.representation_size}
        critic = TableCritic(key, len(logged.state), steps.action.shape[1], temperature=config.temperature, **sizes)
    predictor, loss = fit(Predictor.create(seed, steps, config, critic), steps, updates)
    if not np.isfinite(loss).all():
        raise UserError("the loss is not finite any more: lower learning_rate, or raise temperature")
    if logged.table:
        candidate, count = np.unique(taken, return_counts=True)
        prior = count.astype(np.float64)
    else:
        candidate = taken if len(taken) <= CANDIDATES else rng.choice(taken, CANDIDATES, replace=False)
        prior = np.ones(len(candidate))
    idle = np.zeros(len(logged.state), bool) if logged.table else None
    if idle is not None:
        idle[logged.which[(logged.start + logged.length)[logged.terminal]]] = True
    return Member(predictor, candidate, prior, sample, idle, followed)


def build_steps(
    logged: Logged, choices: Choices | None, rng: np.random.Generator, sample: np.ndarray
) -> tuple[Steps, np.ndarray]:
    """The transitions of some episodes for the device, and the state that each leads to."""
    lasts = logged.terminal[sample]
    counts = logged.length[sample] + lasts
    moment = np.concatenate([f + np.arange(n) for f, n in zip(logged.start[sample], counts, strict=True)])
    end = np.repeat(logged.start[sample] + logged.length[sample], counts)
    left, rows = end - moment, len(logged.which)
    taken = logged.which[moment + np.minimum(left, 1)]
    if choices is None:
        action, policy_action = np.zeros((rows, 0), np.float32), np.zeros((1, rows, 0), np.float32)
    else:
        action = logged.action
        draws = int(np.clip(MOST_DRAWN // max(action.size, 1), 1, 16))
        policy_action = choices.draw(rng, logged.which, draws).copy()
        # Nothing is done in a state that is never left: its transition to itself has no action either.
        policy_action[:, (logged.start + logged.length)[logged.terminal]] = 0
    state = np.arange(len(logged.state)) if logged.table else logged.scale(logged.state)
    prior = np.bincount(taken, minlength=len(logged.state)).astype(np.float32) if logged.table else None
    arrays = (state, state, logged.which, action, policy_action, moment, left, np.repeat(lasts, counts), prior)
    return Steps(*(None if a is None else jnp.asarray(a) for a in arrays)), taken  # type: ignore[arg-type]
