"""Act in an environment and write down what happened."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, Episode, GoalEnv, History, Start, Step

__all__ = ["Exploration", "Outcome", "collect", "remembering", "uniform_policy"]

Policy = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""(observation, goal, time in the episode) → action in [-1, 1], or one-hot."""


class Exploration(NamedTuple):
    """What is added to the policy while collecting."""

    noise: float = 0.0
    """Standard deviation of Gaussian noise on each action; discrete ones get none."""
    uniform: float = 0.0
    """Share of actions replaced by uniform ones."""


class Outcome(NamedTuple):
    """How an episode went."""

    success_any: bool
    success_final: bool
    min_distance: float
    final_distance: float
    moved: float
    """How far what decides success moved between the first and the last state."""
    length: int


def collect(
    env: GoalEnv, policy: Policy, seed: int, rng: np.random.Generator, explore: Exploration | None = None
) -> tuple[Episode, Outcome]:
    """Run the episode that belongs to ``seed``; ``rng`` gives the exploration."""
    explore = explore or Exploration()
    start = env.reset(seed)
    observation = start.observation
    observations, achieved = [observation], [start.achieved]
    actions: list[np.ndarray] = []
    successes, distances = [], [start.distance]
    done = False
    while not done:
        action = np.asarray(policy(observation, start.goal, len(actions)), np.float32)
        action = _explored(action, env.spec, explore, rng)
        step = env.step(action)
        observation, done = step.observation, step.done
        observations.append(observation)
        achieved.append(step.achieved)
        actions.append(action)
        successes.append(step.success)
        distances.append(step.distance)
    states = np.stack(observations)
    goals = states if env.spec.image else np.stack(achieved)
    _check_finite(env, seed, {"observation": states, "achieved goal": goals, "action": np.stack(actions)})
    episode = Episode(states, goals, np.stack(actions), start.goal)
    moved = float(np.linalg.norm(_position(env, step) - _position(env, start)))
    return episode, Outcome(any(successes), successes[-1], min(distances), distances[-1], moved, len(actions))


def _explored(action: np.ndarray, spec: EnvSpec, explore: Exploration, rng: np.random.Generator) -> np.ndarray:
    if explore.noise and not spec.discrete:
        action = action + rng.normal(0, explore.noise, action.shape).astype(np.float32)
    if explore.uniform and rng.random() < explore.uniform:
        action = spec.random_action(rng)
    return spec.own_action(spec.native_action(action)) if spec.discrete else np.clip(action, -1, 1)


def _check_finite(env: GoalEnv, seed: int, arrays: dict[str, np.ndarray]) -> None:
    """Raise UserError that names the first step with a value that is not finite."""
    for name, array in arrays.items():
        if array.dtype != np.uint8 and not np.isfinite(array).all():
            step, place = np.argwhere(~np.isfinite(array))[0]
            raise UserError(
                f"{env.spec.name}, episode of seed {seed}, step {step}: coordinate {place} of the {name} is "
                f"{array[step, place]}; stopped, the last checkpoint is from before"
            )


def _position(env: GoalEnv, said: Start | Step) -> np.ndarray:
    """The coordinates that decide success."""
    return said.achieved[env.spec.deciding] if said.position is None else said.position


def uniform_policy(spec: EnvSpec, rng: np.random.Generator) -> Policy:
    """Uniform actions, for the warm-up."""
    return lambda observation, goal, time: spec.random_action(rng)


def remembering(context: int, act: Callable[[np.ndarray, np.ndarray, History | None], np.ndarray]) -> Policy:
    """A policy that hands ``act`` the last ``context - 1`` steps of the episode, None at its start.

    It remembers what it answered: an action that is changed before it is taken is remembered unchanged.
    """
    past: list[History] = []

    def policy(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        if time == 0:
            past.clear()
        missing = context - 1 - len(past)
        history = None
        if past:
            before = np.zeros_like(past[0].observation), np.zeros_like(past[0].action)
            nothing = History(*before, time=np.array(-1, np.int32))
            steps = [nothing] * missing + past
            history = History(*(np.stack(parts) for parts in zip(*steps, strict=True)))
        action = act(observation, goal, history)
        past.append(History(np.asarray(observation), action, np.array(time, np.int32)))
        del past[: max(0, len(past) - (context - 1))]
        return action

    return policy
