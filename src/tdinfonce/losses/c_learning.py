"""C-learning: the binary, pairwise relative of TD InfoNCE."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses.td_infonce import as_discount

__all__ = ["c_learning"]


def c_learning(
    next_logits: ArrayLike,
    random_logits: ArrayLike,
    target_logits: ArrayLike,
    *,
    discount: ArrayLike,
    max_weight: float = 20.0,
) -> Array:
    """Binary cross entropy on pairs, with the random state's positive share given by the target classifier.

    For pair i, with ``w = min(exp(target_logits[i]), max_weight)``::

        (1 - discount) * BCE(next_logits[i], 1) + discount * w * BCE(random_logits[i], 1) + BCE(random_logits[i], 0)

    Implements: C-learning (the TD baseline of Sec. 4.3 and App. td-infonce-vs-c-learning), whose optimum is
    ``log p(u|x) - log p(u)``.
    Deviates: no; this is the form on which the paper's authors build (one random state for each row).

    Args:
        next_logits: ``[B]``, critic at (x_i, next state of row i).
        random_logits: ``[B]``, critic at (x_i, random state of row i).
        target_logits: ``[B]``, target critic at ((s'_i, a'_i), the same random state). Gets no gradient.
        discount: a number, or ``[B]`` with one for each row.
        max_weight: the odds of the target classifier are clipped to this; early in training they explode.

    Returns:
        ``[B]``, the loss of each pair.
    """
    following, random, target = (jnp.asarray(x) for x in (next_logits, random_logits, target_logits))
    if not (following.ndim == 1 and following.shape == random.shape == target.shape):
        raise ValueError(
            "next_logits, random_logits and target_logits must be pairs of one batch, [B] each; "
            f"got shapes {list(following.shape)}, {list(random.shape)} and {list(target.shape)}"
        )
    if not max_weight > 0:
        raise ValueError(f"max_weight must be positive; got {max_weight}")
    gamma = as_discount(discount, following.shape[0])
    weight = jax.lax.stop_gradient(jnp.exp(jnp.minimum(target, jnp.log(max_weight))))
    positive, negative = jax.nn.softplus(-random), jax.nn.softplus(random)
    return (1 - gamma) * jax.nn.softplus(-following) + gamma * weight * positive + negative
