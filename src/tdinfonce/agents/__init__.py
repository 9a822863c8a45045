"""Learning algorithms: one file is one algorithm, and this folder is the list of them.

Each module has ``Config``, ``PRESETS`` and ``Agent``; see `tdinfonce.types.Agent` for the contract.
"""

import importlib
import pkgutil
from types import ModuleType

from tdinfonce.errors import nearest

__all__ = ["load", "names"]


def names() -> list[str]:
    """The command-line names of the agents, for example ``td-infonce``."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> ModuleType:
    """The module of an agent; hyphens and underscores are the same."""
    word = name.replace("_", "-")
    if word not in names():
        raise nearest("agent", name, names())
    return importlib.import_module(f"{__name__}.{word.replace('-', '_')}")
