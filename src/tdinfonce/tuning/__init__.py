"""What a family of environments changes in the presets, and for which agent. The folder is the registry.

Each module publishes ``ONLINE``, ``OFFLINE`` or both: from (environment, preset) or (environment, preset, agent) to
settings by their own names. Settings of one agent win over those of all. A test checks every key.
"""

import importlib
import pkgutil
from functools import cache
from typing import Any

__all__ = ["changes", "tables"]

Table = dict[tuple[str, ...], dict[str, Any]]


@cache
def tables(*, offline: bool) -> Table:
    """Every entry of this folder for one kind of training."""
    found: Table = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        found |= getattr(importlib.import_module(f"{__name__}.{module}"), "OFFLINE" if offline else "ONLINE", {})
    return found


def changes(env: str, preset: str, agent: str, *, offline: bool) -> dict[str, Any]:
    """What an environment changes in a preset of agent and training: mostly how long to train.

    >>> changes("point", "fast", "td-infonce", offline=False)["env_steps"]
    5000
    """
    found = tables(offline=offline)
    return found.get((env, preset), {}) | found.get((env, preset, agent), {})
