"""Jobs in other processes: order, progress and failure."""

import pytest

from tdinfonce.tabular.parallel import run_jobs


def square(number, progress):
    progress(number)
    if number < 0:
        raise ValueError("negative")
    return number * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_with_all_progress(workers):
    done = []
    assert list(run_jobs(square, [(3,), (1,), (2,)], workers, done.append)) == [9, 1, 4]
    assert sorted(done) == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_reaches_the_caller(workers):
    with pytest.raises(ValueError, match="negative"):
        list(run_jobs(square, [(3,), (-1,)], workers, lambda steps: None))
