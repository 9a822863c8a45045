"""What several agents need: functions, no base class."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic, pair_logits, smallest
from tdinfonce.networks.pixels import Torso, image_torso
from tdinfonce.types import Batch, EnvSpec, InputScale, Metrics

__all__ = [
    "act",
    "actor_inputs",
    "begin",
    "contrastive_networks",
    "copy",
    "critic_inputs",
    "descend",
    "follow",
    "input_scale",
    "maximise_logit",
    "mix_goals",
    "polyak",
    "propose",
    "reached",
    "rescale",
    "scale_batch",
    "scale_goal",
    "scale_observation",
    "training_goals",
]

TORSO = 1
"""Folded into a key, it gives the key of the torso."""

Model = TypeVar("Model")
Scaled = TypeVar("Scaled", bound=Any)


def contrastive_networks(
    key: Array, spec: EnvSpec, config: Any, *, conditioned: bool, **critic: Any
) -> tuple[Actor, ContrastiveCritic]:
    """A policy and a critic with the widths of the config.

    Args:
        key: of all weights.
        spec: sizes of the inputs.
        config: an agent's config.
        conditioned: whether φ also sees the commanded goal.
        critic: other options of `ContrastiveCritic`.
    """
    actor_key, critic_key = jax.random.split(key)
    torso, state, goal = critic_inputs(critic_key, spec, config)
    common = {"hidden": config.hidden, "layer_norm": config.layer_norm}
    actor = Actor(min_std=config.min_std, **actor_inputs(actor_key, spec, config), **common)
    return actor, ContrastiveCritic(
        critic_key,
        state + spec.action_size + (goal if conditioned else 0),
        goal,
        torso=torso,
        goal_hidden=config.goal_hidden,
        representation_size=config.representation_size,
        members=config.critics,
        **common,
        **critic,
    )


def actor_inputs(key: Array, spec: EnvSpec, config: Any) -> dict[str, Any]:
    """The first arguments of an actor: its key, the sizes of what it sees and does, and its torso for images."""
    torso = image_torso(jax.random.fold_in(key, TORSO), spec.image, config.torso, stacked=2)
    sizes = {name: getattr(spec, name) for name in ("observation_size", "goal_size", "action_size")}
    return {"key": key, "torso": torso} | sizes


def critic_inputs(key: Array, spec: EnvSpec, config: Any) -> tuple[Torso | None, int, int]:
    """A critic's torso for images, and how long a state and a goal are for it: as they are, or as features."""
    torso = image_torso(jax.random.fold_in(key, TORSO), spec.image, config.torso)
    return (None, spec.observation_size, spec.goal_size) if torso is None else (torso, torso.size, torso.size)


def begin(model: Any, rate: float) -> Any:
    """A fresh Adam state for the arrays of a model."""
    return optax.adam(rate).init(eqx.filter(model, eqx.is_array))


def descend(model: Model, gradient: Any, state: Any, rate: float | Array) -> tuple[Model, Any]:
    """One Adam step: the new model and the new optimiser state."""
    change, state = optax.adam(rate).update(gradient, state)
    return eqx.apply_updates(model, change), state


def polyak(target: Model, online: Model, rate: float | Array) -> Model:
    """Move each array of the target by ``rate`` of its way to the online one."""

    def move(old: Any, new: Any) -> Any:
        return old + rate * (new - old) if eqx.is_array(old) else old

    return jax.tree.map(move, target, online)


def follow(average: Model, actor: Model, rate: float, state: Any) -> Model:
    """Move the averaged policy to the actor: faster at first, so that it forgets the beginning (iterate k weighs about
    as k³), and by ``rate`` once that is larger. ``state`` is the actor's optimiser state, which counts the updates.
    """
    count = optax.tree_utils.tree_get(state, "count")
    return polyak(average, actor, jnp.maximum(rate, 4.0 / (count + 3)))


def copy(model: Model) -> Model:
    """A model with its own arrays: two names for one buffer could not be donated."""
    return jax.tree.map(lambda x: jnp.copy(x) if eqx.is_array(x) else x, model)


def act(agent: Any, observation: Any, goal: Any, key: Array, *, greedy: bool, mean: bool = False) -> Array:
    """The action of a tanh-Gaussian policy for raw inputs: a sample, or the mode or ``mean`` of the averaged policy."""
    observation, goal = scale_observation(agent, observation), scale_goal(agent, goal)
    best = agent.average.mean if mean else agent.average.mode
    return best(observation, goal) if greedy else agent.actor.sample(observation, goal, key)


def propose(actor: Actor, observation: Array, goal: Array, key: Array) -> tuple[Array, Array, Metrics]:
    """Differentiable actions, the mean square of their location before squashing, and what to log of the policy."""
    loc, scale = actor(observation, goal)
    action = jnp.tanh(loc + scale * jax.random.normal(key, loc.shape))
    return action, jnp.mean(jnp.square(loc)), {"actor/std": jnp.mean(scale), "actor/location": jnp.mean(jnp.abs(loc))}


def maximise_logit(
    actor: Actor, critic: ContrastiveCritic, batch: Batch, key: Array, config: Any
) -> tuple[Array, Metrics]:
    """The actor's loss of the critics f(s, a, g) that tie commanded and predicted goal: minus the smallest logit."""
    goal = training_goals(batch, config.commanded_share, config.actor_future_share)
    action, size, metrics = propose(actor, batch.observation, goal, key)
    value = smallest(pair_logits(critic.embed(batch.observation, action), critic.embed_goal(goal)))
    reach = jnp.mean(losses.maximise(value))
    return reach + config.mean_penalty * size, metrics | {"actor/loss": reach}


def mix_goals(random: Array, future: Array, share: float) -> Array:
    """Future goals in the first ``share`` of the rows, random goals in the others (rows are independent draws)."""
    split = min(round(share * len(random)), len(random))
    return jnp.concatenate([future[:split], random[split:]])


def training_goals(batch: Batch, commanded_share: float, future_share: float) -> Array:
    """Commanded goals in the first rows, then future goals, then random ones; see `mix_goals`."""
    meant = mix_goals(batch.future_goal, batch.commanded_goal, commanded_share)
    return mix_goals(batch.random_goal, meant, commanded_share + future_share)


def input_scale(spec: EnvSpec, scale: InputScale | None, *, use: bool) -> InputScale:
    """The scale an agent keeps: the one it was given if it wants scaled inputs, otherwise one that changes nothing."""
    chosen = scale if use and scale is not None else InputScale.identity(spec)
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32), chosen)


def rescale(agent: Scaled, scale: InputScale) -> Scaled:
    """The agent with another scale, if its config wants scaled inputs."""
    if not agent.config.scale_inputs:
        return agent
    return eqx.tree_at(lambda a: a.scale, agent, jax.tree.map(lambda x: jnp.array(x, jnp.float32), scale))


def scale_observation(agent: Any, observation: Array) -> Array:
    """An observation as the agent's networks see it: in units of its standard deviation, or as it is."""
    return _scaled(agent, observation, agent.scale.observation_mean, agent.scale.observation_std)


def scale_goal(agent: Any, goal: Array) -> Array:
    """A goal as the agent's networks see it: in units of its standard deviation, or as it is."""
    return _scaled(agent, goal, agent.scale.goal_mean, agent.scale.goal_std)


def scale_batch(agent: Any, batch: Batch) -> Batch:
    """A batch whose observations and goals are as the agent's networks see them."""
    drawn = {name: value for name, value in batch._asdict().items() if value is not None}
    observations = {name: scale_observation(agent, value) for name, value in drawn.items() if "observ" in name}
    goals = {name: scale_goal(agent, value) for name, value in drawn.items() if name.endswith("goal")}
    return batch._replace(**observations, **goals)


def reached(spec: EnvSpec, achieved: Array, goal: Array) -> Array:
    """Which rows are near enough to their goals, judged by unscaled goals alone: of images, those that are equal."""
    if spec.image is not None:
        return jnp.all(achieved == goal, axis=(-3, -2, -1))
    index = jnp.array(spec.deciding)
    return jnp.linalg.norm(achieved[:, index] - goal[:, index], axis=-1) < spec.tolerance


def _scaled(agent: Any, x: Array, mean: Array, std: Array) -> Array:
    plain = x.dtype == jnp.uint8 or not agent.config.scale_inputs
    return x if plain else _compress((x - mean) / std)


def _compress(x: Array, knee: float = 5.0) -> Array:
    """Identity up to ±knee, logarithmic beyond.

    The first data hardly move some coordinates (the height of a block), so later values lie far outside; clipping
    would erase them.
    """
    excess = jnp.maximum(jnp.abs(x) - knee, 0.0)
    return jnp.clip(x, -knee, knee) + jnp.sign(x) * jnp.log1p(excess)
