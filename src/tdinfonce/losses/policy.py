"""Objectives of a policy, as losses of arrays."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses.contrastive import infonce

__all__ = ["cloning", "goal_infonce", "maximise"]


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


def _rows(name: str, value: ArrayLike) -> Array:
    array = jnp.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} must hold one number for each row, [B]; got shape {list(array.shape)}")
    return array
