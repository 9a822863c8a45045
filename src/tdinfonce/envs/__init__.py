"""Goal-reaching environments, found by name. A module of this folder that publishes ``NAMES``, ``goal_spaces`` and
``make`` is a family of them.

Any Gymnasium goal environment can be named by its id (``FetchReach-v4``, ``mymodule:MyEnv-v0``) too.
Simulators are imported inside ``make``.
"""

import importlib
import pkgutil
import re
from typing import Any

from tdinfonce.envs._noisy import KINDS, NoisyEnv
from tdinfonce.errors import UserError, nearest
from tdinfonce.types import GoalEnv

__all__ = ["goal_spaces", "make", "names"]


def names() -> dict[str, str]:
    """Map each short name to the module that makes it."""
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        for name in getattr(importlib.import_module(f"{__name__}.{module}"), "NAMES", ()):
            found[name] = module
    return found


def goal_spaces(name: str) -> tuple[str, ...]:
    """The goal spaces an environment offers, its default first."""
    return tuple(_module(name).goal_spaces(name))


def make(
    name: str,
    *,
    goal_space: str | None = None,
    render: bool = False,
    noise: float = 0.0,
    noise_kind: str = "resampled",
) -> GoalEnv:
    """Make an environment by its short name or Gymnasium id.

    Args:
        name: a key of `names`, or the id of a Gymnasium goal environment.
        goal_space: how a state becomes a goal; None is the environment's default.
        render: whether `render` will be called.
        noise: chance that a step's observation is replaced; see `NoisyEnv`.
        noise_kind: by what.
    """
    if not 0 <= noise <= 1:
        raise UserError(f"noise is a chance between 0 and 1; got {noise}")
    if noise_kind not in KINDS:
        raise nearest("kind of noise", noise_kind, KINDS)
    module = _module(name)
    offered = tuple(module.goal_spaces(name))
    chosen = offered[0] if goal_space is None else goal_space
    if chosen not in offered:
        raise UserError(f"{name} has no goal space '{chosen}'; choose one of: {', '.join(offered)}")
    env: GoalEnv = module.make(name, goal_space=chosen, render=render)
    return NoisyEnv(env, noise, noise_kind) if noise else env


def _module(name: str) -> Any:
    known = names()
    if name not in known and not re.search(r":|-v\d+$", name):
        error = nearest("environment", name, known)
        raise UserError(f"{error}, or the id of a Gymnasium goal environment such as FetchReach-v4 or module:Env-v0")
    return importlib.import_module(f"{__name__}.{known.get(name, 'gymnasium')}")
