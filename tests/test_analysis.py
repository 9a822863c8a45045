"""Numbers read off curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdinfonce.analysis.curves import deviation, size_to_reach
from tdinfonce.analysis.tabular import Results, efficiency_factors, factor, factors_at_one_step_size, markdown_table
from tdinfonce.runs.folder import RunFolder


def test_a_power_law_is_inverted_exactly():
    sizes = np.array([1e3, 1e4, 1e5, 1e6])
    errors = 3 * sizes**-0.5
    assert size_to_reach(sizes, errors, 3 * 2e4**-0.5) == pytest.approx(2e4)
    assert size_to_reach(sizes[::-1], errors[::-1], 3 * 2e4**-0.5) == pytest.approx(2e4)


def test_out_of_reach_and_already_there():
    assert size_to_reach([10, 100], [0.2, 0.1], 0.05) == float("inf")
    assert size_to_reach([10, 100], [0.2, 0.1], 0.3) == 0
    with pytest.raises(ValueError, match="positive"):
        size_to_reach([10], [0.1], 0.0)


@given(st.lists(st.floats(1e-4, 1), min_size=2, max_size=6), st.floats(1e-4, 1))
def test_the_answer_lies_where_the_curve_first_crosses(errors, level):
    sizes = np.logspace(3, 7, len(errors))
    found = size_to_reach(sizes, errors, level)
    if 0 < found < float("inf"):
        assert np.all(np.array(errors)[sizes < found * 0.999] > level * 0.999)
        assert np.interp(np.log(found), np.log(sizes), np.log(errors)) == pytest.approx(np.log(level), abs=1e-6)


def results(tmp_path, ours, baseline):
    folder = RunFolder.create(tmp_path / "run", {})
    for method, error in (("td-infonce", ours), ("successor", baseline)):
        for size in (100, 1_000, 10_000):
            row = {"method": method, "discount": 0.9, "size": size, "seed": 0}
            evaluated = {"phase": "evaluate", "regime": "constant", "step": 10, "error": error(size)}
            folder.log(row | evaluated)
            folder.log(row | {"phase": "tune", "learning_rate": 0.1, "constant": error(size), "averaged": 1.0})
    return Results(folder.path)


@pytest.mark.parametrize(
    ("ours", "baseline", "expected"),
    [
        # Ours 2 / sqrt(n); the baseline's 0.08 at 10,000 is ours at 625: 16 times less.
        (lambda n: 2 * n**-0.5, lambda n: 0.08, 16.0),
        (lambda n: 0.1, lambda n: 0.05, 0.0),
        (lambda n: 0.1, lambda n: 0.2, float("inf")),
    ],
)
def test_efficiency_factors_by_hand(tmp_path, ours, baseline, expected):
    found = results(tmp_path, ours, baseline)
    factors = efficiency_factors(found, 0.9, "constant", ["successor"])
    assert factors == {"successor": pytest.approx(expected)}
    text = factors_at_one_step_size(found, 0.9, "constant", ["successor"])
    assert f"| 0.1 | {factor(expected)} |" in text


def test_factors_in_words():
    assert [factor(x) for x in (0.0, float("inf"), 4.21, 1234.5)] == [
        "never",
        "from the smallest size on",
        "4.2×",
        "1,234×",
    ]


def test_markdown_table():
    assert markdown_table(["a", "b"], [[1, "x"]]) == "| a | b |\n|---|---|\n| 1 | x |\n"


def test_the_deviation_is_that_of_a_sample():
    assert deviation([1.0, 3.0]) == pytest.approx(2**0.5)
    assert deviation([4.0]) == 0.0
    np.testing.assert_allclose(deviation([[1.0, 0.0], [3.0, 0.0], [5.0, 3.0]]), [2.0, 3**0.5])
