"""Examine an environment and say in plain words what would go wrong in training."""

import copy
from typing import Any

import numpy as np

from tdinfonce.envs._resolve import is_ours, resolve
from tdinfonce.envs.gymnasium import KEYS, GymnasiumEnv, attribute, shape_problems, size_of, time_limit
from tdinfonce.errors import UserError
from tdinfonce.types import GoalEnv, Start, Step, flatten

__all__ = ["examine"]


def examine(env: Any) -> tuple[list[str], list[str]]:
    """Problems that must be fixed, and notes that are good to know. Takes whatever `envs.resolve` takes.

    Raises UserError if there is no such environment.
    """
    found = resolve(env)
    made = found.open(found.goal_spaces[0], False)
    try:
        if is_ours(made):
            return _own(made), []
        problems = shape_problems(made)
        return (problems, []) if problems else _behaviour(made)
    finally:
        if not found.borrowed:
            made.close()


def _own(env: GoalEnv) -> list[str]:
    """Problems of a `GoalEnv`: what it says must be finite, and of its spec's shape and type."""
    start = env.reset(0)
    step = env.step(env.spec.random_action(np.random.default_rng(0)))
    said: tuple[tuple[str, Start | Step], ...] = (("start", start), ("step", step))
    problems = [problem for where, answer in said for problem in _shapes(env, answer, where)]
    return problems or _shapes(env, start._replace(achieved=start.goal), "goal")


def _shapes(env: GoalEnv, answer: Start | Step, where: str) -> list[str]:
    spec, problems = env.spec, []
    kind = np.dtype(spec.dtype)
    parts = {"observation": spec.observation_shape, "achieved": spec.goal_shape}
    for name, shape in parts.items():
        array = np.asarray(getattr(answer, name))
        if array.shape != shape or array.dtype != kind:
            problems.append(
                f"its {where} has {name} as {array.dtype} {list(array.shape)}, but its spec says {kind} {list(shape)}"
            )
        elif not np.all(np.isfinite(array)):
            problems.append(f"its {where} has values that are not finite")
    return problems


def _behaviour(env: Any) -> tuple[list[str], list[str]]:
    notes: list[str] = []
    first, _ = env.reset(seed=7)
    first = copy.deepcopy(first)
    problems = _contents(env, first, "reset")
    if problems:
        return problems, notes
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(min(5, time_limit(env)))]
    one, info, ended = _play(env, actions)
    two, _, _ = _play(env, actions)
    problems += _contents(env, one[-1], "step")
    if problems:
        return problems, notes
    if any(not _same(a, b, key) for a, b in zip(one, two, strict=False) for key in KEYS):
        problems.append(
            "two episodes with reset(seed=7) and the same actions differ: use self.np_random for all chance"
        )
    other, _ = env.reset(seed=8)
    if _same(other, first, "desired_goal"):
        notes.append("two seeds gave the same goal; goals should vary between episodes")
    if all(_same(one[0], state, "achieved_goal") for state in one[1:]):
        notes.append("five random actions did not change the achieved goal; exploring may be hard")
    problems += _as_trained(env, len(actions), notes)
    problems += _reward(env, one[-1], info, notes)
    space = env.observation_space["observation"]
    if space.dtype == np.uint8 and len(space.shape) == 3:
        notes.append(f"observations look like images; they are seen as {size_of(space):,} numbers")
    if ended:
        notes.append("an episode terminated before its time limit: training treats that as the end of the data only")
    return problems, notes


def _play(env: Any, actions: list[Any]) -> tuple[list[Any], dict[str, Any], bool]:
    state, info = env.reset(seed=7)
    states, ended = [copy.deepcopy(state)], False
    for action in actions:
        state, _, terminated, truncated, info = env.step(action)
        states.append(copy.deepcopy(state))
        ended = ended or bool(terminated)
        if terminated or truncated:
            break
    return states, info, ended


def _same(one: Any, other: Any, key: str) -> bool:
    return np.array_equal(flatten(one[key], np.float64), flatten(other[key], np.float64))


def _contents(env: Any, state: Any, where: str) -> list[str]:
    problems = []
    for key in KEYS:
        if not isinstance(state, dict) or key not in state:
            problems.append(f"{where} returned an observation without '{key}'")
            continue
        space = env.observation_space[key]
        try:
            flat = flatten(state[key])
        except (ValueError, TypeError):
            problems.append(f"{where} returned '{key}' that is not made of numbers")
            continue
        if flat.size != size_of(space) or (space.shape is not None and np.shape(state[key]) != space.shape):
            shape = f"of shape {np.shape(state[key])}" if space.shape is not None else f"of {flat.size} numbers"
            wanted = space.shape if space.shape is not None else size_of(space)
            problems.append(f"{where} returned '{key}' {shape}, but its space says {wanted}")
        elif not np.all(np.isfinite(flat)):
            problems.append(f"{where} returned '{key}' with values that are not finite")
    return problems


def _as_trained(env: Any, steps: int, notes: list[str]) -> list[str]:
    """Problems of some steps through the adapter, as training takes them: success is decided there."""
    adapted, rng = GymnasiumEnv("it", env), np.random.default_rng(0)
    try:
        adapted.reset(7)
        seen: list[Step] = []
        while len(seen) < steps and not (seen and seen[-1].done):
            seen.append(adapted.step(adapted.spec.random_action(rng)))
    except UserError as error:
        return [str(error).removeprefix("it: ")]
    if all(step.success for step in seen):
        notes.append("every step of a random episode counted as a success; is that meant?")
    return []


def _reward(env: Any, state: Any, info: dict[str, Any], notes: list[str]) -> list[str]:
    """`compute_reward` is optional here; if it is there, it must accept batches, as other libraries expect."""
    compute = attribute(env, "compute_reward")
    if compute is None:
        notes.append("it has no compute_reward; tdinfonce does not need one, other libraries do")
    else:
        try:
            rows = [np.stack([state[key]] * 3) for key in KEYS[1:]]
            shape = np.shape(compute(*rows, np.array([info] * 3)))
        except Exception as error:
            return [f"compute_reward fails on a batch of three goals: {type(error).__name__}: {error}"]
        if shape != (3,):
            return [f"compute_reward must give one reward for each goal; on a batch of three it gave shape {shape}"]
    if attribute(env, "distance_threshold") is None:
        notes.append("it has no attribute distance_threshold: the agent ddpg-her cannot be used")
    return []
