"""The other side of a race: its settings, and the virtual environment of its own that it runs in."""

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tdinfonce.bench import peers
from tdinfonce.errors import UserError, nearest
from tdinfonce.system import venv

__all__ = ["ENV", "install", "peer_settings"]

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
    return venv.install(f"the peer '{peer}'", folder, calls)
