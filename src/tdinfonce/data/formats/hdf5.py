"""HDF5 files, read without trust: nothing outside the file is followed, sizes are checked before memory is taken."""

from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.data.check import Raw, check_field, refuse
from tdinfonce.data.flat import FIELDS, Field, assemble
from tdinfonce.data.store import check_packing
from tdinfonce.data.writer import import_h5py

__all__ = ["READS", "accepts", "child", "dataset", "open", "open_file", "read_array", "record"]


READS = "an .hdf5 or .h5 file"


def accepts(path: Path) -> bool:
    """Whether it ends as HDF5 files do."""
    return path.suffix in (".hdf5", ".h5") and not path.is_dir()


def open(path: Path, memory_limit: int) -> Raw:
    """Flat arrays as D4RL stores them."""
    with open_file(path) as file:
        fields = {}
        for name in FIELDS:
            found = dataset(file, str(path), name)
            if found is not None:
                fields[name] = _field(found, str(path), name)
        return assemble(str(path), fields, memory_limit, held=[*file])


def record(path: Path) -> dict[str, Any]:
    """The file does not say how it was made."""
    return {}


def open_file(path: Path) -> Any:
    """Open for reading, or say that it is no HDF5 file or cut short."""
    h5py = import_h5py()
    if not path.is_file():
        raise refuse(str(path), "", "there is no such file")
    try:
        return h5py.File(path, "r")
    except (OSError, RuntimeError, KeyError) as error:
        text = str(error).partition("(")[2].rstrip(")") or str(error)
        raise refuse(str(path), "", f"is not an HDF5 file, or damaged or cut short ({text})") from error


def dataset(group: Any, file: str, name: str) -> Any:
    """The low-level data set at a path below a group, None if there is none; links and outside storage are refused."""
    h5py = import_h5py()
    place, parts = group.id, name.split("/")
    for depth, part in enumerate(parts):
        place = child(h5py, place, file, part, "/".join(parts[: depth + 1]), array=depth + 1 == len(parts))
        if place is None:
            return None
    return place


def read_array(group: Any, file: str, name: str) -> np.ndarray:
    """An array of numbers below a group, whole."""
    field = _field(dataset(group, file, name), file, name)
    check_field(file, name, field.shape, field.dtype, sizes=(None,) * max(len(field.shape), 1))
    array = np.zeros(field.shape, field.dtype)
    field.read(0, array)
    return array


def child(h5py: Any, place: Any, file: str, key: str, path: str, *, array: bool) -> Any:
    """The array (or group) of this name below a low-level group; None if there is none.

    Called for every array of every episode, hence by the quickest way.
    """
    name = key.encode()
    try:
        try:
            link = place.links.get_info(name)
        except (KeyError, RuntimeError):
            if place.links.exists(name):
                raise
            return None
        if link.type != h5py.h5l.TYPE_HARD:
            raise refuse(file, path, "is a link to another place; links are not followed")
        if not array:
            return h5py.h5g.open(place, name)
        found = h5py.h5d.open(place, name)
        if found.get_offset() is None:  # not in one piece inside this file: see why
            plan = found.get_create_plist()
            if plan.get_external_count() or plan.get_layout() == h5py.h5d.VIRTUAL:
                raise refuse(file, path, "keeps its numbers in another file; that is not followed")
        return found
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        kind = "an array" if array else "a group"
        raise refuse(file, path, f"is damaged, or not {kind} ({error})") from error


def _field(found: Any, file: str, name: str) -> Field:
    h5py = import_h5py()
    try:
        shape, dtype = found.shape, np.dtype(found.dtype)
    except (TypeError, OSError, RuntimeError, ValueError) as error:
        raise refuse(file, name, f"has a type that is no number ({error})") from error
    if shape is None:
        raise refuse(file, name, "is empty")
    if dtype.hasobject or h5py.check_string_dtype(dtype):
        raise refuse(file, name, f"must hold plain numbers; its type is {dtype}")
    problem = check_packing(int(np.prod(shape, dtype=object)) * dtype.itemsize, found.get_storage_size())
    if problem:
        raise refuse(file, name, problem)
    wrapped = h5py.Dataset(found)

    def read(first: int, out: np.ndarray) -> None:
        try:
            with np.errstate(over="ignore"):
                out[...] = wrapped[first : first + len(out)]
        except (OSError, RuntimeError, ValueError) as error:
            raise refuse(file, name, f"is damaged ({error})", f"row {first} or later") from error

    return Field(shape, dtype, read)
