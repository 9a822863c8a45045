"""The other side of a race: its settings, and the virtual environment of its own that it runs in."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tdinfonce.bench import peers
from tdinfonce.errors import UserError, nearest

__all__ = ["ENV", "complaint", "install", "note", "peer_settings"]

ENV = "fetch-reach"
"""What is raced on."""


def peer_settings(peer: str, changes: Sequence[str]) -> dict[str, Any]:
    """The peer's settings with changes such as ``tau=0.01`` or ``net_arch=[64,64]``; values are JSON or words."""
    settings = dict(peers.load(peer).SETTINGS)
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise UserError(f"a setting is written name=value; got '{change}'")
        if name not in settings:
            raise nearest("setting", name, settings)
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        kind = type(settings[name])
        if not (type(value) is kind or (kind is float and type(value) is int)):
            raise UserError(f"{name} must be like {json.dumps(settings[name])}; got '{text}'")
        settings[name] = value
    return settings


def install(peer: str, folder: Path) -> Path:
    """Make the peer's virtual environment unless it is there; return its Python."""
    try:
        simulator = tuple(f"{name}=={metadata.version(name)}" for name in ("gymnasium-robotics", "mujoco"))
    except metadata.PackageNotFoundError as error:
        raise UserError(f"a race runs on {ENV}, which needs: pip install 'tdinfonce[robotics]'") from error
    *before, last = peers.load(peer).REQUIREMENTS
    calls = [*before, (*last, *simulator)]  # the same simulator as ours
    venv = folder.resolve() / "venv"
    python, mark = venv / ("Scripts" if os.name == "nt" else "bin") / "python", venv / "INSTALLED"
    wanted = json.dumps(calls)
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return python
    note(f"installing {peer} into {venv}, once; this takes minutes")
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for words in ([sys.executable, "-m", "venv", str(venv)], *([*pip, *call] for call in calls)):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"cannot install the peer '{peer}': {complaint(done.stderr or done.stdout)}")
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
