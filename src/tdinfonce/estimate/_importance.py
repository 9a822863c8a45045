"""Doubly robust estimates: what a model of values says, corrected by the rewards of the logged actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tdinfonce.errors import UserError
from tdinfonce.estimate._logged import Logged

__all__ = ["Behaviour", "behaviour_probability", "weighted_doubly_robust"]

Behaviour = Callable[[np.ndarray], Any] | Any
"""Probabilities of all actions as a function of observations, or of the actions taken, one for each transition."""


def behaviour_probability(logged: Logged, behaviour: Behaviour | None) -> np.ndarray:
    """``[transitions]``, how likely each action was that was taken.

    If they are not given they are counted where states are known by number, else fitted by softmax regression.
    """
    rows = logged.taken
    chosen = np.argmax(logged.action[rows], axis=1)
    if behaviour is None:
        table = _counted(logged, rows, chosen) if logged.table else _fitted(logged, rows, chosen)
        return table[np.arange(len(rows)), chosen]
    if callable(behaviour):
        table = np.asarray(behaviour(logged.state[logged.which[rows]]), np.float64)
        if table.shape != (len(rows), logged.actions):
            wanted = f"[{len(rows)}, {logged.actions}]"
            raise UserError(f"behaviour must give probabilities of shape {wanted}; got shape {list(table.shape)}")
        found = table[np.arange(len(rows)), chosen]
    else:
        found = np.asarray(behaviour, np.float64)
    if found.shape != (len(rows),):
        problem = f"one probability for each of the {len(rows)} transitions; got shape {list(found.shape)}"
        raise UserError(f"behaviour must be a function, or {problem}")
    if not ((found > 0) & (found <= 1 + 1e-6)).all():
        raise UserError("behaviour must give each action that was taken a probability above 0 and at most 1")
    return found


def _counted(logged: Logged, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    count = np.zeros((len(logged.state), logged.actions))
    np.add.at(count, (logged.which[rows], chosen), 1)
    return (count / np.maximum(count.sum(axis=1, keepdims=True), 1))[logged.which[rows]]


def _fitted(logged: Logged, rows: np.ndarray, chosen: np.ndarray, updates: int = 500) -> np.ndarray:
    """By Adam on all rows at once."""
    inputs, labels = jnp.asarray(logged.scale(logged.state[logged.which[rows]])), jnp.asarray(chosen)
    weights = jnp.zeros((inputs.shape[1] + 1, logged.actions))
    optimiser = optax.adam(0.05)

    def loss(weights: Any) -> Any:
        scores = inputs @ weights[:-1] + weights[-1]
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    def step(carry: Any, _: None) -> tuple[Any, None]:
        weights, state = carry
        change, state = optimiser.update(jax.grad(loss)(weights), state)
        return (weights + change, state), None

    (weights, _), _ = jax.jit(lambda c: jax.lax.scan(step, c, None, length=updates))((weights, optimiser.init(weights)))
    return np.asarray(jax.nn.softmax(inputs @ weights[:-1] + weights[-1]), np.float64)


def weighted_doubly_robust(
    length: np.ndarray, ratio: np.ndarray, advantage: np.ndarray, value: np.ndarray, discount: float
) -> np.ndarray:
    """``[episodes, rewards]``, whose mean is the estimate.

    For each episode Σ_t γ^t [w_t (r_t - Q_t) + w_{t-1} V_t], and w V of its last state, with w_t the product of the
    ratios up to t divided by its mean over episodes (Thomas and Brunskill, 2016). An episode that is over keeps its
    weight. With ratios that are right it converges to the value whatever Q is.

    Args:
        length: ``[episodes]``, steps.
        ratio: ``[transitions]``, target over behaviour probability of the action taken.
        advantage: ``[transitions, rewards]``, r - Q.
        value: ``[transitions + episodes, rewards]``, V of every state, those of one episode adjacent.
        discount: γ.
    """
    first = np.cumsum(length) - length
    state = first + np.arange(len(length))
    weight = np.ones(len(length))
    total = value[state].astype(np.float64)
    for t in range(int(length.max())):
        on = np.flatnonzero(length > t)
        weight[on] *= ratio[first[on] + t]
        mean = weight.mean()
        normal = weight / mean if mean > 0 else np.zeros_like(weight)
        total[on] += discount**t * normal[on, None] * advantage[first[on] + t]
        total[on] += discount ** (t + 1) * normal[on, None] * value[state[on] + t + 1]
    return total
