"""Known processes: exact answers against simulation, cutting, and the bound on mutual information."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tables import assert_same_numbers
from tdinfonce.cli import main
from tdinfonce.estimate.information import GaussianChain, GridWalk, infonce_bound
from tdinfonce.estimate.processes import PROCESSES, cut, horizon

STORED = Path(__file__).parents[1] / "results" / "estimate"


@pytest.mark.parametrize("name", ["ornstein-uhlenbeck", "double-well", "ring"])
def test_the_exact_answer_is_what_a_long_series_does(name):
    """The middle start, approximated by all rows close to it."""
    process, discount = PROCESSES[name], 0.9
    near, bins = process.truth(discount)
    assert np.allclose(bins.sum(axis=1), 1)
    assert (bins >= 0).all()
    series = process.simulate(200_000, np.random.default_rng(0))
    ahead = horizon(discount)
    rows = np.flatnonzero(np.linalg.norm(series[:-ahead] - process.starts[2], axis=1) < 0.05)
    assert len(rows) > 2_000
    close = np.linalg.norm(series[:, None] - process.places, axis=2) <= process.radius
    where = np.eye(bins.shape[1])[process.bin(series)]
    chance = (1 - discount) * discount ** np.arange(ahead)
    assert np.abs(sum(p * close[rows + k + 1].mean(axis=0) for k, p in enumerate(chance)) - near[2]).max() < 0.012
    assert np.abs(sum(p * where[rows + k + 1].mean(axis=0) for k, p in enumerate(chance)) - bins[2]).sum() < 0.06


def test_the_pendulum_is_simulated_from_its_starts():
    near, bins = PROCESSES["pendulum"].truth(0.5)
    assert np.allclose(bins.sum(axis=1), 1)
    assert (near.argmax(axis=1) == np.arange(5)).all()  # with so short a horizon it is still close to where it began


def test_pieces_hold_the_rows_in_order_and_nothing_crosses_a_cut():
    from tdinfonce.estimate._sessions import read_sessions
    from tdinfonce.estimate.series import TDInfoNCE

    series = np.arange(23.0)[:, None]
    pieces = cut(series, 5)
    assert [piece[0, 0] for piece in pieces] == [0, 5, 10, 15]
    assert np.array_equal(np.concatenate(pieces), series[:20])
    sessions = read_sessions(TDInfoNCE(), pieces, None, reset=True)
    before, after = sessions.rows[sessions.moments, 0], sessions.rows[sessions.moments + 1, 0]
    assert (after == before + 1).all()
    assert not set(before) & {4, 9, 14, 19}
    assert len(before) == 16


def test_mutual_information_of_a_gaussian_in_closed_form():
    """With a discount near 0 the later state is the next one: -½ log(1 - a²) for each dimension."""
    chain = GaussianChain(0.8, 3, 1e-9)
    assert chain.exact() == pytest.approx(-1.5 * np.log(1 - 0.8**2), abs=0.02)
    assert GaussianChain(0.0, 3, 0.9).exact() == pytest.approx(0, abs=1e-9)


def test_mutual_information_of_the_grid_by_counting():
    """With discount 0 the later cell is one of few: log of the cells less the entropy of a step."""
    law = GridWalk(0.0).later()
    entropy = -np.mean([sum(p * np.log(p) for p in row if p > 0) for row in law])
    assert GridWalk(0.0).exact() == pytest.approx(np.log(len(law)) - entropy)


def test_the_bound_is_below_the_truth_and_below_its_ceiling(rng):
    for world in (GaussianChain(0.95, 4, 0.8), GridWalk(0.5)):
        first, second = world.pairs(1_500, rng)
        logits = world.log_ratio(first[:, None], second[None])
        exact, low, high = world.exact(), *(infonce_bound(logits, count, rng) for count in (4, 256))
        assert low <= np.log(4)
        assert low < high < exact + 0.1
        assert high > exact - 0.25
        shifted = logits + rng.normal(size=(len(logits), 1))  # the constant of a row is free
        one, other = (infonce_bound(x, 64, np.random.default_rng(1)) for x in (logits, shifted))
        assert one == pytest.approx(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["known-process", "mutual-information"])
def test_smoke(name, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["reproduce", name, "--budget", "smoke", "--out", str(out)]) == 0
    assert str(out / "figure.png") in capsys.readouterr().out
    assert json.loads((out / "config.json").read_text())["experiment"] == name
    assert (out / "COMPLETE").is_file()


@pytest.mark.parametrize("name", ["known-process", "mutual-information"])
def test_the_table_in_the_repository_comes_from_the_figures_beside_it(name, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("config.json", "metrics.jsonl", "versions.json", "COMPLETE"):
        shutil.copy(STORED / name / file, copy)
    assert main(["report", str(copy)]) == 0
    assert_same_numbers(copy / "table.md", STORED / name / "table.md")
