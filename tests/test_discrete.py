"""Discrete actions: a categorical policy, losses that are exact means over it, and every such agent on the grid."""

import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdinfonce as td
from tdinfonce import agents
from tdinfonce.envs.grid import GridEnv
from tdinfonce.errors import UserError
from tdinfonce.networks.actor import CategoricalActor
from tdinfonce.types import Batch, EnvSpec

ONLINE = ("td-infonce", "contrastive-rl", "contrastive-nce", "c-learning", "qrl", "gcbc")
TAKE = (*ONLINE, "gc-iql", "hiql")
REFUSE = ("ddpg-her", "dt", "iql", "td3-bc")
SPEC = EnvSpec("test", 3, 4, 2, episode_length=9, tolerance=0.5, discrete=True)
ROWS = 10
TINY = {"hidden": (6,), "goal_hidden": (5,), "representation_size": 3, "critics": 2, "scale_inputs": False}
TINY |= {"commanded_share": 0.0, "actor_future_share": 1.0, "critic_future_share": 0.0, "monte_carlo_weight": 0.0}
TINY |= {"mean_penalty": 0.5, "temperature": 1.0, "learn_temperature": False, "layer_norm": False}


def test_every_agent_takes_discrete_actions_or_refuses_them() -> None:
    assert set(TAKE) | set(REFUSE) == set(agents.names())


@pytest.mark.parametrize("name", REFUSE)
def test_others_refuse_in_one_line(name: str) -> None:
    agent = agents.load(name)
    with pytest.raises(UserError, match=rf"^{name} learns continuous actions, and those of test are discrete: choose"):
        agent.Agent.create(jax.random.PRNGKey(0), SPEC, agent.Config())


def made(name: str, *, seed: int = 2, **changes: Any) -> Any:
    """An agent with two critics and targets, averages and weights that are all different."""
    module = agents.load(name)
    known = {k: v for k, v in (TINY | changes).items() if k in module.Config.__dataclass_fields__}
    agent = module.Agent.create(jax.random.PRNGKey(1), SPEC, module.Config(**known))
    rng = np.random.default_rng(seed)

    def move(path: Any, x: Any) -> Any:
        fixed = {"key", "inputs", "state", "step"} & {getattr(p, "name", None) for p in path}
        return x if fixed or not eqx.is_inexact_array(x) else x + 0.5 * rng.normal(size=x.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(move, agent)


def batch() -> Batch:
    rng = np.random.default_rng(3)
    states = [jnp.asarray(rng.normal(size=(ROWS, 3)), jnp.float32) for _ in range(3)]
    goals = [jnp.asarray(rng.normal(size=(ROWS, 2)), jnp.float32) for _ in range(5)]
    return Batch(
        observation=states[0],
        action=jax.nn.one_hot(jnp.asarray(rng.integers(4, size=ROWS)), 4),
        next_observation=states[1],
        next_goal=goals[0],
        future_goal=goals[1],
        random_goal=goals[2],
        commanded_goal=goals[3],
        near_goal=goals[4],
        bootstrap_observation=states[2],
        bootstrap_discount=jnp.asarray(rng.uniform(0.5, 0.9, ROWS), jnp.float32),
    )


def probabilities(actor: CategoricalActor, *inputs: Any) -> Any:
    """From the raw weights: linear, ReLU, linear, softmax."""
    x = jnp.concatenate(inputs, axis=-1)
    (first, last), (offset, last_offset) = actor.net.weights, actor.net.biases
    logits = jnp.maximum(x @ first + offset, 0) @ last + last_offset
    powers = jnp.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), logits


def every(value: Any) -> Any:
    """``[ROWS, 4]``: a function of one action for all rows, at each of the four."""
    return jnp.stack([value(jnp.tile(jnp.eye(4)[a], (ROWS, 1))) for a in range(4)], axis=1)


def least(members: Any) -> Any:
    first, second = members
    assert 0 < jnp.sum(first < second) < first.size, "each critic is the smaller one somewhere"
    return jnp.minimum(first, second)


def dots(left: Any, right: Any) -> Any:
    return [a @ b.T for a, b in zip(left, right, strict=True)]


def actor_rows(name: str, agent: Any, b: Batch, action: Any) -> Any:
    """What an action costs the actor at each row."""
    goal = b.future_goal
    if name == "qrl":
        after = [m.distance(m.predict(m.embed(b.observation), action), m.embed_goal(goal)) for m in agent.critic.model]
        return jnp.maximum(*after)
    critic = agent.critic.model
    inputs = (b.observation, action, goal) if name == "td-infonce" else (b.observation, action)
    table = least(dots(critic.embed(*inputs), critic.embed_goal(goal)))
    if name == "td-infonce":
        return jnp.log(jnp.exp(table).sum(axis=1)) - jnp.diag(table)
    return -jnp.diag(table)


@pytest.mark.parametrize("name", ["td-infonce", "contrastive-rl", "contrastive-nce", "c-learning", "qrl"])
def test_the_actor_descends_the_exact_mean_over_its_actions(name: str) -> None:
    agent, b = made(name, entropy_weight=0.0, cloning_weight=0.0, cloning_share=0.0, random_goal_share=0.0), batch()

    def by_hand(actor: CategoricalActor) -> Any:
        chance, logits = probabilities(actor, b.observation, b.future_goal)
        cost = every(lambda action: actor_rows(name, agent, b, action))
        return jnp.mean(jnp.sum(chance * cost, axis=1)) + 0.5 * jnp.mean(jnp.square(logits))

    def descended(actor: CategoricalActor) -> Any:
        parameters = (actor, agent.entropy_weight.model) if name == "qrl" else actor
        return agent._actor_loss(parameters, b, jax.random.PRNGKey(5))[0]

    same(descended, by_hand, agent.actor.model)


def test_td_infonce_bootstraps_from_every_next_action() -> None:
    agent, b = made("td-infonce", learn_temperature=True), batch()

    def by_hand(critic: Any) -> Any:
        chance, _ = probabilities(agent.actor.model, b.bootstrap_observation, b.random_goal)
        left = critic.embed(b.observation, b.action, b.random_goal)
        near, random = (dots(left, critic.embed_goal(u)) for u in (b.near_goal, b.random_goal))
        own = jnp.eye(ROWS, dtype=bool)  # a row's own goal is no candidate; its positive competes with random states
        near = [jnp.where(own, x, u) for x, u in zip(near, random, strict=True)]
        random = [jnp.where(own, -60.0, u) for u in random]

        def weights(action: Any) -> Any:
            future = agent.target.embed(b.bootstrap_observation, action, b.random_goal)
            found = least(dots(future, agent.target.embed_goal(b.random_goal)))
            return jax.nn.softmax(jnp.where(own, -jnp.inf, found))

        weight = jnp.sum(chance[..., None] * every(weights), axis=1)
        gamma, rows = b.bootstrap_discount, []
        for x, u in zip(near, random, strict=True):
            now = jnp.log(jnp.exp(x).sum(axis=1)) - jnp.diag(x)
            later = jnp.log(jnp.exp(u).sum(axis=1)) - (weight * u).sum(axis=1)
            rows.append((1 - gamma) * now + gamma * later)
        return jnp.mean(jnp.stack(rows))

    same(lambda critic: agent._critic_loss(critic, b, jax.random.PRNGKey(5))[0], by_hand, agent.critic.model)


def test_c_learning_bootstraps_from_every_next_action() -> None:
    agent, b = made("c-learning", seed=4, max_weight=1.5), batch()
    gamma = agent.config.discount

    def by_hand(critic: Any) -> Any:
        chance, _ = probabilities(agent.actor.model, b.next_observation, b.random_goal)

        def odds(action: Any) -> Any:
            later = agent.target.embed(b.next_observation, action)
            table = least(dots(later, agent.target.embed_goal(b.random_goal)))
            return jnp.minimum(jnp.exp(jnp.diag(table)), 1.5)

        weight, critic = jnp.sum(chance * every(odds), axis=1), critic.with_fixed_temperature()
        left, rows = critic.embed(b.observation, b.action), []
        positive, negative = (dots(left, critic.embed_goal(u)) for u in (b.next_goal, b.random_goal))
        for x, u in zip(map(jnp.diag, positive), map(jnp.diag, negative), strict=True):
            rows.append(-(1 - gamma) * log_sigmoid(x) - gamma * weight * log_sigmoid(u) - log_sigmoid(-u))
        return jnp.mean(jnp.stack(rows))

    same(lambda critic: agent._critic_loss(critic, b, jax.random.PRNGKey(5))[0], by_hand, agent.critic.model)


def log_sigmoid(x: Any) -> Any:
    return -jnp.log(1 + jnp.exp(-x))


def test_cloning_is_a_cross_entropy() -> None:
    agent, b = made("gcbc"), batch()

    def by_hand(actor: CategoricalActor) -> Any:
        chance, _ = probabilities(actor, b.observation, b.future_goal)
        return -jnp.mean(jnp.log(chance[jnp.arange(ROWS), jnp.argmax(b.action, axis=1)]))

    same(lambda actor: agent._actor_loss(actor, b)[0], by_hand, agent.actor.model)


def test_gc_iql_weighs_that_cross_entropy_by_the_advantage() -> None:
    agent, b = made("gc-iql", sharpness=2.0, max_weight=1.5), batch()
    value = agent.value.model

    def by_hand(actor: CategoricalActor) -> Any:
        chance, _ = probabilities(actor, b.observation, b.future_goal)
        log_prob = jnp.log(chance[jnp.arange(ROWS), jnp.argmax(b.action, axis=1)])
        gain = least(agent.target(b.observation, b.action, b.future_goal)) - value(b.observation, b.future_goal)[0]
        return -jnp.mean(jnp.minimum(jnp.exp(2.0 * gain), 1.5) * log_prob)

    same(lambda actor: agent._actor_loss(actor, value, b)[0], by_hand, agent.actor.model)


def test_qrl_holds_the_entropy_at_half_of_the_largest() -> None:
    agent, b = made("qrl", entropy_weight=0.7, cloning_weight=0.0), batch()
    weight = jnp.asarray(0.3)

    def by_hand(raw: Any) -> Any:
        chance, _ = probabilities(agent.actor.model, b.observation, b.future_goal)
        entropy = -jnp.sum(chance * jnp.log(chance), axis=1)
        return 0.7 * jnp.exp(raw) * jnp.mean(jnp.log(4.0) / 2 - entropy)

    def term(raw: Any) -> Any:
        loss = agent._actor_loss((agent.actor.model, raw), b, jax.random.PRNGKey(5))[0]
        return loss - agent._actor_loss((agent.actor.model, -jnp.inf), b, jax.random.PRNGKey(5))[0]

    np.testing.assert_allclose(term(weight), by_hand(weight), atol=1e-3)  # a small difference of large losses
    assert abs(by_hand(weight)) > 0.05


def same(loss: Any, by_hand: Any, model: Any) -> None:
    """Value and gradient agree."""
    (mine, my_gradient), (hand, hand_gradient) = (eqx.filter_value_and_grad(f)(model) for f in (loss, by_hand))
    np.testing.assert_allclose(mine, hand, rtol=1e-5)
    pairs = zip(*(jax.tree.leaves(eqx.filter(g, eqx.is_array)) for g in (my_gradient, hand_gradient)), strict=True)
    largest = 0.0
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)
        largest = max(largest, float(jnp.abs(y).max()))
    assert largest > 1e-3, "there is a gradient to agree on"


def test_a_categorical_policy_samples_its_probabilities_and_acts_in_whole_numbers(tmp_path: Path) -> None:
    actor = CategoricalActor(jax.random.PRNGKey(0), 3, 2, 4, hidden=(6,))
    state, goal = jnp.ones((1, 3)), -jnp.ones((1, 2))
    drawn = actor.sample(jnp.tile(state, (4000, 1)), jnp.tile(goal, (4000, 1)), jax.random.PRNGKey(1))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.all(drawn.sum(axis=1) == 1)
    chance, _ = probabilities(actor, state, goal)
    np.testing.assert_allclose(drawn.mean(axis=0), chance[0], atol=0.03)
    run = td.train("grid", env_steps=90, warmup_steps=30, eval_episodes=1, final_episodes=1, out=tmp_path / "run")
    start = GridEnv().reset(0)
    action = run.policy().act(start.observation, start.goal)
    assert action in range(4)
    assert np.issubdtype(np.asarray(action).dtype, np.integer)


def uniform_walks(steps: int) -> dict[str, np.ndarray]:
    """What a walker without a plan leaves behind."""
    env, rng = GridEnv(), np.random.default_rng(0)
    observations, actions, ends = [], [], []
    for seed in range(steps // env.spec.episode_length):
        observations.append(env.reset(10**6 + seed).observation)
        for _ in range(env.spec.episode_length):
            actions.append(rng.integers(4))
            observations.append(env.step(np.eye(4)[actions[-1]]).observation)
            ends.append(False)
        actions.append(0)
        ends += [True]
    return {"observations": np.stack(observations), "actions": np.array(actions), "timeouts": np.array(ends)}


LONGER: dict[str, Any] = {
    "contrastive-rl": {"env_steps": 30_000},
    "contrastive-nce": {"env_steps": 30_000},
    "gcbc": {"env_steps": 60_000, "discount": 0.8},
    "gc-iql": {"data": "walks", "goal": "0:14"},
    "hiql": {"data": "walks", "goal": "0:14"},
}
"""Those that learn from whole futures need more of them. Each agent had four to eight trials, with seeds 11 to 13 and
other episodes; gc-iql and hiql had none."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKE)
def test_every_such_agent_solves_the_grid_in_a_minute(name: str, tmp_path: Path) -> None:
    """The seed is none that settings were chosen with."""
    began = time.process_time()
    changes = LONGER.get(name, {})
    if "data" in changes:
        changes = changes | {"data": uniform_walks(60_000)}
    run = td.train("grid", agent=name, seed=0, out=tmp_path / "run", **changes)
    seconds = time.process_time() - began
    success = td.evaluate(run, episodes=100)["success_any"]
    print(f"{name}: {success:.2f} in {seconds:.0f} s")
    assert success >= 0.9
    assert seconds < 60
