"""Contrastive losses on a matrix of logits: row i is an anchor, column j a candidate.

By default the candidates are the batch itself: the matrix is square and the positive of row i is column i.
Where many candidates are equal, as in a small discrete world, equal columns can be grouped: pass one column for
each distinct candidate, how often it stands in the batch as ``counts``, and the column of each row's positive
as ``positive``. The loss is the same number at a fraction of the work.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

__all__ = ["binary_nce", "infonce", "logsumexp_penalty", "symmetric_infonce"]


def infonce(logits: ArrayLike, *, positive: ArrayLike | None = None, counts: ArrayLike | None = None) -> Array:
    """Cross entropy of picking each row's positive among all columns.

    Implements: Eq. infonce (Sec. 3.1) and, with futures of the same trajectory as columns, Eq. mc-infonce.
    Deviates: the sign (the paper maximises, we minimise).

    Args:
        logits: ``[B, B]``, positives on the diagonal; or ``[B, M]`` together with ``positive``.
        positive: ``[B]`` integers, the column of each row's positive. Default: the diagonal.
        counts: ``[M]``, how many candidates of the batch each column stands for. Default: one.

    Returns:
        ``[B]``, the loss of each row.
    """
    logits = as_matrix("logits", logits, square=positive is None)
    return log_normaliser(logits, counts) - at_positive(logits, positive)


def symmetric_infonce(logits: ArrayLike) -> Array:
    """Mean of InfoNCE over rows and over columns: each anchor finds its candidate and the other way round.

    Implements: no equation of the paper; the two-way loss common in contrastive learning, here for comparison.
    Deviates: no. It is the mean of the two directions, so its scale is that of `infonce`.

    Args:
        logits: ``[B, B]``, positives on the diagonal.

    Returns:
        ``[B]``, half the loss of row i plus half the loss of column i.
    """
    logits = as_matrix("logits", logits, square=True)
    return (infonce(logits) + infonce(logits.T)) / 2


def binary_nce(logits: ArrayLike) -> Array:
    """Binary cross entropy of telling the positive of each row from the other columns.

    Implements: contrastive RL (NCE), the third baseline of Sec. 4.1. With B - 1 negatives for each positive the
    optimum is ``log p(u|x) - log p(u) - log(B - 1)``.
    Deviates: no. The mean over rows is the mean over all B² entries.

    Args:
        logits: ``[B, B]``, positives on the diagonal.

    Returns:
        ``[B]``, the mean over the columns of each row.
    """
    logits = as_matrix("logits", logits, square=True)
    sign = 2 * jnp.eye(logits.shape[0], dtype=logits.dtype) - 1
    return jnp.mean(jax.nn.softplus(-sign * logits), axis=1)


def logsumexp_penalty(logits: ArrayLike) -> Array:
    """Square of each row's log-sum-exp: pins the constant that InfoNCE leaves free in each row.

    Implements: the regulariser of contrastive RL's InfoNCE critic (the baseline of Sec. 4.1; weight 0.01 there).
    Deviates: no. The weight is the caller's.

    Args:
        logits: ``[B, B]``.

    Returns:
        ``[B]``, the penalty of each row.
    """
    return jnp.square(log_normaliser(as_matrix("logits", logits, square=True), None))


def log_normaliser(logits: Array, counts: ArrayLike | None) -> Array:
    """Log of the sum of exp(logits) over the candidates of each row, equal candidates counted in ``counts``."""
    return jax.nn.logsumexp(with_counts(logits, counts), axis=1)


def at_positive(logits: Array, positive: ArrayLike | None) -> Array:
    """The logit of each row's positive."""
    if positive is None:
        return jnp.diagonal(logits)
    index = jnp.asarray(positive)
    if index.shape != logits.shape[:1] or not jnp.issubdtype(index.dtype, jnp.integer):
        raise ValueError(
            f"positive must hold one integer for each row of logits, [{logits.shape[0]}]; "
            f"got {index.dtype} of shape {list(index.shape)}"
        )
    # A masked sum, since the gradient of an indexed read is a scatter, which is slow on a CPU.
    chosen = index[:, None] == jnp.arange(logits.shape[1])
    return jnp.sum(jnp.where(chosen, logits, 0), axis=1)


def as_matrix(name: str, value: ArrayLike, *, square: bool) -> Array:
    """Return ``value`` as a floating matrix, or say in one line what is wrong with it."""
    matrix = jnp.asarray(value)
    wanted = "[B, B], one row for each anchor and its positive on the diagonal" if square else "a matrix [B, M]"
    if matrix.ndim != 2 or (square and matrix.shape[0] != matrix.shape[1]) or matrix.size == 0:
        raise ValueError(f"{name} must be {wanted}; got shape {list(matrix.shape)}")
    return matrix if jnp.issubdtype(matrix.dtype, jnp.floating) else matrix.astype(jnp.float32)


def with_counts(logits: Array, counts: ArrayLike | None) -> Array:
    """Logits of the groups: n equal candidates weigh as one whose logit is higher by log n; none weigh nothing."""
    if counts is None:
        return logits
    number = jnp.asarray(counts, dtype=logits.dtype)
    if number.shape != logits.shape[1:]:
        raise ValueError(
            f"counts must hold one number for each column of logits, [{logits.shape[1]}]; "
            f"got shape {list(number.shape)}"
        )
    return logits + jnp.log(number)
