"""Room for arrays: in memory, or, where they are large, in a file that is mapped and vanishes with the process."""

import math
import shutil
import tempfile
from typing import Any

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["BLOCK", "MEMORY_LIMIT", "check_packing", "empty"]

MEMORY_LIMIT = 2_000_000_000
"""Data sets of more bytes are memory-mapped."""
BLOCK = 65_536
"""Rows that are read or checked at a time."""
PACKING = 1100
"""No common compression packs tighter than this; a file that claims more wants to exhaust the memory."""


def empty(shape: tuple[int, ...], *, mapped: bool, dtype: Any = np.float32) -> np.ndarray:
    """Zeros of type float32, or of another."""
    if not mapped:
        return np.zeros(shape, dtype)
    size = np.dtype(dtype).itemsize * math.prod(shape)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > 0.9 * free:
        raise UserError(
            f"memory-mapping {size / 1e9:.1f} GB does not fit into {folder}, where {free / 1e9:.1f} are free"
        )
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape))


def check_packing(claimed: int, stored: int) -> str | None:
    """What is wrong if ``stored`` bytes of a file claim to hold ``claimed`` bytes of numbers."""
    if claimed > PACKING * max(stored, 0):
        return f"claims {claimed:,} bytes of numbers, but the file holds {stored:,} bytes for it"
    return None
