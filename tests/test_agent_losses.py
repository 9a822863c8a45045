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

ROWS, STEPS = 24, 4
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
    following[[4, 22]] = [future[4] + [0.5, 7, -0.5], commanded[22] + [0.1, -7, 0.9]]
    future[5] = following[5]
    following[7, 1], following[9, ::2] = future[7, 1], future[9, ::2]  # reached in part
    action = rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32)
    action[1], action[6, 0], action[8, 1] = (1.0, -1.0), 0.9995, -0.9999
    time = np.maximum(np.arange(ROWS)[:, None] % 6 + np.arange(1 - STEPS, 1), -1)
    more = np.random.default_rng(5)  # fields that came later leave the others as they are
    ways, places = (list(more.normal(0.3, 1.5, (4, ROWS, size)).astype(np.float32)) for size in (4, 3))
    places[0][10], places[0][12, 1], places[0][13, ::2] = future[10], future[12, 1], future[13, ::2]
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
        present_goal=places[0],
        subgoal=places[1],
        subgoal_observation=ways[0],
        later_goal=places[2],
        waypoint_goal=places[3],
        waypoint_observation=ways[1],
    )


def scaled() -> Batch:
    """The same, as the networks see it."""
    named = raw()._asdict()
    for name, value in named.items():
        if "observation" in name:
            named[name] = ref.compress(value, SCALE.observation_mean, SCALE.observation_std)
        elif name.endswith("goal"):
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


def unlike(agent: Any, seed: int) -> Any:
    """The same agent, each of its networks moved by itself: no target and no average is its model."""
    rng = np.random.default_rng(seed)

    def move(path: Any, x: Any) -> Any:
        names = {getattr(entry, "name", None) for entry in path}
        fixed = names & {"key", "state", "inputs", "step", "metrics"} or not eqx.is_inexact_array(x)
        return x if fixed else x + 0.6 * rng.normal(size=x.shape).astype(np.float32)

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


def live(name: str, *, seed: int = 1, **changes: Any) -> Life:
    """One update; the seed is one with which either case of every minimum and clip occurs."""
    config = config_of(name, **changes)
    old = unlike(create(name, config), seed)
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


GOALS = {"commanded_goal": 6, "future_goal": 12, "random_goal": 6}
MIX: dict[str, Any] = {"commanded_share": 0.25, "actor_future_share": 0.5, "min_std": 0.2, "mean_penalty": 0.3}


@pytest.mark.parametrize(
    "changes",
    [
        {"learn_temperature": True, "temperature": 0.6, "normalise": True, "cloning_share": 0.3, "cloning_sum": True},
        {"learn_temperature": False, "temperature": 0.7, "normalise": False, "cloning_share": 0.2, "layer_norm": True}
        | {"random_negatives": False},
    ],
)
def test_td_infonce(changes: Any) -> None:
    life = live("td-infonce", **MIX, critic_future_share=0.25, **changes)
    w, b, c = life.w, life.b, life.c
    critic_key, actor_key = life.keys(3)
    temperatures = {id(x): np.exp(x.log_temperature) for x in (w.critic.model, w.target)}
    options = {"c": c, "normalise": c.normalise}

    def phi(critic: Any, *inputs: np.ndarray) -> list[np.ndarray]:
        learned = np.exp(critic.log_temperature) if c.learn_temperature else temperatures[id(critic)]
        return ref.embeddings(critic.left, *inputs, temperature=learned, **options)

    def psi(critic: Any, goal: np.ndarray) -> list[np.ndarray]:
        return ref.embeddings(critic.right, goal, **options)

    goal = ref.mixed(b, {"commanded_goal": 6, "future_goal": 6, "random_goal": 12})
    action = sampled(w.actor.model, b.bootstrap_observation, goal, noise(critic_key), c)
    later = phi(w.target, b.bootstrap_observation, action, goal)
    own = np.eye(ROWS, dtype=bool)
    candidates = ~own if c.random_negatives else np.ones_like(own)  # where a row may bootstrap from
    labels = ref.softmax(np.where(candidates, smallest(ref.logits(later, psi(w.target, b.random_goal))), -np.inf))
    discount = b.bootstrap_discount

    def tables() -> tuple[np.ndarray, np.ndarray]:
        left = phi(w.critic.model, b.observation, b.action, goal)
        near = ref.logits(left, psi(w.critic.model, b.near_goal))
        random = ref.logits(left, psi(w.critic.model, b.random_goal))
        return np.where(own, near, random) if c.random_negatives else near, np.where(candidates, random, -600.0)

    def critic_loss() -> Any:
        near, random = tables()
        terms = [
            (1 - discount) * ref.cross_entropy(x, np.eye(ROWS)) + discount * ref.cross_entropy(u, labels)
            for x, u in zip(near, random, strict=True)
        ]
        return np.mean(terms)

    life.metric("critic/loss", critic_loss())
    logs = np.log(np.where(candidates, labels, 1e-30))
    life.metric("critic/weight_entropy", np.mean(ref.cross_entropy(logs, labels)))
    near = tables()[0][0]
    life.metric("critic/next_accuracy", np.mean(np.argmax(near, axis=1) == np.arange(ROWS)))
    life.metric("critic/temperature", np.exp(w.critic.model.log_temperature))
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


def raise_logits(life: Life, key: jax.Array, *, normalise: bool, cloning: float = 0.0) -> None:
    """The actor of the critics f(s, a, g): it maximises the smaller logit of its goal."""
    w, b, c, draw = life.w, life.b, life.c, noise(key)
    goals, critic = ref.mixed(life.b, GOALS), life.w.critic.model
    right = ref.embeddings(critic.right, goals, c=c, normalise=normalise)
    temperature = np.exp(critic.log_temperature)

    def terms() -> tuple[Any, Any, Any]:
        loc, scale = ref.gaussian(w.actor.model, b.observation, goals, c)
        action = np.tanh(loc + scale * draw)
        left = ref.embeddings(critic.left, b.observation, action, c=c, normalise=normalise, temperature=temperature)
        found = np.stack([np.sum(x * y, axis=1) for x, y in zip(left, right, strict=True)])
        stored = ref.log_density(b.action, *ref.gaussian(w.actor.model, b.observation, b.future_goal, c))
        return -np.mean(smallest(found)), np.mean(loc**2), -np.mean(stored)

    def loss() -> Any:
        reach, size, clone = terms()
        return (1 - cloning) * (reach + 0.3 * size) + cloning * clone

    loc, scale = ref.gaussian(w.actor.model, b.observation, goals, c)
    life.metric("actor/location", np.mean(np.abs(loc)))
    life.metric("actor/std", np.mean(scale))
    life.metric("actor/loss", terms()[0])
    life.follows("actor", loss, 0.02)
    if cloning:
        life.metric("actor/cloning", terms()[2])


def tell_futures(life: Life, loss: Callable[[np.ndarray], np.ndarray]) -> None:
    """The critic of Monte Carlo agents: the future of each row among those of the batch."""
    b, c, critic = life.b, life.c, life.w.critic.model
    fixed = np.exp(critic.log_temperature)

    def found() -> np.ndarray:
        learned = np.exp(critic.log_temperature) if c.learn_temperature else fixed
        left = ref.embeddings(critic.left, b.observation, b.action, c=c, normalise=c.normalise, temperature=learned)
        return ref.logits(left, ref.embeddings(critic.right, b.future_goal, c=c, normalise=c.normalise))

    def mean() -> Any:
        return np.mean([loss(x) for x in found()])

    life.metric("critic/loss", mean())
    life.metric("critic/accuracy", np.mean(np.argmax(found()[0], axis=1) == np.arange(ROWS)))
    life.metric("critic/positive_logit", np.mean(np.diag(found()[0])))
    life.metric("critic/temperature", fixed)
    life.follows("critic", mean, 0.01)


TEMPERATURES: list[dict[str, Any]] = [
    {"learn_temperature": True, "temperature": 0.6, "normalise": True},
    {"learn_temperature": False, "temperature": 0.7, "normalise": False, "layer_norm": True},
]


@pytest.mark.parametrize(("changes", "cloning"), [(TEMPERATURES[0], 0.0), (TEMPERATURES[1], 0.4)])
def test_contrastive_rl(changes: Any, cloning: float) -> None:
    life = live("contrastive-rl", **MIX, **changes, cloning_share=cloning, logsumexp_weight=0.2)
    tell_futures(life, lambda x: ref.cross_entropy(x, np.eye(ROWS)) + 0.2 * ref.logsumexp(x) ** 2)
    raise_logits(life, *life.keys(2), normalise=life.c.normalise, cloning=cloning)


@pytest.mark.parametrize("changes", TEMPERATURES)
def test_contrastive_nce(changes: Any) -> None:
    life = live("contrastive-nce", **MIX, **changes)
    own = np.eye(ROWS, dtype=bool)
    tell_futures(life, lambda x: np.where(own, ref.softplus(-x), ref.softplus(x)).mean(1))
    raise_logits(life, *life.keys(2), normalise=life.c.normalise)


def test_c_learning() -> None:
    life = live("c-learning", **MIX, discount=0.8, max_weight=0.8, seed=7)
    w, b, c = life.w, life.b, life.c
    critic_key, actor_key = life.keys(3)

    def pairs(critic: Any, observation: np.ndarray, action: np.ndarray, goal: np.ndarray) -> np.ndarray:
        left = ref.embeddings(critic.left, observation, action, c=c, normalise=False, temperature=fixed[id(critic)])
        right = ref.embeddings(critic.right, goal, c=c, normalise=False)
        return np.stack([np.sum(x * y, axis=1) for x, y in zip(left, right, strict=True)])

    fixed = {id(x): np.exp(x.log_temperature) for x in (w.critic.model, w.target)}
    action = sampled(w.actor.model, b.next_observation, b.random_goal, noise(critic_key), c)
    chance = ref.sigmoid(smallest(pairs(w.target, b.next_observation, action, b.random_goal)))
    odds = chance / (1 - chance)
    both(odds > 0.8)
    weight = np.minimum(odds, 0.8)

    def critic_loss() -> Any:
        following = pairs(w.critic.model, b.observation, b.action, b.next_goal)
        random = pairs(w.critic.model, b.observation, b.action, b.random_goal)
        return np.mean(0.2 * ref.softplus(-following) + 0.8 * weight * ref.softplus(-random) + ref.softplus(random))

    life.metric("critic/loss", critic_loss())
    life.metric("critic/weight", np.mean(weight))
    life.metric("critic/next_logit", np.mean(pairs(w.critic.model, b.observation, b.action, b.next_goal)[0]))
    life.metric("critic/random_logit", np.mean(pairs(w.critic.model, b.observation, b.action, b.random_goal)[0]))
    life.follows("critic", critic_loss, 0.01)
    raise_logits(life, actor_key, normalise=False)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_gcbc(layer_norm: bool) -> None:
    life = live("gcbc", layer_norm=layer_norm, min_std=0.2)
    b, actor = life.b, life.w.actor.model
    both(np.abs(b.action) > 0.999)

    def loss() -> Any:
        return -np.mean(ref.log_density(b.action, *ref.gaussian(actor, b.observation, b.future_goal, life.c)))

    life.metric("actor/loss", loss())
    error = np.tanh(ref.gaussian(actor, b.observation, b.future_goal, life.c)[0]) - b.action
    life.metric("actor/action_error", np.mean(error**2))
    life.follows("actor", loss, 0.02)


@pytest.mark.parametrize(("layer_norm", "seed"), [(False, 1), (True, 2)])
def test_ddpg_her(layer_norm: bool, seed: int) -> None:
    life = live("ddpg-her", seed=seed, discount=0.5, future_share=0.75, action_penalty=0.3, layer_norm=layer_norm)
    w, b, c = life.w, life.b, life.c
    goals = {"future_goal": 18, "commanded_goal": 6}
    distance = np.linalg.norm((raw().next_goal - ref.mixed(raw(), goals))[:, [0, 2]], axis=1)
    reward = np.where(distance < 1.2, 0.0, -1.0)
    both(reward[:18])
    both(reward[18:])
    goal = ref.mixed(b, goals)
    action = ref.deterministic(w.target_actor, b.next_observation, goal, c)
    following = reward + 0.5 * smallest(ref.values(w.target, b.next_observation, action, goal, c=c))
    target = np.clip(following, -2, 0)
    assert {*np.sign(following - target)} == {-1, 0, 1}, "either bound holds some rows, not all"

    def critic_loss() -> Any:
        return np.mean((ref.values(w.critic.model, b.observation, b.action, goal, c=c) - target) ** 2)

    def terms() -> tuple[Any, Any]:
        action = ref.deterministic(w.actor.model, b.observation, goal, c)
        reach = smallest(ref.values(w.critic.model, b.observation, action, goal, c=c))
        return -np.mean(reach), np.mean(action**2)

    life.metric("critic/loss", critic_loss())
    life.metric("critic/reward", np.mean(reward))
    life.metric("critic/value", np.mean(ref.values(w.critic.model, b.observation, b.action, goal, c=c)[0]))
    life.metric("actor/loss", terms()[0])
    life.metric("actor/action_size", terms()[1])
    life.follows("critic", critic_loss, 0.01)
    life.follows("actor", lambda: terms()[0] + 0.3 * terms()[1], 0.02)


def test_ddpg_her_of_three_critics() -> None:
    life = live("ddpg-her", seed=2, critics=3, future_share=1.0, layer_norm=False)
    b, c, critic = life.b, life.c, life.w.critic.model
    action = ref.deterministic(life.w.actor.model, b.observation, b.future_goal, c)
    found = ref.values(critic, b.observation, action, b.future_goal, c=c)
    assert {*np.argmin(found, axis=0)} == {0, 1, 2}
    life.metric("actor/loss", -np.mean(np.min(found, axis=0)))


def distances(member: Any, start: np.ndarray, end: np.ndarray, c: Any) -> np.ndarray:
    """The steps from latent points to others, as a quasimetric sees them."""
    x, y = (ref.mlp(member.projector, z, norm=c.layer_norm) for z in (start, end))
    return ref.mrn(member.head, x, y) if c.mrn else ref.iqe(member.head, x, y, c.components)


def leads_to(member: Any, latent: np.ndarray, action: np.ndarray, c: Any) -> np.ndarray:
    """Where an action leads, as the latent model of a quasimetric says."""
    return latent + ref.mlp(member.dynamics, latent, action, norm=c.layer_norm)


def qrl_edges(member: Any, b: Batch, c: Any) -> np.ndarray:
    """How much longer than its cost each step is, and each way from a state to what it achieves."""
    state, later = (ref.mlp(member.state_encoder, x, norm=c.layer_norm) for x in (b.observation, b.next_observation))
    reached = ref.mlp(member.goal_encoder, b.next_goal, norm=c.layer_norm)
    return np.array([distances(member, state, later, c) - 1, distances(member, later, reached, c)])


def qrl_member(member: Any, multiplier: Any, b: Batch, c: Any) -> Any:
    """The loss of one quasimetric."""
    state, later = (ref.mlp(member.state_encoder, x, norm=c.layer_norm) for x in (b.observation, b.next_observation))
    random = ref.mlp(member.goal_encoder, b.random_goal, norm=c.layer_norm)
    predicted = leads_to(member, state, b.action, c)
    away = [distances(member, state, random, c), distances(member, state, later[np.arange(-1, ROWS - 1)], c)]
    push = ref.softplus(c.push_sharpness * (c.push_offset - np.array(away))) / c.push_sharpness
    long = qrl_edges(member, b, c)
    both(long > 0)
    local = np.mean(np.maximum(long, 0) ** 2, axis=1) - c.local_tolerance**2
    there, back = distances(member, predicted, later, c), distances(member, later, predicted, c)
    return np.mean(push) + np.mean(multiplier * local) + c.dynamics_weight * np.mean((there**2 + back**2) / 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"entropy_weight": 0.5, "cloning_weight": 0.2, "layer_norm": False},
        {"entropy_weight": 0.0, "cloning_weight": 0.0, "layer_norm": True, "mrn": True},
    ],
)
def test_qrl(changes: Any) -> None:
    own: dict[str, Any] = {"push_offset": 4.0, "push_sharpness": 0.7, "local_tolerance": 0.4, "dynamics_weight": 0.6}
    own |= {"multiplier": 1.3, "multiplier_rate": 0.03, "entropy_rate": 0.04}
    life = live("qrl", **MIX, **own, **changes)
    w, b, c = life.w, life.b, life.c
    (actor_key,) = life.keys(2)

    def critic_loss() -> Any:
        multiplier = ref.softplus(w.multiplier.model)
        return sum(qrl_member(m, x, b, c) for m, x in zip(w.critic.model, multiplier, strict=True))

    first = ref.softplus(w.multiplier.model[0])
    life.metric("critic/loss", qrl_member(w.critic.model[0], first, b, c))
    for name, multiplier, long in zip(("step", "arrival"), first, qrl_edges(w.critic.model[0], b, c), strict=True):
        life.metric(f"critic/{name}_multiplier", multiplier)
        life.metric(f"critic/{name}_excess", np.mean(np.maximum(long, 0) ** 2) - 0.4**2)
    life.follows("critic", critic_loss, 0.01)
    life.follows("multiplier", critic_loss, 0.03, sign=-1.0)

    goals, draw = ref.mixed(b, GOALS), noise(actor_key)

    def reach(action: np.ndarray) -> Any:
        found = []
        for member in w.critic.model:
            start = ref.mlp(member.state_encoder, b.observation, norm=c.layer_norm)
            end = ref.mlp(member.goal_encoder, goals, norm=c.layer_norm)
            found.append(distances(member, leads_to(member, start, action, c), end, c))
        both(found[0] < found[1])
        return np.mean(np.maximum(*found))

    def terms() -> tuple[Any, Any]:
        loc, scale = ref.gaussian(w.actor.model, b.observation, goals, c)
        action = np.tanh(loc + scale * draw)
        entropy = -np.mean(ref.log_density(action, loc, scale))
        weight = c.entropy_weight * np.exp(w.entropy_weight.model)
        clone = -np.mean(ref.log_density(b.action, *ref.gaussian(w.actor.model, b.observation, b.future_goal, c)))
        loss = reach(action) + 0.3 * np.mean(loc**2) + weight * (-2 - entropy) + c.cloning_weight * clone
        return reach(action), loss

    life.metric("actor/loss", terms()[0])
    life.follows("actor", lambda: terms()[1], 0.02)
    if c.entropy_weight:
        life.follows("entropy_weight", lambda: terms()[1], 0.04, sign=-1.0)


IMPLICIT: dict[str, Any] = {"discount": 0.7, "expectile_level": 0.8, "sharpness": 1.5, "max_weight": 2.0}


def implicit(life: Life, value_goal: Any, actor_goal: Any, reached: np.ndarray) -> None:
    """V, then the actor and Q with the new V; ``*_goal`` are what the networks see besides states and actions."""
    w, b, c = life.w, life.b, life.c
    new_value = ref.weights(life.new.value.model)
    best = smallest(ref.values(w.target, b.observation, b.action, value_goal, c=c))

    def value_loss() -> Any:
        error = best - ref.values(w.value.model, b.observation, value_goal, c=c)[0]
        both(error > 0)
        return np.mean(np.where(error > 0, 0.8, 0.2) * error**2)

    life.metric("critic/value_loss", value_loss())
    life.metric("critic/value", np.mean(ref.values(w.value.model, b.observation, value_goal, c=c)))
    life.follows("value", value_loss, 0.01)

    done = smallest(ref.values(w.target, b.observation, b.action, actor_goal, c=c))
    advantage = done - ref.values(new_value, b.observation, actor_goal, c=c)[0]
    both(np.exp(1.5 * advantage) > 2)
    weight = np.minimum(np.exp(1.5 * advantage), 2)

    def actor_loss() -> Any:
        policy = ref.gaussian(w.actor.model, b.observation, actor_goal, c)
        return -np.mean(weight * ref.log_density(b.action, *policy))

    life.metric("actor/loss", actor_loss())
    life.metric("actor/advantage", np.mean(advantage))
    life.metric("actor/clipped", np.mean(weight >= 2))
    life.follows("actor", actor_loss, 0.02)

    both(reached)
    life.metric("critic/reached" if "critic/reached" in life.metrics else "critic/reward", np.mean(reached))
    following = ref.values(new_value, b.next_observation, value_goal, c=c)[0]
    target = np.where(reached, 0, -1 + 0.7 * following)

    def critic_loss() -> Any:
        return np.mean((ref.values(w.critic.model, b.observation, b.action, value_goal, c=c) - target) ** 2)

    life.metric("critic/loss", critic_loss())
    life.follows("critic", critic_loss, 0.01)


NOTHING = np.zeros((ROWS, 0))


@pytest.mark.parametrize(("layer_norm", "seed"), [(False, 1), (True, 7)])
def test_iql(layer_norm: bool, seed: int) -> None:
    life = live("iql", seed=seed, **IMPLICIT, layer_norm=layer_norm)
    implicit(life, NOTHING, NOTHING, life.b.reward == 1)


@pytest.mark.parametrize(("layer_norm", "seed"), [(False, 1), (True, 7)])
def test_gc_iql(layer_norm: bool, seed: int) -> None:
    life = live("gc-iql", seed=seed, **IMPLICIT, layer_norm=layer_norm, next_share=0.125, future_share=0.5)
    goals = {"next_goal": 3, "future_goal": 12, "random_goal": 9}
    reached = (raw().next_goal == ref.mixed(raw(), goals)).all(1)
    assert reached.sum() == 4, "the next states, and a future that is the next state"
    implicit(life, ref.mixed(life.b, goals), life.b.future_goal, reached)


def phi(representation: Any, observation: np.ndarray, goal: np.ndarray, c: Any) -> np.ndarray:
    """How HIQL sees a goal from a state, or, of the high policy, a sub-goal for a goal: of fixed length."""
    x = ref.mlp(representation, observation, goal, norm=c.layer_norm, gelu=ref.bends(c))
    return np.sqrt(x.shape[1]) * x / np.linalg.norm(x, axis=1, keepdims=True)


HIGH = {"random_goal": 6, "later_goal": 18}
ON_THE_WAY = {"subgoal": 6, "waypoint_goal": 18}
THERE = {"subgoal_observation": 6, "waypoint_observation": 18}


@pytest.mark.parametrize(("activation", "layer_norm", "seed"), [("relu", False, 2), ("gelu", True, 1)])
def test_hiql(activation: str, layer_norm: bool, seed: int) -> None:
    own = IMPLICIT | {"high_sharpness": 2.5, "present_share": 0.125, "future_share": 0.5, "high_random_share": 0.25}
    life = live("hiql", seed=seed, **own, layer_norm=layer_norm, activation=activation)
    w, b, c = life.w, life.b, life.c
    representation = w.representation.model

    def values(critic: Any, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
        return ref.values(critic, observation, phi(representation, observation, goal, c), c=c)

    goals = {"present_goal": 3, "future_goal": 12, "random_goal": 9}
    reached = (raw().present_goal == ref.mixed(raw(), goals)).all(1)
    assert reached.sum() == 4, "the present states, and a future that is the present state"
    goal = ref.mixed(b, goals)
    target = np.where(reached, 0, -1 + 0.7 * values(w.target, b.next_observation, goal))
    advantage = smallest(target) - values(w.target, b.observation, goal).mean(0)
    both(advantage > 0)
    both((advantage > 0) == (target > values(w.critic.model, b.observation, goal)))

    def value_loss() -> Any:
        error = target - values(w.critic.model, b.observation, goal)
        return np.mean(np.where(advantage > 0, 0.8, 0.2) * error**2)

    life.metric("critic/loss", value_loss())
    life.metric("critic/value", np.mean(values(w.critic.model, b.observation, goal)))
    life.metric("critic/advantage", np.mean(advantage))
    life.metric("critic/reached", np.mean(reached))
    life.follows("critic", value_loss, 0.01)
    life.follows("representation", value_loss, 0.01)

    def gain(there: np.ndarray, goal: np.ndarray) -> np.ndarray:
        return (values(w.critic.model, there, goal) - values(w.critic.model, b.observation, goal)).mean(0)

    def weigh(sharpness: float, advantage: np.ndarray) -> np.ndarray:
        both(np.exp(sharpness * advantage) > 2)
        return np.minimum(np.exp(sharpness * advantage), 2)

    better, named = gain(b.next_observation, b.subgoal), phi(representation, b.observation, b.subgoal, c)
    weight = weigh(1.5, better)

    def low_loss() -> Any:
        return -np.mean(weight * ref.log_density(b.action, *ref.gaussian(w.actor.model, b.observation, named, c)))

    life.metric("actor/loss", low_loss())
    life.metric("actor/advantage", np.mean(better))
    life.metric("actor/clipped", np.mean(weight >= 2))
    life.follows("actor", low_loss, 0.02)

    far, on_the_way = ref.mixed(b, HIGH), phi(representation, b.observation, ref.mixed(b, ON_THE_WAY), c)
    farther = gain(ref.mixed(b, THERE), far)
    high_weight = weigh(2.5, farther)

    def errors() -> np.ndarray:
        mean = ref.mlp(w.high_actor.model, b.observation, far, norm=c.layer_norm, gelu=ref.bends(c))
        return np.sum((mean - on_the_way) ** 2, axis=1)

    def high_loss() -> Any:
        return np.mean(high_weight * (errors() / 2 + 1.5 * np.log(2 * np.pi)))

    life.metric("actor/high_loss", high_loss())
    life.metric("actor/high_advantage", np.mean(farther))
    life.metric("actor/high_clipped", np.mean(high_weight >= 2))
    life.metric("actor/high_error", np.mean(errors()))
    life.follows("high_actor", high_loss, 0.02)


def test_the_high_policy_of_hiql_may_have_goals_of_its_own_episode_only() -> None:
    """And then reads nothing of random rows."""
    life = live("hiql", high_random_share=0.0, max_weight=1e9)
    w, b, c = life.w, life.b, life.c
    representation, critic = w.representation.model, w.critic.model
    near, far = (
        ref.values(critic, x, phi(representation, x, b.later_goal, c), c=c).mean(0)
        for x in (b.observation, b.waypoint_observation)
    )
    error = phi(representation, b.observation, b.waypoint_goal, c) - ref.mlp(
        w.high_actor.model, b.observation, b.later_goal, norm=c.layer_norm
    )
    expected = np.mean(np.exp(3 * (far - near)) * (np.sum(error**2, axis=1) / 2 + 1.5 * np.log(2 * np.pi)))
    np.testing.assert_allclose(life.metrics["actor/high_loss"], expected, rtol=1e-3)


@pytest.mark.parametrize("discrete", [False, True])
def test_hiql_acts_by_a_sub_goal(discrete: bool) -> None:
    """Greedy by the averages of both policies, otherwise by samples of both; what is named gets its length."""
    config, key, b = config_of("hiql"), jax.random.PRNGKey(5), scaled()
    spec = dataclasses.replace(SPEC, discrete=discrete)
    agent = unlike(agents.load("hiql").Agent.create(jax.random.PRNGKey(7), spec, config, SCALE), 1)
    high_key, low_key = jax.random.split(key)
    for greedy in (True, False):
        high, low = (
            ref.weights(policy.average if greedy else policy.model) for policy in (agent.high_actor, agent.actor)
        )
        named = ref.mlp(high, b.observation, b.future_goal, norm=config.layer_norm)
        named = named if greedy else named + np.array(jax.random.normal(high_key, (ROWS, 3)))
        named *= np.sqrt(3) / np.linalg.norm(named, axis=1, keepdims=True)
        if discrete:
            chances = ref.mlp(low.net, b.observation, named, norm=config.layer_norm)
            chances = chances if greedy else chances + np.asarray(jax.random.gumbel(low_key, chances.shape))
            expected = np.eye(2)[np.argmax(chances, axis=1)]
            both(expected[:, 0] == 1)
        else:
            loc, scale = ref.gaussian(low, b.observation, named, config)
            expected = ref.mean_action(loc, scale) if greedy else np.tanh(loc + scale * noise(low_key))
        found = agent.act(raw().observation, raw().future_goal, key, greedy=greedy)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("layer_norm", "seed"), [(False, 1), (True, 3)])
def test_td3_bc(layer_norm: bool, seed: int) -> None:
    own: dict[str, Any] = {"discount": 0.7, "target_noise": 0.6, "noise_clip": 0.5, "value_weight": 1.7}
    life = live("td3-bc", seed=seed, **own, layer_norm=layer_norm)
    w, b, c = life.w.policy, life.b, life.c
    critic, (noise_key,) = life.w.critic.model, life.keys(2)
    wild = 0.6 * noise(noise_key)
    both(np.abs(wild) > 0.5)
    action = ref.deterministic(w.target_actor, b.next_observation, NOTHING, c) + np.clip(wild, -0.5, 0.5)
    both(np.abs(action) > 1)
    following = smallest(ref.values(w.target, b.next_observation, np.clip(action, -1, 1), c=c))
    target = np.where(b.reward == 1, 0, -1 + 0.7 * following)

    def critic_loss() -> Any:
        return np.mean((ref.values(critic, b.observation, b.action, c=c) - target) ** 2)

    life.metric("critic/loss", critic_loss())
    life.follows("critic", critic_loss, 0.01)

    new_critic = ref.weights(life.new.critic.model)

    def valued() -> Any:
        action = ref.deterministic(w.actor.model, b.observation, NOTHING, c)
        return ref.values(new_critic, b.observation, action, c=c)[0], np.mean((action - b.action) ** 2)

    size = np.mean(np.abs(valued()[0]))

    def actor_loss() -> Any:
        value, error = valued()
        return error - 1.7 * np.mean(value) / size

    life.metric("actor/loss", actor_loss())
    life.metric("actor/action_error", valued()[1])
    life.metric("actor/value", np.mean(valued()[0]))
    life.w = w  # where the actor is
    life.follows("actor", actor_loss, 0.02)


def test_td3_bc_moves_its_policy_at_every_third_update_if_told_so() -> None:
    old = unlike(create("td3-bc", config_of("td3-bc", policy_delay=3)), 1)
    moved = []
    for _ in range(5):
        new, _ = update(old, jax.tree.map(jnp.asarray, raw()))
        parts = "actor", "target_actor", "target", "critic"
        moved.append([not eqx.tree_equal(getattr(old, part), getattr(new, part)) for part in parts])
        old = new
    assert moved == [[first, first, first, True] for first in (True, False, False, True, False)]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_dt(dropout: float) -> None:
    own: dict[str, Any] = {"gradient_clip": 0.1, "weight_decay": 0.05, "rate_rise": 4}
    life = live("dt", **own, dropout=dropout)
    b, actor = life.b, life.w.actor.model
    (key,) = life.keys(2)
    blocks = [jax.random.split(jax.random.fold_in(key, number)) for number in (1, 2)]
    keys = [key, *blocks[0], *blocks[1]]
    shape = ROWS, 3 * STEPS, 6
    masks = [np.array(jax.random.bernoulli(k, 1 - dropout, shape)) / (1 - dropout) for k in keys]
    seen = b.context_time >= 0
    both(seen)

    def loss() -> Any:
        return np.mean((ref.transformer(actor, b, masks, 2) - b.context_action)[seen] ** 2)

    life.metric("actor/loss", loss())
    life.metric("actor/return", np.mean(b.context_return[seen]))
    clipped = jax.tree.map(lambda x: x / 0.1, optax.tree_utils.tree_get(life.new.actor.state, "mu"))
    assert life.metrics["actor/gradient"] > 0.1, "else nothing is clipped"
    np.testing.assert_allclose(optax.tree.norm(clipped), 0.1, rtol=1e-3)
    ref.agree(loss, actor, jax.tree.map(lambda x: x * life.metrics["actor/gradient"] / 0.1, clipped))
    for old, new, g in zip(*map(jax.tree.leaves, (life.old.actor.model, life.new.actor.model, clipped)), strict=True):
        expected = old - 0.02 / 4 * (g / (jnp.abs(g) + 1e-8) + 0.05 * old)
        np.testing.assert_allclose(new, expected, atol=1e-5)


RATES = {"critic": 0.01, "value": 0.01, "actor": 0.02, "multiplier": 0.03, "entropy_weight": 0.04}
RATES |= {"representation": 0.01, "high_actor": 0.02}
SCHEDULES: dict[str, Any] = {
    "iql": ({"decay_updates": 5}, lambda done: (1 + np.cos(np.pi * done / 5)) / 2),
    "dt": ({"rate_rise": 2, "weight_decay": 0.05}, lambda done: min((done + 1) / 2, 1)),
    "qrl": ({"multiplier_rate": 0.03, "entropy_rate": 0.04, "entropy_weight": 0.5}, None),
    "td3-bc": ({"policy_delay": 1}, None),
}
"""Of the actor's learning rate, by the updates that it has made; and what else the test wants of an agent."""


def moves_as_adam(old: Any, new: Any, done: int, rate: float, decay: float) -> None:
    """Assert that the last step of a learner was Adam's, at this rate."""
    mu, nu = (optax.tree_utils.tree_get(new.state, name) for name in ("mu", "nu"))
    for was, now, m, v in zip(*map(jax.tree.leaves, (arrays(old.model), arrays(new.model), mu, nu)), strict=True):
        first, second = m / (1 - 0.9 ** (done + 1)), v / (1 - 0.999 ** (done + 1))
        expected = was - rate * (first / (jnp.sqrt(second) + 1e-8) + decay * was)
        np.testing.assert_allclose(now, expected, atol=3e-3 * rate)


@pytest.mark.parametrize("name", agents.names())
def test_each_part_moves_at_its_own_rate(name: str) -> None:
    """Three updates: Adam with its schedule, targets towards the new networks, the average of the policy."""
    changes, schedule = SCHEDULES.get(name, ({}, None))
    config = config_of(name, **changes)
    agent = unlike(create(name, config), 1)
    decay = getattr(config, "weight_decay", 0.0)
    for done, follow in enumerate((1.0, 0.9, 0.9)):  # 4 / (updates + 3) at first, then average_rate
        new, _ = update(agent, jax.tree.map(jnp.asarray, raw()))
        for learner, rate in RATES.items():
            if hasattr(agent, learner):
                factor = schedule(done) if schedule and learner == "actor" else 1
                moves_as_adam(getattr(agent, learner), getattr(new, learner), done, rate * factor, decay)
        for target, online in PAIRS.items():
            if hasattr(agent, target):
                near(getattr(new, target), getattr(agent, target), getattr(new, online).model, 0.3)
        for policy in policies(agent):
            was, now = getattr(agent, policy), getattr(new, policy)
            near(now.average, was.average, now.model, follow)
        agent = new


def policies(agent: Any) -> list[str]:
    return [name for name in ("actor", "high_actor") if hasattr(agent, name)]


def test_the_actor_of_iql_stands_after_its_decay() -> None:
    agent = unlike(create("iql", config_of("iql", decay_updates=1)), 1)
    moved = []
    for _ in range(3):
        new, _ = update(agent, jax.tree.map(jnp.asarray, raw()))
        moved.append(not eqx.tree_equal(new.actor.model, agent.actor.model, rtol=1e-6, atol=1e-6))
        agent = new
    assert moved == [True, False, False]


def near(now: Any, was: Any, goes_to: Any, rate: float) -> None:
    def check(x: Any, y: Any, z: Any) -> None:
        np.testing.assert_allclose(x, y + rate * (z - y), rtol=1e-4, atol=1e-5)

    jax.tree.map(check, *map(arrays, (now, was, goes_to)))


def test_an_average_forgets_the_beginning_faster_than_by_its_rate() -> None:
    agent = unlike(create("gcbc", config_of("gcbc", average_rate=0.6)), 1)
    for rate in (4 / 4, 4 / 5, 4 / 6, 0.6, 0.6):
        new, _ = update(agent, jax.tree.map(jnp.asarray, raw()))
        near(new.actor.average, agent.actor.average, new.actor.model, rate)
        agent = new


ACTORS = [(name, agents.load(name).Config()) for name in agents.names() if name not in ("dt", "hiql")]
CHOICES = [(name, mean) for name, c in ACTORS for mean in ((False, True) if hasattr(c, "mean_action") else (None,))]


@pytest.mark.parametrize(("name", "mean"), CHOICES)
def test_act(name: str, mean: bool | None) -> None:
    """Greedy by the average, otherwise a sample of the policy itself; the goal is seen by those who are told one."""
    config = config_of(name, **({} if mean is None else {"mean_action": mean}))
    agent, b, key = unlike(create(name, config), 1), scaled(), jax.random.PRNGKey(5)
    goal = NOTHING if name in ("iql", "td3-bc") else b.future_goal
    model, average = ref.weights(agent.actor.model), ref.weights(agent.actor.average)
    if name in ("ddpg-her", "td3-bc"):
        greedy, free = (ref.deterministic(policy, b.observation, goal, config) for policy in (average, model))
    else:
        free = sampled(model, b.observation, goal, noise(key), config)
        best = ref.gaussian(average, b.observation, goal, config)
        by_mean = mean or name in ("iql", "gc-iql")
        greedy = ref.mean_action(*best) if by_mean else np.tanh(best[0])
    for expected, how in ((greedy, True), (free, False)):
        found = agent.act(raw().observation, raw().future_goal, key, greedy=how)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["td-infonce", "contrastive-rl", "c-learning", "gcbc", "gc-iql", "qrl"])
def test_act_among_choices(name: str) -> None:
    """Greedy: the likeliest of the average, whatever means there are; otherwise by the probabilities of the policy."""
    config, key, b = config_of(name), jax.random.PRNGKey(5), scaled()
    spec = dataclasses.replace(SPEC, action_size=3, discrete=True)
    agent = unlike(agents.load(name).Agent.create(jax.random.PRNGKey(7), spec, config, SCALE), 1)
    model, average = (
        ref.mlp(ref.weights(policy).net, b.observation, b.future_goal, norm=config.layer_norm)
        for policy in (agent.actor.model, agent.actor.average)
    )
    drawn = model + np.asarray(jax.random.gumbel(key, model.shape))
    for expected, how in ((average, True), (drawn, False)):
        found = agent.act(raw().observation, raw().future_goal, key, greedy=how)
        assert len({*np.argmax(expected, axis=1)}) > 1
        np.testing.assert_array_equal(found, np.eye(3)[np.argmax(expected, axis=1)])


def test_dt_acts_as_if_success_was_to_come() -> None:
    agent = unlike(create("dt", config_of("dt", target_return=0.7)), 1)
    late = raw().context_time[:, -1] >= STEPS - 1  # so that no step is missing
    b, told = (Batch(*(None if x is None else x[late] for x in y)) for y in (raw(), scaled()))
    history = History(b.context_observation[:, :-1], b.context_action[:, :-1], b.context_time[:, :-1])
    told = told._replace(context_return=np.full(told.context_time.shape, 0.7))
    for greedy in (False, True):
        policy = ref.weights(agent.actor.average if greedy else agent.actor.model)
        expected = ref.transformer(policy, told, [np.ones(())] * 5, 2)[:, -1]
        now = b.context_observation[:, -1]
        found = agent.act(now, b.future_goal, jax.random.PRNGKey(0), greedy=greedy, history=history)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_represent_is_the_first_tower_of_td_infonce() -> None:
    config = config_of("td-infonce", normalise=False)
    agent, b = unlike(create("td-infonce", config), 1), scaled()
    tower = ref.weights(agent.critic.average).left[:1]
    (expected,) = ref.embeddings(tower, b.observation, b.action, b.future_goal, c=config, normalise=True)
    found = agent.represent(*(jnp.asarray(x) for x in (raw().observation, raw().action, raw().future_goal)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["td-infonce", "contrastive-rl", "contrastive-nce", "c-learning"])
def test_critics_answer_by_their_average(name: str) -> None:
    agent, b, r = unlike(create(name, config_of(name)), 1), scaled(), raw()
    critic, options = ref.weights(agent.critic.average), {"c": agent.config}
    options["normalise"] = getattr(agent.config, "normalise", False)
    inputs = (b.observation, b.action, b.commanded_goal)[: 3 if name == "td-infonce" else 2]
    left = ref.embeddings(critic.left, *inputs, temperature=np.exp(critic.log_temperature), **options)
    expected = smallest(ref.logits(left, ref.embeddings(critic.right, b.random_goal, **options)))
    found = agent.logits(*(jnp.asarray(x) for x in (r.observation, r.action, r.commanded_goal, r.random_goal)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_inputs_follow_a_new_scale_only_if_they_are_scaled() -> None:
    other = InputScale(*(x + 0.5 for x in SCALE))
    state, goal = raw().observation, raw().future_goal
    for is_scaled in (True, False):
        agent = create("gcbc", config_of("gcbc", scale_inputs=is_scaled)).rescaled(other)
        seen = agent.inputs.observation(jnp.asarray(state)), agent.inputs.goal(jnp.asarray(goal))
        means = (ref.compress(state, *other[:2]), ref.compress(goal, *other[2:])) if is_scaled else (state, goal)
        for found, expected in zip(seen, means, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


LEARNERS = ("actor", "critic", "value", "representation", "high_actor")


def layers(agent: Any) -> dict[str, np.ndarray]:
    """The matrices of every network that learns, by their places."""
    models = {part: getattr(agent, part).model for part in LEARNERS if hasattr(agent, part)}
    leaves = jax.tree_util.tree_flatten_with_path(arrays(models))[0]
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}


@pytest.mark.parametrize("name", agents.names())
def test_a_fresh_agent(name: str) -> None:
    """Targets and averages begin as what they follow, and no two networks as one."""
    agent = create(name, config_of(name))
    for part, other in PAIRS.items():
        if hasattr(agent, part):
            assert eqx.tree_equal(getattr(agent, part), getattr(agent, other).model)
    for policy in policies(agent):
        assert eqx.tree_equal(getattr(agent, policy).average, getattr(agent, policy).model)
    assert int(agent.actor.updates) == 0
    if hasattr(agent, "key"):
        assert not np.array_equal(agent.key, jax.random.PRNGKey(7))
    for found, wanted in zip(agent.inputs.scale, SCALE, strict=True):
        np.testing.assert_array_equal(found, wanted)
    found = layers(agent)
    drawn = [(place, x.ravel()) for place, x in found.items() if ".weights[" in place and x.any()]
    for number, (place, x) in enumerate(drawn):
        assert np.abs(x).max() <= np.sqrt(3 / found[place].shape[0])
        for other, y in drawn[:number]:
            short = min(x.size, y.size)
            if short >= 8:
                assert abs(np.corrcoef(x[:short], y[:short])[0, 1]) < 0.98, (place, other)
    assert not any(x.any() for place, x in found.items() if ".biases[" in place)


def test_what_is_learned_beside_the_networks_begins_as_its_setting() -> None:
    for name in ("td-infonce", "contrastive-rl", "contrastive-nce"):
        critic = create(name, config_of(name, temperature=0.6)).critic.model
        np.testing.assert_allclose(np.exp(critic.log_temperature), 0.6, rtol=1e-5)
    np.testing.assert_allclose(np.exp(create("c-learning", config_of("c-learning")).critic.model.log_temperature), 1)
    for multiplier in (0.01, 1.3, 200.0):
        agent = create("qrl", config_of("qrl", multiplier=multiplier, entropy_weight=0.5))
        np.testing.assert_allclose(
            ref.softplus(np.float64(agent.multiplier.model)), np.full((2, 2), multiplier), rtol=1e-4
        )
        assert agent.entropy_weight.model == 0
