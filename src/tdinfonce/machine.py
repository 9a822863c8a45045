"""What this process may use of the machine."""

import ctypes
import os
import sys

__all__ = ["keep_freed_memory", "visible_cores"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's malloc.h."""


def visible_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_freed_memory() -> bool:
    """Ask the C library to keep the memory of freed arrays for the next ones; say whether it will.

    By default glibc returns arrays of more than 128 KiB to the system at once, and each page of the next one is fetched
    and cleared anew. Sampling batches then takes more than twice as long.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_TRIM_THRESHOLD, 1 << 30) and mallopt(M_MMAP_THRESHOLD, 1 << 26))
