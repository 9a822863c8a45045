"""The paper's analysis in numbers: the optimal critic, and the loss with its expectations taken exactly."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses import infonce, td_infonce
from tdinfonce.tabular.mdp import Mdp, Table, check_discount

__all__ = ["expected_mc_infonce", "expected_td_infonce", "n_step_occupancy", "optimal_logits"]


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


def expected_mc_infonce(occupancy: Table, marginal: Table, logits: ArrayLike) -> Array:
    """`tdinfonce.losses.infonce` with candidates in exact proportion and all futures in their exact weight.

    Implements: Eq. mc-infonce (Sec. 3.1) in expectation, up to terms that do not depend on ``logits``. At the optimal
    critic it equals `expected_td_infonce`, whose futures are the target's.
    Deviates: no.

    Args:
        occupancy: ``[S, A, S]``, distribution of each row's positive.
        marginal: ``[S]``, distribution of the candidates.
        logits: ``[S, A, S]``, the critic.

    Returns:
        ``[S, A]``, the loss of each state-action.
    """
    states = occupancy.shape[-1]
    pairs = occupancy.size // states
    rows = jnp.repeat(jnp.reshape(jnp.asarray(logits), (pairs, states)), states, axis=0)
    losses = infonce(rows, positive=np.tile(np.arange(states), pairs), counts=marginal)
    return jnp.sum(occupancy * losses.reshape(occupancy.shape), axis=-1)


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


def n_step_occupancy(mdp: Mdp, behaviour: Table, policy: Table, discount: float, n: int) -> Table:
    """What n-step TD InfoNCE converges to when ``behaviour`` made the data and ``policy`` is asked about.

    The first n states of the future are those of the data, and only behind them does the policy act:

        p_n = (1 - γ) Σ_{k=1..n} γ^(k-1) P B^(k-1) + γ^n P B^(n-1) Π p_n,

    with P the step, B one step of the behaviour and Π the policy's choice. n = 1 is `exact_occupancy` of the policy;
    n without end is that of the behaviour.

    Returns:
        ``[S, A, S]``, rows sum to 1.
    """
    check_discount(discount)
    if n < 1:
        raise ValueError(f"n must be at least 1; got {n}")
    step = np.einsum("sa,sat->st", behaviour, mdp.transition)
    reached, near = mdp.transition, np.zeros_like(mdp.transition)
    for k in range(n):
        near = near + (1 - discount) * discount**k * reached
        if k + 1 < n:
            reached = reached @ step
    # Seen from a state: q = Π p_n solves q = Π near + γ^n (Π reached) q.
    choose = np.einsum("sa,sat->st", policy, reached)
    following = np.linalg.solve(np.eye(mdp.n_states) - discount**n * choose, np.einsum("sa,sat->st", policy, near))
    return np.asarray(near + discount**n * reached @ following)
