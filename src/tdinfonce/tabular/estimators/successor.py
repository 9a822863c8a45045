"""The successor representation: a table of probabilities, learned from samples or iterated with the known model."""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tdinfonce.tabular.estimators._base import TableEstimator
from tdinfonce.tabular.estimators.td_infonce import SarsaBatch, sample_sarsa
from tdinfonce.tabular.mdp import Mdp, Table, infonce_bellman
from tdinfonce.tabular.statistics import Draws

__all__ = ["Successor", "known_model"]


@dataclass(frozen=True)
class Successor(TableEstimator):
    """Regresses each row onto (1 - discount) * next state + discount * target row."""

    def initial(self) -> Array:
        """Uniform rows: the same first estimate as a ratio of 1."""
        return jnp.full((self.n_states * self.n_actions, self.n_states), 1 / self.n_states)

    def sample(self, draws: Draws, key: Array) -> SarsaBatch:
        """Draw transitions; the random states are not used."""
        return sample_sarsa(draws, key, self.batch_size)

    def loss(self, table: Array, target: Array, batch: SarsaBatch, draws: Draws) -> Array:
        """Half the squared distance to the target of Eq. sr, summed over states, averaged over the batch."""
        next_state = batch.next_pair // self.n_actions
        real = jax.nn.one_hot(next_state, self.n_states)
        wanted = (1 - self.discount) * real + self.discount * jax.lax.stop_gradient(target[batch.next_pair])
        return jnp.mean(jnp.sum(jnp.square(table[batch.pair] - wanted), axis=1)) / 2

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """The table itself."""
        return self.shaped(table)


def known_model(mdp: Mdp, policy: Table, discount: float) -> Iterator[Table]:
    """Iterate the successor representation with the true transitions: the paper's check of its own baseline.

    Yields:
        ``[S, A, S]`` after 0, 1, 2, … sweeps.
    """
    table = np.full(mdp.transition.shape, 1 / mdp.n_states)
    while True:
        yield table
        table = infonce_bellman(mdp, policy, discount, table)
