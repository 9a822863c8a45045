"""Reading data sets: what is written comes back, in every format, in memory and mapped."""

import json
import mmap
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("h5py")

from dataset_files import flat_arrays, some_episodes, write_hdf5, write_minari_set, write_npz, write_run
from tdinfonce.cli import main
from tdinfonce.data import open_dataset, read_record
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.types import Episode, GoalSampling

FORMATS = ("npz", "npz-compressed", "hdf5", "hdf5-compressed", "minari", "run")


def write(kind: str, folder: Path, episodes: list[Episode]) -> str:
    if kind.startswith("npz"):
        return str(write_npz(folder / "set.npz", flat_arrays(episodes), compressed="compressed" in kind))
    if kind.startswith("hdf5"):
        options = {"compression": "gzip"} if "compressed" in kind else {}
        return str(write_hdf5(folder / "set.hdf5", flat_arrays(episodes), **options))
    if kind == "minari":
        return str(write_minari_set(folder / "set-v0", episodes))
    return str(write_run(folder / "run", episodes))


def same(found: Episodes, wanted: list[Episode]) -> None:
    assert len(found) == len(wanted)
    for index, episode in enumerate(wanted):
        for name, one, two in zip(Episode._fields, found.episode(index), episode, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=name)
    assert not found.action[found.start + found.length].any()


@pytest.mark.parametrize("kind", FORMATS)
@given(lengths=st.lists(st.integers(2, 30), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_what_is_written_comes_back(kind: str, lengths: list[int], seed: int) -> None:
    episodes = some_episodes(lengths, seed)
    with tempfile.TemporaryDirectory() as folder:
        source = write(kind, Path(folder), episodes)
        same(open_dataset(source, goal="0:2"), episodes)


@pytest.mark.parametrize("kind", FORMATS)
def test_large_sets_are_mapped_and_equal(kind: str, tmp_path: Path) -> None:
    episodes = some_episodes([5, 9, 2])
    found = open_dataset(write(kind, tmp_path, episodes), goal="0,1", memory_limit=100)
    same(found, episodes)
    base = found.observation
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)
    batch = sample(found, np.random.default_rng(0), (50,), GoalSampling())
    assert np.isfinite(batch.observation).all()


@pytest.mark.parametrize("kind", ["minari", "run"])
def test_recorded_goals_need_no_slice(kind: str, tmp_path: Path) -> None:
    episodes = some_episodes([4, 6])
    same(open_dataset(write(kind, tmp_path, episodes)), episodes)


def test_double_precision_and_integers_are_converted(tmp_path: Path) -> None:
    arrays = flat_arrays(some_episodes([4, 5]))
    arrays["observations"] = arrays["observations"].astype(np.float64)
    arrays["timeouts"] = arrays["timeouts"].astype(np.int64)
    for path in (write_npz(tmp_path / "a.npz", arrays), write_hdf5(tmp_path / "a.h5", arrays)):
        found = open_dataset(str(path), goal="2:4")
        assert found.observation.dtype == np.float32
        np.testing.assert_allclose(found.achieved, arrays["observations"][:, 2:], rtol=1e-6)


def test_a_short_remnant_is_left_out_a_longer_one_is_an_episode(tmp_path: Path) -> None:
    arrays = flat_arrays(some_episodes([4, 5]))
    for rows, steps in ((12, [4, 5]), (14, [4, 5, 2])):
        grown = {name: np.concatenate([array, array[:9]])[:rows] for name, array in arrays.items()}
        grown["timeouts"][11:] = False
        grown["timeouts"][10] = True
        assert open_dataset(str(write_npz(tmp_path / "a.npz", grown)), goal="0:2").length.tolist() == steps


def test_without_goals_the_last_state_is_the_goal(tmp_path: Path) -> None:
    arrays = flat_arrays(some_episodes([4, 5]))
    del arrays["goals"]
    found = open_dataset(str(write_npz(tmp_path / "a.npz", arrays)), goal="0:2")
    np.testing.assert_array_equal(found.goal, arrays["observations"][[4, 10], :2])


def test_minari_itself_reads_what_we_write_and_we_read_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = some_episodes([4, 6])
    write_minari_set(tmp_path / "tdinfonce" / "test-v0", episodes)
    theirs = minari.load_dataset("tdinfonce/test-v0")
    assert (theirs.total_episodes, theirs.total_steps) == (2, 10)
    np.testing.assert_array_equal(theirs[1].observations["observation"], episodes[1].observation)
    same(open_dataset("tdinfonce/test-v0"), episodes)
    assert read_record("tdinfonce/test-v0") == {"format": "minari", "id": "tdinfonce/test-v0", "env": "test"}


def test_flat_observations_of_minari_need_a_slice(tmp_path: Path) -> None:
    import h5py

    episodes = some_episodes([4, 6])
    folder = write_minari_set(tmp_path / "set-v0", episodes)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        for index, episode in enumerate(episodes):
            del file[f"episode_{index}/observations"]
            file[f"episode_{index}/observations"] = episode.observation.astype(np.float64)
    found = open_dataset(str(folder), goal="0:2")
    np.testing.assert_array_equal(found.episode(1).observation, episodes[1].observation)
    with pytest.raises(UserError, match="for example goal 0:2"):
        open_dataset(str(folder))


def test_inspect_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", some_episodes([4, 6]))
    assert main(["data", "inspect", str(run), "--out", str(tmp_path / "picture")]) == 0
    out = capsys.readouterr().out
    assert all(
        words in out for words in ("episodes      2", "transitions   10", "shortest 4", "goal reached", "env point")
    )
    assert (tmp_path / "picture" / "coverage.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("commanded", [True, False])
def test_inspect_says_that_no_goal_was_commanded(
    commanded: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = some_episodes([4, 6])
    arrays = {name: x for name, x in flat_arrays(episodes).items() if commanded or name != "goals"}
    file = write_npz(tmp_path / "walks.npz", arrays)
    found = open_dataset(file, goal="0:2")
    last = [episode.achieved[-1] for episode in episodes]
    np.testing.assert_array_equal(found.goal, [episode.goal for episode in episodes] if commanded else last)
    assert main(["data", "inspect", str(file), "--goal", "0:2", "--out", str(tmp_path / "picture")]) == 0
    assert ("none was commanded" in capsys.readouterr().out) == (not commanded) == (not found.commanded)


def test_list_names_what_is_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari_set(tmp_path / "tdinfonce" / "test-v0", some_episodes([4, 6]))
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    assert "tdinfonce/test-v0" in out
    assert "antmaze-large-play" in out


MEASURE = """
import json, resource, sys, time
from tdinfonce.data import open_dataset
import numpy as np
if sys.argv[2]: __import__("h5py")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clock = time.process_time()
found = open_dataset(sys.argv[1], goal="0:2")
seconds = time.process_time() - clock
grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(json.dumps([seconds, grown, found.transitions]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "hdf5", "minari"])
def test_a_million_transitions_open_in_five_seconds_within_one_and_a_half_times_their_size(
    kind: str, tmp_path: Path
) -> None:
    """Processor seconds: the wall clock would measure whoever else is at work here."""
    rng = np.random.default_rng(0)
    observation = rng.standard_normal((1000, 1001, 29), dtype=np.float32)
    action = rng.uniform(-1, 1, (1000, 1001, 8)).astype(np.float32)
    size = observation.nbytes + action.nbytes
    if kind == "minari":
        from tdinfonce.data.writer import Recorded, write_minari
        from tdinfonce.types import EnvSpec

        episodes = (
            Recorded(o, o[:, :2], o[:, :2], a[:-1], a[:-1, 0] > 0) for o, a in zip(observation, action, strict=True)
        )
        write_minari(tmp_path / "set-v0", "a/set-v0", EnvSpec("test", 29, 8, 2, 1000), episodes, {})
        source = tmp_path / "set-v0"
    else:
        timeouts = np.zeros((1000, 1001), bool)
        timeouts[:, -1] = True
        arrays = {"observations": observation.reshape(-1, 29), "actions": action.reshape(-1, 8)}
        arrays["timeouts"] = timeouts.ravel()
        source = (write_npz if kind == "npz" else write_hdf5)(tmp_path / f"set.{kind}", arrays)
    words = [sys.executable, "-c", MEASURE, str(source), "" if kind == "npz" else "h5py"]
    answer = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, grown, transitions = json.loads(answer.stdout)
    assert transitions == 1_000_000
    assert seconds <= 5
    assert grown <= 1.5 * size
