"""Calibration: its arithmetic by hand, rollouts against exact answers, predictors that are right and wrong."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce.analysis.calibration import Calibration, read
from tdinfonce.cli import main
from tdinfonce.estimate.calibrate import measure
from tdinfonce.occupancy import Occupancy
from tdinfonce.types import EnvSpec, Start, Step

DISCOUNT = 0.8
REACH = 40


class Line:
    """A walker that goes on in the direction of its first action, one place a step; ``end``: it is stopped then."""

    def __init__(self, end: int | None = None, breaks: bool = False) -> None:
        self.spec = EnvSpec("line", observation_size=1, action_size=1, goal_size=1, episode_length=5, tolerance=0.5)
        self._end, self._breaks = end, breaks

    def reset(self, seed: int) -> Start:
        self._place, self._way, self._time = float(np.random.default_rng(seed).integers(-3, 4)), 0.0, 0
        return Start(*[np.float32([self._place])] * 2, np.float32([0.0]), 0.0)

    def step(self, action: np.ndarray) -> Step:
        if self._breaks and self._time >= 5:
            raise RuntimeError("the episode is over")
        self._time += 1
        self._way = self._way or float(np.sign(action[0]))
        self._place += self._way
        state = np.float32([self._place])
        return Step(state, state, False, 0.0, self._time >= (self._end or 5))

    def render(self) -> np.ndarray:
        return np.zeros((1, 1, 3), np.uint8)

    def close(self) -> None:
        pass


def coin(seed: int, steps: int) -> Any:
    """A policy that goes right with a chance of 0.7."""
    way = np.float32([1.0 if np.random.default_rng(seed).random() < 0.7 else -1.0])
    return lambda observation, goal, time: way


def oracle(observation: np.ndarray, goal: np.ndarray, action: np.ndarray) -> Occupancy:
    """The exact occupancy of the line."""
    candidates = np.arange(-REACH, REACH + 1, dtype=np.float64)[:, None]
    ahead = (candidates[:, 0] - observation) * np.sign(action)
    weights = np.where(ahead >= 1, (1 - DISCOUNT) * DISCOUNT ** (ahead - 1), 0.0)
    return Occupancy(candidates, weights / weights.sum(axis=1, keepdims=True), DISCOUNT)


def shuffled(observation: np.ndarray, goal: np.ndarray, action: np.ndarray) -> Occupancy:
    """The same, of another start."""
    return oracle(observation + 3, goal, -action)


def held(ask: Any, env: Any = None, **changes: Any) -> Calibration:
    how: dict[str, Any] = {"starts": 40, "rollouts": 6, "places": 12} | changes
    return measure(env or Line(), coin, ask, DISCOUNT, **how)


def pairs(predicted: list[float], observed: list[float], **changes: Any) -> Calibration:
    count = len(predicted)
    arrays: dict[str, Any] = {"standard_error": np.zeros(count), "start": np.arange(count)}
    arrays |= {"distance": np.arange(count, dtype=float)} | changes
    return Calibration(np.array(predicted), np.array(observed), **arrays, radius=0.5, discount=0.9)


def test_the_error_by_hand() -> None:
    """Bins [0, 0.1): gap 0.1, two pairs; [0.5, 0.6): gap 0.2, one; [0.9, 1]: gap -0.25 and 1 falls into it, two."""
    found = pairs([0.02, 0.08, 0.5, 0.9, 1.0], [0.1, 0.2, 0.3, 0.5, 0.9])
    bins = found.reliability()
    assert [b.pairs for b in bins] == [2, 1, 2]
    np.testing.assert_allclose([b.predicted for b in bins], [0.05, 0.5, 0.95])
    np.testing.assert_allclose([b.observed for b in bins], [0.15, 0.3, 0.7])
    assert found.error == pytest.approx((2 * 0.1 + 0.2 + 2 * 0.25) / 5)
    assert found.mean_absolute_error == pytest.approx((0.08 + 0.12 + 0.2 + 0.4 + 0.1) / 5)
    assert [len(part.predicted) for part in (found.near, found.far)] == [3, 2]
    assert found.near.error == pytest.approx((2 * 0.1 + 0.2) / 3)
    assert found.far.error == pytest.approx(0.25)


def test_errors_of_opposite_sign_cancel_in_a_bin_but_not_in_the_mean_error() -> None:
    found = pairs([0.55, 0.55], [0.45, 0.65])
    assert found.error == pytest.approx(0)
    assert found.mean_absolute_error == pytest.approx(0.1)


def test_the_standard_error_counts_starts_not_pairs() -> None:
    """Gaps 0.1 and -0.1 of two starts: mean 0, standard error 0.1, however often each start was asked."""
    for copies in (1, 50):
        gaps = np.repeat([0.1, -0.1], copies)
        start = np.repeat([0, 1], copies)
        bins = pairs([0.55] * 2 * copies, (0.55 + gaps).tolist(), start=start).reliability()
        assert bins[0].standard_error == pytest.approx(0.1)
    assert pairs([0.5, 0.5], [0.4, 0.6], start=np.zeros(2, int)).reliability()[0].standard_error is None


def test_rollouts_agree_with_the_exact_answer_past_the_time_limit() -> None:
    """A place k steps ahead has (1 - γ) γ^(k - 1), of which the thousandth behind the end is missing."""
    found = held(oracle)
    assert found.about["ended_early"] == 0
    assert (found.observed > 0).sum() > 100
    np.testing.assert_allclose(found.predicted, found.observed, atol=2e-3)
    assert found.distance[found.observed > 0].max() > 8, "the limit is 5 steps"
    assert found.radius == 0.5, "the environment's tolerance"


def test_the_oracle_is_calibrated_and_a_shuffled_one_is_not() -> None:
    right, wrong = held(oracle, radius=2.5), held(shuffled, radius=2.5)
    assert max(right.error, right.near.error, right.far.error) < 2e-3
    assert wrong.error > 0.02
    assert wrong.near.error > 0.05
    assert wrong.mean_absolute_error > 10 * right.mean_absolute_error


def test_what_an_environment_ends_early_stays_there() -> None:
    """Stopped after two steps: 1 - γ in the first place, γ in the second."""
    found = held(oracle, Line(end=2))
    assert found.about["ended_early"] == 1
    always = found.observed[(found.standard_error < 1e-9) & (found.observed > 0)]
    assert len(always) > 10
    assert all(min(abs(chance - 0.2), abs(chance - 0.8)) < 1e-3 for chance in always)
    assert found.distance[found.observed > 0].max() == 2


def test_one_seed_one_answer() -> None:
    first, again, other = held(oracle, seed=1), held(oracle, seed=1), held(oracle, seed=2)
    np.testing.assert_array_equal(first.observed, again.observed)
    assert not np.array_equal(first.observed, other.observed)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    found = held(shuffled)
    found.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibration.json", "calibration.png"]
    again = read(tmp_path)
    assert again.error == pytest.approx(found.error, abs=1e-3)
    assert repr(again).startswith("<Calibration: error 0.")
    assert str(again.table()).count("\n") == 5
    stored = json.loads((tmp_path / "calibration.json").read_text())
    assert stored["all"]["error"] == pytest.approx(found.error)
    (tmp_path / "calibration.json").write_text("{}")
    with pytest.raises(td.UserError, match="malformed"):
        read(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return td.train(env="point", env_steps=600, hidden=(16,), out=tmp_path_factory.mktemp("run") / "point")


@pytest.mark.parametrize("agent", ["td-infonce", "contrastive-rl", "contrastive-nce", "c-learning"])
def test_every_occupancy_model_can_be_calibrated(agent: str, tmp_path: Path) -> None:
    trained = td.train(env="point", agent=agent, env_steps=600, hidden=(16,), out=tmp_path / "run")
    found = td.calibrate(trained, starts=3, rollouts=2, places=4)
    assert found.predicted.shape == (12,)
    assert 0 <= found.error <= 1
    assert found.about["agent"] == agent
    assert found.about["steps"] == 31, "discount 0.8"


def test_the_command_writes_into_the_run_folder(run: td.Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", str(run.folder), "--starts", "3", "--rollouts", "2", "--places", "4"]
    assert main(words) == 0
    assert "| far |" in capsys.readouterr().out
    assert (run.folder / "calibration.png").is_file()
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["all"]["error"] == pytest.approx(read(run.folder).error, abs=1e-3)
    assert td.calibrate(run.folder, starts=3, rollouts=2, places=4).error == pytest.approx(said["all"]["error"])


BAD: dict[str, dict[str, Any]] = {
    "starts must be a whole number from 2": {"starts": 1},
    "starts must be a whole number from 2 to 100,000": {"starts": 10**9},
    "starts must be a whole number": {"starts": 2.5},
    "rollouts must be a whole number from 2": {"rollouts": 1},
    "places must be a whole number from 2": {"places": 0},
    "bins must be a whole number from 1": {"bins": 0},
    "seed must be a whole number from 0": {"seed": -1},
    "bins must be a whole number .* True": {"bins": True},
    "radius must be a positive number; got 0": {"radius": 0},
    "radius must be a positive number; got nan": {"radius": float("nan")},
    "radius must be a positive number; got inf": {"radius": float("inf")},
    "radius must be a positive number; got 'wide'": {"radius": "wide"},
    "there is no folder nowhere": {"out": "nowhere"},
    "unknown environment": {"env": "ponit"},
    "the policy does not fit": {"env": "grid"},
    "more|ask for fewer": {"starts": 10**5, "rollouts": 10**4},
}


@pytest.mark.parametrize("reason", BAD)
def test_bad_input_is_refused_in_one_line(reason: str, run: td.Run, tmp_path: Path) -> None:
    before = sorted(run.folder.rglob("*"))
    with pytest.raises(td.UserError, match=reason) as caught:
        td.calibrate(run, **BAD[reason])
    assert "\n" not in str(caught.value)
    assert sorted(run.folder.rglob("*")) == before


def test_what_has_no_occupancy_is_refused(tmp_path: Path) -> None:
    trained = td.train(env="point", agent="gcbc", env_steps=600, hidden=(16,), out=tmp_path / "run")
    with pytest.raises(td.UserError, match="learns a policy only"):
        td.calibrate(trained, starts=2, rollouts=2)
    for nobody in (3, None, lambda observation, goal: goal):
        with pytest.raises(td.UserError, match="policy must be"):
            td.calibrate(nobody)
    with pytest.raises(td.UserError, match="no run folder"):
        td.calibrate(tmp_path / "none")


def test_an_environment_that_cannot_go_on_says_so() -> None:
    with pytest.raises(td.UserError, match="past its time limit of 5 steps"):
        held(oracle, Line(breaks=True), starts=2)


STORED = Path(__file__).parents[1] / "results" / "estimate" / "calibration"
ROW = re.compile(r"^\| `([\w-]+)` \| `(\w+)` \| (\d) ((?:\| [\d.]+ ){6})", re.MULTILINE)


def test_the_table_in_the_docs_says_what_the_stored_runs_say() -> None:
    told = ROW.findall((Path(__file__).parents[1] / "docs" / "calibration.md").read_text())
    assert len(told) == len(list(STORED.glob("*/*/calibration.json"))) == 6
    for env, preset, seed, numbers in told:
        found = read(STORED / env / f"{preset}-seed-{seed}")
        assert (found.about["env"], found.about["preset"], found.about["trained_with_seed"]) == (env, preset, int(seed))
        errors = [part.error for part in (found, found.near, found.far)]
        means = found.mean_absolute_error, found.predicted.mean(), found.observed.mean()
        np.testing.assert_allclose([float(x) for x in numbers.split("|")[1:]], [*errors, *means], atol=1e-3)
        assert (found.error <= 0.05) == (preset == "estimate"), (env, preset, seed)
