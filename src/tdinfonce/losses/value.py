"""Losses of scalar value functions."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

__all__ = ["td_error"]


def td_error(
    value: ArrayLike, reward: ArrayLike, next_value: ArrayLike, *, discount: ArrayLike, low: float, high: float
) -> Array:
    """Squared distance of a value to ``clip(reward + discount * next_value, low, high)``.

    Implements: the critic of DDPG+HER (the baseline of Sec. 4.1); with rewards -1 and 0 the return lies in
    [-1 / (1 - discount), 0], and clipping the target to it keeps early values from running away.
    Deviates: no.

    Args:
        value: ``[B]``, Q at each row's state, action and goal.
        reward: ``[B]``.
        next_value: ``[B]``, target Q at the next state. Gets no gradient.
        discount: a number, or ``[B]`` with one for each row.
        low: smallest possible return.
        high: largest possible return.

    Returns:
        ``[B]``, the loss of each row.
    """
    now, gain, later = jnp.asarray(value), jnp.asarray(reward), jnp.asarray(next_value)
    if not (now.ndim == 1 and now.shape == gain.shape == later.shape):
        raise ValueError(
            "value, reward and next_value must hold one number for each row, [B]; "
            f"got shapes {list(now.shape)}, {list(gain.shape)} and {list(later.shape)}"
        )
    target = jnp.clip(gain + jnp.asarray(discount) * later, low, high)
    return jnp.square(now - jax.lax.stop_gradient(target))
