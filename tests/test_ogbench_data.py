"""OGBench's files, written by hand: the three forms are one, images stay images, and broken ones get one line each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce.cli import main
from tdinfonce.data import flat, open_dataset, read_record
from tdinfonce.errors import UserError

Arrays = dict[str, Any]
STEPS = [3, 2, 4]


def published(dtype: Any = np.float32, shape: tuple[int, ...] = (3,)) -> Arrays:
    """Three episodes with their last states; row r of the observations holds r, so every number can be told."""
    rows = sum(STEPS) + len(STEPS)
    terminals = np.zeros(rows, np.float32)
    terminals[[3, 6, 11]] = 1
    observations = np.arange(rows).reshape(-1, *[1] * len(shape)) + np.zeros(shape)
    actions = np.linspace(-1, 1, 2 * rows, dtype=np.float32).reshape(rows, 2)
    return {"observations": observations.astype(dtype), "actions": actions, "terminals": terminals}


def compact(**how: Any) -> Arrays:
    """What OGBench's loader calls compact: the last two rows of an episode are marked, and the last is not valid."""
    arrays = published(**how)
    arrays["valids"] = 1 - arrays["terminals"]
    arrays["terminals"] = np.array([0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1], np.float32)
    return arrays


def shifted(**how: Any) -> Arrays:
    """What it makes otherwise: a row for each step, with what came next."""
    arrays = published(**how)
    kept = [0, 1, 2, 4, 5, 7, 8, 9, 10]
    return {
        "observations": arrays["observations"][kept],
        "actions": arrays["actions"][kept],
        "terminals": np.array([0, 0, 1, 0, 1, 0, 0, 0, 1], np.float32),
        "next_observations": arrays["observations"][[1, 2, 3, 5, 6, 8, 9, 10, 11]],
    }


FORMS = {"published": published, "compact": compact, "shifted": shifted}
STATES = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9, 10, 11]]
IMAGE = {"dtype": np.uint8, "shape": (4, 5, 3)}


def write(path: Path, arrays: Arrays) -> Path:
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("block", [1, 2, 5, 65_536])
@pytest.mark.parametrize("form", FORMS)
def test_the_three_forms_hold_the_same_episodes(
    form: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "BLOCK", block)
    found = open_dataset(write(tmp_path / "a.npz", FORMS[form]()))
    assert found.length.tolist() == STEPS
    actions = published()["actions"]
    for index, states in enumerate(STATES):
        episode = found.episode(index)
        assert episode.observation[:, 1].tolist() == states
        np.testing.assert_array_equal(episode.action, actions[states[:-1]])
    assert found.achieved is found.observation, "the whole observation is the goal, as in OGBench"
    assert not found.commanded
    assert found.terminal is None
    assert found.action_low == (), "actions are in [-1, 1] as they are"


@pytest.mark.parametrize("form", FORMS)
def test_images_stay_bytes_and_are_their_own_goals(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", FORMS[form](**IMAGE))
    for limit in (10**9, 10):  # in memory, and mapped
        found = open_dataset(path, memory_limit=limit)
        assert found.observation.dtype == np.uint8
        assert found.observation.shape == (12, 4, 5, 3)
        assert found.achieved is found.observation
        assert [found.episode(i).observation[:, 3, 4, 2].tolist() for i in range(3)] == STATES
    with pytest.raises(UserError, match=r"observations: are images, and a goal is an image, too; leave out goal '0:2'"):
        open_dataset(path, goal="0:2")


def test_the_goal_is_what_somebody_says_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", published())
    assert open_dataset(path, goal="0:2").achieved.shape == (12, 2)
    assert open_dataset(path, default_goal="2").achieved.shape == (12, 1), "the environment's, where nobody says"
    assert open_dataset(path, goal="all", default_goal="2").achieved.shape == (12, 3)


def test_the_name_of_the_file_tells_the_environment(tmp_path: Path) -> None:
    for name, env in {
        "antmaze-medium-navigate-v0": "ogbench:antmaze-medium-navigate-v0",
        "visual-cube-single-play-v0-val": "ogbench:visual-cube-single-play-v0",
        "mine": None,
    }.items():
        assert read_record(write(tmp_path / f"{name}.npz", published())).get("env") == env


def test_other_npz_files_are_not_taken_for_ogbench(tmp_path: Path) -> None:
    """D4RL's `terminals` mark reached goals: with its other names beside them nothing ends there."""
    timeouts = np.arange(12) % 6 == 5
    path = write(tmp_path / "a.npz", published() | {"timeouts": timeouts})
    assert read_record(path)["format"] == "npz"
    assert open_dataset(path, goal="0:2").length.tolist() == [5, 5]
    path = write(tmp_path / "b.npz", published() | {"rewards": np.zeros(12)})
    with pytest.raises(UserError, match="timeouts: is missing"):
        open_dataset(path, goal="0:2")
    single_task = published() | {"rewards": np.zeros(12), "masks": np.ones(12), "qpos": np.zeros((12, 5))}
    assert read_record(write(tmp_path / "c.npz", single_task))["format"] == "ogbench"


@pytest.mark.parametrize("form", [*FORMS, "images"])
def test_inspect_tells_what_is_in_it(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = published(**IMAGE) if form == "images" else FORMS[form]()
    path = write(tmp_path / "cube-single-play-v0.npz", arrays)
    assert main(["data", "inspect", str(path), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "(ogbench, env ogbench:cube-single-play-v0)" in said
    assert "episodes      3" in said
    assert "images, 4 x 5 x 3" in said or form != "images"
    assert (tmp_path / "coverage.png").stat().st_size > 1000


def test_images_are_learned_from_without_an_environment(tmp_path: Path) -> None:
    """The smallest picture that the networks see; two updates, whose losses are numbers."""
    rng = np.random.default_rng(0)
    terminals = np.arange(60) % 10 == 9
    arrays = {"observations": rng.integers(0, 256, (60, 64, 64, 3), np.uint8), "terminals": terminals}
    path = write(tmp_path / "a.npz", arrays | {"actions": rng.uniform(-1, 1, (60, 2)).astype(np.float32)})
    small: dict[str, Any] = {"updates": 2, "updates_per_call": 2, "batch_size": 8, "hidden": (8,), "held_out": 0.0}
    run = td.train(data=path, agent="gcbc", out=tmp_path / "run", loggers=(), **small)
    assert np.isfinite(run.metrics()[-1]["actor/loss"])
    state = arrays["observations"][0]
    assert run.policy().act(state, state).shape == (2,)
    with pytest.raises(UserError, match="which images do not tell"):
        td.train(data=path, agent="iql", test_goal=(0.0,), out=tmp_path / "one", loggers=(), updates=2)


def put(name: str, index: Any, value: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name][index] = value

    return change


def make(name: str, build: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.update({name: build(arrays[name])})


def drop(name: str) -> Callable[[Arrays], Any]:
    return lambda arrays: arrays.pop(name)


BROKEN: dict[str, tuple[str, Callable[[Arrays], Any], str]] = {
    "no observations": ("published", drop("observations"), "observations: is missing; there is: actions, terminals"),
    "no actions": ("published", drop("actions"), "actions: is missing"),
    "no terminals": ("published", drop("terminals"), "timeouts: is missing; there is: actions, observations"),
    "no end": ("published", make("terminals", np.zeros_like), "terminals: marks no end of an episode"),
    "cut behind the middle": (
        "published",
        lambda a: a.update({k: v[:10] for k, v in a.items()}),
        "terminals, row 9: does not end an episode, although it is the last",
    ),
    "all ends": ("published", make("terminals", np.ones_like), "terminals, row 1: is 1 as in the row before"),
    "compact without valids": ("compact", drop("valids"), "of OGBench's compact form valids is missing"),
    "half an end": ("published", put("terminals", 5, 0.5), "terminals, row 5: is 0.5; it must be true or false"),
    "nan end": ("published", put("terminals", 2, np.nan), "terminals, row 2: is nan"),
    "fewer terminals": (
        "published",
        make("terminals", lambda x: x[1:]),
        "terminals: must have shape [12]; it has [11]",
    ),
    "deep terminals": ("published", make("terminals", lambda x: x[:, None]), "terminals: must have shape [12]"),
    "text terminals": ("published", make("terminals", lambda x: x.astype("S3")), "terminals: must hold plain numbers"),
    "one step": ("published", put("terminals", 1, 1), "observations, row 0: episode 0 has one step; at least 2"),
    "one state": ("published", put("terminals", 4, 1), "terminals, row 4: is 1 as in the row before"),
    "nan observation": ("published", put("observations", (5, 1), np.nan), "row 5: coordinate 1 is nan"),
    "infinite observation": ("published", put("observations", (0, 2), np.inf), "row 0: coordinate 2 is inf"),
    "nan action": ("published", put("actions", (1, 0), np.nan), "actions, row 1: coordinate 0 is nan"),
    "large action": (
        "published",
        put("actions", (8, 1), 3),
        "actions, row 8: coordinate 1 is 3; actions lie in [-1, 1]",
    ),
    "flat observations": ("published", make("observations", lambda x: x[:, 0]), "must have shape [any, any]"),
    "images of floats": (
        "published",
        make("observations", lambda x: np.zeros((12, 4, 4, 3), np.float32)),
        "observations: must have shape [any, any]",
    ),
    "images without channels": (
        "published",
        make("observations", lambda x: np.zeros((12, 4, 4), np.uint8)),
        "observations: must have shape [any, any]",
    ),
    "no columns": ("published", make("observations", lambda x: x[:, :0]), "observations: must have shape"),
    "no rows": ("published", lambda a: a.update({k: v[:0] for k, v in a.items()}), "terminals: marks no end"),
    "fewer actions": ("published", make("actions", lambda x: x[1:]), "actions: must have shape [12, any]"),
    "deep actions": ("published", make("actions", lambda x: x[:, None]), "actions: must have shape [12, any]"),
    "pickled observations": (
        "published",
        make("observations", lambda x: np.array([{}] * 12, object)),
        "observations: must hold plain numbers",
    ),
    "column by column": ("published", make("actions", np.asfortranarray), "actions: is stored column by column"),
    "two forms": ("shifted", lambda a: a.update(valids=np.ones(9)), "are two forms of the same data"),
    "valids elsewhere": ("compact", put("valids", 4, 0), "terminals, row 4: must be 1 in the row whose valids is 0"),
    "all valid": ("compact", make("valids", np.ones_like), "terminals, row 2: must be 1 in the row whose valids is 0"),
    "half valid": ("compact", put("valids", 7, 0.5), "valids, row 7: is 0.5"),
    "fewer valids": ("compact", make("valids", lambda x: x[1:]), "valids: must have shape [12]; it has [11]"),
    "next is not shifted": (
        "shifted",
        make("next_observations", lambda x: x - 1),
        "next_observations, row 0: is not the observation of the row behind it",
    ),
    "next of another episode": (
        "shifted",
        put("terminals", 4, 0),
        "next_observations, row 4: is not the observation of the row behind it",
    ),
    "fewer next": ("shifted", make("next_observations", lambda x: x[1:]), "next_observations: must have shape [9, 3]"),
    "narrow next": ("shifted", make("next_observations", lambda x: x[:, 1:]), "must have shape [9, 3]; it has [9, 2]"),
    "next of another type": (
        "shifted",
        make("next_observations", lambda x: x.astype(np.float64)),
        "next_observations: is float64, but observations are float32",
    ),
    "nan at the end": ("shifted", put("next_observations", (4, 0), np.nan), "row 4: coordinate 0 is nan"),
    "nan in both": (
        "shifted",
        lambda a: (put("observations", (6, 0), np.nan)(a), put("next_observations", (5, 0), np.nan)(a)),
        "observations, row 6: coordinate 0 is nan",
    ),
    "one step, shifted": ("shifted", put("terminals", 0, 1), "row 0: episode 0 has one step"),
    "shifted, fewer actions": ("shifted", make("actions", lambda x: x[1:]), "actions: must have 9 rows"),
    "shifted, cut": (
        "shifted",
        lambda a: a.update({k: v[:8] for k, v in a.items()}),
        "terminals, row 7: does not end an episode",
    ),
}
FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut": (lambda p: p.write_bytes(p.read_bytes()[:300]), "is not an .npz file, or cut short"),
    "not a zip file": (lambda p: p.write_bytes(b"hello" * 50), "is not an .npz file"),
    "damaged": (lambda p: _flip(p, 120), "actions"),
}


def _flip(path: Path, place: int) -> None:
    """Damage a byte of the last array that is stored."""
    arrays = published()
    np.savez(path, observations=arrays["observations"], terminals=arrays["terminals"], actions=arrays["actions"])
    data = bytearray(path.read_bytes())
    data[data.rindex(b"\x93NUMPY") + 128 + 8] ^= 0xFF
    path.write_bytes(data)


def refused(path: Path, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", str(path), "--out", str(path.parent)]) == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1, error
    assert f"{path}: " in error
    assert expected in error


@pytest.mark.parametrize("flaw", BROKEN)
def test_a_broken_file_gets_one_line(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    form, change, expected = BROKEN[flaw]
    arrays = FORMS[form]()
    change(arrays)
    refused(write(tmp_path / "set.npz", arrays), expected, capsys)


@pytest.mark.parametrize("flaw", FILES)
def test_a_damaged_file_gets_one_line(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, expected = FILES[flaw]
    spoil(write(tmp_path / "set.npz", published()))
    refused(tmp_path / "set.npz", expected, capsys)


def test_there_are_more_than_thirty() -> None:
    assert len(BROKEN) + len(FILES) >= 30
