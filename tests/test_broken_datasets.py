"""Broken data sets: each gets exit code 2 and one line that says what is wrong, and where."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5py")

import h5py

from dataset_files import Arrays, flat_arrays, some_episodes, write_hdf5, write_minari_set, write_npz, write_run
from tdinfonce.cli import main

LENGTHS = [4, 4, 4]  # 5 rows each in flat files


def put(name: str, index: Any, value: Any) -> Callable[[Arrays], None]:
    """Overwrite one entry."""

    def change(arrays: Arrays) -> None:
        arrays[name] = arrays[name].astype(np.float64) if isinstance(value, float) else arrays[name].copy()
        arrays[name][index] = value

    return change


def make(name: str, build: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], None]:
    """Replace one array."""
    return lambda arrays: arrays.update({name: build(arrays[name])})


RECORD = np.dtype([("x", np.float32)])
FLAT: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "no observations": (lambda a: a.pop("observations"), "observations: is missing"),
    "no actions": (lambda a: a.pop("actions"), "actions: is missing"),
    "no timeouts": (lambda a: a.pop("timeouts"), "timeouts: is missing"),
    "nan observation": (put("observations", (7, 1), np.nan), "observations, row 7: coordinate 1 is nan"),
    "infinite observation": (put("observations", (3, 0), np.inf), "observations, row 3: coordinate 0 is inf"),
    "overflowing observation": (put("observations", (9, 2), 1e300), "observations, row 9: coordinate 2 is inf"),
    "nan action": (put("actions", (2, 0), np.nan), "actions, row 2: coordinate 0 is nan"),
    "infinite action": (put("actions", (14, 1), -np.inf), "actions, row 14: coordinate 1 is -inf"),
    "flat observations": (make("observations", lambda x: x[:, 0]), "observations: must have shape [any, any]"),
    "deep observations": (make("observations", lambda x: x[:, None]), "observations: must have shape [any, any]"),
    "flat actions": (make("actions", lambda x: x[:, 0]), "actions: must have shape [15, any]"),
    "fewer actions": (make("actions", lambda x: x[:-1]), "actions: must have shape [15, any]; it has [14, 2]"),
    "fewer timeouts": (make("timeouts", lambda x: x[:-1]), "timeouts: must have shape [15]; it has [14]"),
    "deep timeouts": (make("timeouts", lambda x: x[:, None]), "timeouts: must have shape [15]; it has [15, 1]"),
    "timeouts of two": (make("timeouts", lambda x: 2 * x.astype(int)), "timeouts, row 4: is 2.0"),
    "nan timeout": (put("timeouts", 5, np.nan), "timeouts, row 5: is nan"),
    "no end": (make("timeouts", np.zeros_like), "timeouts: marks no end"),
    "one-step episode": (put("timeouts", 6, True), "row 5: episode 1 has one step"),
    "empty episode": (put("timeouts", 5, True), "row 5: episode 1 is empty"),
    "no rows": (lambda a: a.update({k: v[:0] for k, v in a.items()}), "observations: must have shape"),
    "no columns": (make("observations", lambda x: x[:, :0]), "observations: must have shape"),
    "complex numbers": (make("observations", lambda x: x + 1j), "observations: must hold plain numbers"),
    "text": (make("actions", lambda x: x.astype("S4")), "actions: must hold plain numbers"),
    "records": (make("observations", lambda x: np.zeros(x.shape, RECORD)), "observations: must hold plain numbers"),
    "wide goals": (make("goals", lambda x: np.tile(x, 2)), "has 4 coordinates; a goal has 2"),
    "nan goal": (put("goals", (5, 0), np.nan), "row 5:"),
    "fewer goals": (make("goals", lambda x: x[1:]), "must have shape [15, any]; it has [14, 2]"),
}


def check(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "inspect", *words]) == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1, error
    assert expected in error
    assert "Traceback" not in error


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
@pytest.mark.parametrize("flaw", FLAT)
def test_broken_arrays(kind: str, flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, expected = FLAT[flaw]
    arrays = flat_arrays(some_episodes(LENGTHS))
    change(arrays)
    path = (write_npz if kind == "npz" else write_hdf5)(tmp_path / f"set.{kind}", arrays)
    check([str(path), "--goal", "0:2"], expected, capsys)
    assert main(["data", "inspect", str(path), "--goal", "0:2"]) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (None, "for example goal 0:2"),
        ("4", "asks for coordinate 4, but an observation has 4"),
        ("2:9", "asks for coordinate 4"),
        ("-1", "goal"),
        ("x", "written 0:2 or 0,1"),
        ("0:", "written 0:2 or 0,1"),
        ("1,1", "each once"),
        ("2:2", "at least one coordinate"),
        ("0,1,2", "a goal has 3"),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_wrong_goals(
    kind: str, goal: str | None, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = flat_arrays(some_episodes(LENGTHS))
    path = (write_npz if kind == "npz" else write_hdf5)(tmp_path / f"set.{kind}", arrays)
    check([str(path), *([f"--goal={goal}"] if goal else [])], expected, capsys)


def cut(path: Path, share: float = 0.6) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def flip_last_row(path: Path) -> None:
    """Damage the numbers themselves: only a checksum notices."""
    row = flat_arrays(some_episodes(LENGTHS))["observations"][14].tobytes()
    flip(path, path.read_bytes().index(row) + 2)


def lie_about_rows(path: Path) -> None:
    """A header that claims far more rows than there are."""
    arrays = flat_arrays(some_episodes(LENGTHS))
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            rows = 10**12 if name == "observations" else len(array)
            header = repr({"descr": array.dtype.str, "fortran_order": False, "shape": (rows, *array.shape[1:])})
            header = header.ljust(117) + "\n"
            data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + array.tobytes()
            archive.writestr(f"{name}.npy", data)


def bomb(path: Path) -> None:
    """Nothing but zeros, packed; and the directory claims a thousand times more."""
    arrays = flat_arrays(some_episodes(LENGTHS))
    arrays["observations"] = np.zeros((2_000_000, 4), np.float32)
    np.savez_compressed(path, **arrays)


def rewrite(path: Path, **changed: Any) -> None:
    np.savez(path, **(flat_arrays(some_episodes(LENGTHS)) | changed))


NPZ: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut short": (cut, "is not an .npz file, or cut short"),
    "not a zip file": (lambda p: p.write_bytes(b"hello" * 50), "is not an .npz file"),
    "nothing in it": (lambda p: p.write_bytes(b""), "is not an .npz file"),
    "damaged numbers": (flip_last_row, "observations"),
    "pickled objects": (lambda p: rewrite(p, observations=np.array([{}] * 15, object)), "must hold plain numbers"),
    "column by column": (lambda p: rewrite(p, actions=np.zeros((15, 2), order="F")), "column by column"),
    "false header": (lie_about_rows, "observations: claims"),
    "rows that do not fit": (bomb, "actions: must have shape [2000000, any]"),
    "no arrays": (lambda p: zipfile.ZipFile(p, "w").close(), "is missing"),
    "damaged header": (lambda p: flip(p, p.read_bytes().index(b"\x93NUMPY")), "damaged header"),
    "not there": (lambda p: p.unlink(), "there is no such file"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "is no data set. What can be read"),
}


@pytest.mark.parametrize("flaw", NPZ)
def test_broken_npz_files(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, expected = NPZ[flaw]
    path = write_npz(tmp_path / "set.npz", flat_arrays(some_episodes(LENGTHS)))
    spoil(path)
    check([str(path), "--goal", "0:2"], expected, capsys)


def edit(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change an HDF5 file."""

    def spoil(path: Path) -> None:
        with h5py.File(path, "a") as file:
            change(file)

    return spoil


def replace(name: str, **how: Any) -> Callable[[Path], None]:
    def change(file: Any) -> None:
        del file[name]
        if "value" in how:
            file[name] = how["value"]
        else:
            file.create_dataset(name, **how)

    return edit(change)


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((15, 4), np.float32)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (15, 4))
    del file["observations"]
    file.create_virtual_dataset("observations", layout)


def damaged_chunk(path: Path) -> None:
    write_hdf5(path, flat_arrays(some_episodes(LENGTHS)), compression="gzip")
    with h5py.File(path, "r") as file:
        chunk = file["observations"].id.get_chunk_info(0)
    for at in range(chunk.byte_offset, chunk.byte_offset + min(chunk.size, 30)):
        flip(path, at)


VLEN = {"shape": (15,), "dtype": h5py.vlen_dtype(np.float32)}
HUGE = {"shape": (10**11, 4), "dtype": np.float32, "chunks": (1000, 4)}
OUTSIDE = {"shape": (15, 4), "dtype": np.float32, "external": [("elsewhere.bin", 0, 240)]}
HDF5: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut short": (cut, "is not an HDF5 file, or damaged or cut short"),
    "not HDF5": (lambda p: p.write_bytes(b"hello" * 50), "is not an HDF5 file"),
    "nothing in it": (lambda p: p.write_bytes(b""), "is not an HDF5 file"),
    "external link": (replace("observations", value=h5py.ExternalLink("other.h5", "/x")), "observations: is a link"),
    "soft link": (replace("actions", value=h5py.SoftLink("/observations")), "actions: is a link"),
    "external storage": (replace("observations", **OUTSIDE), "observations: keeps its numbers in another file"),
    "virtual array": (edit(virtual), "observations: keeps its numbers in another file"),
    "group for array": (
        edit(lambda f: (f.pop("actions"), f.create_group("actions"))),
        "actions: is damaged, or not an",
    ),
    "ragged arrays": (replace("observations", **VLEN), "observations: must hold plain numbers"),
    "empty space": (replace("actions", value=h5py.Empty("f")), "actions: is empty"),
    "false size": (replace("observations", **HUGE), "observations: claims 1,600,000,000,000 bytes"),
    "damaged chunk": (damaged_chunk, "observations, row 0 or later: is damaged"),
    "not there": (lambda p: p.unlink(), "there is no such file"),
}


@pytest.mark.parametrize("flaw", HDF5)
def test_broken_hdf5_files(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, expected = HDF5[flaw]
    path = write_hdf5(tmp_path / "set.hdf5", flat_arrays(some_episodes(LENGTHS)))
    spoil(path)
    check([str(path), "--goal", "0:2"], expected, capsys)


def describe(**changed: Any) -> Callable[[Path], None]:
    """Change the metadata of a Minari data set."""

    def spoil(folder: Path) -> None:
        path = folder / "data" / "metadata.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return spoil


def inside(spoil: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda folder: spoil(folder / "data" / "main_data.hdf5")


def spot(name: str, index: Any, value: float) -> Callable[[Path], Any]:
    def change(file: Any) -> None:
        file[name][index] = value

    return inside(edit(change))


def text(content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "data" / "metadata.json").write_text(content)


def swap(name: str, value: Any) -> Callable[[Path], Any]:
    return inside(replace(name, value=value))


def one_step(steps: int) -> Callable[[Path], None]:
    def change(file: Any) -> None:
        for name in ("actions", *(f"observations/{k}" for k in ("observation", "achieved_goal", "desired_goal"))):
            kept = file[f"episode_1/{name}"][: steps + (name != "actions")]
            del file[f"episode_1/{name}"]
            file[f"episode_1/{name}"] = kept

    def spoil(folder: Path) -> None:
        edit(change)(folder / "data" / "main_data.hdf5")
        describe(total_steps=8 + steps)(folder)

    return spoil


OBS, ACHIEVED = "episode_1/observations/observation", "episode_1/observations/achieved_goal"
DESIRED = "episode_1/observations/desired_goal"
FLOATS = np.zeros((5, 4), np.float32)
MINARI: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no metadata": (lambda f: (f / "data" / "metadata.json").unlink(), "is no data set. What can be read"),
    "cut metadata": (text('{"total_episodes": 3,'), "metadata.json: is damaged"),
    "metadata is a list": (text("[]"), "must be a JSON object"),
    "no count": (describe(total_episodes=None), "total_episodes: must be a positive whole number"),
    "count is text": (describe(total_steps="12"), "total_steps: must be a positive whole number"),
    "no steps": (describe(total_steps=0), "total_steps: must be a positive whole number"),
    "too few steps": (describe(total_steps=8), "has more steps than metadata.json says"),
    "too many steps": (describe(total_steps=20), "total_steps: says 20, but the episodes have 12"),
    "false size": (describe(total_steps=10**12), "total_steps: claims"),
    "missing episode": (describe(total_episodes=4, total_steps=16), "episode_3: is missing"),
    "another format": (describe(data_format="arrow"), "only hdf5 can be read"),
    "no data": (lambda f: (f / "data" / "main_data.hdf5").unlink(), "there is no such file"),
    "cut data": (inside(cut), "is not an HDF5 file, or damaged or cut short"),
    "nan observation": (spot(OBS, (2, 1), np.nan), "observations/observation, episode 1, row 2: coordinate 1 is nan"),
    "infinite achieved": (spot(ACHIEVED, (0, 1), np.inf), "achieved_goal, episode 1, row 0: coordinate 1 is inf"),
    "nan goal": (spot(DESIRED, (0, 1), np.nan), "desired_goal, episode 1, row 0:"),
    "nan action": (spot("episode_2/actions", (3, 0), np.nan), "actions, episode 2, row 3: coordinate 0 is nan"),
    "large action": (spot("episode_0/actions", (1, 0), 3.0), "actions, episode 0, row 1: coordinate 0 is 3"),
    "no actions": (inside(edit(lambda f: f.pop("episode_1/actions"))), "episode_1/actions: is missing"),
    "no observation": (inside(edit(lambda f: f.pop(OBS))), f"{OBS}: is missing"),
    "no goal": (inside(edit(lambda f: f.pop(DESIRED))), f"{DESIRED}: is missing"),
    "no achieved goal": (inside(edit(lambda f: f.pop("episode_0/observations/achieved_goal"))), "is missing"),
    "missing state": (swap(OBS, FLOATS[1:]), f"{OBS}: must have shape [5, 4]; it has [4, 4]"),
    "wider state": (swap(OBS, np.zeros((5, 6))), f"{OBS}: must have shape [5, 4]; it has [5, 6]"),
    "flat action": (swap("episode_1/actions", np.zeros(4)), "episode_1/actions: must have shape"),
    "text": (swap(OBS, FLOATS.astype("S4")), f"{OBS}: must hold plain numbers"),
    "ragged": (inside(replace(OBS, shape=(5,), dtype=h5py.vlen_dtype(np.float32))), f"{OBS}:"),
    "external episode": (swap("episode_1", h5py.ExternalLink("other.h5", "/x")), "episode_1: is a link"),
    "soft action": (swap("episode_1/actions", h5py.SoftLink("/episode_0/actions")), "episode_1/actions: is a link"),
    "one step": (one_step(1), "episode 1, row 0: episode 1 has one step"),
    "no step": (one_step(0), "episode 1, row 0: episode 1 is empty"),
    "another goal": (spot(ACHIEVED, (3, 0), 9.0), "achieved_goal, episode 1, row 3: is not what goal cuts"),
}


@pytest.mark.parametrize("flaw", MINARI)
def test_broken_minari_sets(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, expected = MINARI[flaw]
    folder = write_minari_set(tmp_path / "set-v0", some_episodes(LENGTHS))
    spoil(folder)
    check([str(folder), "--goal", "0:2"], expected, capsys)


def test_minari_goal_of_another_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_minari_set(tmp_path / "set-v0", some_episodes(LENGTHS))
    check([str(folder), "--goal", "0:3"], "has 2 coordinates, but goal names 3", capsys)


def stored(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / "checkpoints" / "000000000010" / name


REPLAY, MANIFEST = stored("replay.safetensors"), stored("manifest.json")
RUN: dict[str, tuple[Callable[[Arrays], Any], Callable[[Path], Any], str]] = {
    "nan": (put("observation", (6, 1), np.nan), lambda f: None, "observation, episode 1, row 1: coordinate 1 is nan"),
    "nan achieved": (put("achieved", (6, 1), np.nan), lambda f: None, "achieved, episode 1, row 1: coordinate 1"),
    "large action": (put("action", (6, 1), 5.0), lambda f: None, "action, episode 1, row 1: coordinate 1 is 5"),
    "nan goal": (put("goal", (2, 0), np.nan), lambda f: None, "goal, episode 2, row 0"),
    "too long": (put("length", 1, 9), lambda f: None, "length, row 1: does not fit"),
    "one step": (put("length", 1, 1), lambda f: None, "episode 1 has one step"),
    "no step": (put("length", 2, 0), lambda f: None, "episode 2 is empty"),
    "no actions": (lambda a: a.pop("action"), lambda f: None, "action: is missing"),
    "fewer actions": (make("action", lambda x: x[1:]), lambda f: None, "action: must have shape [15, any]"),
    "fewer goals": (make("goal", lambda x: x[1:]), lambda f: None, "goal: must have shape [3, any]"),
    "damaged": (lambda a: None, lambda f: flip(REPLAY(f), -3), "its SHA-256 does not match"),
    "cut": (lambda a: None, lambda f: cut(REPLAY(f)), "its SHA-256 does not match"),
    "no replay": (lambda a: None, lambda f: REPLAY(f).unlink(), "this run kept no replay"),
    "no manifest": (lambda a: None, lambda f: MANIFEST(f).unlink(), "manifest.json"),
    "damaged manifest": (lambda a: None, lambda f: cut(MANIFEST(f)), "manifest.json"),
    "no checkpoint": (lambda a: None, lambda f: (f / "checkpoints").rename(f / "gone"), "holds no checkpoint"),
    "damaged config": (lambda a: None, lambda f: (f / "config.json").write_text("{"), "config.json"),
}


@pytest.mark.parametrize("flaw", RUN)
def test_broken_runs(flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, spoil, expected = RUN[flaw]
    folder = write_run(tmp_path / "run", some_episodes(LENGTHS), change)
    spoil(folder)
    check([str(folder)], expected, capsys)


@pytest.mark.parametrize("source", ["", "nothing", "no/such/place", "x.txt", "odd\nname.npz"])
def test_no_data_set_there(source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check([source], "no such file" if source.endswith("npz") else "data set", capsys)


def test_a_missing_id_that_cannot_be_downloaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")

    def offline(name: str) -> None:
        raise ConnectionError("no network\nat all")

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.setattr(minari, "download_dataset", offline)
    check(["some/set-v0"], "could not be downloaded (ConnectionError: no network at all)", capsys)


def test_there_are_more_than_sixty() -> None:
    assert 2 * len(FLAT) + len(NPZ) + len(HDF5) + len(MINARI) + len(RUN) >= 60
