"""QRL learns shortest paths: in a small maze its distance is the number of steps, one-way door and all."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import planned
from tdinfonce import agents
from tdinfonce.agents._actor import propose
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.training.compiled import update_many
from tdinfonce.types import EnvSpec, Episode

QRL = agents.load("qrl")
MAZE = ("..#..", "..>..", "..#..", "..#..", ".....")
"""A wall with a gap at the bottom; > is a door that lets pass to the right only."""
CELLS = [(r, c) for r, line in enumerate(MAZE) for c, mark in enumerate(line) if mark == "."]
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def step(cell: int, action: int) -> int:
    (row, column), (down, right) = CELLS[cell], MOVES[action]
    target = (row + down, column + right)
    if target == (1, 2) and right == 1:
        target = (1, 3)
    return CELLS.index(target) if target in CELLS else cell


def steps_between() -> np.ndarray:
    """Fewest steps from each cell to each cell, by relaxation."""
    n = len(CELLS)
    fewest = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    for _ in range(n):
        for cell in range(n):
            fewest[cell] = np.minimum(fewest[cell], 1 + np.min([fewest[step(cell, a)] for a in range(4)], axis=0))
    return fewest


def random_walks(label: np.ndarray, count: int = 400, length: int = 20) -> Episodes:
    """Uniform actions from uniform starts; states, actions and goals are one-hot, ``label`` is each cell's goal."""
    rng, episodes = np.random.default_rng(0), []
    goals = np.eye(label.max() + 1, dtype=np.float32)[label]
    for _ in range(count):
        cells, moves = [int(rng.integers(len(CELLS)))], rng.integers(4, size=length)
        for action in moves:
            cells.append(step(cells[-1], int(action)))
        states, actions = np.eye(len(CELLS), dtype=np.float32)[cells], np.eye(4, dtype=np.float32)[moves]
        episodes.append(Episode(states, goals[cells], actions, goals[0]))
    return Episodes.of(episodes)


SMALL: dict[str, Any] = {
    "hidden": (64,),
    "layer_norm": False,
    "goal_hidden": (64,),
    "projector_hidden": (64,),
    "dynamics_hidden": (32,),
    "latent_size": 32,
    "component_size": 8,
    "scale_inputs": False,
    "local_tolerance": 0.05,
    "multiplier": 30.0,
}


def learned_distances(label: np.ndarray, updates: int, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Train on random walks, and measure from every cell to every goal, and to every cell."""
    count = int(label.max()) + 1
    spec = EnvSpec("maze", len(CELLS), action_size=4, goal_size=count, episode_length=20)
    config = dataclasses.replace(QRL.Config(), **(SMALL | settings))
    agent = QRL.Agent.create(jax.random.PRNGKey(0), spec, config)
    walks, rng = random_walks(label), np.random.default_rng(1)
    for _ in range(updates // 50):
        agent, _ = update_many(agent, sample(walks, rng, (50, 128), config.sampling))
    (critic,) = agent.critic.model
    cells, goals = critic.embed(jnp.eye(len(CELLS))), critic.embed_goal(jnp.eye(count))

    def measure(ends: Any) -> np.ndarray:
        between = critic.distance(jnp.repeat(cells, len(ends), 0), jnp.tile(ends, (len(cells), 1)))
        return np.asarray(between).reshape(-1, len(ends))

    return measure(goals), measure(cells)


def test_the_distance_is_the_number_of_steps() -> None:
    """States as goals: every pair, there and back through a door that opens to one side."""
    true, (learned, _) = steps_between(), learned_distances(np.arange(len(CELLS)), updates=1500)
    assert np.corrcoef(learned.ravel(), true.ravel())[0, 1] > 0.97
    assert np.abs(learned - true).mean() < 1.0
    left, right = CELLS.index((1, 1)), CELLS.index((1, 3))
    assert (true[left, right], true[right, left]) == (1, 8)
    assert learned[left, right] < 2 < 6 < learned[right, left]


@pytest.mark.slow
def test_the_distance_to_a_part_of_the_state_is_to_the_nearest_state_with_it() -> None:
    """Columns as goals: the distance is that to the nearest cell of the column; cells of one column stay apart.

    Not all of it is learned: the middle column is one cell, seldom pushed away from the cells left of the door, whose
    distance to it stays too small.
    """
    column = np.array([c for _, c in CELLS])
    true = np.stack([steps_between()[:, column == c].min(axis=1) for c in range(column.max() + 1)], axis=1)
    learned, between_cells = learned_distances(column, updates=1500)
    assert np.corrcoef(learned.ravel(), true.ravel())[0, 1] > 0.9
    assert learned[true == 0].mean() < 0.2
    assert np.abs(learned - true).mean() < 0.8
    assert learned[true == 1].mean() < 1.5
    assert learned[true >= 6].mean() > 5
    fewest = steps_between()
    same = (column[:, None] == column) & (fewest > 0)
    assert np.abs(between_cells - fewest)[same].mean() < 0.6


def test_a_multiplier_grows_while_its_own_constraint_is_violated() -> None:
    """Without tolerance: arrivals are too far from the start, steps are shorter than one as yet."""
    spec = EnvSpec("maze", len(CELLS), action_size=4, goal_size=len(CELLS), episode_length=20)
    walks, rng = random_walks(np.arange(len(CELLS)), count=20), np.random.default_rng(2)
    for tolerance, signs in ((0.0, (0, 1)), (1e3, (-1, -1))):
        config = dataclasses.replace(QRL.Config(), **(SMALL | {"local_tolerance": tolerance, "multiplier": 2.0}))
        agent = QRL.Agent.create(jax.random.PRNGKey(0), spec, config)
        before = jax.nn.softplus(agent.multiplier.model)
        np.testing.assert_allclose(before, [[2.0, 2.0]], rtol=1e-5)
        agent, measured = update_many(agent, sample(walks, rng, (20, 64), config.sampling))
        (after,) = jax.nn.softplus(agent.multiplier.model)
        np.testing.assert_array_equal(np.sign(after - before[0]), signs)
        np.testing.assert_array_equal(
            np.sign([measured["critic/step_excess"], measured["critic/arrival_excess"]]), signs
        )


def test_a_large_multiplier_stays_finite() -> None:
    spec = EnvSpec("maze", 3, action_size=2, goal_size=3, episode_length=20)
    agent = QRL.Agent.create(jax.random.PRNGKey(0), spec, dataclasses.replace(QRL.Config(), multiplier=300.0))
    np.testing.assert_allclose(jax.nn.softplus(agent.multiplier.model), [[300.0, 300.0]])


def trained(updates: int, **settings: Any) -> tuple[Any, list[Any], Any]:
    """An agent after some updates on a few walks, the metrics of the first and the last, and a batch."""
    spec = EnvSpec("maze", len(CELLS), action_size=4, goal_size=len(CELLS), episode_length=20)
    walks, rng = random_walks(np.arange(len(CELLS)), count=20), np.random.default_rng(2)
    config = dataclasses.replace(QRL.Config(), **(SMALL | settings))
    agent, metrics = QRL.Agent.create(jax.random.PRNGKey(0), spec, config), []
    for count in (1, updates):
        agent, measured = update_many(agent, sample(walks, rng, (count, 64), config.sampling))
        metrics.append(measured)
    return agent, metrics, jax.tree.map(jnp.asarray, sample(walks, rng, (64,), config.sampling))


def test_the_policy_trusts_the_member_that_says_farther() -> None:
    agent, _, batch = trained(5, critics=2)
    said = [
        np.asarray(m.distance(m.predict(m.embed(batch.observation), batch.action), m.embed_goal(batch.random_goal)))
        for m in agent.critic.model
    ]
    assert (said[0] > said[1]).any()
    assert (said[0] < said[1]).any(), "the members must differ for the test to mean something"
    together = agent._distance_after(batch.observation, batch.action, batch.random_goal)
    np.testing.assert_allclose(together, np.maximum(*said), rtol=1e-5)


def entropy(agent: Any, batch: Any) -> float:
    action, *_ = propose(agent.actor.model, batch.observation, batch.random_goal, jax.random.PRNGKey(1))
    return -float(jnp.mean(agent.actor.model.log_prob(batch.observation, batch.random_goal, action)))


def test_entropy_is_kept_by_its_weight() -> None:
    """Walking downhill alone makes the policy narrow."""
    (kept, (_, said), batch), (lost, _, _) = (
        trained(200, entropy_weight=weight, entropy_rate=0.0) for weight in (100.0, 1e-6)
    )
    assert entropy(kept, batch) > entropy(lost, batch) + 0.3
    assert said["actor/entropy"] == pytest.approx(entropy(kept, batch), abs=0.2)
    assert said["actor/entropy_weight"] == pytest.approx(100.0)


def test_the_weight_of_the_entropy_falls_while_there_is_enough() -> None:
    agent, (_, said), batch = trained(60, entropy_weight=1.0, entropy_rate=0.01)
    assert entropy(agent, batch) > -4, "more than the target: minus the number of action dimensions"
    assert said["actor/entropy_weight"] < 0.9


def test_cloning_makes_the_stored_actions_likelier() -> None:
    def likelihood(weight: float) -> float:
        agent, _, batch = trained(100, cloning_weight=weight)
        return float(jnp.mean(agent.actor.model.log_prob(batch.observation, batch.future_goal, batch.action)))

    assert likelihood(10.0) > likelihood(0.0) + 0.5


def test_the_other_head_can_be_chosen() -> None:
    agent, (_, last), _ = trained(5, mrn=True)
    assert type(agent.critic.model[0].head).__name__ == "MRN"
    assert np.isfinite(last["critic/loss"])
    assert type(trained(1)[0].critic.model[0].head).__name__ == "IQE"


def test_presets_are_those_of_the_original() -> None:
    """The table of the original's online and offline scripts."""
    for config, offline in ((QRL.PRESETS["paper"], False), (QRL.OFFLINE["paper"], True)):
        assert (config.critics, config.components * config.component_size, config.local_tolerance) == (2, 2048, 0.25)
        assert (config.multiplier, config.multiplier_rate, config.actor_rate) == (0.01, 1e-2, 3e-5)
        assert (config.push_sharpness, config.push_offset) == ((0.01, 500) if offline else (0.1, 15))
        assert (config.latent_size, config.dynamics_weight) == ((256, 1.0) if offline else (128, 0.1))
        assert config.critic_rate == (5e-4 if offline else 1e-4)
        assert (config.entropy_weight, config.cloning_weight) == ((0.0, 0.05) if offline else (1.0, 0.0))
        assert (config.commanded_share, config.actor_future_share) == (0.0, 0.0 if offline else 0.5)
    training = planned("fetch-push", "qrl", "paper", 0, goal_space="full").training
    assert (training.exploration_noise, training.exploration_episodes) == (0.3, 1.0)
