"""A run is a folder that explains itself: config, versions, metrics as JSON lines, results, a COMPLETE mark."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import tdinfonce
from tdinfonce.errors import UserError
from tdinfonce.machine import visible_cores

__all__ = ["RunFolder", "read_metrics", "versions"]

COMPLETE = "COMPLETE"
CONFIG = "config.json"
METRICS = "metrics.jsonl"


class RunFolder:
    """An open run folder."""

    def __init__(self, path: Path) -> None:
        """Wrap an existing folder; use `create` for a new run."""
        self.path = path

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> "RunFolder":
        """Make the folder and write config and versions; refuse to touch a folder that holds anything else.

        Args:
            path: where; parents are made.
            config: everything needed to run this again, as plain JSON values.
            overwrite: replace an earlier run. Only a folder that holds a run is ever replaced.
        """
        folder = Path(path)
        if folder.is_file():
            raise UserError(f"{folder} is a file; choose a folder with --out")
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / CONFIG).is_file():
                raise UserError(f"{folder} is not empty and holds no run; choose another folder with --out")
            if not overwrite:
                raise UserError(f"{folder} holds an earlier run; choose another folder with --out, or add --overwrite")
            shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error
        run = cls(folder)
        run.write_json(CONFIG, dict(config))
        run.write_json("versions.json", versions())
        return run

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return (self.path / COMPLETE).is_file()

    def write_text(self, name: str, text: str) -> Path:
        """Write a file whole or not at all."""
        target = self.path / name
        partial = target.with_name(target.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
        return target

    def write_json(self, name: str, value: Any) -> Path:
        """Write a JSON file whole or not at all."""
        return self.write_text(name, json.dumps(value, indent=2, sort_keys=True) + "\n")

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to the metrics."""
        with open(self.path / METRICS, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def finish(self) -> None:
        """Set the COMPLETE mark."""
        self.write_text(COMPLETE, time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()))


def read_metrics(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run's metrics; a last line cut short by a crash is left out."""
    with open(Path(path) / METRICS, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


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
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": visible_cores(),
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
