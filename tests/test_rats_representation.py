"""Linear probes of representations: the map by hand, what it may see, CEBRA's program, and the stored table."""

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tables import assert_same_numbers
from tdinfonce import experiments
from tdinfonce.cli import main
from tdinfonce.errors import UserError
from tdinfonce.estimate import cebra, probe, tracks
from tdinfonce.estimate.probe import Probe, decode, ridge
from tdinfonce.system import venv

STORED = Path(__file__).parents[1] / "results" / "estimate" / "rats-representation"
NOBODY = Path("no-python")
CONFIG = Probe(seconds=(0.2, 0.3))


def test_the_map_by_hand(rng):
    x, y = np.array([[1.0], [3.0]]), np.array([[0.0, 2.0], [4.0, 2.0]])
    # Scaled x is -1 and 1, hence x·x is 2 and the slope 4 / (2 + penalty).
    assert np.allclose(ridge(x, y, np.array([[5.0]]), 0), [[8, 2]])
    assert np.allclose(ridge(x, y, np.array([[5.0]]), 2), [[5, 2]])
    many, other = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    assert np.allclose(ridge(many, many @ [[1.0], [2.0], [0.0]], other, 1e-9), other @ [[1.0], [2.0], [0.0]])


def test_what_is_decoded_is_the_position_ahead_in_the_same_session(rng):
    """Features that are the position 3 rows ahead, where there is one: R² of 1 there, and little elsewhere."""
    sessions = [rng.normal(size=(40, 2)), rng.normal(size=(25, 2))]
    features = [np.concatenate([np.roll(s[5:], -3, axis=0) for s in part]) for part in (sessions, sessions[::-1])]
    found = decode(CONFIG, (features[0], features[1]), sessions, sessions[::-1], 1e-6)
    assert found[1] == pytest.approx(1)
    assert found[0] < 0.5


def test_the_state_beside_features_that_say_nothing(rng):
    """On a line at an even pace the state tells all."""
    line = [np.stack([np.arange(60.0), -np.arange(60.0)], axis=1)]
    noise = rng.normal(size=(55, 4)), rng.normal(size=(55, 4))
    assert max(decode(CONFIG, noise, line, line, 1.0)) < 0.5
    assert min(decode(CONFIG, noise, line, line, 1e-6, beside_state=True)) == pytest.approx(1)


def embed(python: Path, training: np.ndarray, rows: np.ndarray, **settings: object) -> np.ndarray:
    """In CEBRA's place: at each checkpoint the scaled states, with less noise."""
    assert python == NOBODY
    assert np.allclose(training, rows[: len(training)])
    assert np.allclose(training.std(axis=0), 1)
    rng = np.random.default_rng(settings["seed"])
    return np.stack([rows + rng.normal(size=rows.shape) / n for n in settings["iterations"]])


def test_the_experiment_chooses_and_decodes(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.normal(scale=0.1, size=(6_000, 2)), axis=0)
    np.savez(tmp_path / "sargolini.npz", t=np.arange(6_000) / 10, pos=np.sin(steps))
    monkeypatch.setattr(tracks, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(probe, "cebra_python", lambda: NOBODY)
    monkeypatch.setattr(probe, "visible_cores", lambda: 1)
    monkeypatch.setattr(cebra, "embed", embed)
    out = tmp_path / "run"
    assert main(["reproduce", "rats-representation", "--budget", "smoke", "--seeds", "2", "--out", str(out)]) == 0
    assert str(out / "figure.png") in capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    tried = [row for row in rows if row["phase"] == "choose"]
    evaluated = [row for row in rows if row["phase"] == "evaluate"]
    alone = {m: {(r["horizon"], r["amount"]) for r in tried if r["method"] == m} for m in probe.METHODS}
    assert len(alone["td"]) == len(alone["cebra"]) == 2
    assert {(r["method"], r["seed"], r["beside_state"]) for r in evaluated} == {
        (m, seed, beside) for m in probe.METHODS for seed in (0, 1) for beside in (False, True)
    } - {("raw", seed, True) for seed in (0, 1)}
    for one in evaluated:
        same = [r for r in tried if r["method"] == one["method"] and not r["beside_state"]]
        assert one["amount"] == max(same, key=lambda r: np.mean(r["r2"]))["amount"]
    assert next(r["amount"] for r in evaluated if r["method"] == "cebra") == 10  # there the noise is less


def test_every_budget_offers_both_as_many_settings():
    for config in experiments.load("rats-representation").budgets.values():
        assert len(config.updates) == len(config.iterations)


class Cebra:
    """As far as the program needs it: it counts how often it was updated."""

    def __init__(self, **settings: object) -> None:
        self.settings, self.done = settings, 0

    def partial_fit(self, rows: np.ndarray) -> None:
        self.done += self.max_iterations

    def transform(self, rows: np.ndarray) -> np.ndarray:
        return np.full((len(rows), self.settings["output_dimension"]), self.done)


def test_the_program_writes_each_checkpoint(tmp_path, monkeypatch):
    modules = {"cebra": {"CEBRA": Cebra}, "torch": {"set_num_threads": print, "manual_seed": print}}
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)

    def run(what: str, python: Path, program: str, plan: dict) -> None:
        assert python == NOBODY
        assert program == cebra.__file__
        cebra.main(json.loads(json.dumps(plan)))

    monkeypatch.setattr(venv, "run", run)
    settings = {"dim": 3, "hidden": 8, "offset": 10, "batch_size": 16, "iterations": [5, 20, 100], "seed": 1}
    found = cebra.embed(NOBODY, np.zeros((9, 6)), np.zeros((4, 6)), **settings)
    assert found.shape == (3, 4, 3)
    assert found[:, 0, 0].tolist() == [5, 20, 100]


def test_a_failure_of_cebra_is_one_line():
    """This Python has no CEBRA."""
    with pytest.raises(UserError, match=r"^CEBRA failed with code 1: ModuleNotFoundError: No module named 'cebra'$"):
        cebra.embed(Path(sys.executable), np.zeros((9, 6)), np.zeros((4, 6)), seed=0)


def test_the_table_in_the_repository_comes_from_the_figures_beside_it(tmp_path):
    for file in ("config.json", "metrics.jsonl", "versions.json", "COMPLETE"):
        shutil.copy(STORED / file, tmp_path)
    experiments.report(tmp_path)
    assert_same_numbers(tmp_path / "table.md", STORED / "table.md")
