"""What an aimless point did: episodes of uniform actions, for the tests of offline training."""

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
    return Episodes.of([collect(env, uniform_policy(2, rng), 1000 + i, rng)[0] for i in range(episodes)])


def write(path: Path, episodes: Episodes) -> Path:
    """As a D4RL-style .npz: one row for each state, `timeouts` marks the last of an episode."""
    timeouts = np.zeros(len(episodes.observation), bool)
    timeouts[episodes.start + episodes.length] = True
    np.savez(path, observations=episodes.observation, actions=episodes.action, timeouts=timeouts)
    return path
