"""TD InfoNCE on a table: the next state is the positive, and the target table predicts the rest."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.losses import td_infonce
from tdinfonce.tabular.estimators._base import TableEstimator, counts, draw
from tdinfonce.tabular.statistics import Draws

__all__ = ["SarsaBatch", "TdInfonce", "sample_sarsa"]


class SarsaBatch(NamedTuple):
    """Transitions with the data's own next action, and random states."""

    pair: Array
    """``[B]``, state-action."""
    next_pair: Array
    """``[B]``, next state and the action taken there."""
    random_state: Array
    """``[B]``, drawn from the marginal."""


def sample_sarsa(draws: Draws, key: Array, batch_size: int) -> SarsaBatch:
    """Draw transitions and random states, all independent."""
    uniform = jax.random.uniform(key, (2, batch_size))
    index = draw(draws.sarsa_cdf, uniform[0])
    return SarsaBatch(draws.sarsa_pair[index], draws.sarsa_next[index], draw(draws.state_cdf, uniform[1]))


@dataclass(frozen=True)
class TdInfonce(TableEstimator):
    """Minimises `tdinfonce.losses.td_infonce`, the loss of the deep agent, with equal columns grouped."""

    def sample(self, draws: Draws, key: Array) -> SarsaBatch:
        """Draw transitions and random states."""
        return sample_sarsa(draws, key, self.batch_size)

    def loss(self, table: Array, target: Array, batch: SarsaBatch, draws: Draws) -> Array:
        """The mean of Eq. td-infonce, SARSA-style: the next action is the data's."""
        next_state = batch.next_pair // self.n_actions
        logits = table[batch.pair]
        rows = td_infonce(
            logits,
            logits,
            target[batch.next_pair],
            discount=self.discount,
            positive=next_state,
            next_counts=counts(next_state, self.n_states),
            random_counts=counts(batch.random_state, self.n_states),
        )
        return jnp.mean(rows)
