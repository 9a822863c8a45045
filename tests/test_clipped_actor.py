"""Policies for stored data: their losses computed again from raw weights, for every agent that can have one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from tdinfonce import agents
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec
from test_agent_losses import ROWS, Life, both, config_of, distances, leads_to, live, raw, smallest

AGENTS = ("td-infonce", "contrastive-rl", "contrastive-nce", "c-learning", "qrl")
GOALS = {"commanded_goal": 6, "future_goal": 4, "later_goal": 8, "random_goal": 6}
SHARES = {"commanded_share": 6 / ROWS, "actor_future_share": 4 / ROWS, "actor_uniform_share": 8 / ROWS}


def mean_action(life: Life) -> np.ndarray:
    return np.asarray(ref.deterministic_mean(life.w.actor.model, life.b.observation, ref.mixed(life.b, GOALS), life.c))


def worth(life: Life, action: np.ndarray) -> np.ndarray:
    """What an action is worth to the agent, in each row; the larger, the better."""
    w, b, c, goals = life.w, life.b, life.c, ref.mixed(life.b, GOALS)
    if hasattr(c, "components"):
        found = []
        for member in w.critic.model:
            start = ref.mlp(member.state_encoder, b.observation, norm=c.layer_norm)
            end = ref.mlp(member.goal_encoder, goals, norm=c.layer_norm)
            found.append(distances(member, leads_to(member, start, action, c), end, c))
        return -np.maximum(*found)
    critic, told = w.critic.model, [goals] if hasattr(c, "n_step") else []
    normalise = getattr(c, "normalise", False)
    temperature = np.exp(critic.log_temperature)
    inputs = (b.observation, action, *told)
    left = ref.embeddings(critic.left, *inputs, c=c, normalise=normalise, temperature=temperature)
    right = ref.embeddings(critic.right, goals, c=c, normalise=normalise)
    if told:
        return -ref.cross_entropy(smallest(ref.logits(left, right)), np.eye(ROWS))
    return smallest(np.stack([np.sum(x * y, axis=1) for x, y in zip(left, right, strict=True)]))


@pytest.mark.parametrize("name", AGENTS)
def test_the_clipped_actor_weighs_value_in_its_own_units_against_stored_actions(name: str) -> None:
    life = live(name, **SHARES, actor="clipped", cloning_weight=0.3)
    size = np.mean(np.abs(worth(life, np.clip(mean_action(life), -1, 1))))
    both(np.abs(mean_action(life)) > 1)

    def loss() -> Any:
        mean = mean_action(life)
        error = np.mean(0.5 * np.sum((mean - life.b.action) ** 2, axis=1))
        return 0.3 * error - np.mean(worth(life, np.clip(mean, -1, 1))) / size

    life.metric("actor/loss", -np.mean(worth(life, np.clip(mean_action(life), -1, 1))))
    life.follows("actor", loss, 0.02)


@pytest.mark.parametrize("name", AGENTS)
def test_the_weighted_actor_clones_better_actions_more(name: str) -> None:
    life = live(name, **SHARES, actor="weighted", sharpness=0.7)
    gain = worth(life, np.asarray(life.b.action, np.float64)) - worth(life, np.clip(mean_action(life), -1, 1))
    both(gain > 0)
    weight = np.minimum(np.exp(0.7 * gain), 100)

    def loss() -> Any:
        return np.mean(weight * 0.5 * np.sum((mean_action(life) - life.b.action) ** 2, axis=1))

    life.follows("actor", loss, 0.02)


def test_it_acts_by_its_mean_or_with_its_own_noise() -> None:
    agent = live("contrastive-rl", actor="clipped", actor_std=0.3).new
    state, goal = (jnp.asarray(x) for x in (raw().observation, raw().future_goal))
    greedy = agent.act(state, goal, jax.random.PRNGKey(0), greedy=True)
    np.testing.assert_array_equal(greedy, agent.act(state, goal, jax.random.PRNGKey(1), greedy=True))
    draws = np.stack([agent.act(state, goal, jax.random.PRNGKey(i)) for i in range(400)])
    assert np.abs(draws).max() == 1
    mean, _ = agent.actor.model(agent.inputs.observation(state), agent.inputs.goal(goal))
    inside = np.abs(np.asarray(mean)) < 0.1
    assert inside.any()
    np.testing.assert_allclose(draws.std(axis=0)[inside], 0.3, atol=0.05)


@pytest.mark.parametrize("name", AGENTS)
def test_discrete_actions_have_no_mean_to_clip(name: str) -> None:
    spec = EnvSpec("few", 4, 3, 3, episode_length=7, discrete=True)
    with pytest.raises(UserError, match="actor clipped is for continuous actions"):
        agents.load(name).Agent.create(jax.random.PRNGKey(0), spec, config_of(name, actor="clipped"))
