"""Losses of a quasimetric that learns the fewest steps between states: pull steps to their cost, push the rest apart.

The distance of two states is the largest number that no chain of seen steps contradicts, so the farthest-apart
embedding in which every step costs at most one is the answer.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

__all__ = ["lagrangian", "latent_dynamics", "local_excess", "push_apart"]


def push_apart(distance: ArrayLike, *, offset: float, sharpness: float) -> Array:
    """Softplus of how far a distance stays below an offset: large distances gain little more.

    Implements: the objective of QRL (the baseline of Sec. 4.1), log(1 + exp(sharpness·(offset - d))) / sharpness.
    Deviates: no.

    Args:
        distance: ``[B]``, from a state to an unrelated goal.
        offset: must exceed most true distances.
        sharpness: 1 / sharpness is the width of the bend.

    Returns:
        ``[B]``, the loss of each row.
    """
    (far,) = _rows(distance=distance)
    return jax.nn.softplus(sharpness * (offset - far)) / sharpness


def local_excess(distance: ArrayLike, cost: ArrayLike, *, tolerance: float) -> Array:
    """Squared amount by which a seen step is longer than its cost, less the squared tolerance: positive if violated.

    Implements: the local constraint of QRL (the baseline of Sec. 4.1), relu(d - cost)² - tolerance².
    Deviates: no; for each row, where QRL writes the mean.

    Args:
        distance: ``[B]``, along one seen step.
        cost: ``[B]``, or one number: what the step costs.
        tolerance: how much longer a step may be, in the root mean square.

    Returns:
        ``[B]``, one number for each row.
    """
    (step,) = _rows(distance=distance)
    return jnp.square(jax.nn.relu(step - jnp.asarray(cost))) - tolerance**2


def lagrangian(excess: ArrayLike, multiplier: ArrayLike) -> Array:
    """A multiplier times the excess of a constraint. Minimising it lowers the excess and *raises* the multiplier.

    Implements: the saddle point of QRL (the baseline of Sec. 4.1) and of a policy with a target entropy. The gradient
    of the multiplier has the opposite sign, so that descent on everything climbs in the multiplier: it grows while
    the constraint is violated (excess > 0) and shrinks while it is slack.
    Deviates: no.

    Args:
        excess: ``[B]``, positive where the constraint is violated.
        multiplier: one number, not negative.

    Returns:
        ``[B]``, the loss of each row.
    """
    (rows,) = _rows(excess=excess)
    weight = jnp.asarray(multiplier)
    return (2 * jax.lax.stop_gradient(weight) - weight) * rows


def latent_dynamics(there: ArrayLike, back: ArrayLike) -> Array:
    """Mean of the squared distances from the predicted to the real next latent and back.

    Implements: the transition loss of QRL (the baseline of Sec. 4.1).
    Deviates: no.

    Args:
        there: ``[B]``, from the predicted to the real point.
        back: ``[B]``, from the real to the predicted point.

    Returns:
        ``[B]``, the loss of each row.
    """
    first, second = _rows(there=there, back=back)
    return (jnp.square(first) + jnp.square(second)) / 2


def _rows(**values: ArrayLike) -> tuple[Array, ...]:
    arrays = tuple(jnp.asarray(value) for value in values.values())
    if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
        shapes = " and ".join(str(list(array.shape)) for array in arrays)
        raise ValueError(f"{' and '.join(values)} must hold one number for each row, [B]; got shape {shapes}")
    return arrays
