"""What this process may use of the machine."""

import ctypes
import os
import sys
import warnings

__all__ = ["fix_threads", "keep_freed_memory", "memory", "threads", "visible_cores"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's malloc.h."""


def visible_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of memory in this machine, if it tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def threads() -> int:
    """How many threads JAX works with: what the variable NPROC says, else the visible cores."""
    asked = os.environ.get("NPROC", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else visible_cores()


def fix_threads(count: int) -> None:
    """Let JAX work with so many threads, whatever cores it sees: the order of a sum depends on it.

    It must be said before JAX makes its first array; if it is too late, a warning says so.
    """
    if not count or count == threads():
        return
    if getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
        message = f"JAX works with {threads()} threads already, and this run wants {count}: last digits may differ"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return
    os.environ["NPROC"] = str(count)


def keep_freed_memory() -> bool:
    """Ask the C library to keep the memory of freed arrays for the next ones; say whether it will.

    By default glibc returns arrays of more than 128 KiB to the system at once, and each page of the next one is fetched
    and cleared anew. Sampling batches then takes more than twice as long.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_TRIM_THRESHOLD, 1 << 30) and mallopt(M_MMAP_THRESHOLD, 1 << 26))
