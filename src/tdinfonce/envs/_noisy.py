"""Any environment, seen through a sensor that fails at times. The true state still decides success and distance."""

import itertools
from collections.abc import Callable

import numpy as np

from tdinfonce.errors import UserError, nearest
from tdinfonce.types import GoalEnv, Start, Step

__all__ = ["KINDS", "NoisyEnv"]

KINDS = ("resampled", "previous", "zeros")
WARMUP_EPISODES = 20

Reading = tuple[np.ndarray, np.ndarray]
"""An observation, and the state as a goal."""


class NoisyEnv:
    """With a given chance a step's observation, and the state as a goal that is read from it, are replaced.

    `resampled`: by a Gaussian draw with mean and standard deviation of each coordinate under random actions; a goal's
    coordinate that is one of the observation's stays so.
    `previous`: by what was seen one step earlier. `zeros`: by zeros. The first observation of an episode is true.
    """

    def __init__(self, env: GoalEnv, chance: float, kind: str = "resampled") -> None:
        """Wrap ``env``; `resampled` walks through a few random episodes first."""
        if kind not in KINDS:
            raise nearest("kind of noise", kind, KINDS)
        if kind == "resampled" and env.spec.image is not None:
            raise UserError("images cannot be resampled; choose the kind previous or zeros")
        self.spec = env.spec
        self._env, self._chance = env, chance
        replace: dict[str, Callable[[], Reading]] = {
            "resampled": self._resampled,
            "previous": lambda: self._seen,
            "zeros": lambda: (np.zeros_like(self._seen[0]), np.zeros_like(self._seen[1])),
        }
        self._replace = replace[kind]
        if kind == "resampled":
            self._mean, self._std, self._source = _statistics(env)

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``; the noise belongs to it too."""
        self._rng = np.random.default_rng([seed, len(KINDS)])
        start = self._env.reset(seed)
        self._seen = start.observation, start.achieved
        return start

    def step(self, action: np.ndarray) -> Step:
        """Take one action; perhaps misread where it led."""
        step = self._env.step(action)
        failed = self._rng.random() < self._chance
        self._seen = self._replace() if failed else (step.observation, step.achieved)
        position = step.achieved[self.spec.deciding] if step.position is None else step.position
        return step._replace(observation=self._seen[0], achieved=self._seen[1], position=position)

    def render(self) -> np.ndarray:
        """The true state."""
        return self._env.render()

    def close(self) -> None:
        """Free what the environment holds."""
        self._env.close()

    def _resampled(self) -> Reading:
        drawn = (
            mean + std * self._rng.standard_normal(mean.shape) for mean, std in zip(self._mean, self._std, strict=True)
        )
        observation, achieved = (values.astype(np.float32) for values in drawn)
        for index, source in self._source.items():
            achieved[index] = observation[source]
        return observation, achieved


def _statistics(env: GoalEnv) -> tuple[Reading, Reading, dict[int, int]]:
    """Means and standard deviations of observations and goals under uniform actions, the same ones each time; and the
    coordinate of the observation that each coordinate of a goal always equals, for those that have one.
    """
    rng = np.random.default_rng(0)
    readings = []
    for episode in range(WARMUP_EPISODES):
        start = env.reset(episode)
        readings.append((start.observation, start.achieved))
        done = False
        while not done:
            step = env.step(env.spec.random_action(rng))
            readings.append((step.observation, step.achieved))
            done = step.done
    observation, achieved = (np.stack(column) for column in zip(*readings, strict=True))
    pairs = itertools.product(reversed(range(env.spec.observation_size)), range(env.spec.goal_size))
    source = {goal: seen for seen, goal in pairs if np.array_equal(observation[:, seen], achieved[:, goal])}
    means, stds = (observation.mean(axis=0), achieved.mean(axis=0)), (observation.std(axis=0), achieved.std(axis=0))
    return means, stds, source
