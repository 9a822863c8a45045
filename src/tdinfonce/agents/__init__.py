"""Learning algorithms: one file is one algorithm, and this folder is the list of them.

Each module has ``Config``, ``Agent`` (see `tdinfonce.types.Agent` for the contract) and presets: ``PRESETS`` for
online training, ``OFFLINE`` for training on stored data. One that only learns offline has no ``PRESETS``; one without
``OFFLINE`` uses its ``PRESETS`` there. ``ONLINE_TRAINING`` and ``OFFLINE_TRAINING`` are what it changes in a preset of
the training. ``EARLIER`` is what runs did whose version did not know a setting yet.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from tdinfonce.errors import UserError, nearest

__all__ = ["load", "names", "presets"]


def names() -> list[str]:
    """The command-line names of the agents, for example ``td-infonce``."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> ModuleType:
    """The module of an agent; hyphens and underscores are the same."""
    word = name.replace("_", "-")
    if word not in names():
        raise nearest("agent", name, names())
    return importlib.import_module(f"{__name__}.{word.replace('-', '_')}")


def presets(name: str, *, offline: bool) -> dict[str, Any]:
    """The configs of an agent by the name of their preset, for one kind of training."""
    module = load(name)
    found: dict[str, Any] = getattr(module, "PRESETS", {})
    if offline:
        return dict(getattr(module, "OFFLINE", found))
    if not found:
        raise UserError(f"{name.replace('_', '-')} learns from stored data only; name the data")
    return dict(found)
