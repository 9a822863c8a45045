"""Examine an environment and say in plain words what would go wrong in training."""

from typing import Any

import numpy as np

from tdinfonce import envs
from tdinfonce.envs.gymnasium import KEYS, open_gymnasium, shape_problems
from tdinfonce.types import GoalEnv

__all__ = ["examine"]


def examine(name: str) -> tuple[list[str], list[str]]:
    """Problems that must be fixed, and notes that are good to know.

    Raises UserError if there is no such environment.
    """
    envs.goal_spaces(name)  # says what was meant if the name is misspelt
    if name in envs.names():
        return _own(envs.make(name)), []
    env = open_gymnasium(name)
    try:
        problems = shape_problems(env)
        if problems:
            return problems, []
        return _behaviour(env)
    finally:
        env.close()


def _own(env: GoalEnv) -> list[str]:
    """Problems of an environment of this package: what it says must be finite, and of its spec's shape and type."""
    try:
        start, spec = env.reset(0), env.spec
        seen = {"observation": start.observation, "goal": start.goal, "achieved": start.achieved}
        shapes = {"observation": spec.observation_shape, "goal": spec.goal_shape, "achieved": spec.goal_shape}
        kind = np.dtype(spec.dtype)
        problems = [
            f"its {name} is {array.dtype} {list(array.shape)}, but its spec says {kind} {list(shapes[name])}"
            for name, array in seen.items()
            if array.shape != shapes[name] or array.dtype != kind
        ]
        if not all(np.all(np.isfinite(array)) for array in seen.values()):
            problems.append("it starts with values that are not finite")
        return problems
    finally:
        env.close()


def _behaviour(env: Any) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    notes: list[str] = []
    first, _ = env.reset(seed=7)
    problems += _contents(env, first, "reset")
    if problems:
        return problems, notes
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(min(5, env.spec.max_episode_steps))]
    one, info, ended = _play(env, actions)
    two, _, _ = _play(env, actions)
    problems += _contents(env, one[-1], "step")
    if any(not np.array_equal(a[key], b[key]) for a, b in zip(one, two, strict=False) for key in KEYS):
        problems.append(
            "two episodes with reset(seed=7) and the same actions differ: use self.np_random for all chance"
        )
    other, _ = env.reset(seed=8)
    if np.array_equal(other["desired_goal"], first["desired_goal"]):
        notes.append("two seeds gave the same goal; goals should vary between episodes")
    if all(np.array_equal(one[0]["achieved_goal"], state["achieved_goal"]) for state in one[1:]):
        notes.append("five random actions did not change the achieved goal; exploring may be hard")
    problems += _success(env, info)
    problems += _reward(env, one[-1], info, notes)
    if ended:
        notes.append("an episode terminated before its time limit: training treats that as the end of the data only")
    return problems, notes


def _play(env: Any, actions: list[Any]) -> tuple[list[Any], dict[str, Any], bool]:
    state, info = env.reset(seed=7)
    states, ended = [_copy(state)], False
    for action in actions:
        state, _, terminated, truncated, info = env.step(action)
        states.append(_copy(state))
        ended = ended or bool(terminated)
        if terminated or truncated:
            break
    return states, info, ended


def _copy(state: Any) -> dict[str, np.ndarray]:
    return {key: np.array(state[key]) for key in KEYS}


def _contents(env: Any, state: Any, where: str) -> list[str]:
    problems = []
    for key in KEYS:
        if not isinstance(state, dict) or key not in state:
            problems.append(f"{where} returned an observation without '{key}'")
            continue
        value, space = np.asarray(state[key]), env.observation_space[key]
        if value.shape != space.shape:
            problems.append(f"{where} returned '{key}' of shape {value.shape}, but its space says {space.shape}")
        elif not np.all(np.isfinite(value)):
            problems.append(f"{where} returned '{key}' with values that are not finite")
    return problems


def _success(env: Any, info: dict[str, Any]) -> list[str]:
    if "is_success" in info or getattr(env.unwrapped, "distance_threshold", None) is not None:
        return []
    return [
        "nothing says when a goal is reached: put 'is_success' into the info of step, "
        "or give the environment an attribute distance_threshold"
    ]


def _reward(env: Any, state: Any, info: dict[str, Any], notes: list[str]) -> list[str]:
    """`compute_reward` is optional here; if it is there, it must accept batches, as other libraries expect."""
    compute = getattr(env.unwrapped, "compute_reward", None)
    if compute is None:
        notes.append("it has no compute_reward; tdinfonce does not need one, other libraries do")
    else:
        rows = [np.stack([state[key]] * 3) for key in ("achieved_goal", "desired_goal")]
        try:
            shape = np.shape(compute(*rows, np.array([info] * 3)))
        except Exception as error:
            return [f"compute_reward fails on a batch of three goals: {type(error).__name__}: {error}"]
        if shape != (3,):
            return [f"compute_reward must give one reward for each goal; on a batch of three it gave shape {shape}"]
    if getattr(env.unwrapped, "distance_threshold", None) is None:
        notes.append("it has no attribute distance_threshold: the agent ddpg-her cannot be used")
    return []
