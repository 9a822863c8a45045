"""Index arithmetic of goal relabelling. Nothing here can leave an episode: offsets are bounded by the steps left."""

import numpy as np

__all__ = ["geometric_offset", "uniform_offset"]


def geometric_offset(uniform: np.ndarray, left: np.ndarray, discount: float) -> np.ndarray:
    """Draw k in 1..left with probability proportional to ``discount ** k``, by inversion.

    Args:
        uniform: draws from [0, 1).
        left: how many later states the episode still has, at least 1, same shape.
        discount: 0 always gives 1; 1 is the uniform law.
    """
    if discount <= 0:
        return np.ones_like(left)
    if discount >= 1:
        return uniform_offset(uniform, left)
    log = np.log(discount)
    # The mass of the first k offsets is (1 - discount^k) / (1 - discount^left).
    # Few different values of `left` occur, so a table is cheaper than one exponential for each draw.
    # numpy's log is several times as fast as its log1p, and exact enough in double precision.
    table = np.expm1(np.arange(int(left.max()) + 1) * log)
    offset = 1 + (np.log(1 + uniform * table[left]) * (1 / log)).astype(left.dtype)
    return np.minimum(offset, left)


def uniform_offset(uniform: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Draw k in 1..left uniformly."""
    return np.minimum(1 + (uniform * left).astype(left.dtype), left)
