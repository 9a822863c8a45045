"""What the sampled estimators share: sizes, drawing from tables, and the read-out of a ratio."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.tabular.statistics import Draws

__all__ = ["TableEstimator", "counts", "draw", "ratio_to_occupancy"]


@dataclass(frozen=True)
class TableEstimator:
    """A table ``[X, S]`` of logits or probabilities, one row for each state-action."""

    discount: float
    """Discount of the occupancy to estimate."""
    n_states: int = 25
    """S."""
    n_actions: int = 5
    """A."""
    batch_size: int = 256
    """Transitions in each minibatch."""

    def initial(self) -> Array:
        """Logits of zero: every ratio is 1, so the first estimate is the marginal."""
        return jnp.zeros((self.n_states * self.n_actions, self.n_states))

    def sample(self, draws: Draws, key: Array) -> Any:
        """Draw a minibatch."""
        raise NotImplementedError

    def loss(self, table: Array, target: Array, batch: Any, draws: Draws) -> Array:
        """The mean loss of a minibatch."""
        raise NotImplementedError

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """The estimate ``[S, A, S]``: the ratio times the marginal, normalised (InfoNCE leaves a free constant)."""
        return self.shaped(ratio_to_occupancy(table, draws.marginal))

    def shaped(self, table: Array) -> Array:
        """Split the state-action axis: ``[X, S]`` to ``[S, A, S]``."""
        return table.reshape(self.n_states, self.n_actions, self.n_states)


def draw(cdf: Array, uniform: Array) -> Array:
    """Draw from a cumulative distribution by inversion."""
    return jnp.minimum(jnp.searchsorted(cdf, uniform, side="right"), len(cdf) - 1)


def counts(index: Array, length: int) -> Array:
    """How often each number below ``length`` stands in ``index``."""
    return jnp.zeros(length).at[index].add(1)


def ratio_to_occupancy(logits: Array, marginal: Array) -> Array:
    """Turn log-ratios into distributions over the last axis.

    Implements: Eq. classifier (App. A), which holds the constant of Eq. arbitrary-func-est.
    Deviates: no.
    """
    return jax.nn.softmax(logits + jnp.log(marginal), axis=-1)
