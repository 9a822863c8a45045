"""A chain where the state is the time: the deep estimator, with the real sampler and the real loss, against the exact
occupancy.

Late states are rare as starts and frequent as futures, so negatives of a wrong law show at once: with the futures of
other rows as negatives, n = 5 saw the last state from the first one with a chance of 0.016 instead of 0.081.
"""

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest

from tdinfonce import agents
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.training.compiled import create, update_many
from tdinfonce.types import EnvSpec, Episode, InputScale

STARTS = 10
"""From so many states of the chain the occupancy is compared: in its far end there is nothing to tell."""


def chain(states: int, steps: int, discount: float) -> tuple[Episodes, np.ndarray, np.ndarray]:
    """Episodes that walk from the first state to the last and stay there; how frequent each state is among the next
    ones; and the occupancy of each.
    """
    time = np.minimum(np.arange(steps + 1), states - 1)
    one_hot = np.eye(states, dtype=np.float32)
    rng = np.random.default_rng(0)
    episodes = [
        Episode(one_hot[time], one_hot[time], rng.uniform(-1, 1, (steps, 1)).astype(np.float32), one_hot[-1])
        for _ in range(40)
    ]
    moves = one_hot[np.minimum(np.arange(states) + 1, states - 1)].astype(np.float64)
    exact = (1 - discount) * moves @ np.linalg.inv(np.eye(states) - discount * moves)
    return Episodes.of(episodes), np.bincount(time[1:], minlength=states) / steps, exact


def errors(states: int, steps: int, updates: int, **changes: Any) -> tuple[float, float]:
    """The mean total variation to the exact occupancy, and the error of the chance of the last state from the first."""
    module = agents.load("td-infonce")
    config = dataclasses.replace(module.Config(), **changes)
    episodes, frequency, exact = chain(states, steps, config.discount)
    spec = EnvSpec("chain", states, 1, states, episode_length=steps)
    agent = create(module.Agent.create, jax.random.PRNGKey(0), spec, config, InputScale.identity(spec))
    rng = np.random.default_rng(1)
    for _ in range(updates // 50):
        agent, _ = update_many(agent, sample(episodes, rng, (50, 256), config.sampling))
    one_hot, found = np.eye(states, dtype=np.float32), []
    for goal in (0, states // 2, states - 1):
        action = np.zeros((states, 1), np.float32)
        logits = np.asarray(agent.logits(one_hot, action, np.tile(one_hot[goal], (states, 1)), one_hot), np.float64)
        weight = frequency * np.exp(logits - logits.max(axis=1, keepdims=True))
        found.append(weight / weight.sum(axis=1, keepdims=True))
    wrong = np.mean(found, axis=0) - exact
    return float(0.5 * np.abs(wrong).sum(axis=1)[: states - 1 : states // STARTS].mean()), float(abs(wrong[0, -1]))


every_kind_of_row = pytest.mark.parametrize(("n_step", "monte_carlo"), [*itertools.product([1, 5, 50], [0.0, 0.2])])


@every_kind_of_row
def test_the_occupancy_of_a_chain(n_step: int, monte_carlo: float) -> None:
    small: Any = {"discount": 0.9, "hidden": (64, 64), "goal_hidden": (64, 64)}
    small |= {"critic_rate": 3e-3, "average_rate": 5e-4}
    distance, last = errors(21, 30, 6_000, n_step=n_step, monte_carlo_weight=monte_carlo, **small)
    assert distance <= 0.03
    assert last <= 0.02


@pytest.mark.slow
@every_kind_of_row
def test_the_occupancy_of_a_long_chain(n_step: int, monte_carlo: float) -> None:
    """With the networks and the discount that are the default."""
    distance, last = errors(51, 60, 12_000, n_step=n_step, monte_carlo_weight=monte_carlo)
    assert distance <= 0.03
    assert last <= 0.02
