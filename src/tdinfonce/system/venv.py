"""Virtual environments for software of others: it never mixes with ours."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tdinfonce.errors import UserError

__all__ = ["complaint", "install", "note"]


def install(what: str, folder: Path, calls: Sequence[Sequence[str]]) -> Path:
    """Make ``folder/venv`` unless it is there; return its Python.

    Args:
        what: the words for it, such as "the peer 'sb3'".
        folder: where it lies; the same calls again do nothing.
        calls: for each call of ``pip install``, its arguments.
    """
    venv = folder.resolve() / "venv"
    python, mark = venv / ("Scripts" if os.name == "nt" else "bin") / "python", venv / "INSTALLED"
    wanted = json.dumps([list(call) for call in calls])
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return python
    note(f"installing {what} into {venv}, once; this takes a while")
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for words in ([sys.executable, "-m", "venv", str(venv)], *([*pip, *call] for call in calls)):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"cannot install {what}: {complaint(done.stderr or done.stdout)}")
    mark.write_text(wanted, encoding="utf-8")
    return python


def complaint(text: str) -> str:
    """The line of a program's complaint that says most: pip's last ERROR, or the last line at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it did not say why"])[-1]


def note(text: str) -> None:
    """Say how it goes, beside the report."""
    print(text, file=sys.stderr, flush=True)
