"""C-learning on a table, and the three steps that lead from it to TD InfoNCE."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.losses import c_learning, infonce
from tdinfonce.tabular.estimators._base import TableEstimator, counts, ratio_to_occupancy
from tdinfonce.tabular.estimators.td_infonce import SarsaBatch, sample_sarsa
from tdinfonce.tabular.statistics import Draws

__all__ = ["CLearning", "CLearningVariant"]


@dataclass(frozen=True)
class CLearning(TableEstimator):
    """Minimises `tdinfonce.losses.c_learning`: one random state for each transition, told apart by a classifier."""

    max_weight: float = 20.0
    """Clip of the target classifier's odds."""
    normalise: bool = False
    """Whether the read-out is normalised to sum to 1; the paper multiplies by the marginal and leaves it there."""

    def sample(self, draws: Draws, key: Array) -> SarsaBatch:
        """Draw transitions and random states."""
        return sample_sarsa(draws, key, self.batch_size)

    def loss(self, table: Array, target: Array, batch: SarsaBatch, draws: Draws) -> Array:
        """The mean over pairs."""
        next_state = batch.next_pair // self.n_actions
        rows = c_learning(
            table[batch.pair, next_state],
            table[batch.pair, batch.random_state],
            target[batch.next_pair, batch.random_state],
            discount=self.discount,
            max_weight=self.max_weight,
        )
        return jnp.mean(rows)

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """The ratio times the marginal. The classifier's odds are the ratio itself: no free constant."""
        if self.normalise:
            return self.shaped(ratio_to_occupancy(table, draws.marginal))
        return self.shaped(jnp.exp(table) * draws.marginal)


@dataclass(frozen=True)
class CLearningVariant(CLearning):
    """C-learning with any of the three differences of App. td-infonce-vs-c-learning switched to TD InfoNCE's side.

    All three off is C-learning, all three on is TD InfoNCE; tests hold it to both.
    """

    categorical: bool = False
    """(a) softmax cross entropy over the batch's columns instead of binary cross entropy."""
    self_normalised: bool = False
    """(b) weights divided by their mean over the candidates instead of the raw odds."""
    all_pairs: bool = False
    """(c) every random state of the batch serves every transition (N² pairs) instead of its own (N pairs)."""

    def loss(self, table: Array, target: Array, batch: SarsaBatch, draws: Draws) -> Array:
        """The mean loss with the chosen switches."""
        next_state = batch.next_pair // self.n_actions
        logits = table[batch.pair]
        weight, share = self._weights(target, batch)
        if self.categorical:
            first = infonce(logits, positive=next_state, counts=counts(next_state, self.n_states))
            normaliser = jax.nn.logsumexp(logits, axis=1, b=counts(batch.random_state, self.n_states))
            second = jnp.sum(weight * share * (normaliser[:, None] - logits), axis=1)
            return jnp.mean((1 - self.discount) * first + self.discount * second)
        positive, negative = jax.nn.softplus(-logits), jax.nn.softplus(logits)
        first = jnp.take_along_axis(positive, next_state[:, None], axis=1)[:, 0]
        second = jnp.sum(share * (self.discount * weight * positive + negative), axis=1)
        return jnp.mean((1 - self.discount) * first + second)

    def _weights(self, target: Array, batch: SarsaBatch) -> tuple[Array, Array]:
        """The odds at every state, and how the random states of a row share the row's expectation."""
        odds = jnp.exp(jnp.minimum(target[batch.next_pair], jnp.log(self.max_weight)))
        own = jax.nn.one_hot(batch.random_state, self.n_states)
        share = jnp.broadcast_to(own.mean(axis=0), own.shape) if self.all_pairs else own
        if self.self_normalised:
            # With one candidate for each row the only set to normalise over is the batch.
            mean = jnp.sum(share * odds, axis=1, keepdims=True)
            odds = odds / (mean if self.all_pairs else jnp.mean(mean))
        return jax.lax.stop_gradient(odds), share

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """Normalised where a softmax leaves a constant free, raw where a classifier fixes it."""
        if self.categorical:
            return self.shaped(ratio_to_occupancy(table, draws.marginal))
        return super().occupancy(table, draws)
