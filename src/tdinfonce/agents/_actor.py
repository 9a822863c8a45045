"""Policies: how one is made for an environment, how it acts, and how it is differentiated."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.errors import UserError
from tdinfonce.networks.actor import Actor, CategoricalActor, ClippedActor, GaussianActor
from tdinfonce.networks.learner import AveragedLearner
from tdinfonce.networks.pixels import image_torso
from tdinfonce.types import Batch, EnvSpec, Metrics

__all__ = [
    "ACTORS",
    "TANH",
    "TORSO",
    "Proposal",
    "act",
    "actor_inputs",
    "improve",
    "make_actor",
    "propose",
    "refuse_discrete",
    "refuse_images",
]

TORSO = 1
"""Folded into the key of a network, it gives the key of its torso."""
TANH, CLIPPED, WEIGHTED = ACTORS = ("tanh", "clipped", "weighted")
Rows = TypeVar("Rows")


def make_actor(key: Array, spec: EnvSpec, config: Any) -> Actor:
    """A policy with the widths of the config: of the config's kind, or categorical where actions are discrete."""
    inputs: dict[str, Any] = actor_inputs(key, spec, config) | {
        "hidden": config.hidden,
        "layer_norm": config.layer_norm,
        "activation": getattr(config, "activation", "relu"),  # most agents have no choice
    }
    squashed = getattr(config, "actor", TANH) == TANH
    if spec.discrete and not squashed:
        raise UserError(f"the actor {config.actor} is for continuous actions, and those of {spec.name} are discrete")
    if spec.discrete:
        return CategoricalActor(**inputs)
    if not squashed:
        return ClippedActor(**inputs, std=config.actor_std)
    return GaussianActor(**inputs, min_std=config.min_std)


def actor_inputs(key: Array, spec: EnvSpec, config: Any) -> dict[str, Any]:
    """The first arguments of an actor: its key, the sizes of what it sees and does, and its torso for images."""
    kind = getattr(config, "torso", "")  # agents without this setting see no images
    torso = image_torso(jax.random.fold_in(key, TORSO), spec.image, kind, stacked=2)
    sizes = {name: getattr(spec, name) for name in ("observation_size", "goal_size", "action_size")}
    return {"key": key, "torso": torso} | sizes


def refuse_discrete(agent: str, spec: EnvSpec) -> None:
    """Raise UserError if actions are discrete, for an agent whose algorithm has no use for them."""
    if spec.discrete:
        raise UserError(
            f"{agent} learns continuous actions, and those of {spec.name} are discrete: choose td-infonce, "
            "contrastive-rl, contrastive-nce, c-learning, gcbc, qrl, gc-iql or hiql"
        )


def refuse_images(agent: str, spec: EnvSpec) -> None:
    """Raise UserError if observations are images, for an agent whose networks see vectors only."""
    if spec.image is not None:
        raise UserError(
            f"{agent} learns from vectors, and {spec.name} shows images: choose td-infonce, contrastive-rl, "
            "contrastive-nce, c-learning, gcbc, qrl or ddpg-her"
        )


def act(
    policy: AveragedLearner[Actor], observation: Array, goal: Array, key: Array, *, greedy: bool, mean: bool = False
) -> Array:
    """The action of a policy: a sample, or the mode or ``mean`` of its average (discrete actions have no mean)."""
    average = policy.average
    best = average.mean if mean and isinstance(average, GaussianActor) else average.mode
    return best(observation, goal) if greedy else policy.model.sample(observation, goal, key)


def improve(
    actor: ClippedActor, value: Callable[[Array], Array], batch: Batch, goal: Array, config: Any
) -> tuple[Array, Metrics]:
    """The loss of a policy that stays near stored actions: what its mean action is worth, in units of the mean size of
    that, and half the squared distance to the stored action; or that distance alone, more of the better actions.

    Args:
        actor: the policy.
        value: of an action in each row; the larger, the better.
        batch: with the stored actions.
        goal: that the policy is told.
        config: with ``actor``, ``cloning_weight`` and ``sharpness``.
    """
    mean, _ = actor(batch.observation, goal)
    worth = value(jnp.clip(mean, -1, 1))
    error = 0.5 * jnp.sum(jnp.square(mean - batch.action), axis=-1)
    metrics = {"actor/loss": -jnp.mean(worth), "actor/action_error": jnp.mean(error)}
    if config.actor == WEIGHTED:
        better = value(batch.action) - worth
        return jnp.mean(losses.advantage_weighted(-error, better, sharpness=config.sharpness)), metrics
    unit = jax.lax.stop_gradient(jnp.mean(jnp.abs(worth))) + 1e-6
    return config.cloning_weight * jnp.mean(error) - jnp.mean(worth) / unit, metrics


class Proposal(NamedTuple):
    """What a policy would do at each row: one sampled action, or every action with its probability."""

    action: Array
    """``[B, action_size]``, samples, differentiable; or ``[action_size, action_size]``, every action."""
    probability: Array | None
    """``[B, action_size]``, of every action; None: they were sampled."""
    size: Array
    """Mean square of the locations before squashing, or of the logits."""
    target_entropy: float
    """What a constraint on the entropy holds it at: minus the dimensions, or half of the largest."""
    metrics: Metrics
    """What to log of the policy."""

    def expected(self, of_action: Callable[[Array], Rows]) -> Rows:
        """The mean over the policy of arrays ``[B]`` that depend on the action of each row, ``[B, action_size]``.

        Of continuous actions, an estimate from the sample; of discrete ones the mean itself, with a row for each pair
        of row and action.
        """
        weight = self.probability
        if weight is None:
            return of_action(self.action)
        each = jax.vmap(lambda action: of_action(jnp.broadcast_to(action, weight.shape)))(self.action)
        return jax.tree.map(lambda x: jnp.sum(weight.T * x, axis=0), each)


def propose(actor: Actor, observation: Array, goal: Array, key: Array) -> Proposal:
    """What the policy would do; ``key`` is for the sample of continuous actions."""
    if isinstance(actor, CategoricalActor):
        return _choices(actor(observation, goal))
    loc, scale = actor(observation, goal)
    noise = scale * jax.random.normal(key, loc.shape)
    if isinstance(actor, ClippedActor):
        metrics = {"actor/location": jnp.mean(jnp.abs(loc))}
        return Proposal(jnp.clip(loc + noise, -1, 1), None, jnp.mean(jnp.square(loc)), -loc.shape[-1], metrics)
    action = jnp.tanh(loc + noise)
    metrics = {"actor/std": jnp.mean(scale), "actor/location": jnp.mean(jnp.abs(loc))}
    return Proposal(action, None, jnp.mean(jnp.square(loc)), -loc.shape[-1], metrics)


def _choices(logits: Array) -> Proposal:
    number = logits.shape[-1]
    probability = jax.nn.softmax(logits)
    entropy = -jnp.sum(probability * jax.nn.log_softmax(logits), axis=-1)
    metrics = {"actor/entropy": jnp.mean(entropy)}
    return Proposal(jnp.eye(number), probability, jnp.mean(jnp.square(logits)), math.log(number) / 2, metrics)
