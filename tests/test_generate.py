"""Making data: one seed, one file; stopped and continued, the same file; and what is in it is what was asked for."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5py")
pytest.importorskip("gymnasium_robotics")

from tdinfonce.analysis.datasets import flipped_share, goal_share, reach_rate, upside_down
from tdinfonce.cli import main
from tdinfonce.data import open_dataset, read_record
from tdinfonce.recording import generate
from tdinfonce.recording.behaviour import Behaviour, behaviour_for, record_block

LAYERS = {"fc0": (256, 29), "fc1": (256, 256), "last_fc": (8, 256), "last_fc_log_std": (8, 256)}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of the right shapes that never learned to walk."""
    rng = np.random.default_rng(0)
    arrays = {f"{name}.weight": 0.05 * rng.standard_normal(shape) for name, shape in LAYERS.items()}
    arrays |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in LAYERS.items()}
    path = tmp_path_factory.mktemp("policy") / "ant.npz"
    np.savez(path, **arrays)
    return path


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def make(folder: Path, *words: str) -> int:
    return main(
        ["data", "make", "pointmaze-umaze", "--kind", "stitch", "--transitions", "1500", "--out", str(folder), *words]
    )


def test_one_seed_one_file(tmp_path: Path) -> None:
    for name, seed in (("a/set-v0", "3"), ("b/set-v0", "3"), ("c/set-v0", "4")):
        assert make(tmp_path / name, "--seed", seed) == 0
    assert digests(tmp_path / "a") == digests(tmp_path / "b") != digests(tmp_path / "c")
    assert set(digests(tmp_path / "a")) == {"set-v0/data/main_data.hdf5", "set-v0/data/metadata.json"}


def test_stopped_and_continued_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(tmp_path / "a" / "set-v0") == 0
    monkeypatch.setattr(generate, "SHARD", 300)
    left = [8]

    def stops(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return record_block(*arguments)

    monkeypatch.setattr(generate, "record_block", stops)
    assert make(tmp_path / "b" / "set-v0") == 130
    partial = tmp_path / "b" / ".set-v0.partial"
    assert len(list(partial.glob("shard-*.npz"))) == 2
    (partial / "shard-00000006.partial").write_bytes(b"torn")
    assert make(tmp_path / "b" / "set-v0", "--seed", "1") == 2, "another recipe must not take over what is there"
    left[0] = 9
    assert make(tmp_path / "b" / "set-v0") == 0
    assert left[0] == 0, "what was recorded is not recorded again"
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    left[0] = 0
    assert make(tmp_path / "b" / "set-v0") == 0, "a complete data set is left alone"


def test_stitch_episodes_are_short_and_reach_their_goal(tmp_path: Path) -> None:
    assert make(tmp_path / "set-v0") == 0
    found, record = open_dataset(str(tmp_path / "set-v0")), read_record(str(tmp_path / "set-v0"))
    assert (record["env"], record["kind"], record["blocks"]) == ("pointmaze-umaze", "stitch", 15)
    assert found.length.tolist() == [100] * 15
    assert reach_rate(found, 0.5) >= 0.9
    np.testing.assert_array_equal(found.achieved, found.observation[:, :2])


def test_navigate_goes_on_to_another_goal() -> None:
    behaviour = behaviour_for("pointmaze-medium", "navigate", None)
    (episode,) = record_block(behaviour, 0, 0)
    assert len(episode.action) == 600
    assert len(np.unique(episode.desired, axis=0)) > 1
    reached = np.nonzero(episode.success)[0]
    changed = np.nonzero(np.any(episode.desired[1:] != episode.desired[:-1], axis=1))[0]
    np.testing.assert_array_equal(reached, changed)
    (other,) = record_block(behaviour, 0, 1)
    assert not np.allclose(other.observation[0], episode.observation[0])
    np.testing.assert_array_equal(record_block(behaviour, 0, 0)[0].observation, episode.observation)


def test_reach_ends_soon_after_arrival_and_begins_anew() -> None:
    behaviour = behaviour_for("pointmaze-medium", "reach", None)
    episodes = record_block(behaviour, 0, 0)
    steps = [len(episode.action) for episode in episodes]
    assert len(episodes) > 3
    assert sum(steps[:-1]) < 600 <= sum(steps), "as many as give the steps of one of full length"
    for episode in episodes:
        arrival = int(np.argmax(episode.success))
        assert episode.success[arrival]
        assert len(episode.action) == arrival + 6
        assert len(np.unique(episode.desired, axis=0)) == 1
    starts = np.stack([episode.observation[0] for episode in episodes])
    assert len(np.unique(starts, axis=0)) == len(starts)


def test_kinds_differ_in_what_is_done_on_arrival(tmp_path: Path) -> None:
    share = {}
    for kind in ("reach", "navigate", "stay"):
        words = ["data", "make", "pointmaze-umaze", "--kind", kind, "--transitions", "3000"]
        assert main([*words, "--out", str(tmp_path / f"{kind}-v0")]) == 0
        share[kind] = goal_share(open_dataset(tmp_path / f"{kind}-v0"), 0.5)
    assert share["reach"] < 0.25
    assert share["navigate"] < 0.05
    assert share["stay"] > 0.5


class Tumbler:
    """An ant that is on its back from the 20th step on."""

    def __init__(self) -> None:
        self.env = behaviour_for("pointmaze-umaze", "stay", None).env
        self.grid, self.spec = self.env.grid, self.env.spec

    def begin(self, *arguments: Any, **options: Any) -> Any:
        self.time = 0
        return self.lying(self.env.begin(*arguments, **options))

    def step(self, action: np.ndarray) -> Any:
        self.time += 1
        return self.lying(self.env.step(action))

    def lying(self, said: Any) -> Any:
        body = np.zeros(29, np.float32)
        body[:2], body[3:7] = said.observation[:2], (0, 1, 0, 0) if self.time >= 20 else (1, 0, 0, 0)
        return said._replace(observation=body)


@pytest.mark.parametrize(("end_falls", "steps"), [(True, 30), (False, 300)])
def test_falls_end_episodes_if_asked(end_falls: bool, steps: int) -> None:
    ready = behaviour_for("pointmaze-umaze", "stay", None)
    fallen = Behaviour(Tumbler(), ready.steering, 300, 0.5, ready.ends, "stay", None, end_falls)
    episodes = record_block(fallen, 0, 0)
    assert {len(episode.action) for episode in episodes} == {steps}
    assert len(episodes) == 300 // steps
    assert upside_down(episodes[0].observation).tolist() == [False] * 20 + [True] * (steps - 19)


@pytest.mark.parametrize(
    ("name", "starts", "goals"),
    [("umaze", 1, 1), ("umaze-diverse", 7, 7), ("medium-play", 4, 4), ("medium-diverse", 26, 26), ("large-play", 8, 8)],
)
def test_the_sets_differ_in_their_starts_and_goals(name: str, starts: int, goals: int, policy: Path) -> None:
    behaviour = behaviour_for(f"antmaze-{name}", "navigate", policy)
    assert behaviour.ends is not None
    assert behaviour.length == (700 if "umaze" in name else 1000)
    rng = np.random.default_rng(0)
    drawn = [behaviour.ends(rng) for _ in range(600)]
    assert len({start for start, _, _ in drawn}) == starts
    assert len({goal for _, goal, _ in drawn}) == goals
    assert all(start != goal for start, goal, _ in drawn)
    assert {anywhere for _, _, anywhere in drawn} == {name != "umaze"}


def test_an_ant_set_end_to_end(tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "make", "antmaze-umaze", "--transitions", "701", "--policy", str(policy), "--kind", "stay"]
    assert main([*words, "--out", str(tmp_path / "set-v0")]) == 0
    found = open_dataset(str(tmp_path / "set-v0"), goal="0:2")
    assert found.length.tolist() == [700, 700]
    assert found.observation.shape[1] == 29
    assert 0 <= flipped_share(found) <= 1
    assert main(["data", "inspect", str(tmp_path / "set-v0"), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "flipped" in out
    assert "goal reached" in out


def test_a_run_of_ours_can_be_the_policy(tmp_path: Path) -> None:
    small = ["hidden=8", "env_steps=300", "warmup_steps=100", "eval_every=300", "batch_size=16"]
    small += ["eval_episodes=2", "final_episodes=2"]
    run = tmp_path / "run"
    assert main(["train", "--env", "point", "--agent", "gcbc", "--out", str(run), "--set", *small]) == 0
    words = ["data", "make", "point", "--policy", str(run), "--transitions", "100", "--out", str(tmp_path / "set-v0")]
    assert main(words) == 0
    assert open_dataset(str(tmp_path / "set-v0")).length.tolist() == [20] * 5
    assert open_dataset(str(run), goal="0:2").transitions == 300


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pointmaze-hug"], "Did you mean"),
        (["point"], "need a trained run as policy"),
        (["pointmaze-umaze", "--kind", "stich"], "Did you mean 'stitch'"),
        (["pointmaze-umaze", "--transitions", "0"], "at least one transition"),
        (["pointmaze-umaze", "--seed", "-1"], "not negative"),
        (["pointmaze-umaze", "--policy", "{policy}"], "its own controller"),
        (["antmaze-umaze"], "needs a policy that walks"),
        (["pointmaze-umaze", "--end-falls"], "only ants fall on their backs"),
        (["antmaze-umaze", "--policy", "nowhere.npz"], "there is no policy"),
        (["antmaze-umaze", "--policy", "{policy}", "--kind", "stitch"], "only pointmaze"),
        (["antmaze-umaze", "--policy", "{bad}"], "fc1.weight must have shape [256, 256]"),
        (["antmaze-umaze", "--policy", "{garbage}"], "is not an .npz file"),
        (["antmaze-umaze", "--policy", "{folder}"], "is not a run folder"),
        (["pointmaze-umaze", "--out", "{garbage}"], "is a file"),
        (["pointmaze-umaze", "--out", "{folder}"], "holds no data set"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    words: list[str], message: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    garbage, bad, folder = tmp_path / "garbage.npz", tmp_path / "bad.npz", tmp_path / "folder"
    garbage.write_bytes(b"x" * 99)
    folder.mkdir()
    (folder / "mine.txt").write_text("keep")
    with np.load(policy) as arrays:
        np.savez(bad, **(dict(arrays) | {"fc1.weight": np.zeros((2, 2))}))
    places = {"policy": policy, "garbage": garbage, "bad": bad, "folder": folder}
    given = [word.format(**places) for word in words]
    if "--out" not in given:
        given += ["--out", str(tmp_path / "out-v0")]
    assert main(["data", "make", *given]) == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1, error
    assert message in error
    assert not (tmp_path / "out-v0").exists()
    assert (folder / "mine.txt").read_text() == "keep"
