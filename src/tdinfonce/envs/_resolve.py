"""What a user may call an environment: a name, a Gymnasium id, ``module:function``, a function, or an object."""

import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.envs import gymnasium
from tdinfonce.envs._noisy import NoisyEnv
from tdinfonce.envs._simulators import load, reason
from tdinfonce.errors import UserError, nearest
from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["IN_MEMORY", "ResolvedEnv", "is_ours", "names", "resolve"]

IN_MEMORY = "in-memory:"
"""What the name of an environment begins with that cannot be made again by its name. No module can be called so."""


@dataclass(frozen=True)
class ResolvedEnv:
    """An environment that can be made: what `resolve` returns."""

    name: str
    """For the record. `envs.make` makes the environment from it again, unless it begins with ``in-memory:``."""
    goal_spaces: tuple[str, ...]
    """How a state may become a goal, the default first."""
    path: str
    """The folder that must be on the search path to import it; empty: it is installed, or cannot be imported."""
    open: Callable[[str, bool], Any]
    """From goal space and whether to render to the environment, ours or Gymnasium's."""
    borrowed: bool = False
    """Whether it is an object that belongs to the user: the same one each time, and never closed here."""

    @property
    def in_memory(self) -> bool:
        """Whether it is known to this process only."""
        return self.name.startswith(IN_MEMORY)

    def make(self, *, goal_space: str | None = None, render: bool = False) -> GoalEnv:
        """Make the environment."""
        chosen = self.goal_spaces[0] if goal_space is None else goal_space
        if chosen not in self.goal_spaces:
            raise UserError(f"{self.name} has no goal space '{chosen}'; choose one of: {', '.join(self.goal_spaces)}")
        env = self.open(chosen, render)
        made = env if is_ours(env) else gymnasium.GymnasiumEnv(self.name, env)
        return _Borrowed(made) if self.borrowed else made


class _Borrowed:
    """An environment that belongs to the user."""

    def __init__(self, env: GoalEnv) -> None:
        """Wrap ``env``."""
        self.spec, self._env = env.spec, env

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``."""
        return self._env.reset(seed)

    def step(self, action: np.ndarray) -> Step:
        """Take one action."""
        return self._env.step(action)

    def render(self) -> np.ndarray:
        """The current state as an RGB image."""
        return self._env.render()

    def close(self) -> None:
        """Leave it open."""


def is_ours(env: Any) -> bool:
    """Whether an environment is a `GoalEnv`, and not Gymnasium's."""
    return isinstance(getattr(env, "spec", None), EnvSpec)


def names() -> dict[str, str]:
    """Map each short name to the module that makes it."""
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules([os.path.dirname(__file__)])):
        if not module.startswith("_"):
            for name in getattr(importlib.import_module(f"{__package__}.{module}"), "NAMES", ()):
                found[name] = module
    return found


def resolve(env: Any, *, path: str = "") -> ResolvedEnv:
    """Find out what ``env`` is, what it is called in records, and how to make it. Makes nothing yet.

    Args:
        env: a short name, a Gymnasium id (``FetchReach-v4``, ``module:Env-v0``), ``module:function``, a function or
            class that makes an environment when it is called without arguments, or an environment: Gymnasium's or a
            `GoalEnv`.
        path: the folder that a record names; searched if the module is found nowhere else.
    """
    if isinstance(env, ResolvedEnv):
        return env
    if isinstance(env, str):
        return _named(env, path)
    if _is_environment(env):
        name, folder = _name_of_object(env)
        spaces = (env.spec.goal_space,) if is_ours(env) else ("achieved",)
        return ResolvedEnv(name, spaces, folder, lambda *_: env, borrowed=True)
    if callable(env):
        name, folder = _name_of_function(env)
        return ResolvedEnv(name, ("achieved",), folder, lambda _, render: _call(name, env, render))
    raise UserError(
        f"env must be a name, a Gymnasium id, an environment, or a function that makes one; got {type(env).__name__}"
    )


def _named(name: str, path: str) -> ResolvedEnv:
    known = names()
    if name in known:
        family = importlib.import_module(f"{__package__}.{known[name]}")
        spaces = tuple(family.goal_spaces(name))
        return ResolvedEnv(
            name, spaces, "", lambda goal_space, render: family.make(name, goal_space=goal_space, render=render)
        )
    if name.startswith(IN_MEMORY):
        raise UserError(
            f"this run was trained in an environment object ({name.removeprefix(IN_MEMORY)}) that cannot be made by "
            "name: give the environment again"
        )
    module, colon, attribute = name.partition(":")
    if colon and module in {known_name.partition(":")[0] for known_name in known if ":" in known_name}:
        raise nearest("environment", name, [known_name for known_name in known if known_name.startswith(f"{module}:")])
    if not re.search(r"-v\d+$", name) and not (colon and attribute):
        error = nearest("environment", name, known)
        raise UserError(
            f"{error}, the id of a Gymnasium goal environment such as FetchReach-v4 or module:Env-v0, or "
            "module:function"
        )
    if colon:
        _make_findable(module, path)
    return ResolvedEnv(name, ("achieved",), _folder(module) if colon else "", lambda _, render: _import(name, render))


def _import(name: str, render: bool) -> Any:
    """The environment with an id, or the one that the function ``module:function`` makes."""
    module, colon, attribute = name.partition(":")
    if colon:
        try:
            found = importlib.import_module(module)
        except Exception as error:  # it runs whatever the name leads to
            raise UserError(f"cannot import {module}, which {name} names: {reason(error)}") from error
    if re.search(r"-v\d+$", name):
        return gymnasium.open_gymnasium(name, render=render)
    for part in attribute.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if found is None:
        raise UserError(f"the module {module} has no '{attribute}'")
    return _call(name, found, render)


def _call(name: str, make: Any, render: bool) -> Any:
    """What a function makes, which must be an environment."""
    if not callable(make):
        raise UserError(f"{name} must be a function or class that makes an environment; it is {make!r}")
    try:
        made = gymnasium.call(make, render=render)
    except UserError:
        raise
    except Exception as error:  # it is the user's code
        raise UserError(f"cannot make the environment '{name}': {reason(error)}") from error
    if not _is_environment(made):
        raise UserError(f"{name} must return an environment; it returned {type(made).__name__}")
    return made


def _is_environment(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "reset") and hasattr(value, "step")


def _name_of_function(make: Any) -> tuple[str, str]:
    """``module:name`` and the module's folder, if importing that leads to this very function."""
    module, name = getattr(make, "__module__", None), getattr(make, "__qualname__", None)
    found = sys.modules.get(module or "")
    for part in (name or "").split("."):
        found = getattr(found, part, None)
    if module == "__main__" or found is not make:
        return f"{IN_MEMORY}{(name or type(make).__name__).rpartition('.')[2]}", ""
    return f"{module}:{name}", _folder(str(module))


def _name_of_object(env: Any) -> tuple[str, str]:
    """The name that makes it again and where that is imported from, if there surely is one."""
    label = f"{IN_MEMORY}{type(getattr(env, 'unwrapped', env)).__name__}", ""
    if not is_ours(env):
        return _registered(env) or label
    ours = type(env).__module__.startswith(f"{__package__}.") and not isinstance(env, NoisyEnv | _Borrowed)
    name = env.spec.name
    if not ours or not (name in names() or re.search(r"-v\d+$|^[\w.]+:", name)):
        return label
    return name, _folder(name.partition(":")[0]) if ":" in name else ""


def _registered(env: Any) -> tuple[str, str] | None:
    """The id of an environment that is as it was registered, by a module whose source speaks of it."""
    spec = getattr(env, "spec", None)
    known = load("gymnasium").registry.get(getattr(spec, "id", None))
    if spec is None or known is None:
        return None
    said = [({**s.kwargs, "render_mode": None}, s.additional_wrappers, s.max_episode_steps) for s in (spec, known)]
    if repr(said[0]) != repr(said[1]):
        return None
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    if module.partition(".")[0] in ("gymnasium", "gymnasium_robotics"):
        return spec.id, ""
    parts = module.split(".")
    parents = [sys.modules.get(".".join(parts[: n + 1])) for n in range(len(parts))]
    if module == "__main__" or not any(spec.name in _source(parent) for parent in parents):
        return None
    return f"{module}:{spec.id}", _folder(module)


def _source(module: Any) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _make_findable(module: str, path: str) -> None:
    """Put a folder on the search path if a module is found nowhere else: the recorded one, or the working directory.

    An installed command does not look for modules where it is called.
    """
    if _place(module) is not None:
        return
    folder = path or os.getcwd()
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    if _place(module) is None:
        sys.path.remove(folder)
    elif path:
        warnings.warn(f"{module} is imported from {path}, which runs the code there", RuntimeWarning, stacklevel=2)


def _folder(module: str) -> str:
    """The folder in which a module or its package lies; empty if that is where packages are installed."""
    place = _place(module)
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    return "" if place is None or any(place.is_relative_to(folder) for folder in installed) else str(place)


def _place(module: str) -> Path | None:
    """The folder in which the module or its package lies."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve().parent
    return Path(spec.origin).resolve().parent if spec.origin and spec.has_location else Path(sys.prefix).resolve()
