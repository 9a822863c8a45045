"""Actions in the units of the data: scaled with bounds that are given, stored or measured; discrete ones one-hot."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5py")

from dataset_files import Arrays, flat_arrays, some_episodes, write_hdf5, write_minari_set, write_npz, write_run
from tdinfonce.cli import main
from tdinfonce.data import Episodes, from_arrays, open_dataset
from tdinfonce.data.store import BLOCK
from tdinfonce.data.writer import Recorded, write_minari
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec

LOW, HIGH = np.array([0.0, -3.0]), np.array([5.0, 1.0])
BOX = EnvSpec("x", 2, 2, 2, 9, action_low=(0.0, -3.0), action_high=(5.0, 1.0))


def in_units(actions: np.ndarray) -> np.ndarray:
    """From [-1, 1] to [LOW, HIGH]."""
    return LOW + (actions + 1) / 2 * (HIGH - LOW)


def stretched() -> tuple[Arrays, Arrays]:
    """Arrays as they were, and with actions in other units."""
    arrays = flat_arrays(some_episodes([4, 6]))
    return arrays, arrays | {"actions": in_units(arrays["actions"])}


def steps(episodes: Episodes) -> np.ndarray:
    return np.concatenate([episodes.episode(i).action for i in range(len(episodes))])


@pytest.mark.parametrize("kind", ["npz", "hdf5", "memory"])
def test_given_bounds_scale(kind: str, tmp_path: Path) -> None:
    before, arrays = stretched()
    bounds: Any = (LOW.tolist(), HIGH)
    if kind == "memory":
        found = from_arrays(arrays | {"terminals": None}, goal="0:2", action_bounds=bounds)
    else:
        path = (write_npz if kind == "npz" else write_hdf5)(tmp_path / f"a.{kind}", arrays)
        found = open_dataset(path, goal="0:2", action_bounds=bounds)
    np.testing.assert_allclose(steps(found), np.delete(before["actions"], [4, 11], axis=0), atol=1e-6)
    assert (found.action_low, found.action_high, found.actions) == ((0.0, -3.0), (5.0, 1.0), 0)
    assert found.action.dtype == np.float32
    assert not found.action[found.start + found.length].any()
    assert found.chosen(np.array([1])).action_high == (5.0, 1.0)


def test_one_pair_of_numbers_is_for_every_coordinate(tmp_path: Path) -> None:
    _, arrays = stretched()
    found = open_dataset(write_npz(tmp_path / "a.npz", arrays), goal="0:2", action_bounds=(-5, 5))
    np.testing.assert_allclose(steps(found), np.delete(arrays["actions"], [4, 11], axis=0) / 5, atol=1e-6)
    assert found.action_high == (5.0, 5.0)


def test_unknown_bounds_are_measured_and_said(tmp_path: Path) -> None:
    _, arrays = stretched()
    arrays["actions"][[4, 11]] = 99.0  # no steps: these lead nowhere
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.warns(RuntimeWarning, match=r"a\.npz: actions leave \[-1, 1\].*action_bounds=\(low, high\)") as said:
        found = open_dataset(path, goal="0:2")
    assert len(said) == 1
    taken = np.delete(arrays["actions"], [4, 11], axis=0).astype(np.float32)
    np.testing.assert_array_equal(found.action_low, taken.min(axis=0))
    np.testing.assert_array_equal(found.action_high, taken.max(axis=0))
    assert f"{taken.min(axis=0)[0]:g}" in str(said[0].message)
    np.testing.assert_array_equal(steps(found).min(axis=0), [-1, -1])
    np.testing.assert_array_equal(steps(found).max(axis=0), [1, 1])


def test_data_inside_the_unit_stay_bit_for_bit(tmp_path: Path) -> None:
    arrays = flat_arrays(some_episodes([4, 6]))
    arrays["actions"] *= 0.3
    arrays["actions"][0, 0] = -0.0
    found = open_dataset(write_npz(tmp_path / "a.npz", arrays), goal="0:2")
    assert steps(found).tobytes() == np.delete(arrays["actions"], [4, 11], axis=0).tobytes()
    assert (found.action_low, found.action_high) == ((), ())


def test_a_coordinate_that_never_changes_is_zero(tmp_path: Path) -> None:
    _, arrays = stretched()
    arrays["actions"][:, 1] = 7.0
    path = write_npz(tmp_path / "a.npz", arrays)
    with pytest.warns(RuntimeWarning, match="measured|found"):
        found = open_dataset(path, goal="0:2")
    assert not steps(found)[:, 1].any()
    assert np.abs(steps(found)[:, 0]).max() == 1


def test_large_and_mapped_data_are_scaled_block_by_block(tmp_path: Path) -> None:
    rows = BLOCK + 50
    ends = np.zeros(rows, bool)
    ends[[99, rows - 1]] = True
    actions = np.linspace(0, 10, rows)[:, None]
    arrays = {"observations": np.zeros((rows, 2)), "actions": actions, "timeouts": ends}
    path = write_npz(tmp_path / "a.npz", arrays)
    found = open_dataset(path, goal="0:2", action_bounds=(0, 10), memory_limit=100)
    np.testing.assert_allclose(steps(found), np.delete(actions, [99, rows - 1], axis=0) / 5 - 1, atol=1e-6)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((0, 1), "actions, row 0: coordinate 1 is .*; actions lie in \\[0, 1\\]; name other bounds"),
        ((1, 0), "low not above high"),
        ((0, np.inf), "must be finite"),
        ((np.nan, 1), "must be finite"),
        (([0, 0, 0], 1), "must be a pair"),
        ((1, 2, 3), "must be a pair"),
        (2.5, "must be a pair"),
        ("ab", "must be a pair"),
        (True, "must be a pair"),
        (0, "number of discrete actions"),
        (10**9, "number of discrete actions"),
        (4, "one whole number for each row"),
    ],
)
def test_wrong_bounds(bounds: Any, said: str, tmp_path: Path) -> None:
    _, arrays = stretched()
    with pytest.raises(UserError, match=said) as caught:
        open_dataset(write_npz(tmp_path / "a.npz", arrays), goal="0:2", action_bounds=bounds)
    assert "\n" not in str(caught.value)


def described(folder: Path, space: Any) -> Path:
    """A data set whose metadata say this of its actions."""
    path = folder / "data" / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"action_space": space}))
    return folder


def test_bounds_that_are_stored_are_used(tmp_path: Path) -> None:
    episodes = some_episodes([4, 6])
    folder = write_minari_set(tmp_path / "set-v0", episodes, action_low=BOX.action_low, action_high=BOX.action_high)
    box = {"type": "Box", "dtype": "float32", "shape": [2], "low": LOW.tolist(), "high": HIGH.tolist()}
    found = open_dataset(described(folder, json.dumps(box)))
    np.testing.assert_allclose(found.episode(1).action, episodes[1].action, atol=1e-6)
    assert found.action_low == (0.0, -3.0)
    other = open_dataset(folder, action_bounds=(-5, 5))
    np.testing.assert_allclose(other.episode(1).action, in_units(episodes[1].action) / 5, atol=1e-6)
    unusable: list[Any] = [
        None,
        "{",
        [],
        "[]",
        {"type": "Box"},
        box | {"low": [0.0]},
        box | {"high": [float("inf")] * 2},
    ]
    for space in unusable:
        with pytest.warns(RuntimeWarning, match="nothing says their bounds"):
            open_dataset(described(folder, space))


def recorded(actions: np.ndarray) -> Recorded:
    states = np.arange(2.0 * len(actions) + 2).reshape(-1, 2)
    return Recorded(states, states, states, actions, actions[:, 0] > 0)


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (BOX, [[2.5, -1.0], [5.0, -3.0], [0.0, 1.0]]),
        (dataclasses.replace(BOX, action_shape=(2, 1)), [[[2.5], [-1.0]], [[5.0], [-3.0]], [[0.0], [1.0]]]),
        (EnvSpec("x", 2, 2, 2, 9), [[0.0, 0.0], [1.0, -1.0], [-1.0, 1.0]]),
    ],
)
def test_recordings_are_in_the_units_of_the_environment(spec: EnvSpec, stored: list[Any], tmp_path: Path) -> None:
    import h5py

    actions = np.array([[0, 0], [1, -1], [-1, 1]], np.float32)
    write_minari(tmp_path / "set-v0", "a/set-v0", spec, [recorded(actions)], {})
    with h5py.File(tmp_path / "set-v0" / "data" / "main_data.hdf5") as file:
        np.testing.assert_allclose(file["episode_0/actions"][:], stored, atol=1e-6)
    found = open_dataset(tmp_path / "set-v0")
    np.testing.assert_allclose(found.episode(0).action, actions, atol=1e-6)
    assert (found.action_low, found.action_high) == (spec.action_low, spec.action_high)


@pytest.mark.parametrize("first", [0, 3])
def test_discrete_recordings_come_back(first: int, tmp_path: Path) -> None:
    minari = pytest.importorskip("minari")
    spec = EnvSpec("x", 2, 4, 2, 9, discrete=True, action_low=(float(first),) if first else ())
    actions = np.eye(4, dtype=np.float32)[[2, 0, 1]]
    write_minari(tmp_path / "a" / "set-v0", "a/set-v0", spec, [recorded(actions)], {})
    found = open_dataset(tmp_path / "a" / "set-v0")
    np.testing.assert_array_equal(found.episode(0).action, actions)
    assert found.actions == 4
    assert found.action_low == spec.action_low
    more = open_dataset(tmp_path / "a" / "set-v0", action_bounds=5)
    assert (more.actions, more.action_low) == (5, spec.action_low)
    theirs = minari.MinariDataset(tmp_path / "a" / "set-v0" / "data")
    assert (theirs.action_space.n, theirs.action_space.start) == (4, first)
    assert theirs[0].actions.tolist() == [first + 2, first, first + 1]


def choices(shape: tuple[int, ...] = (-1,), **changes: Any) -> Arrays:
    arrays = flat_arrays(some_episodes([4, 6]))
    return arrays | {"actions": (np.arange(12) % 4).reshape(shape)} | changes


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_whole_numbers_are_discrete_actions(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = (write_npz if kind == "npz" else write_hdf5)(tmp_path / f"a.{kind}", choices(shape))
    found = open_dataset(path, goal="0:2")
    assert found.actions == 4
    assert found.action.dtype == np.float32
    np.testing.assert_array_equal(found.episode(0).action, np.eye(4)[[0, 1, 2, 3]])
    assert not found.action[found.start + found.length].any()
    more = open_dataset(path, goal="0:2", action_bounds=6, memory_limit=10)
    assert (more.actions, more.action.shape) == (6, (12, 6))
    plain = open_dataset(path, goal="0:2", action_bounds=(0, 3))
    np.testing.assert_allclose(plain.episode(0).action[:, 0], [-1, -1 / 3, 1 / 3, 1], atol=1e-6)
    with pytest.raises(UserError, match=r"actions, row 2: is 2; an action is one of 0 to 1"):
        open_dataset(path, goal="0:2", action_bounds=2)


def test_whole_numbers_below_zero_are_no_choices(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", choices(actions=np.arange(12)[:, None] % 3 - 1))
    found = open_dataset(path, goal="0:2")
    assert (found.actions, found.action.shape) == (0, (12, 1))
    with pytest.raises(UserError, match="would be 5,001 discrete actions; store them as floats"):
        open_dataset(write_npz(tmp_path / "b.npz", choices(actions=np.full(12, 5000))), goal="0:2")
    floats = write_npz(tmp_path / "c.npz", choices(actions=np.full((12, 1), 0.5)))
    with pytest.raises(UserError, match=r"row 0: is 0\.5; an action is one of 0 to 3"):
        open_dataset(floats, goal="0:2", action_bounds=4)


def test_default_bounds_are_for_data_that_say_nothing(tmp_path: Path) -> None:
    before, arrays = stretched()
    path = write_npz(tmp_path / "a.npz", arrays)
    default: Any = (LOW, HIGH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = open_dataset(path, goal="0:2", default_bounds=default)
    np.testing.assert_allclose(steps(found), np.delete(before["actions"], [4, 11], axis=0), atol=1e-6)
    assert found.action_low == (0.0, -3.0)
    given = open_dataset(path, goal="0:2", action_bounds=(-5, 5), default_bounds=default)
    assert given.action_low == (-5.0, -5.0)
    memory = from_arrays(arrays | {"terminals": None}, goal="0:2", default_bounds=default)
    assert memory.action.tobytes() == found.action.tobytes()
    with pytest.warns(RuntimeWarning, match="nothing says their bounds"):
        open_dataset(path, goal="0:2", default_bounds=([0, 0, 0], 1))
    stored = write_minari_set(tmp_path / "set-v0", some_episodes([4, 6]))
    assert open_dataset(stored, default_bounds=default).action_low == ()
    assert open_dataset(write_npz(tmp_path / "b.npz", choices()), goal="0:2", default_bounds=6).actions == 6


def test_one_hot_rows_stay(tmp_path: Path) -> None:
    actions = np.eye(4, dtype=np.float32)[np.arange(12) % 4]
    found = open_dataset(write_npz(tmp_path / "a.npz", choices(actions=actions)), goal="0:2", action_bounds=4)
    assert found.actions == 4
    np.testing.assert_array_equal(steps(found), np.delete(actions, [4, 11], axis=0))
    for flaw in (0.5, 1.0):
        actions[1, 0] = flaw
        with pytest.raises(UserError, match="one whole number for each row"):
            open_dataset(write_npz(tmp_path / "a.npz", choices(actions=actions)), goal="0:2", action_bounds=4)


@pytest.mark.parametrize(
    "spec", [{"action_low": [0, -3], "action_high": [5, 1]}, {"discrete": True}, {"discrete": True, "action_low": [3]}]
)
def test_a_run_stores_normalised_actions(spec: dict[str, Any], tmp_path: Path) -> None:
    episodes = some_episodes([4, 6])
    if "discrete" in spec:
        episodes = [e._replace(action=np.eye(2, dtype=np.float32)[np.arange(len(e.action)) % 2]) for e in episodes]
    folder = write_run(tmp_path / "run", episodes)
    described = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(described | {"spec": spec}))
    for default in (None, 2 if "discrete" in spec else (0, 9)):
        found = open_dataset(folder, default_bounds=default)  # type: ignore[arg-type]
        assert steps(found).tobytes() == np.concatenate([e.action for e in episodes]).tobytes()
        assert found.action_low == tuple(spec.get("action_low", ()))
        assert found.action_high == tuple(spec.get("action_high", ()))
        assert found.actions == (2 if "discrete" in spec else 0)
    with pytest.raises(UserError, match=r"lies in \[-1, 1\] already; leave action_bounds out"):
        open_dataset(folder, action_bounds=(0, 9))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"action_low": "ab", "action_high": [1, 1]}, "are no numbers"),
        ({"action_low": 3}, "are no numbers"),
        ({"action_low": [0], "action_high": [1]}, "has 1 and 1 bounds of actions, but .* have size 2"),
        ({"discrete": True, "action_low": [0, 0], "action_high": [1, 1]}, "has 2 and 2 bounds of actions"),
    ],
)
def test_a_malformed_spec_of_a_run(spec: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", some_episodes([4, 6]))
    (folder / "config.json").write_text(json.dumps({"spec": spec}))
    with pytest.raises(UserError, match=rf"config\.json: spec: .*{said}"):
        open_dataset(folder)


def test_inspect_takes_bounds_and_warns_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_npz(tmp_path / "a.npz", stretched()[1]))
    words = ["data", "inspect", path, "--goal", "0:2", "--out", str(tmp_path)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main([*words, "--action-bounds", "-5", "5"]) == 0
    with pytest.warns(RuntimeWarning, match="nothing says their bounds"):
        assert main(words) == 0
    assert "action        [-1, 1], [-1, 1]" in capsys.readouterr().out
