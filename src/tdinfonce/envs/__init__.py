"""Goal-reaching environments, found by name. A module of this folder that publishes ``NAMES``, ``goal_spaces`` and
``make`` is a family of them.

Any Gymnasium goal environment will do too: by its id (``FetchReach-v4``, ``mymodule:MyEnv-v0``), as an object, or made
by a function. Simulators are imported inside ``make``.
"""

from typing import Any

from tdinfonce.envs._noisy import KINDS, NoisyEnv
from tdinfonce.envs._resolve import ResolvedEnv, names, resolve
from tdinfonce.envs._simulators import problems
from tdinfonce.errors import UserError, nearest
from tdinfonce.types import GoalEnv

__all__ = ["ResolvedEnv", "goal_spaces", "make", "names", "problems", "resolve"]


def goal_spaces(env: Any) -> tuple[str, ...]:
    """The goal spaces an environment offers, its default first."""
    return resolve(env).goal_spaces


def make(
    env: Any,
    *,
    goal_space: str | None = None,
    render: bool = False,
    noise: float = 0.0,
    noise_kind: str = "resampled",
    path: str = "",
) -> GoalEnv:
    """Make an environment from its name, or from anything else that `resolve` takes.

    Args:
        env: a key of `names`, a Gymnasium id, ``module:function``, a function that makes an environment, or one.
        goal_space: how a state becomes a goal; None is the environment's default.
        render: whether `render` will be called.
        noise: chance that a step's observation is replaced; see `NoisyEnv`.
        noise_kind: what replaces it.
        path: the folder that a record names for a module; searched if it is found nowhere else.
    """
    if not 0 <= noise <= 1:
        raise UserError(f"noise is a chance between 0 and 1; got {noise}")
    if noise_kind not in KINDS:
        raise nearest("kind of noise", noise_kind, KINDS)
    made = resolve(env, path=path).make(goal_space=goal_space, render=render)
    return NoisyEnv(made, noise, noise_kind) if noise else made
