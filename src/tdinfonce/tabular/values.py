"""Values of any reward from an occupancy: what the successor representation gives, without a reward in training."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses import importance_weights
from tdinfonce.tabular.mdp import Table, check_discount

__all__ = ["values_from_occupancy", "values_from_weights"]


def values_from_occupancy(occupancy: Table, reward: Table, policy: Table, discount: float) -> Table:
    """Q of ``reward[s, a]`` in closed form: the reward now, and the mean reward under the occupancy later.

    Implements: the value read-out of App. C with the expectation over every state taken exactly.
    Deviates: no.

    Args:
        occupancy: ``[S, A, S]``, exact or estimated.
        reward: ``[S, A]``.
        policy: ``[S, A]``, the policy whose occupancy it is.
        discount: below 1.

    Returns:
        ``[S, A]``.
    """
    check_discount(discount)
    later = occupancy @ np.sum(policy * reward, axis=1)
    return reward + discount / (1 - discount) * later


def values_from_weights(logits: ArrayLike, reward: ArrayLike, future_reward: ArrayLike, discount: float) -> Array:
    """Q from a critic and N sampled states, as with networks: no table of the occupancy is needed.

    Implements: the value read-out of App. C with the weights of Eq. importance-weight.
    Deviates: all N states serve as the one drawn in the equation, which lowers the variance and cancels the N.

    Args:
        logits: ``[B, N]``, critic of B state-actions at N states drawn from the marginal.
        reward: ``[B]``, the reward of each state-action itself.
        future_reward: ``[N]``, the reward at each sampled state, for an action of the policy there.
        discount: below 1.

    Returns:
        ``[B]``.
    """
    check_discount(discount)
    weights = importance_weights(logits, counts=jnp.ones(jnp.shape(logits)[1]))
    return jnp.asarray(reward) + discount / (1 - discount) * weights @ jnp.asarray(future_reward)
