"""What a checkpoint says of itself: a JSON file with a SHA-256 of every file and of its own words."""

import json
import re
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.system.files import parse_json, read_bytes, sha256

__all__ = ["FORMAT", "LIMIT", "MANIFEST", "Damaged", "list_checkpoints", "read_manifest", "sealed"]

MANIFEST = "manifest.json"
FORMAT = 3
NAME = re.compile(r"[a-z_]+\.(safetensors|json)")
LIMIT = 32 << 20


class Damaged(UserError):
    """A checkpoint that is not what was written."""


def list_checkpoints(run: Path, *, best: bool = False) -> list[Path]:
    """The checkpoints of a run, the newest last; or the best one."""
    pattern = r"best-\d{12}" if best else r"\d{12}"
    root = run / "checkpoints"
    paths = sorted(root.iterdir()) if root.is_dir() and not root.is_symlink() else []
    return [path for path in paths if re.fullmatch(pattern, path.name) and path.is_dir() and not path.is_symlink()]


def read_manifest(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, in the words of the newest format."""
    try:
        data = read_bytes(checkpoint / MANIFEST, limit=LIMIT)
        manifest = parse_json(data)
        kind = manifest["format"]
        if kind == 1:
            manifest["files"] = {name: [None, mark] for name, mark in manifest["sha256"].items()}
        elif manifest["sha256"] != _own_mark(manifest) or data != _as_bytes(manifest):
            raise ValueError("it does not match its own SHA-256")
        counters = manifest["counters"]
        if not all(isinstance(n, int) for n in counters.values()):
            raise ValueError("a counter is no whole number")
        if not all(NAME.fullmatch(name) for name in manifest["files"]):
            raise ValueError("it names a file that cannot be part of it")
        if not all(isinstance(size, int | None) and isinstance(mark, str) for size, mark in manifest["files"].values()):
            raise ValueError("a file has a size and a SHA-256")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{checkpoint} is not a checkpoint: its {MANIFEST} is missing or damaged") from error
    if kind not in range(1, FORMAT + 1):
        raise UserError(f"{checkpoint} has format {kind}; this version reads formats 1 to {FORMAT}")
    return dict(manifest)


def sealed(manifest: dict[str, Any]) -> bytes:
    """The file of a manifest, with its own SHA-256 in it."""
    return _as_bytes(manifest | {"sha256": _own_mark(manifest)})


def _as_bytes(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()


def _own_mark(manifest: dict[str, Any]) -> str:
    return sha256(_as_bytes({name: value for name, value in manifest.items() if name != "sha256"}))
