"""One loop for every sampled estimator: Adam at a constant step, a moving-average target, and iterate averaging.

Many runs (data sets, seeds, step sizes) train side by side as lanes of one compiled program.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from tdinfonce.tabular.mdp import Table
from tdinfonce.tabular.statistics import Draws

__all__ = ["AVERAGING_POWER", "Estimator", "Fit", "fit"]

AVERAGING_POWER = 3
"""Iterate k weighs as k to this power in the average: early iterates fade, and no horizon has to be known."""


GROUP_BYTES = 1_000_000
"""Tables of the lanes of one compiled program, at most; more leave the cache and take a quarter longer, measured."""

LONGEST_CHUNK = 1_000
"""Steps between two reports of progress, at most."""


class Estimator(Protocol):
    """What `fit` needs. Instances must be hashable, since they are compiled in."""

    def initial(self) -> Array:
        """The first table."""

    def sample(self, draws: Draws, key: Array) -> Any:
        """A minibatch."""

    def loss(self, table: Array, target: Array, batch: Any, draws: Draws) -> Array:
        """A scalar."""

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """``[S, A, S]``."""


class Fit(NamedTuple):
    """The state of each lane, and its errors so far."""

    table: Array
    """``[L, …]``, the last iterate."""
    average: Array
    """``[L, …]``, the average of the iterates."""
    steps: NDArray[np.int64]
    """``[P]``, when errors were measured."""
    error: Table
    """``[P, L]``, mean absolute error of the last iterate; NaN without an exact answer to compare with."""
    average_error: Table
    """``[P, L]``, the same for the average."""


class _Lane(NamedTuple):
    table: Array
    target: Array
    average: Array
    optimiser: Any
    step: Array
    key: Array


def fit(
    estimator: Estimator,
    draws: Draws,
    keys: Array,
    learning_rate: Array,
    *,
    steps: int,
    points: int = 1,
    exact: Table | None = None,
    target_rate: float = 0.005,
    progress: Callable[[int], None] = lambda steps: None,
) -> Fit:
    """Train one lane for each key.

    Args:
        estimator: what to train.
        draws: the data of each lane (leading axis L).
        keys: ``[L]`` random keys.
        learning_rate: ``[L]``.
        steps: gradient steps.
        points: how often to measure, evenly spaced; must divide ``steps``.
        exact: ``[S, A, S]``, the answer to measure against.
        target_rate: share of the new table in the target at each step.
        progress: told how many lane-steps were done.
    """
    if steps % points:
        raise ValueError(f"points must divide steps; got {points} and {steps}")
    answer = None if exact is None else jnp.asarray(exact, jnp.float32)
    rates = jnp.asarray(learning_rate, jnp.float32)
    fits = []
    tables = 5  # last iterate, target, average and the optimiser's two moments
    lanes = max(1, GROUP_BYTES // (tables * estimator.initial().nbytes))
    for first in range(0, len(keys), lanes):
        group = slice(first, first + lanes)
        data = jax.tree.map(lambda x, group=group: x[group], draws)
        fits.append(_fit(estimator, data, keys[group], rates[group], steps, points, answer, target_rate, progress))
    return Fit(
        jnp.concatenate([one.table for one in fits]),
        jnp.concatenate([one.average for one in fits]),
        fits[0].steps,
        np.concatenate([one.error for one in fits], axis=1),
        np.concatenate([one.average_error for one in fits], axis=1),
    )


def _fit(
    estimator: Estimator,
    draws: Draws,
    keys: Array,
    rate: Array,
    steps: int,
    points: int,
    answer: Array | None,
    target_rate: float,
    progress: Callable[[int], None],
) -> Fit:
    """Train one group of lanes."""
    lanes = jax.vmap(functools.partial(_start, estimator))(keys)
    errors = []
    stretch = steps // points
    chunk = max(n for n in range(1, min(stretch, LONGEST_CHUNK) + 1) if stretch % n == 0)
    for _ in range(points):
        for _ in range(stretch // chunk):
            lanes = _advance(estimator, chunk, target_rate, lanes, draws, rate)
            jax.block_until_ready(lanes.table)
            progress(chunk * len(keys))
        if answer is None:
            errors.append(np.full((2, len(keys)), np.nan))
        else:
            errors.append(np.asarray(_measure(estimator, lanes, draws, answer), dtype=float))
    measured = np.stack(errors)
    when = np.arange(1, points + 1) * (steps // points)
    return Fit(lanes.table, lanes.average, when, measured[:, 0], measured[:, 1])


def _start(estimator: Estimator, key: Array) -> _Lane:
    table = estimator.initial()
    return _Lane(table, table, table, optax.scale_by_adam().init(table), jnp.zeros((), jnp.int32), key)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    estimator: Estimator, steps: int, target_rate: float, lanes: _Lane, draws: Draws, learning_rate: Array
) -> _Lane:
    adam = optax.scale_by_adam()

    def lane(start: _Lane, data: Draws, rate: Array) -> _Lane:
        def step(now: _Lane, _: None) -> tuple[_Lane, None]:
            count = now.step + 1
            batch = estimator.sample(data, jax.random.fold_in(now.key, count))
            gradient = jax.grad(estimator.loss)(now.table, now.target, batch, data)
            direction, optimiser = adam.update(gradient, now.optimiser)
            table = now.table - rate * direction
            target = now.target + target_rate * (table - now.target)
            share = (AVERAGING_POWER + 1) / (count + AVERAGING_POWER)
            average = now.average + share * (table - now.average)
            return _Lane(table, target, average, optimiser, count, now.key), None

        return jax.lax.scan(step, start, None, length=steps)[0]

    return jax.vmap(lane)(lanes, draws, learning_rate)


@functools.partial(jax.jit, static_argnums=0)
def _measure(estimator: Estimator, lanes: _Lane, draws: Draws, exact: Array) -> Array:
    def error(table: Array, data: Draws) -> Array:
        return jnp.mean(jnp.abs(estimator.occupancy(table, data) - exact))

    measure = jax.vmap(error)
    return jnp.stack([measure(lanes.table, draws), measure(lanes.average, draws)])
