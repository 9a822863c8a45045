"""The replay of one of our own runs as a data set: its newest checkpoint, checked against its SHA-256."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.data._check import Raw, check_field, finish, refuse
from tdinfonce.data._store import BLOCK, empty
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError

__all__ = ["is_run", "open_run", "run_record"]

STATES = ("observation", "action", "achieved")


def is_run(path: Path) -> bool:
    """Whether this looks like a run folder."""
    return (path / "config.json").is_file() and (path / "versions.json").is_file()


def run_record(path: Path) -> dict[str, Any]:
    """Which environment the run acted in."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        spec = config.get("spec") or {}
        return {"env": config.get("env"), "seed": config.get("seed"), "tolerance": spec.get("tolerance")}
    except (OSError, ValueError, AttributeError) as error:
        raise refuse(str(path / "config.json"), "", f"is damaged ({error})") from error


def open_run(path: Path, goal: str | None, memory_limit: int) -> Episodes:
    """The episodes that the replay held when the run was last saved."""
    found = sorted(p for p in (path / "checkpoints").glob("[0-9]*") if not p.name.endswith(".partial"))
    if not found:
        raise UserError(f"{path}: holds no checkpoint yet")
    file = found[-1] / "replay.safetensors"
    _check_hash(file)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as tensors:
            return _episodes(str(file), tensors, goal, memory_limit)
    except SafetensorError as error:
        raise refuse(str(file), "", f"is damaged ({error})") from error


def _check_hash(file: Path) -> None:
    manifest = file.with_name("manifest.json")
    try:
        wanted = json.loads(manifest.read_text(encoding="utf-8"))["sha256"].get(file.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise refuse(str(manifest), "", "is missing or damaged") from error
    if wanted is None or not file.is_file():
        raise UserError(f"{file}: this run kept no replay")
    with open(file, "rb") as data:
        if hashlib.file_digest(data, "sha256").hexdigest() != wanted:
            raise refuse(str(file), "", "is damaged: its SHA-256 does not match the manifest")


def _episodes(file: str, tensors: Any, goal: str | None, memory_limit: int) -> Episodes:
    """Slots of equal size become episodes where they lie."""
    shapes = {}
    for name in (*STATES, "length", "goal"):
        if name not in tensors.keys():  # noqa: SIM118 - not a mapping
            raise refuse(file, name, "is missing")
        shapes[name] = tuple(tensors.get_slice(name).get_shape())
    count = shapes["length"][0] if shapes["length"] else 0
    rows = shapes["observation"][0] if shapes["observation"] else 0
    for name in STATES:
        check_field(file, name, shapes[name], np.float32, sizes=(rows or None, None))
    check_field(file, "length", shapes["length"], np.int64, sizes=(None,))
    check_field(file, "goal", shapes["goal"], np.float32, sizes=(count, None))
    slot = rows // count
    length = tensors.get_tensor("length").astype(np.int64)
    wrong = np.nonzero((length < 0) | (length >= slot))[0]
    if rows % count or len(wrong):
        raise refuse(
            file, "length", f"does not fit {rows} rows in {count} slots", f"row {wrong[0] if len(wrong) else 0}"
        )
    mapped = 4 * rows * sum(shapes[name][1] for name in STATES) > memory_limit
    arrays = {}
    for name in STATES:
        arrays[name], source = empty(shapes[name], mapped=mapped), tensors.get_slice(name)
        for first in range(0, rows, BLOCK):
            last = min(first + BLOCK, rows)
            arrays[name][first:last] = source[first:last]
    start = np.arange(count) * slot
    raw = Raw(
        file,
        arrays["observation"],
        arrays["action"],
        arrays["achieved"],
        start,
        length,
        tensors.get_tensor("goal").astype(np.float32),
        (*STATES, "goal"),
        lambda row: f"episode {row // slot}, row {row % slot}",
    )
    return finish(raw, goal, memory_limit)
