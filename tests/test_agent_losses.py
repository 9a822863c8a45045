"""What each agent descends: its losses computed again by hand from its raw weights, and every gradient by differences.

Each agent has two critics, targets unlike them, scaled inputs and a batch in which no two fields are alike, so that
whatever is taken from the wrong place shows. The gradient that an agent followed is read off Adam's first moment.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reference as ref
from tdinfonce import agents
from tdinfonce.types import Batch, EnvSpec, History, InputScale

ROWS, STEPS = 12, 4
SPEC = EnvSpec("test", 4, 2, 3, episode_length=7, tolerance=1.2, success_coordinates=(0, 2))
TINY = {"hidden": (6, 5), "goal_hidden": (5,), "representation_size": 3, "critics": 2, "layer_norm": False}
TINY |= {"projector_hidden": (5,), "dynamics_hidden": (5,), "latent_size": 4, "components": 2, "component_size": 3}
TINY |= {"width": 6, "layers": 2, "heads": 2, "context": STEPS}
TINY |= {"critic_rate": 0.01, "actor_rate": 0.02, "average_rate": 0.9, "target_rate": 0.3, "scale_inputs": True}
SCALE = InputScale(
    np.array([1.0, -1.0, 0.5, 0.0], np.float32),
    np.array([2.0, 0.5, 1.0, 3.0], np.float32),
    np.array([-0.5, 1.5, 0.0], np.float32),
    np.array([0.6, 2.5, 1.5], np.float32),
)
PAIRS = {"target": "critic", "target_actor": "actor"}


@functools.cache
def raw() -> Batch:
    """A batch whose fields all differ; some goals are reached, some actions lie at the bounds, some inputs far out."""
    rng = np.random.default_rng(4)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0.3, 1.5, shape).astype(np.float32)

    observations = [normal(ROWS, 4) for _ in range(3)]
    observations[0][2, 1], observations[1][3, 1], observations[2][4, 2] = 9.0, -8.0, 11.0
    goals = [normal(ROWS, 3) for _ in range(5)]
    following, future, _, commanded, _ = goals
    following[[4, 11]] = [future[4] + [0.5, 7, -0.5], commanded[11] + [0.1, -7, 0.9]]
    future[5] = following[5]
    action = rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32)
    action[1], action[6, 0], action[8, 1] = (1.0, -1.0), 0.9995, -0.9999
    time = np.maximum(np.arange(ROWS)[:, None] % 6 + np.arange(1 - STEPS, 1), -1)
    return Batch(
        observation=observations[0],
        action=action,
        next_observation=observations[1],
        next_goal=following,
        future_goal=future,
        random_goal=goals[2],
        commanded_goal=commanded,
        near_goal=goals[4],
        bootstrap_observation=observations[2],
        bootstrap_discount=rng.uniform(0.2, 0.95, ROWS).astype(np.float32),
        reward=(np.arange(ROWS) % 3 == 0).astype(np.float32),
        context_observation=normal(ROWS, STEPS, 4),
        context_action=rng.uniform(-1, 1, (ROWS, STEPS, 2)).astype(np.float32),
        context_return=(rng.random((ROWS, STEPS)) < 0.5).astype(np.float32),
        context_time=time,
    )


def scaled() -> Batch:
    """The same, as the networks see it."""
    named = raw()._asdict()
    for name, value in named.items():
        if "observation" in name:
            named[name] = ref.compress(value, SCALE.observation_mean, SCALE.observation_std)
        if name.endswith("goal"):
            named[name] = ref.compress(value, SCALE.goal_mean, SCALE.goal_std)
    assert any(np.abs(value).max() > 5 for name, value in named.items() if "observation" in name)
    return Batch(**named)


def config_of(name: str, **changes: Any) -> Any:
    config = agents.load(name).Config()
    known = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **({k: v for k, v in TINY.items() if k in known} | changes))


quick_jit = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})


@quick_jit
def create(name: str, config: Any) -> Any:
    return agents.load(name).Agent.create(jax.random.PRNGKey(7), SPEC, config, SCALE)


@quick_jit
def update(agent: Any, batch: Batch) -> tuple[Any, dict[str, jax.Array]]:
    return agent.update(batch)


def unlike(agent: Any) -> Any:
    """The same agent, each of its networks moved by itself: no target and no average is its model."""
    rng = np.random.default_rng(1)

    def move(path: Any, x: Any) -> Any:
        names = {getattr(entry, "name", None) for entry in path}
        fixed = names & {"key", "state", "inputs", "step", "metrics"} or not eqx.is_inexact_array(x)
        return x if fixed else x + 0.4 * rng.normal(size=x.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(move, agent)


@dataclasses.dataclass
class Life:
    """An agent before and after an update, its weights before it in double precision, and the batch it saw."""

    old: Any
    new: Any
    metrics: dict[str, jax.Array]
    w: Any
    b: Batch
    c: Any

    def keys(self, number: int) -> list[jax.Array]:
        """The keys of the update, behind the one that is kept."""
        first, *others = jax.random.split(self.old.key, number)
        np.testing.assert_array_equal(self.new.key, first)
        return others

    def metric(self, name: str, value: Any) -> None:
        np.testing.assert_allclose(self.metrics[name], value, rtol=2e-4, atol=2e-5, err_msg=name)

    def follows(self, learner: str, loss: Callable[[], Any], rate: float, *, sign: float = 1.0) -> None:
        """Assert that a learner made Adam's first step down the gradient of a loss of its weights."""
        before, after = getattr(self.old, learner), getattr(self.new, learner)
        gradient = jax.tree.map(lambda x: x / 0.1, optax.tree_utils.tree_get(after.state, "mu"))
        ref.agree(lambda: float(loss()), getattr(self.w, learner).model, gradient, sign=sign)
        moved = jax.tree.map(lambda x, g: x - rate * g / (jnp.abs(g) + 1e-8), arrays(before.model), gradient)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-3 * rate), arrays(after.model), moved)


def arrays(tree: Any) -> Any:
    return eqx.filter(tree, eqx.is_array)


def live(name: str, **changes: Any) -> Life:
    config = config_of(name, **changes)
    old = unlike(create(name, config))
    new, metrics = update(old, jax.tree.map(jnp.asarray, raw()))
    return Life(old, new, metrics, ref.weights(old), scaled(), config)


def noise(key: jax.Array) -> np.ndarray:
    return np.array(jax.random.normal(key, (ROWS, 2)), np.float64)


def both(condition: Any) -> None:
    """Either case occurs, or the other one is not tested."""
    assert np.any(condition)
    assert not np.all(condition)


def smallest(members: np.ndarray) -> np.ndarray:
    both(members[0] < members[1])
    return np.minimum(members[0], members[1])


def sampled(actor: Any, observation: np.ndarray, goal: np.ndarray, draw: np.ndarray, c: Any) -> np.ndarray:
    loc, scale = ref.gaussian(actor, observation, goal, c)
    return np.tanh(loc + scale * draw)


GOALS = {"commanded_goal": 3, "future_goal": 6, "random_goal": 3}
MIX: dict[str, Any] = {"commanded_share": 0.25, "actor_future_share": 0.5, "min_std": 0.2, "mean_penalty": 0.3}


@pytest.mark.parametrize(
    "changes",
    [
        {"learn_temperature": True, "temperature": 0.6, "normalise": True, "cloning_share": 0.3, "cloning_sum": True},
        {"learn_temperature": False, "temperature": 0.7, "normalise": False, "cloning_share": 0.2, "layer_norm": True},
    ],
)
def test_td_infonce(changes: Any) -> None:
    life = live("td-infonce", **MIX, critic_future_share=0.25, monte_carlo_weight=1 / 6, **changes)
    w, b, c = life.w, life.b, life.c
    critic_key, actor_key = life.keys(3)
    temperatures = {id(x): np.exp(x.log_temperature) for x in (w.critic.model, w.target)}
    options = {"c": c, "normalise": c.normalise}

    def phi(critic: Any, *inputs: np.ndarray) -> list[np.ndarray]:
        learned = np.exp(critic.log_temperature) if c.learn_temperature else temperatures[id(critic)]
        return ref.embeddings(critic.left, *inputs, temperature=learned, **options)

    def psi(critic: Any, goal: np.ndarray) -> list[np.ndarray]:
        return ref.embeddings(critic.right, goal, **options)

    goal = ref.mixed(b, {"commanded_goal": 3, "future_goal": 3, "random_goal": 6})
    action = sampled(w.actor.model, b.bootstrap_observation, goal, noise(critic_key), c)
    later = phi(w.target, b.bootstrap_observation, action, goal)
    labels = ref.softmax(smallest(ref.logits(later, psi(w.target, b.random_goal))))
    discount = np.where(np.arange(ROWS) < 2, 0.0, b.bootstrap_discount)
    positive = ref.mixed(b, {"future_goal": 2, "near_goal": 10})

    def critic_loss() -> Any:
        left = phi(w.critic.model, b.observation, b.action, goal)
        near = ref.logits(left, psi(w.critic.model, positive))
        random = ref.logits(left, psi(w.critic.model, b.random_goal))
        terms = [
            (1 - discount) * ref.cross_entropy(x, np.eye(ROWS)) + discount * ref.cross_entropy(u, labels)
            for x, u in zip(near, random, strict=True)
        ]
        return np.mean(terms)

    life.metric("critic/loss", critic_loss())
    life.metric("critic/weight_entropy", np.mean(ref.cross_entropy(np.log(labels), labels)))
    life.follows("critic", critic_loss, 0.01)

    goals, draw = ref.mixed(b, GOALS), noise(actor_key)

    def terms() -> tuple[Any, Any, Any]:
        loc, scale = ref.gaussian(w.actor.model, b.observation, goals, c)
        action = np.tanh(loc + scale * draw)
        left = phi(w.critic.model, b.observation, action, goals)
        found = smallest(ref.logits(left, psi(w.critic.model, goals)))
        return np.mean(ref.cross_entropy(found, np.eye(ROWS))), np.mean((action - b.action) ** 2), np.mean(loc**2)

    def actor_loss() -> Any:
        reach, error, size = terms()
        return (1 - c.cloning_share) * reach + c.cloning_share * error * (2 if c.cloning_sum else 1) + 0.3 * size

    life.metric("actor/loss", terms()[0])
    life.metric("actor/action_error", terms()[1])
    life.follows("actor", actor_loss, 0.02)
