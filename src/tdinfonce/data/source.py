"""Data from outside, whatever its format: one name, one function, one validation."""

from pathlib import Path
from typing import Any

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.formats import minari as _minari
from tdinfonce.data.formats._check import refuse
from tdinfonce.data.formats._store import MEMORY_LIMIT
from tdinfonce.data.formats.hdf5 import open_hdf5
from tdinfonce.data.formats.npz import open_npz
from tdinfonce.data.formats.run import is_run, open_run, run_record
from tdinfonce.data.writer import RECORD

__all__ = ["open_dataset", "read_record"]

HDF5 = (".hdf5", ".h5")


def open_dataset(source: str, *, goal: str | None = None, memory_limit: int = MEMORY_LIMIT) -> Episodes:
    """Read and check a data set.

    Args:
        source: a Minari id (downloaded if it is not here) or the folder of a Minari data set, a D4RL-style .hdf5 file,
            an .npz file with the same arrays, or the folder of one of our runs, whose replay is read.
        goal: the coordinates of an observation that make the goal, ``0:2`` or ``0,1``. Needed where the data have no
            achieved goals; where they have, it must agree with them.
        memory_limit: larger data sets, in bytes, are memory-mapped.

    Raises:
        UserError: one line with file, field and row.
    """
    kind, path = _find(source)
    if kind == "npz":
        return open_npz(path, goal, memory_limit)
    if kind == "hdf5":
        return open_hdf5(path, goal, memory_limit)
    if kind == "run":
        return open_run(path, goal, memory_limit)
    return _minari.open_minari(path, goal, memory_limit)


def read_record(source: str) -> dict[str, Any]:
    """What a data set says about how it was made; always with ``format``, and with ``env`` if that is known."""
    kind, path = _find(source)
    if kind == "run":
        return {"format": "run"} | run_record(path)
    if kind != "minari":
        return {"format": kind}
    described = _minari.read_metadata(path)
    record = described.get(RECORD)
    return {"format": "minari", "id": described.get("dataset_id")} | (record if isinstance(record, dict) else {})


def _find(source: str) -> tuple[str, Path]:
    """Which format, and where."""
    path = Path(source).expanduser()
    if path.is_dir():
        if is_run(path):
            return "run", path
        folder = _minari.data_folder(path)
        if folder is None:
            raise refuse(str(path), "", "is neither a Minari data set nor a run folder")
        return "minari", folder
    if path.suffix in (".npz", *HDF5):
        if not path.is_file():
            raise refuse(str(path), "", "there is no such file")
        return ("npz" if path.suffix == ".npz" else "hdf5"), path
    if path.exists():
        raise refuse(str(path), "", "data files end in .npz, .hdf5 or .h5")
    if not _minari.is_minari_id(source):
        raise refuse(
            f"there is no data set '{source}'",
            "",
            "name an .npz or .hdf5 file, a run folder or a Minari id (a/name-v0)",
        )
    return "minari", _minari.data_folder(_minari.minari_root() / source) or _minari.download(source)
