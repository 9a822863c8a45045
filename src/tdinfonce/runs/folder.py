"""A run is a folder that explains itself: config, versions, metrics as JSON lines, results, a COMPLETE mark."""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import tdinfonce
from tdinfonce.errors import UserError
from tdinfonce.system.files import METRICS, metric_lines, parse_json, read_json, read_metrics, write_atomic
from tdinfonce.system.machine import threads, visible_cores

__all__ = ["RunFolder", "check_folder", "versions"]

COMPLETE = "COMPLETE"
CONFIG = "config.json"
LOCK = ".lock"
VERSIONS = "versions.json"
START = {LOCK, VERSIONS, f"{VERSIONS}.partial", CONFIG, f"{CONFIG}.partial"}
"""All that a run holds before it is one."""


class RunFolder:
    """An open run folder."""

    def __init__(self, path: Path) -> None:
        """Wrap an existing folder, before its config is read; use `create` for a new run."""
        self.path = path
        self._mark = self._config_mark()

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> "RunFolder":
        """Make the folder and write config and versions; refuse to touch a folder that holds anything else.

        Args:
            path: where; parents are made.
            config: everything needed to run this again, as plain JSON values.
            overwrite: replace an earlier run. Only a folder that holds a run is ever replaced.
        """
        folder = Path(path).resolve()
        check_folder(folder, overwrite=overwrite)
        run = cls(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            with run.locked():
                check_folder(folder, overwrite=overwrite)  # again: another process may have been here meanwhile
                # What makes it a run goes last and comes last, so it can be told from other folders at any moment.
                for child in sorted(folder.iterdir(), key=lambda path: (path.name in START, path.name == VERSIONS)):
                    if child.name != LOCK:
                        shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
                run.write_json(VERSIONS, versions())
                run.write_json(CONFIG, dict(config))
                run._mark = run._config_mark()
        except OSError as error:
            raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error
        return run

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing here; the system frees the lock when this one ends, however it ends.

        A folder with a link in it is refused: what is written to a run must not end up elsewhere. So is a folder that
        another process has made anew since we made or opened it: what is trained must be what the config says.
        """
        _refuse_links(self.path)
        try:
            import fcntl
        except ModuleNotFoundError:  # not on this system
            yield
            return
        with open(os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = file.read(20).decode(errors="replace").strip()
                raise UserError(f"{self.path} is being written by process {owner or 'unknown'}") from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
            if self._config_mark() != self._mark:
                raise UserError(f"another process has begun a run in {self.path} meanwhile; choose another folder")
            yield

    def _config_mark(self) -> tuple[int, int]:
        """Tells one writing of the config from another."""
        try:
            found = os.stat(self.path / CONFIG)
        except OSError:
            return (0, 0)
        return found.st_ino, found.st_mtime_ns

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return (self.path / COMPLETE).is_file()

    def write_text(self, name: str, text: str) -> Path:
        """Write a file whole or not at all."""
        target = self.path / name
        write_atomic(target, text.encode())
        return target

    def write_json(self, name: str, value: Any) -> Path:
        """Write a JSON file whole or not at all."""
        return self.write_text(name, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to the metrics."""
        with open(self.path / METRICS, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a checkpoint says how many rows there are

    def rows(self) -> int:
        """How many rows the metrics have."""
        try:
            return sum(line.endswith(b"\n") for line in metric_lines(self.path / METRICS))
        except FileNotFoundError:
            return 0

    def rows_until(self, step: int, axis: str) -> int:
        """How many rows were written up to a step; for checkpoints of format 1, which do not say."""
        rows = read_metrics(self.path) if (self.path / METRICS).exists() else []
        return sum(row.get(axis, 0) <= step and not any(name.startswith("final/") for name in row) for row in rows)

    def rewind(self, rows: int) -> None:
        """Drop the rows behind the first ``rows``, which a continued run writes again, and those that are spoiled."""
        path = self.path / METRICS
        lines = metric_lines(path) if path.exists() else []
        kept = [line for line in lines[:rows] if line.endswith(b"\n") and _is_row(line)]
        if len(kept) < rows:
            message = f"{path} has lost rows: {len(kept)} of the {rows} that the checkpoint knows are left"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if path.exists():
            write_atomic(path, b"".join(kept))

    def finish(self) -> None:
        """Set the COMPLETE mark."""
        self.write_text(COMPLETE, time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()))


def check_folder(path: str | Path, *, overwrite: bool) -> None:
    """Raise unless a new run may be written there. Only a folder that we wrote may ever be replaced."""
    folder = Path(path)
    if folder.is_file():
        raise UserError(f"{folder} is a file; choose a folder with --out")
    if not folder.is_dir() or (all(path.name in START for path in folder.iterdir()) and not (folder / CONFIG).exists()):
        return
    if not _is_run(folder):
        raise UserError(f"{folder} is not empty and holds no run; choose another folder with --out")
    if not overwrite:
        raise UserError(f"{folder} holds an earlier run; choose another folder with --out, or add --overwrite")


def _refuse_links(folder: Path) -> None:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(place, name)):
                raise UserError(f"{os.path.join(place, name)} is a link; a run folder holds none, remove it first")


def _is_row(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


def _is_run(folder: Path) -> bool:
    """Whether we wrote it: config and versions are there, and the versions name this package."""
    try:
        written = read_json(folder / VERSIONS)
    except (OSError, ValueError):
        return False
    return (folder / CONFIG).is_file() and isinstance(written, dict) and "tdinfonce" in written


def versions() -> dict[str, Any]:
    """What ran: Python, packages, machine and, in a git checkout, the commit."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "mujoco", "gymnasium", "gymnasium-robotics")
    found: dict[str, Any] = {"tdinfonce": tdinfonce.__version__, "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found | {
        "platform": platform.system(),
        "machine": platform.machine(),
        "cores": visible_cores(),
        "threads": threads(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": _commit(),
    }


def _commit() -> str | None:
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
