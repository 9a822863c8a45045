"""Losses of scalar value functions."""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

__all__ = ["expectile", "td_error"]


def td_error(
    value: ArrayLike,
    reward: ArrayLike,
    next_value: ArrayLike,
    *,
    discount: ArrayLike,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Squared distance of a value to ``clip(reward + discount * next_value, low, high)``.

    Implements: the critic of DDPG+HER (the baseline of Sec. 4.1); with rewards -1 and 0 the return lies in
    [-1 / (1 - discount), 0], and clipping the target to it keeps early values from running away. Without bounds, the
    critic of IQL and TD3+BC.
    Deviates: no.

    Args:
        value: ``[B]``, Q at each row's state, action and goal.
        reward: ``[B]``.
        next_value: ``[B]``, target Q at the next state. Gets no gradient.
        discount: a number, or ``[B]`` with one for each row (0 where the episode ends).
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


def expectile(value: ArrayLike, target: ArrayLike, *, level: float, advantage: ArrayLike | None = None) -> Array:
    """Squared distance of a value to its target, weighted by ``level`` below the target and ``1 - level`` above it.

    Its minimiser is an expectile of the targets: their mean at level 0.5, almost their largest at level 1.

    Implements: the state value of IQL (the baseline of the offline table); with ``advantage``, that of HIQL.
    Deviates: no.

    Args:
        value: ``[B]``, V at each row's state.
        target: ``[B]``, Q at the same state and the stored action. Gets no gradient.
        level: above 0 and below 1.
        advantage: ``[B]``, judges in the place of ``target - value``: the weight is ``level`` where it is not negative.

    Returns:
        ``[B]``, the loss of each row.
    """
    now, aim = jnp.asarray(value), jax.lax.stop_gradient(jnp.asarray(target))
    if now.ndim != 1 or now.shape != aim.shape:
        raise ValueError(
            "value and target must hold one number for each row, [B]; "
            f"got shapes {list(now.shape)} and {list(aim.shape)}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; got {level}")
    below = now < aim if advantage is None else jnp.asarray(advantage) >= 0
    if below.shape != now.shape:
        raise ValueError(f"advantage must hold one number for each row, [B]; got shape {list(below.shape)}")
    return jnp.where(below, level, 1 - level) * jnp.square(aim - now)
