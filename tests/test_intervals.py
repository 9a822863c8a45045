"""Statistics of few runs: by hand, and by what must hold for any sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdinfonce.analysis.statistics import Estimate, interquartile_mean, probability_of_improvement, trimmed_mean

SAMPLES = st.lists(st.floats(-100, 100), min_size=2, max_size=8)


def test_the_interquartile_mean_by_hand():
    assert trimmed_mean([1, 2, 3]) == 2  # nothing to leave out
    assert trimmed_mean([0, 1, 3, 100]) == 2
    assert trimmed_mean([100, 1, 2, 6, 0]) == 3
    assert trimmed_mean(np.arange(8)) == 3.5
    np.testing.assert_array_equal(trimmed_mean([[0, 1, 3, 100], [4, 4, 4, 0]]), [2, 4])
    assert interquartile_mean([[0, 1], [3, 100]]).value == 2, "the runs of all tasks together"


def test_the_probability_of_improvement_by_hand():
    # Pairs: 3 > 1, 3 > 2, 2 > 1, and 2 = 2, which counts half.
    assert probability_of_improvement([[3, 2]], [[1, 2]]).value == 3.5 / 4
    # The mean over tasks: 1 on the first, 0 on the second.
    assert probability_of_improvement([[5, 6], [0, 0]], [[1, 2, 3], [7, 8]]).value == 0.5


def test_the_interval_of_two_runs_is_the_law_of_two_draws():
    # Two draws of {0, 1} have mean 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    assert interquartile_mean([[0, 1]]) == Estimate(0.5, 0.0, 1.0)
    assert interquartile_mean([[0, 1]], level=0.4) == Estimate(0.5, 0.5, 0.5)


def test_the_interval_has_the_width_of_the_central_limit():
    values = np.random.default_rng(1).normal(size=40)
    kept = np.sort(values)[10:30]
    found = interquartile_mean([values])
    assert found.value == pytest.approx(kept.mean())
    assert found.low is not None
    assert found.high is not None
    # The standard error of a trimmed mean: the winsorised deviation over (1 - 2 · 1/4) sqrt(n).
    error = np.clip(values, kept[0], kept[-1]).std(ddof=1) / (0.5 * 40**0.5)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.25)


def test_strata_lend_each_other_no_runs():
    # Within a task all runs are equal, so that nothing can vary; pooled, it would.
    assert interquartile_mean([[0, 0, 0], [1, 1, 1]]) == Estimate(0.5, 0.5, 0.5)
    assert probability_of_improvement([[1, 1], [5, 5]], [[0, 0], [9, 9]]) == Estimate(0.5, 0.5, 0.5)


def test_one_run_gives_no_interval():
    assert interquartile_mean([[0.3]]) == Estimate(0.3, None, None)
    assert interquartile_mean([[0.1, 0.2], [0.3]]).low is None
    assert probability_of_improvement([[0.3, 0.4]], [[0.2]]) == Estimate(1.0, None, None)
    assert Estimate(0.3).text(2) == "0.30 (no interval)"
    assert Estimate(0.95, 0.9, 1).text(2) == "0.95 [0.90, 1.00]"


@settings(max_examples=25, deadline=None)
@given(SAMPLES, SAMPLES, st.randoms(use_true_random=False))
def test_any_sample(ours, theirs, random):
    found, chance = interquartile_mean([ours, theirs]), probability_of_improvement([ours, theirs], [theirs, ours])
    for estimate, least, most in ((found, min(ours + theirs), max(ours + theirs)), (chance, 0, 1)):
        assert least - 1e-9 <= estimate.low <= estimate.high <= most + 1e-9
    assert probability_of_improvement([ours], [theirs]).value == pytest.approx(
        1 - probability_of_improvement([theirs], [ours]).value
    )
    shuffled = random.sample(ours, len(ours)), random.sample(theirs, len(theirs))
    assert interquartile_mean(shuffled[::-1]) == found
    assert probability_of_improvement(shuffled, shuffled[::-1]) == chance
    constant = interquartile_mean([[ours[0]] * len(ours)])
    assert constant.low == constant.high == pytest.approx(ours[0])


@pytest.mark.parametrize("strata", [[], [[]], [[1.0, float("nan")]], [[[1.0]]]])
def test_what_is_no_sample_is_refused(strata):
    with pytest.raises(ValueError, match="stratum"):
        interquartile_mean(strata)


def test_the_sides_have_the_same_tasks():
    with pytest.raises(ValueError, match="same tasks; got 1 and 2"):
        probability_of_improvement([[1]], [[1], [2]])
