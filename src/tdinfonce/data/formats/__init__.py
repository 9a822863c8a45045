"""The formats that data sets can be read from. Each module of this folder is one, and has

- ``READS``: what it reads, in words;
- ``accepts(path) -> bool``: whether a path looks like that, by its name or the files in it;
- ``open(path, memory_limit) -> Raw``: the arrays, not yet trusted; arrays of more bytes are memory-mapped;
- ``record(path) -> dict``: what the data say about how they were made, ``env`` among it if that is known.

Whatever `open` finds is checked, scaled and made into episodes by `tdinfonce.data.finish`.
"""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from tdinfonce.errors import UserError

__all__ = ["find_format", "load", "names"]


def names() -> list[str]:
    """The names of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def load(name: str) -> ModuleType:
    """The module of a format."""
    return importlib.import_module(f"{__name__}.{name}")


def find_format(source: str | Path) -> tuple[str, Path]:
    """The name of the first format that accepts a source, and the source as a path; raises UserError if none does."""
    path = Path(source).expanduser()
    found = next((name for name in names() if load(name).accepts(path)), None)
    if found is None:
        problem = f"{path}: is no data set" if path.exists() and str(source) else f"there is no data set '{source}'"
        known = "; ".join(load(name).READS for name in names())
        raise UserError(" ".join(f"{problem}. What can be read: {known}".split()))
    return found, path
