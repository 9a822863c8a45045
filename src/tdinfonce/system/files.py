"""Reading without trust and writing without loss: no links, sizes first, whole files or none."""

import contextlib
import hashlib
import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.system.machine import memory

__all__ = [
    "METRICS",
    "metric_lines",
    "open_plain",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_metrics",
    "read_object",
    "sha256",
    "sync_folder",
    "write_atomic",
    "write_npz_atomic",
    "write_text_atomic",
]

METRICS = "metrics.jsonl"
JSON_LIMIT = 32 << 20
"""Bytes; no JSON file of ours comes near."""
METRICS_LIMIT = 1 << 30
"""Bytes; a row takes about a thousand."""


def sha256(data: bytes) -> str:
    """As hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_bytes(path: Path, size: int | None = None, *, limit: int | None = None) -> bytes:
    """The bytes of a plain file, which must be ``size`` of them if that is given, and at most ``limit``.

    The limit is half of the machine's memory unless it is given: whoever reads bytes makes something of them.
    Raises OSError if it cannot be read, and ValueError for a link, a device or another size: before anything is read.
    """
    limit = (memory() or sys.maxsize) // 2 if limit is None else limit
    with open_plain(path) as file:
        found = os.fstat(file.fileno())
        if size is not None and found.st_size != size:
            raise ValueError(f"{path.name} has {found.st_size:,} bytes; {size:,} were written")
        if found.st_size > limit:
            raise ValueError(f"{path.name} has {found.st_size:,} bytes; at most {limit:,} are read")
        return file.read()


def open_plain(path: Path) -> BufferedReader:
    """Open a plain file to read; raises ValueError if it is a link, or anything that one could wait for."""
    if path.is_symlink():
        raise ValueError(f"{path.name} is a link")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file = open(os.open(path, flags), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError(f"{path.name} is not a plain file")
    return file


def parse_json(text: str | bytes) -> Any:
    """JSON to values; whatever is wrong with it is a ValueError, and so is JSON that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """The values in a JSON file of at most 32 MiB; raises OSError or ValueError."""
    return parse_json(read_bytes(path, limit=JSON_LIMIT))


def read_object(path: Path) -> dict[str, Any]:
    """What a JSON file of ours says; raises UserError if it is damaged."""
    try:
        data = read_bytes(path, limit=JSON_LIMIT)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    return _as_object(data, str(path))


def _as_object(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = parse_json(data)
    except ValueError as error:
        raise UserError(f"{name} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{name} is damaged: it is no JSON object")
    return found


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, and wait until it is on the disk. Nothing is left behind if that fails."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)  # whatever is there, a link too: it is not written through
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_text_atomic(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    write_atomic(path, text.encode())


def write_npz_atomic(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a file of numpy's, whole or not at all."""
    import numpy as np

    data = io.BytesIO()
    np.savez(data, **arrays)
    write_atomic(path, data.getvalue())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_metrics(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run's metrics; a last line cut short by a crash is left out."""
    file = Path(path) / METRICS
    for number, line in enumerate(metric_lines(file), 1):
        if line.endswith(b"\n"):
            yield _as_object(line, f"line {number} of {file}")


def metric_lines(path: Path) -> list[bytes]:
    """The lines of a file of metrics, with their ends; raises UserError if it cannot be one."""
    try:
        return read_bytes(path, limit=METRICS_LIMIT).splitlines(keepends=True)
    except ValueError as error:
        raise UserError(f"{path} holds no metrics: {error}") from error
