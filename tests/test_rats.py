"""Positions of rats, without the rats: an even pace, cuts, the score by hand, and plain words when it fails."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tables import assert_same_numbers
from tdinfonce import experiments
from tdinfonce.cli import main
from tdinfonce.errors import UserError
from tdinfonce.estimate import rats, successor, tracks
from tdinfonce.estimate.rats import Rats, Successor, Track, later_ratios, options, scores
from tdinfonce.system import venv

STORED = Path(__file__).parents[1] / "results" / "estimate" / "rats"
SMALL = Rats(networks=((16, 4),), updates=(5, 10), cells=(9,), visits=(5, 10), candidates=50, starts=20, discount=0.9)
NOBODY = Path("no-python")


def walk(rows: int, seed: int = 0) -> np.ndarray:
    """Steps that remember the one before, in a box of 1 × 1 m."""
    rng, speed, found = np.random.default_rng(seed), np.zeros(2), [np.full(2, 0.5)]
    for kick in rng.normal(scale=0.02, size=(rows - 1, 2)):
        speed = 0.8 * speed + kick
        found.append(np.clip(found[-1] + speed, 0, 1))
    return np.array(found)


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A walk at 50 rows a second in place of the wheel."""
    for rat in tracks.RATS:
        np.savez(tmp_path / f"{rat}.npz", t=7 + np.arange(20_000) / 50, pos=walk(20_000))
    monkeypatch.setattr(tracks, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(tracks, "python", lambda: NOBODY)
    monkeypatch.setattr(successor, "fit", least_squares)
    return tmp_path


def least_squares(
    python: Path, place: np.ndarray, velocity: np.ndarray, bins: np.ndarray, starts: list[int], **settings: object
) -> np.ndarray:
    """What RatInABox's learner goes to, at once: the fixed point of linear TD."""
    assert python == NOBODY
    assert starts[0] == 0
    basis = (place[:, :, None] * velocity[:, None]).reshape(len(place), -1)
    inside = np.setdiff1d(np.arange(1, len(place)), starts)
    before, after, reward = basis[inside - 1], basis[inside], np.eye(settings["count"])[bins[inside]]
    discount = 1 - settings["dt"] / settings["tau"]
    left = before.T @ (before - discount * after) + 0.1 * np.eye(basis.shape[1])
    weights = np.linalg.solve(left, before.T @ reward).T
    return np.stack([weights] * len(settings["visits"]))


def test_an_even_pace_is_the_mean_of_each_bin_and_bridges_short_gaps():
    times = 3 + np.array([0, 0.02, 0.04, 0.1, 0.12, 0.4])
    positions = np.array([[0, 0], [1, 2], [2, 4], [4, 0], [6, 0], [11, 3]], float)
    found = tracks.even(times, positions, 10)
    assert np.allclose(found, [[1, 2], [5, 0], [7, 1], [9, 2], [11, 3]])


def test_a_pause_ends_a_session(tmp_path):
    times = np.concatenate([np.arange(0, 2, 0.1), np.arange(2.6, 4.05, 0.1)])
    np.savez(tmp_path / "tanni.npz", t=times, pos=np.zeros((len(times), 2)))
    assert [len(s) for s in tracks.read("tanni", tmp_path, 10)] == [20, 15]


def test_halves_keep_the_order():
    sessions = [np.arange(6)[:, None], np.arange(6, 10)[:, None]]
    first, second = tracks.halves(sessions)
    assert [s.ravel().tolist() for s in first] == [[0, 1, 2, 3, 4]]
    assert [s.ravel().tolist() for s in second] == [[5], [6, 7, 8, 9]]
    first, second = tracks.halves(sessions, 0.8)
    assert [s.ravel().tolist() for s in first] == [[0, 1, 2, 3, 4, 5], [6, 7]]
    assert [s.ravel().tolist() for s in second] == [[8, 9]]


def test_a_state_is_a_position_and_its_differences():
    positions = np.stack([np.arange(6.0) ** 2, np.arange(6.0)], axis=1)
    found = tracks.states(positions, (1, 3))
    assert found.tolist() == [[9, 3, 5, 1, 9, 3], [16, 4, 7, 1, 15, 3], [25, 5, 9, 1, 21, 3]]


def test_nothing_crosses_a_cut(rng):
    """Row t lies at (t, t): a step, a difference or a later position across a cut would be longer than it may be."""
    line = np.repeat(np.arange(400.0)[:, None], 2, axis=1)
    track = Track(SMALL, [line], "cut", "mc", (8, 4), rng)
    steps, unscaled = track.steps, track._mean + np.asarray(track.steps.state) * track._scale
    assert np.allclose(unscaled[:, 2:], [1, 1, 5, 5], atol=1e-3)
    row = np.rint(unscaled[:, 0]).astype(int)
    moment, left = np.asarray(steps.moment), np.asarray(steps.left)
    assert (row[moment] // 20 == row[moment + left] // 20).all()
    assert (row[moment + left] % 20 == 19).all()
    assert len(moment) == 20 * 14  # of 20 rows 5 give no state, and the last has no next
    whole = Track(SMALL, [line], "uncut", "mc", (8, 4), rng)
    assert len(whole.steps.moment) == 394


def test_the_ratio_of_a_later_position_by_hand():
    logits = np.log([[1.0, 2.0, 4.0, 8.0], [3.0, 1.0, 6.0, 2.0]])
    by_chance = np.log([[1.0, 3.0], [5.0, 7.0]])  # means 2 and 6
    found = later_ratios(logits, by_chance, np.array([1, 0]), 2)
    assert np.allclose(np.exp(found), [[4 / 2, 8 / 2], [1 / 6, 6 / 6]])
    constant = np.array([[5], [-700]])
    shifted = later_ratios(logits + constant, by_chance + constant, np.array([1, 0]), 2)
    assert np.allclose(found, shifted)  # the constant of a row is free


def test_the_score_by_hand():
    config = replace(SMALL, discount=0.5, chance=0.1)
    found = scores(config, np.log([[2.0, 1.0], [4.0, 0.5]]))
    assert found["score"] == pytest.approx((2 * (np.log(8) / 2) + np.log(0.5) / 2) / 3)
    mixed = [np.log(1.9 * 3.7) / 2, np.log(1.0 * 0.55) / 2]
    assert found["mixed"] == pytest.approx((2 * mixed[0] + mixed[1]) / 3)
    assert found["by_time"] == pytest.approx(mixed, abs=1e-4)


def test_later_rows_are_of_the_same_session(rng):
    """A start needs all rows ahead, and starts of a session are scored with its own rows."""
    track = Track(SMALL, [walk(300)], "uncut", "td", (8, 4), rng).fit(5)
    assert SMALL.ahead == 66
    assert track.ratios([walk(200), walk(40), walk(90)]).shape == (20, 66)
    one, both = track.ratios([walk(73)]), track.ratios([walk(73), walk(40)])
    assert one.shape == (2, 66)
    assert np.allclose(one, both)
    with pytest.raises(UserError, match="66 rows ahead"):
        track.ratios([walk(40)])


def test_td_foresees_a_walk_from_pieces_better_than_monte_carlo():
    config = replace(SMALL, updates=(200,), starts=200, candidates=500, discount=0.95, piece=10)
    sessions = [walk(3_000)]
    found = {}
    for method in rats.METHODS:
        track = Track(config, sessions, "cut", method, (32, 8), np.random.default_rng(0)).fit(1_000)
        found[method] = scores(config, track.ratios([walk(2_000, 1)]))["score"]
    assert found["td"] > 0
    assert found["td"] > found["mc"]


def test_successor_features_of_pieces_foresee_a_walk(monkeypatch):
    """As well as of the whole walk; and no answer is below its share of chance before it is normalised."""
    monkeypatch.setattr(successor, "fit", least_squares)
    config = replace(SMALL, starts=200, candidates=500, discount=0.95)
    found = {}
    for series in rats.SERIES:
        learned = Successor(config, [walk(10_000)], series, 9, np.random.default_rng(0), NOBODY).fit(10)
        found[series] = scores(config, learned.ratios([walk(2_000, 1)]))["score"]
        logits = learned.logits(tracks.states(walk(50, 2), config.lags), walk(500, 3))
        assert logits.min() >= np.log(config.chance)
        assert logits.max() > 1
    assert found["cut"] > 0.5
    assert found["cut"] == pytest.approx(found["uncut"], abs=0.1)


def test_successor_features_show_their_learner_each_piece_once_and_apart(monkeypatch):
    """Rows of a line: within a piece one follows the other, and at every start there is a jump."""
    seen = {}

    def keep(python, place, velocity, bins, starts, **settings):
        seen.update(settings, place=place, velocity=velocity, bins=bins, starts=starts)
        return np.zeros((1, settings["count"], place.shape[1] * velocity.shape[1]))

    monkeypatch.setattr(successor, "fit", keep)
    line = np.stack([np.arange(400.0), np.arange(400.0) / 2], axis=1)
    Successor(replace(SMALL, bins=8), [line], "cut", 18, np.random.default_rng(0), NOBODY).fit(5)
    assert seen["visits"] == [5]
    assert seen["tau"] == pytest.approx(1)  # 10 rows of 0.1 s
    assert seen["starts"] == list(range(0, 20 * 15, 15))  # of 20 rows 5 give no state
    assert seen["count"] == seen["bins"].max() + 1 == 8
    assert np.abs(np.diff(seen["bins"])).max() > 1  # the pieces are shuffled
    inside = np.setdiff1d(np.arange(1, 300), seen["starts"])
    assert np.abs(seen["place"][inside] - seen["place"][inside - 1]).max() < 0.05
    assert np.abs(seen["place"][seen["starts"][1:]] - seen["place"][np.array(seen["starts"][1:]) - 1]).max() > 0.5
    # All move alike, along (2, 1): the cells for that side fire, those for the other do not.
    assert np.allclose(seen["velocity"], seen["velocity"][0])
    assert seen["velocity"][0, 0] == 1
    assert seen["velocity"][0, 1] == pytest.approx(np.exp((np.cos(np.arctan2(1, 2)) - 1) / (np.pi / 4) ** 2))
    assert seen["velocity"][0, 4] < 0.1


class Layer:
    """RatInABox's Neurons, as far as the program needs them."""

    def __init__(self, rat: object, settings: dict) -> None:
        self.n, self.name, self.firingrate = settings["n"], settings["name"], np.zeros(settings["n"])


class Learner:
    """RatInABox's rule for successor features, written from its documentation: no trace, no regularisation."""

    def __init__(self, rat: SimpleNamespace, settings: dict) -> None:
        assert settings["activation_function"] == {"activation": "linear"}
        self.rat, self.settings, (self.basis,) = rat, settings, settings["input_layers"]
        self.inputs = {self.basis.name: {"w": np.ones((settings["features"].n, self.basis.n))}}
        self.reset()

    def reset(self) -> None:
        self.rate, self.fired, self.slope = np.zeros(self.settings["features"].n), np.zeros(self.basis.n), 0

    def update(self) -> None:
        before, self.before = self.rate, self.fired
        self.fired = self.basis.firingrate
        self.rate = self.inputs[self.basis.name]["w"] @ self.fired
        self.slope = (self.rate - before) / self.rat.dt

    def update_weights(self) -> None:
        error = self.settings["features"].firingrate + self.slope - self.rate / self.settings["tau"]
        self.inputs[self.basis.name]["w"] += self.settings["eta"] * np.outer(error, self.before)


def test_the_program_of_successor_features_stitches_a_ring(tmp_path, monkeypatch):
    """From pieces of a ring of four places: every place is followed by the next, and no piece by another."""
    names = {
        "ratinabox": {"Agent": lambda env, settings: SimpleNamespace(dt=settings["dt"]), "Environment": lambda: None},
        "ratinabox.Neurons": {"Neurons": Layer},
        "ratinabox.contribs": {},
        "ratinabox.contribs.SuccessorFeatures": {"SuccessorFeatures": Learner},
    }
    for name, members in names.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    rows = np.array([0, 1, 2, 0, 1, 2, 2, 3, 0])
    plan = {"given": str(tmp_path / "given.npz"), "found": str(tmp_path / "found.npy")}
    plan |= {"count": 4, "dt": 0.1, "tau": 0.5, "rate": 0.05, "visits": [1, 9, 20_000]}
    np.savez(plan["given"], place=np.eye(4)[rows], velocity=np.ones((9, 1)), bins=rows, starts=[0, 3, 6])
    successor.main(plan)
    found = np.load(plan["found"])
    assert found.shape == (3, 4, 4)
    assert (found[0] == 0).all()  # a start teaches nothing, and weights begin at 0
    assert (found[1] != 0).any()
    step = np.roll(np.eye(4), 1, axis=0)  # column: from; row: to
    exact = 0.1 * step @ np.linalg.inv(np.eye(4) - 0.8 * step)
    assert np.allclose(found[2], exact, atol=1e-3)


def test_every_method_has_as_many_settings():
    for budget in experiments.load("rats").budgets.values():
        counts = {len(settings) * len(long) for settings, _, long in (options(budget, m) for m in rats.METHODS)}
        assert len(counts) == 1


def test_the_experiment_runs_on_what_is_read(recordings, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rats, "visible_cores", lambda: 1)
    out = tmp_path / "run"
    assert main(["reproduce", "rats", "--budget", "smoke", "--seeds", "2", "--out", str(out)]) == 0
    assert str(out / "figure.png") in capsys.readouterr().out
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["phase"] for row in rows].count("choose") == 6 * 2
    evaluated = [row for row in rows if row["phase"] == "evaluate"]
    assert {(r["series"], r["method"], r["seed"]) for r in evaluated} == {
        (s, m, seed) for s in rats.SERIES for m in rats.METHODS for seed in (0, 1)
    }
    for one in evaluated:
        same = [r for r in rows if r["phase"] == "choose" and all(r[k] == one[k] for k in ("series", "method"))]
        long = "visits" if one["method"] == "sf" else "updates"
        assert one[long] == max(same, key=lambda r: r["score"])[long]


def test_an_install_that_fails_is_one_line(tmp_path, monkeypatch, capsys):
    answer = SimpleNamespace(returncode=1, stderr="ERROR: No matching distribution found for ratinabox\n", stdout="")
    monkeypatch.setattr(venv.subprocess, "run", lambda *words, **options: answer)
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "rats", "--budget", "smoke", "--out", str(tmp_path / "run")]) == 2
    *before, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"tdinfonce: cannot install {tracks.PACKAGE}: ERROR: No matching distribution")
    assert len(before) == 1  # it says that it is installing
    assert not (tmp_path / "run").exists()


def test_recordings_are_found_inside_the_environment_without_an_import(tmp_path, monkeypatch):
    def run(words, **options):
        (tmp_path / "venv").mkdir(exist_ok=True)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(venv.subprocess, "run", run)
    with pytest.raises(UserError, match="has no recordings"):
        tracks.data_folder(tmp_path)
    data = tmp_path / "venv" / "lib" / "python3.x" / "site-packages" / "ratinabox" / "data"
    data.mkdir(parents=True)
    (data / "tanni.npz").write_bytes(b"no recording")
    assert tracks.data_folder(tmp_path) == data
    with pytest.raises(UserError, match=r"tanni\.npz is no recording"):
        tracks.read("tanni", data, 10)
    with pytest.raises(UserError, match=r"sargolini\.npz is no recording"):
        tracks.read("sargolini", data, 10)


def test_the_table_in_the_repository_comes_from_the_figures_beside_it(tmp_path):
    for file in ("config.json", "metrics.jsonl", "versions.json", "COMPLETE"):
        shutil.copy(STORED / file, tmp_path)
    experiments.report(tmp_path)
    assert_same_numbers(tmp_path / "table.md", STORED / "table.md")


def test_td_is_above_monte_carlo_on_cut_tracks_in_every_seed_in_the_repository():
    rows = [json.loads(line) for line in (STORED / "metrics.jsonl").read_text().splitlines()]
    found = {
        (r["rat"], r["method"], r["seed"]): r["score"]
        for r in rows
        if r["phase"] == "evaluate" and r["series"] == "cut"
    }
    for rat in tracks.RATS:
        assert all(found[rat, "td", seed] > found[rat, "mc", seed] for seed in range(5))
