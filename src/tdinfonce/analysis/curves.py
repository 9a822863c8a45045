"""Numbers read off curves."""

from collections.abc import Sequence

import numpy as np

__all__ = ["size_to_reach"]


def size_to_reach(sizes: Sequence[float], errors: Sequence[float], level: float) -> float:
    """The size at which an error curve comes down to ``level``, interpolated in logarithms.

    Returns:
        The size; 0 if the curve starts at or below the level (the true size is smaller than measured);
        infinity if it never comes down to it.
    """
    if len(sizes) != len(errors) or len(sizes) == 0 or min(errors) <= 0 or level <= 0:
        raise ValueError("sizes and errors must be as many, at least one, and positive like the level")
    order = np.argsort(sizes)
    x, y = np.log(np.asarray(sizes, float)[order]), np.log(np.asarray(errors, float)[order])
    goal = np.log(level)
    if y[0] <= goal:
        return 0.0
    below = np.nonzero(y <= goal)[0]
    if len(below) == 0:
        return float("inf")
    right = below[0]
    share = (y[right - 1] - goal) / (y[right - 1] - y[right])
    return float(np.exp(x[right - 1] + share * (x[right] - x[right - 1])))
