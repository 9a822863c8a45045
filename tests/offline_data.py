"""What a point did, for the tests of offline training: aimless walks, and walks of which every second has an aim."""

import functools
from pathlib import Path

import numpy as np

from tdinfonce import envs
from tdinfonce.data.episodes import Episodes
from tdinfonce.training.collect import collect, uniform_policy


@functools.cache
def random_walks(episodes: int = 300, seed: int = 0) -> Episodes:
    env = envs.make("point")
    rng = np.random.default_rng(seed)
    return Episodes.of([collect(env, uniform_policy(env.spec, rng), 1000 + i, rng)[0] for i in range(episodes)])


@functools.cache
def half_aimed_walks(episodes: int = 300, seed: int = 0) -> Episodes:
    """Every second episode stumbles towards the goal of `point-one-goal`."""
    env = envs.make("point-one-goal")
    rng = np.random.default_rng(seed)

    def stumble(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        return np.clip((goal - observation) * 2 + rng.normal(0, 0.5, 2), -1, 1).astype(np.float32)

    aimless = uniform_policy(env.spec, rng)
    walks = [collect(env, stumble if i % 2 else aimless, 1000 + i, rng)[0] for i in range(episodes)]
    return Episodes.of(walks)


def write(path: Path, episodes: Episodes) -> Path:
    """As a D4RL-style .npz: one row for each state, `timeouts` marks the last of an episode."""
    timeouts = np.zeros(len(episodes.observation), bool)
    timeouts[episodes.start + episodes.length] = True
    np.savez(path, observations=episodes.observation, actions=episodes.action, timeouts=timeouts)
    return path
