"""Policies: how one is made for an environment, how it acts, and how it is differentiated."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.agents._learner import PolicyLearner
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.pixels import image_torso
from tdinfonce.types import EnvSpec, Metrics

__all__ = ["TORSO", "act", "actor_inputs", "gaussian_actor", "propose"]

TORSO = 1
"""Folded into the key of a network, it gives the key of its torso."""


def gaussian_actor(key: Array, spec: EnvSpec, config: Any) -> Actor:
    """A tanh-Gaussian policy with the widths of the config."""
    inputs = actor_inputs(key, spec, config)
    return Actor(**inputs, hidden=config.hidden, min_std=config.min_std, layer_norm=config.layer_norm)


def actor_inputs(key: Array, spec: EnvSpec, config: Any) -> dict[str, Any]:
    """The first arguments of an actor: its key, the sizes of what it sees and does, and its torso for images."""
    torso = image_torso(jax.random.fold_in(key, TORSO), spec.image, config.torso, stacked=2)
    sizes = {name: getattr(spec, name) for name in ("observation_size", "goal_size", "action_size")}
    return {"key": key, "torso": torso} | sizes


def act(
    policy: PolicyLearner[Actor], observation: Array, goal: Array, key: Array, *, greedy: bool, mean: bool = False
) -> Array:
    """The action of a tanh-Gaussian policy: a sample, or the mode or ``mean`` of its average."""
    best = policy.average.mean if mean else policy.average.mode
    return best(observation, goal) if greedy else policy.model.sample(observation, goal, key)


def propose(actor: Actor, observation: Array, goal: Array, key: Array) -> tuple[Array, Array, Metrics]:
    """Differentiable actions, the mean square of their location before squashing, and what to log of the policy."""
    loc, scale = actor(observation, goal)
    action = jnp.tanh(loc + scale * jax.random.normal(key, loc.shape))
    return action, jnp.mean(jnp.square(loc)), {"actor/std": jnp.mean(scale), "actor/location": jnp.mean(jnp.abs(loc))}
