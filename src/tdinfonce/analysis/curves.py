"""Numbers read off curves, and the spread over seeds."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["deviation", "over_runs", "size_to_reach"]


def deviation(values: ArrayLike) -> NDArray[np.float64]:
    """Standard deviation along the first axis, of the population that the values are a sample of (n - 1); 0 of one."""
    sample = np.asarray(values, float)
    return sample.std(axis=0, ddof=min(1, len(sample) - 1))


def over_runs(values: Sequence[float], digits: int = 3) -> str:
    """``mean ± standard deviation`` over runs; of one there is no deviation, and of none no mean."""
    spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}" if len(values) else "not finished"


def size_to_reach(sizes: ArrayLike, errors: ArrayLike, level: float) -> float:
    """The size at which an error curve comes down to ``level``, interpolated in logarithms.

    Returns:
        The size; 0 if the curve starts at or below the level (the true size is smaller than measured);
        infinity if it never comes down to it.
    """
    size, error = np.asarray(sizes, float), np.asarray(errors, float)
    if size.shape != error.shape or size.size == 0 or min(size.min(), error.min(), level) <= 0:
        raise ValueError("sizes and errors must be as many, at least one, and positive like the level")
    order = np.argsort(size)
    x, y = np.log(size[order]), np.log(error[order])
    goal = np.log(level)
    if y[0] <= goal:
        return 0.0
    below = np.nonzero(y <= goal)[0]
    if len(below) == 0:
        return float("inf")
    right = below[0]
    share = (y[right - 1] - goal) / (y[right - 1] - y[right])
    return float(np.exp(x[right - 1] + share * (x[right] - x[right - 1])))
