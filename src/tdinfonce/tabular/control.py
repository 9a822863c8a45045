"""Goal-conditioned policies on a table: what TD InfoNCE and contrastive RL do with someone else's trajectories."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tdinfonce.losses import td_infonce
from tdinfonce.tabular.estimators._base import TableEstimator, counts, draw
from tdinfonce.tabular.estimators.mc_infonce import McInfonce
from tdinfonce.tabular.mdp import Mdp
from tdinfonce.tabular.statistics import Draws

__all__ = ["GoalBatch", "GoalMcInfonce", "GoalTdInfonce", "follow"]


class GoalBatch(NamedTuple):
    """Transitions, a commanded goal for each, and random states."""

    pair: Array
    """``[B]``, state-action."""
    next_state: Array
    """``[B]``."""
    goal: Array
    """``[B]``, drawn from the marginal."""
    random_state: Array
    """``[B]``, drawn from the marginal."""


@dataclass(frozen=True)
class GoalTdInfonce(TableEstimator):
    """Algorithm 1 on a table ``f[x, g, u]``: the policy that commands g is greedy for g under the same table.

    Actions that the data do not hold at a state are never taken: their entries are untrained.
    """

    def initial(self) -> Array:
        """Logits of zero."""
        return jnp.zeros((self.n_states * self.n_actions, self.n_states, self.n_states))

    def sample(self, draws: Draws, key: Array) -> GoalBatch:
        """Draw transitions, goals and random states, all independent."""
        uniform = jax.random.uniform(key, (3, self.batch_size))
        index = draw(draws.move_cdf, uniform[0])
        goal, random_state = draw(draws.state_cdf, uniform[1]), draw(draws.state_cdf, uniform[2])
        return GoalBatch(index // self.n_states, index % self.n_states, goal, random_state)

    def loss(self, table: Array, target: Array, batch: GoalBatch, draws: Draws) -> Array:
        """The mean of Eq. td-infonce with the goal-conditioned policy's next action."""
        rows = jnp.arange(self.batch_size)
        logits = table[batch.pair, batch.goal]
        actions = target.reshape(self.n_states, self.n_actions, self.n_states, self.n_states)
        ahead = actions[batch.next_state, :, batch.goal]
        scores = _log_occupancy(ahead, draws.marginal)[rows, :, batch.goal]
        best = jnp.argmax(jnp.where(draws.seen[batch.next_state], scores, -jnp.inf), axis=1)
        loss = td_infonce(
            logits,
            logits,
            ahead[rows, best],
            discount=self.discount,
            positive=batch.next_state,
            next_counts=counts(batch.next_state, self.n_states),
            random_counts=counts(batch.random_state, self.n_states),
        )
        return jnp.mean(loss)

    def scores(self, table: Array, draws: Draws) -> Array:
        """``[S, A, S]``: log-chance of the goal when it is commanded (Eq. actor-loss)."""
        shaped = table.reshape(self.n_states, self.n_actions, self.n_states, self.n_states)
        own = jnp.arange(self.n_states)
        return _log_occupancy(shaped, draws.marginal)[:, :, own, own]


@dataclass(frozen=True)
class GoalMcInfonce(McInfonce):
    """Contrastive RL as a policy: the action after which the *data* reached the goal most often and soonest."""

    def scores(self, table: Array, draws: Draws) -> Array:
        """``[S, A, S]``: log-chance of the goal under the behaviour of the data."""
        return _log_occupancy(self.shaped(table), draws.future_marginal)


def _log_occupancy(logits: Array, marginal: Array) -> Array:
    return jax.nn.log_softmax(logits + jnp.log(marginal), axis=-1)


def greedy(scores: Array, seen: Array) -> Array:
    """``[S, S]``: the best action of the data at each state for each goal; any of them for a goal never visited."""
    lowest = jnp.finfo(scores.dtype).min
    return jnp.argmax(jnp.where(seen[:, :, None], jnp.maximum(scores, lowest), -jnp.inf), axis=1)


def follow(mdp: Mdp, policy: NDArray[np.integer], start: int, goal: int, limit: int) -> list[int]:
    """The states that the policy visits on its way to the goal, at most ``limit`` steps."""
    if mdp.successor is None:
        raise ValueError("paths can be followed only in a world where every move is certain")
    path = [start]
    while path[-1] != goal and len(path) <= limit:
        path.append(int(mdp.successor[path[-1], policy[path[-1], goal]]))
    return path
