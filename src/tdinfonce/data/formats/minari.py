"""Read Minari data sets: a folder with one HDF5 group for each episode. Only h5py is needed, minari for downloads."""

import math
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.data.check import Raw, Units, check_field, refuse, row_in_episode
from tdinfonce.data.formats.hdf5 import child, dataset, open_file
from tdinfonce.data.store import check_packing, empty
from tdinfonce.data.writer import RECORD, import_h5py
from tdinfonce.errors import UserError
from tdinfonce.system.files import parse_json, read_json

__all__ = ["READS", "accepts", "data_folder", "is_minari_id", "minari_root", "open", "read_metadata", "record"]

READS = "a Minari data set (a folder, or an id such as a/name-v0)"
ID = re.compile(r"^(?:[-_\w]+/)*[-_\w]+-v\d+$")
REMOTE = re.compile(r"^(\w+):/+([-_\w]+)/(.+)$")
"""A remote of Minari's and an id, ``hf://farama-minari/D4RL/door/human-v2``; a path has lost one of the slashes."""
METADATA = "metadata.json"


def minari_root() -> Path:
    """Where Minari keeps its data sets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")


def is_minari_id(text: str) -> bool:
    """Whether this could be the id of a data set: namespace/name-vN."""
    return bool(ID.match(text))


def data_folder(path: Path) -> Path | None:
    """The folder with the data of a data set, if there is one at this path."""
    return next((f for f in (path / "data", path) if (f / METADATA).is_file()), None)


def accepts(path: Path) -> bool:
    """Whether a data set lies there, or it could be the id of one."""
    if path.exists():
        return data_folder(path) is not None
    return _remote(path) is not None


def _remote(path: Path) -> tuple[str, str] | None:
    """The id that a path is, and what Minari downloads it by."""
    text = path.as_posix()
    parts = REMOTE.match(text)
    name, dataset_id = ("{}://{}/{}".format(*parts.groups()), parts[3]) if parts else (text, text)
    return (dataset_id, name) if is_minari_id(dataset_id) else None


def _find(path: Path) -> Path:
    """The folder with the data, downloaded if they are not here."""
    found = data_folder(path)
    if found is not None:
        return found
    dataset_id, name = _remote(path) or (path.name, path.as_posix())
    here = minari_root() / dataset_id
    return data_folder(here) or _download(name, here)


def _download(name: str, here: Path) -> Path:
    try:
        import minari  # type: ignore[import-untyped]

        minari.download_dataset(name)
    except ImportError as error:  # of Minari, or of what it reaches its remotes with
        problem = f"downloading it needs more: pip install 'tdinfonce[offline]' ({_said(error)})"
        raise UserError(f"there is no data set {here}, and {problem}") from error
    except Exception as error:  # whatever the network and the servers come up with
        problem = f"it could not be downloaded ({_said(error)})"
        raise UserError(f"there is no data set {here}, and {problem}") from error
    found = data_folder(here)
    if found is None:
        raise UserError(f"{here}: the download holds no data set")
    return found


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def record(path: Path) -> dict[str, Any]:
    """Its id, and what we wrote if we made it."""
    described = read_metadata(_find(path))
    ours = described.get(RECORD)
    return {"id": described.get("dataset_id")} | (ours if isinstance(ours, dict) else {})


def read_metadata(folder: Path) -> dict[str, Any]:
    """What a data set says about itself."""
    path = folder / METADATA
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise refuse(str(path), "", f"is damaged or cut short ({error})") from error
    if not isinstance(found, dict):
        raise refuse(str(path), "", "must be a JSON object")
    for name in ("total_episodes", "total_steps"):
        if type(found.get(name)) is not int or found[name] < 1:
            raise refuse(str(path), name, f"must be a positive whole number; it is {found.get(name)!r}")
    if found.get("data_format", "hdf5") != "hdf5":
        raise refuse(str(path), "data_format", f"only hdf5 can be read; it is {found['data_format']!r}")
    return found


class _Names(NamedTuple):
    """Where an episode keeps its arrays."""

    observation: str
    achieved: str | None
    desired: str | None


def open(path: Path, memory_limit: int) -> Raw:
    """A data set of goal dicts, or of flat observations."""
    folder = _find(path)
    described = read_metadata(folder)
    episodes, steps = described["total_episodes"], described["total_steps"]
    data = folder / "main_data.hdf5"
    with open_file(data) as file:
        reader = _Reader(file, str(data))
        names = reader.names()
        sizes = {name: reader.size(f"episode_0/{name}") for name in ("actions", *(n for n in names if n))}
        rows = steps + episodes
        claimed = 4 * rows * sum(sizes.values())
        problem = check_packing(claimed, data.stat().st_size)
        if problem:
            raise refuse(str(folder / METADATA), "total_steps", problem)
        mapped = claimed > memory_limit
        arrays = {name: empty((rows, size), mapped=mapped) for name, size in sizes.items() if name != names.desired}
        goals = None if names.desired is None else np.zeros((episodes, sizes[names.desired]), np.float32)
        start, length = reader.fill(arrays, names, goals, episodes, rows)
    if int(length.sum()) != steps:
        problem = f"says {steps:,}, but the episodes have {int(length.sum()):,}"
        raise refuse(str(folder / METADATA), "total_steps", problem)
    achieved = None if names.achieved is None else arrays[names.achieved]
    ours = described.get(RECORD)
    usual = ours.get("goal") if isinstance(ours, dict) else None
    fields = (names.observation, "actions", names.achieved or names.observation, names.desired or "")
    return Raw(
        str(data),
        arrays[names.observation],
        arrays["actions"],
        achieved,
        start,
        length,
        goals,
        fields,
        row_in_episode(start),
        _units(described.get("action_space"), sizes["actions"]),
        reader.whole,
        renewed=reader.renewed(),
        usual_goal=usual if isinstance(usual, str) else None,
    )


def _units(space: Any, size: int) -> Units:
    """The bounds in the metadata, if they are there, finite and of the right number."""
    try:
        found = parse_json(space) if isinstance(space, str) else space
        if found["type"] == "Discrete":
            return Units((float(found["start"]),) if found["start"] else (), choices=int(found["n"]))
        low, high = (np.array(found[name], np.float64).ravel() for name in ("low", "high"))
    except (ValueError, TypeError, KeyError):
        return Units()
    known = len(low) == len(high) == size and np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()
    return Units(tuple(low.tolist()), tuple(high.tolist())) if known else Units()


def _shaped(rows: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    """Rows as an array of this shape, if they can be seen so: actions may be numbers or tables."""
    fits = shape and math.prod(shape[1:]) == rows.shape[1]
    return rows.reshape(len(rows), *shape[1:]) if fits and shape else rows


class _Reader:
    """Reads the arrays of one episode after the other, straight into their place."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name, self._h5py = file, name, import_h5py()
        self._float32 = self._h5py.h5t.py_create(np.dtype(np.float32))
        self.whole = False
        self._renewed: list[tuple[np.ndarray, np.ndarray]] = []

    def names(self) -> _Names:
        """Goal dicts if the first episode has them."""
        first = self._group(self._file.id, "episode_0", "episode_0")
        try:
            kind = self._h5py.h5g.get_objinfo(first, b"observations", follow_link=False).type
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise refuse(self._name, "episode_0/observations", "is missing or damaged") from error
        if kind != self._h5py.h5g.GROUP:
            return _Names("observations", None, None)
        return _Names(*(f"observations/{key}" for key in ("observation", "achieved_goal", "desired_goal")))

    def size(self, name: str) -> int:
        """Coordinates of an array of the first episode."""
        found = dataset(self._file, self._name, name)
        if found is None:
            raise refuse(self._name, name, "is missing")
        shape = found.shape
        if name == "episode_0/actions" and found.dtype.kind in "iub" and shape is not None and shape[1:] in ((), (1,)):
            self.whole = True
            return 1
        if name == "episode_0/actions" and shape is not None and len(shape) > 2:
            return math.prod(shape[1:])
        if shape is None or len(shape) != 2 or not shape[1]:
            raise refuse(self._name, name, f"must have shape [any, any]; it has {list(shape or [])}")
        return int(shape[1])

    def fill(
        self, arrays: dict[str, np.ndarray], names: _Names, goals: np.ndarray | None, episodes: int, rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read every episode; returns first rows and numbers of steps."""
        start, length = np.zeros(episodes, np.int64), np.zeros(episodes, np.int64)
        first = 0
        for index in range(episodes):
            path = f"episode_{index}"
            group = self._group(self._file.id, path, path)
            nested = None if names.achieved is None else self._group(group, "observations", f"{path}/observations")
            actions = self._array(group, "actions", f"{path}/actions")
            steps = int((actions.shape or (0,))[0])
            if first + steps + 1 > rows:
                raise refuse(self._name, path, "has more steps than metadata.json says are left")
            start[index], length[index] = first, steps
            for name, array in arrays.items():
                at = f"{path}/{name}"
                if name == "actions":
                    self._read(actions, at, _shaped(array[first : first + steps], actions.shape))
                else:
                    found = self._array(group if nested is None else nested, name.rpartition("/")[2], at)
                    self._read(found, at, array[first : first + steps + 1])
            if goals is not None:
                whole = np.empty((steps + 1, goals.shape[1]), np.float32)
                at = f"{path}/{names.desired}"
                self._read(self._array(nested, "desired_goal", at), at, whole)
                goals[index] = whole[0]
                changed = 1 + np.flatnonzero((whole[1:] != whole[:-1]).any(axis=1))
                self._renewed.append((first + changed, whole[changed]))
            first += steps + 1
        return start, length

    def renewed(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows in which the goal is another than in the row before, and the new goals."""
        if not self._renewed:
            return None
        rows, goals = zip(*self._renewed, strict=True)
        return np.concatenate(rows), np.concatenate(goals)

    def _group(self, place: Any, key: str, path: str) -> Any:
        return self._there(child(self._h5py, place, self._name, key, path, array=False), path)

    def _array(self, place: Any, key: str, path: str) -> Any:
        return self._there(child(self._h5py, place, self._name, key, path, array=True), path)

    def _there(self, found: Any, path: str) -> Any:
        if found is None:
            raise refuse(self._name, path, "is missing")
        return found

    def _read(self, found: Any, path: str, out: np.ndarray) -> None:
        try:
            shape, dtype = found.shape, found.dtype
        except (TypeError, ValueError, RuntimeError) as error:
            raise refuse(self._name, path, f"has a type that is no number ({error})") from error
        if shape != out.shape or dtype.kind not in "fiub" or dtype.hasobject:
            check_field(self._name, path, shape or (), dtype, sizes=out.shape)
        if not out.size:
            return
        space = self._h5py.h5s.ALL
        try:
            found.read(space, space, out, mtype=self._float32)
        except (OSError, RuntimeError, ValueError) as error:
            raise refuse(self._name, path, f"is damaged ({error})") from error
