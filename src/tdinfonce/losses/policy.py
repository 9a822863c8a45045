"""Objectives of a policy, as losses of arrays."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses.contrastive import infonce

__all__ = ["advantage_weighted", "cloning", "cloning_error", "goal_infonce", "maximise"]


def goal_infonce(goal_logits: ArrayLike) -> Array:
    """InfoNCE over goals: the action of row i should make goal i likelier than the other goals of the batch.

    Implements: the actor's objective of Algorithm 1 (Sec. 3.3), which maximises the log-ratio of the goal's
    occupancy with its normaliser estimated on the batch.
    Deviates: the sign (the paper maximises, we minimise).

    Args:
        goal_logits: ``[B, B]``, critic at (state i, the policy's action i, goal i; goal j).

    Returns:
        ``[B]``, the loss of each row.
    """
    return infonce(goal_logits)


def maximise(value: ArrayLike) -> Array:
    """The negated value: minimising it maximises a logit, a classifier or a Q function.

    Implements: the actor of contrastive RL, C-learning and DDPG (the baselines of Sec. 4.1).
    Deviates: no.

    Args:
        value: ``[B]``, critic at each row's state, policy action and goal.

    Returns:
        ``[B]``, the loss of each row.
    """
    return -_rows("value", value)


def cloning(log_prob: ArrayLike) -> Array:
    """Negative log-likelihood of the actions in the data.

    Implements: goal-conditioned behavioural cloning (the baseline of Sec. 4.1).
    Deviates: no.

    Args:
        log_prob: ``[B]``, log-density of each row's stored action.

    Returns:
        ``[B]``, the loss of each row.
    """
    return -_rows("log_prob", log_prob)


def cloning_error(action: ArrayLike, stored: ArrayLike) -> Array:
    """Mean squared difference between the policy's action and the action in the data.

    Implements: the regulariser of the offline objective (App. offline-details), and the loss of DT and TD3+BC.
    Deviates: (1) the sign: the paper's display adds the distance to what it maximises. (2) The mean over the action's
    dimensions, as in the release; the display has their sum, so multiply by their number for the paper's.

    Args:
        action: ``[B, action_size]``, of the policy.
        stored: the same shape, in the data. Gets no gradient.

    Returns:
        ``[B]``, the loss of each row.
    """
    ours, theirs = jnp.asarray(action), jnp.asarray(stored)
    if ours.ndim != 2 or ours.shape != theirs.shape:
        raise ValueError(
            "action and stored must both be one action for each row, [B, action_size]; "
            f"got shapes {list(ours.shape)} and {list(theirs.shape)}"
        )
    return jnp.mean(jnp.square(ours - jax.lax.stop_gradient(theirs)), axis=1)


def advantage_weighted(
    log_prob: ArrayLike, advantage: ArrayLike, *, sharpness: float, max_weight: float = 100.0
) -> Array:
    """Negative log-likelihood of the actions in the data, the better ones weighted more.

    The weight of a row is ``min(exp(sharpness * advantage), max_weight)``.

    Implements: the policy of IQL (the baseline of the offline table); ``sharpness`` is its inverse temperature β.
    Deviates: no.

    Args:
        log_prob: ``[B]``, log-density of each row's stored action.
        advantage: ``[B]``, how much better than usual that action is. Gets no gradient.
        sharpness: 0 is plain cloning; the larger, the more only the best actions count.
        max_weight: weights are clipped to this.

    Returns:
        ``[B]``, the loss of each row.
    """
    likelihood, better = _rows("log_prob", log_prob), _rows("advantage", advantage)
    if likelihood.shape != better.shape:
        raise ValueError(f"log_prob and advantage differ: shapes {list(likelihood.shape)} and {list(better.shape)}")
    # The minimum before the exponential: it cannot overflow.
    weight = jnp.exp(jnp.minimum(sharpness * better, jnp.log(max_weight)))
    return -jax.lax.stop_gradient(weight) * likelihood


def _rows(name: str, value: ArrayLike) -> Array:
    array = jnp.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} must hold one number for each row, [B]; got shape {list(array.shape)}")
    return array
