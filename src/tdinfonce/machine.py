"""What this process may use of the machine."""

import os

__all__ = ["visible_cores"]


def visible_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
