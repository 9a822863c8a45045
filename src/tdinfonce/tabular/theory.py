"""The paper's analysis in numbers: the optimal critic, and the loss with its expectations taken exactly."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses import td_infonce
from tdinfonce.tabular.mdp import Mdp, Table

__all__ = ["expected_td_infonce", "optimal_logits"]


def optimal_logits(occupancy: Table, marginal: Table, constant: ArrayLike = 0.0) -> Table:
    """The critic at which every InfoNCE-type loss is at its optimum.

    Implements: Eq. opt-critic (Sec. 3.1); ``constant`` is -log c(s, a), free in each row.
    Deviates: no.

    Args:
        occupancy: ``[S, A, S]``.
        marginal: ``[S]``, positive.
        constant: added to each row; a number or ``[S, A]``.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(occupancy) - np.log(marginal) + np.asarray(constant)[..., None])


def expected_td_infonce(
    mdp: Mdp, policy: Table, discount: float, marginal: Table, logits: ArrayLike, target_logits: ArrayLike
) -> Array:
    """`tdinfonce.losses.td_infonce` with candidates in exact proportion and all transitions in their exact weight.

    Implements: Eq. td-infonce-expectation-ce (App. A), up to terms that do not depend on ``logits``: the cross
    entropy between one application of the InfoNCE Bellman operator to the target's classifier and the classifier.
    Deviates: no.

    Args:
        mdp: the world.
        policy: ``[S, A]``.
        discount: below 1.
        marginal: ``[S]``, distribution of the candidates.
        logits: ``[S, A, S]``, the critic that gets the gradient.
        target_logits: ``[S, A, S]``, the critic that predicts the future of the next state.

    Returns:
        ``[S, A]``, the loss of each state-action.
    """
    states, actions = mdp.n_states, mdp.n_actions
    pairs = states * actions
    chain = np.einsum("xt,ta->xta", mdp.transition.reshape(pairs, states), policy).reshape(pairs, pairs)
    pair, next_pair = np.nonzero(chain)
    rows = jnp.reshape(jnp.asarray(logits), (pairs, states))[pair]
    losses = td_infonce(
        rows,
        rows,
        jnp.reshape(jnp.asarray(target_logits), (pairs, states))[next_pair],
        discount=discount,
        positive=next_pair // actions,
        next_counts=marginal,
        random_counts=marginal,
    )
    weighted = jnp.zeros(pairs, losses.dtype).at[pair].add(chain[pair, next_pair] * losses)
    return weighted.reshape(states, actions)
