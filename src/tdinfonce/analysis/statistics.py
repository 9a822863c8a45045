"""Statistics of few runs: interquartile means and probabilities of improvement, with bootstrap intervals.

A sample is the runs of one method, as a list of strata: the runs of each task. Resampling keeps to the strata, so no
task ever lends its runs to another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Estimate", "interquartile_mean", "probability_of_improvement", "trimmed_mean"]

Floats = NDArray[np.float64]
RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A statistic and its interval, which a single run does not give."""

    value: float
    """The statistic of the sample itself."""
    low: float | None = None
    """Where the interval begins; None: there is none."""
    high: float | None = None
    """Where it ends."""

    def text(self, digits: int = 3) -> str:
        """``0.950 [0.910, 0.980]``, or the value alone, which says that it has no interval."""
        if self.low is None or self.high is None:
            return f"{self.value:.{digits}f} (no interval)"
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def trimmed_mean(values: ArrayLike) -> Floats:
    """The interquartile mean along the last axis: a quarter of the values, rounded down, is left out at each end.

    Of fewer than four values nothing is left out: it is their mean.
    """
    ordered = np.sort(np.asarray(values, float), axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1))


def interquartile_mean(strata: Sequence[ArrayLike], *, level: float = 0.95, seed: int = 0) -> Estimate:
    """The interquartile mean of all runs, with the percentile interval of a stratified bootstrap.

    Args:
        strata: for each task the values of its runs, in any order.
        level: how much of the bootstrap's distribution the interval holds.
        seed: of the resampling.
    """
    sample = _sorted(strata)
    return _estimate(lambda drawn: trimmed_mean(np.concatenate(drawn, axis=-1)), sample, level, seed)


def probability_of_improvement(
    ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike], *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """The chance that a run of ours has a larger value than one of theirs on the same task; a tie counts half.

    Args:
        ours: for each task the values of our runs, in any order.
        theirs: the same of theirs; tasks in the same order.
        level: how much of the bootstrap's distribution the interval holds.
        seed: of the resampling.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"both sides must have the same tasks; got {len(ours)} and {len(theirs)}")
    pairs = sorted(zip(map(_values, ours), map(_values, theirs), strict=True), key=lambda pair: [*map(tuple, pair)])
    sample = [side for pair in pairs for side in pair]

    def chance(drawn: Sequence[Floats]) -> Floats:
        difference = [a[..., :, None] - b[..., None, :] for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
        return np.mean([((d > 0) + 0.5 * (d == 0)).mean(axis=(-2, -1)) for d in difference], axis=0)

    return _estimate(chance, sample, level, seed)


def _values(values: ArrayLike) -> Floats:
    """One stratum in order, so that the resampling depends on the values alone."""
    array = np.sort(np.asarray(values, float))
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"a stratum is one finite number for each run, and at least one; got {values!r}")
    return array


def _sorted(strata: Sequence[ArrayLike]) -> list[Floats]:
    if not strata:
        raise ValueError("a sample needs at least one stratum")
    return sorted((_values(stratum) for stratum in strata), key=tuple)


def _estimate(
    statistic: Callable[[Sequence[Floats]], Floats], sample: Sequence[Floats], level: float, seed: int
) -> Estimate:
    """The statistic with its interval; none if a stratum has one run, whose spread is unknown."""
    value = float(statistic(sample))
    if min(map(len, sample)) < 2:
        return Estimate(value)
    rng = np.random.default_rng(seed)
    drawn = [stratum[rng.integers(len(stratum), size=(RESAMPLES, len(stratum)))] for stratum in sample]
    low, high = np.quantile(statistic(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))
