"""Other libraries to race against. Each module of this folder is one: a program for a virtual environment of its own.

It imports nothing of this package, and its own library only inside ``main``, so that both sides can read how it is
set: ``REQUIREMENTS`` is what pip must install, one call after the other, and ``SETTINGS`` is how it learns.
"""

import importlib
import pkgutil
from types import ModuleType

from tdinfonce.errors import nearest

__all__ = ["load", "names"]


def names() -> list[str]:
    """The names of all peers."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """The module of a peer; an unknown name raises a UserError with the nearest known one."""
    if name not in names():
        raise nearest("peer", name, names())
    return importlib.import_module(f"{__name__}.{name}")
