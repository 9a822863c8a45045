"""Contrastive RL on a table: InfoNCE with futures of the same trajectory. Monte Carlo, so no target."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.losses import infonce
from tdinfonce.tabular.estimators._base import TableEstimator, counts, draw, ratio_to_occupancy
from tdinfonce.tabular.statistics import Draws

__all__ = ["FutureBatch", "McInfonce"]


class FutureBatch(NamedTuple):
    """State-actions and a later state of each one's trajectory."""

    pair: Array
    """``[B]``, state-action."""
    future: Array
    """``[B]``, drawn from the truncated geometric distribution."""


@dataclass(frozen=True)
class McInfonce(TableEstimator):
    """Minimises `tdinfonce.losses.infonce` (Eq. mc-infonce) with equal columns grouped."""

    def sample(self, draws: Draws, key: Array) -> FutureBatch:
        """Draw transitions and their futures."""
        index = draw(draws.future_cdf, jax.random.uniform(key, (self.batch_size,)))
        return FutureBatch(index // self.n_states, index % self.n_states)

    def loss(self, table: Array, target: Array, batch: FutureBatch, draws: Draws) -> Array:
        """The mean of Eq. mc-infonce; ``target`` is not used."""
        rows = infonce(table[batch.pair], positive=batch.future, counts=counts(batch.future, self.n_states))
        return jnp.mean(rows)

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """The estimate; the negatives are futures, so their marginal is the base of the ratio."""
        return self.shaped(ratio_to_occupancy(table, draws.future_marginal))
