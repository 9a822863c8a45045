"""The loss of the paper: InfoNCE whose positives are one real next state and a bootstrapped future."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tdinfonce.losses.contrastive import as_matrix, infonce, log_normaliser, with_counts

__all__ = ["importance_weights", "td_infonce"]


def importance_weights(target_logits: ArrayLike, *, counts: ArrayLike | None = None) -> Array:
    """How likely each candidate is to be the future of each row, as the target critic sees it.

    Implements: Eq. importance-weight (Sec. 3.2); with `counts` the candidates of one column are summed.
    Deviates: the factor N is left out, so rows sum to 1 (see `td_infonce`). No gradient flows through.

    Args:
        target_logits: ``[B, B]`` (or ``[B, M]``), target critic at the next state and next action of each row.
        counts: ``[M]``, how many candidates of the batch each column stands for. Default: one.

    Returns:
        ``[B, B]`` (or ``[B, M]``), rows sum to 1.
    """
    logits = as_matrix("target_logits", target_logits, square=counts is None)
    return jax.lax.stop_gradient(jax.nn.softmax(with_counts(logits, counts), axis=1))


def td_infonce(
    next_logits: ArrayLike,
    random_logits: ArrayLike,
    target_logits: ArrayLike,
    *,
    discount: ArrayLike,
    positive: ArrayLike | None = None,
    next_counts: ArrayLike | None = None,
    random_counts: ArrayLike | None = None,
) -> Array:
    """InfoNCE on the next state, and on the futures that the target critic predicts from there.

    For row i with state-action x_i, next state s'_i and next action a'_i::

        (1 - discount) * CE(next_logits[i], i)  +  discount * CE(random_logits[i], softmax(target_logits[i]))

    Implements: Eq. td-infonce (Sec. 3.2) as Algorithm 1 and Eq. ce-negative compute it.
    Deviates: (1) the sign: we minimise. (2) Without the factor N in the weights: the equation draws *one* positive
    future with weight N·softmax; averaging it over the N columns that serve as that draw cancels N. With N and a
    summed cross entropy the bootstrap would outweigh the real data N-fold. (3) The negatives of the first term are
    the other next states of the batch, as in the release, where the equation has draws of the marginal.

    Args:
        next_logits: ``[B, B]``, critic at (x_i, next state of row j).
        random_logits: ``[B, B]``, critic at (x_i, random state j).
        target_logits: ``[B, B]``, target critic at ((s'_i, a'_i), random state j). Gets no gradient.
        discount: a number, or ``[B]`` with one for each row (0 for a row that must not bootstrap).
        positive: ``[B]`` integers, column of each row's next state when ``next_logits`` is ``[B, M]`` with grouped
            columns. Default: the diagonal.
        next_counts: ``[M]``, how many candidates each column of ``next_logits`` stands for. Default: one.
        random_counts: the same for the columns of ``random_logits`` and ``target_logits``.

    Returns:
        ``[B]``, the loss of each row.
    """
    random = as_matrix("random_logits", random_logits, square=random_counts is None)
    target = as_matrix("target_logits", target_logits, square=random_counts is None)
    following = as_matrix("next_logits", next_logits, square=positive is None)
    if random.shape != target.shape or following.shape[0] != random.shape[0]:
        raise ValueError(
            "next_logits, random_logits and target_logits must have the same rows, and the last two the same columns; "
            f"got shapes {list(following.shape)}, {list(random.shape)} and {list(target.shape)}"
        )
    gamma = as_discount(discount, random.shape[0])
    weights = importance_weights(target, counts=random_counts)
    bootstrap = log_normaliser(random, random_counts) - jnp.sum(weights * random, axis=1)
    return (1 - gamma) * infonce(following, positive=positive, counts=next_counts) + gamma * bootstrap


def as_discount(discount: ArrayLike, rows: int) -> Array:
    """Return ``discount`` as a scalar or one number for each row."""
    gamma = jnp.asarray(discount, dtype=jnp.result_type(float))
    if gamma.shape not in ((), (rows,)):
        raise ValueError(f"discount must be a number or one for each row, [{rows}]; got shape {list(gamma.shape)}")
    return gamma
