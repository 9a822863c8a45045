"""Numbers read off curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdinfonce.analysis.curves import size_to_reach
from tdinfonce.analysis.tabular import Results, efficiency_factors, markdown_table
from tdinfonce.training.run_folder import RunFolder


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


def test_efficiency_factor_by_hand(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {})
    for method, exponent in (("td-infonce", -0.5), ("successor", -0.25)):
        for size in (100, 10_000):
            for seed in (0, 1):
                row = {"phase": "evaluate", "method": method, "regime": "constant", "discount": 0.9, "size": size}
                folder.log(row | {"seed": seed, "step": 10, "error": float(size**exponent)})
    # The baseline has 0.1 at 10,000; ours has 0.1 at 100, which is its smallest size: at or before it.
    assert efficiency_factors(Results(folder.path), 0.9, "constant", ["successor"]) == {"successor": float("inf")}


def test_markdown_table():
    assert markdown_table(["a", "b"], [[1, "x"]]) == "| a | b |\n|---|---|\n| 1 | x |\n"
