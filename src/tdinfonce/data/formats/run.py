"""The replay of one of our own runs as a data set: that of its newest checkpoint, checked against its SHA-256."""

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.data.check import Raw, Units, check_field, refuse
from tdinfonce.data.store import BLOCK, empty
from tdinfonce.errors import UserError
from tdinfonce.runs.manifest import Damaged, list_checkpoints, read_manifest
from tdinfonce.runs.segments import PLACES, Segment, needed
from tdinfonce.system.files import open_plain, read_json

__all__ = ["READS", "accepts", "open", "record"]

READS = "a run folder"

STATES = ("observation", "action", "achieved")


def accepts(path: Path) -> bool:
    """Whether this looks like a run folder."""
    return (path / "config.json").is_file() and (path / "versions.json").is_file()


def record(path: Path) -> dict[str, Any]:
    """Which environment the run acted in."""
    config, spec = _config(path)
    return {"env": config.get("env"), "seed": config.get("seed"), "tolerance": spec.get("tolerance")}


def _config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the run was made, and the spec of its environment."""
    file = path / "config.json"
    try:
        config = read_json(file)
    except (OSError, ValueError) as error:
        raise refuse(str(file), "", f"is damaged ({error})") from error
    spec = config.get("spec") or {} if isinstance(config, dict) else None
    if not isinstance(spec, dict):
        raise refuse(str(file), "", "is damaged: it is no JSON object, or its spec is none")
    return config, spec


def _units(path: Path, size: int) -> Units:
    """The environment's units; the replay holds normalised actions."""
    spec = _config(path)[1]
    try:
        low, high = (tuple(float(x) for x in spec.get(name) or ()) for name in ("action_low", "action_high"))
    except (TypeError, ValueError) as error:
        raise refuse(str(path / "config.json"), "spec", f"its bounds of actions are no numbers ({error})") from error
    sizes = ((0, 0), (1, 0)) if spec.get("discrete") else ((0, 0), (size, size))
    if (len(low), len(high)) not in sizes:
        problem = f"has {len(low)} and {len(high)} bounds of actions, but the actions of the replay have size {size}"
        raise refuse(str(path / "config.json"), "spec", problem)
    return Units(low, high, size if spec.get("discrete") else 0, normalised=True)


def open(path: Path, memory_limit: int) -> Raw:
    """The episodes that the replay held when the run was last saved; of a damaged checkpoint, the time before."""
    checkpoints = list_checkpoints(path)
    if not checkpoints:
        raise UserError(f"{path}: holds no checkpoint yet")
    problems: list[str] = []
    for checkpoint in reversed(checkpoints):
        try:
            raw = _open_checkpoint(checkpoint, memory_limit)
        except Damaged as error:
            problems.append(str(error))
            continue
        for problem in problems:
            warnings.warn(f"{problem}; {checkpoint} is used instead", RuntimeWarning, stacklevel=4)
        return raw._replace(units=_units(path, raw.action.shape[1]))
    raise UserError(problems[0])


def _open_checkpoint(checkpoint: Path, memory_limit: int) -> Raw:
    from safetensors import SafetensorError, safe_open

    files, skip = _checked_files(checkpoint)
    file = str(files[0])
    try:
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(safe_open(file, framework="numpy")) for file in files]
            return _slots(file, _Joined(file, parts, skip), memory_limit)
    except SafetensorError as error:
        raise refuse(file, "", f"is damaged ({error})") from error


def _checked_files(checkpoint: Path) -> tuple[list[Path], int]:
    """The files that hold the replay, each checked against its SHA-256, and how many of their episodes are too old."""
    manifest = read_manifest(checkpoint)
    file = checkpoint / "replay.safetensors"
    whole = manifest["files"].get(file.name) if manifest["format"] == 1 else None
    if whole is not None and file.is_file():
        _check_hash(file, whole[1])
        return [file], 0
    entry = manifest.get("replay")
    if entry is None:
        raise UserError(f"{file}: this run kept no replay")
    try:
        segments = needed(entry)
        held = segments[-1].last - segments[0].first
        if not 0 < entry["held"] <= held:
            raise ValueError(f"it counts {entry['held']} episodes of {held}")
    except (ValueError, IndexError) as error:
        raise Damaged(f"{checkpoint} is not whole: {error}") from error
    return [_whole_copy(checkpoint.parent, segment) for segment in segments], held - entry["held"]


def _whole_copy(root: Path, segment: Segment) -> Path:
    """The first copy of a segment that is undamaged."""
    places = [root / place / segment.name for place in PLACES]
    for file in places:
        with contextlib.suppress(OSError, UserError):
            _check_hash(file, segment.sha256)
            return file
    raise Damaged(f"{places[0]}: is missing or damaged")


def _check_hash(file: Path, wanted: str) -> None:
    try:
        with open_plain(file) as data:
            if hashlib.file_digest(data, "sha256").hexdigest() == wanted:
                return
    except ValueError as error:
        raise Damaged(f"{file}: {error}") from error
    raise Damaged(f"{file}: is damaged: its SHA-256 does not match the manifest")


class _Joined:
    """The arrays of several files, one behind the other, without the first episodes."""

    def __init__(self, file: str, parts: list[Any], skip: int) -> None:
        self.names = set(parts[0].keys())
        if any(set(part.keys()) != self.names for part in parts):
            raise refuse(file, "", "holds other arrays than the files beside it")
        self._parts, self._skip = parts, skip

    def shape(self, file: str, name: str) -> tuple[int, ...]:
        """Of the whole array."""
        shapes = [tuple(part.get_slice(name).get_shape()) for part in self._parts]
        if any(shape[1:] != shapes[0][1:] or not shape for shape in shapes):
            raise refuse(file, name, "has another shape than in the files beside it")
        rows = sum(shape[0] for shape in shapes)
        return (rows - self._first(name), *shapes[0][1:])

    def _first(self, name: str) -> int:
        if not self._skip:
            return 0
        rows, count = (self._parts[0].get_slice(n).get_shape()[0] for n in (name, "length"))
        return int(self._skip * (rows // max(count, 1)))

    def blocks(self, name: str) -> Iterator[np.ndarray]:
        """The array in pieces."""
        skip = self._first(name)
        for part in self._parts:
            source = part.get_slice(name)
            rows = source.get_shape()[0]
            for first in range(min(skip, rows), rows, BLOCK):
                yield source[first : min(first + BLOCK, rows)]
            skip = max(skip - rows, 0)

    def whole(self, name: str) -> np.ndarray:
        """The array in one piece."""
        return np.concatenate([*self.blocks(name)])


def _slots(file: str, tensors: _Joined, memory_limit: int) -> Raw:
    """Slots of equal size become episodes where they lie."""
    shapes = {}
    for name in (*STATES, "length", "goal"):
        if name not in tensors.names:
            raise refuse(file, name, "is missing")
        shapes[name] = tensors.shape(file, name)
    count = shapes["length"][0] if shapes["length"] else 0
    rows = shapes["observation"][0] if shapes["observation"] else 0
    for name in STATES:
        check_field(file, name, shapes[name], np.float32, sizes=(rows or None, None))
    check_field(file, "length", shapes["length"], np.int64, sizes=(None,))
    check_field(file, "goal", shapes["goal"], np.float32, sizes=(count, None))
    slot = rows // count
    length = tensors.whole("length").astype(np.int64)
    wrong = np.nonzero((length < 0) | (length >= slot))[0]
    if rows % count or len(wrong):
        raise refuse(
            file, "length", f"does not fit {rows} rows in {count} slots", f"row {wrong[0] if len(wrong) else 0}"
        )
    mapped = 4 * rows * sum(shapes[name][1] for name in STATES) > memory_limit
    arrays = {}
    for name in STATES:
        arrays[name], first = empty(shapes[name], mapped=mapped), 0
        for block in tensors.blocks(name):
            arrays[name][first : first + len(block)] = block
            first += len(block)
    start = np.arange(count) * slot
    return Raw(
        file,
        arrays["observation"],
        arrays["action"],
        arrays["achieved"],
        start,
        length,
        tensors.whole("goal").astype(np.float32),
        (*STATES, "goal"),
        lambda row: f"episode {row // slot}, row {row % slot}",
    )
