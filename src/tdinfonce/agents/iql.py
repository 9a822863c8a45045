"""IQL (implicit Q-learning): value a state by the best actions that the data show, and clone those. One task, offline.

There is one goal, the task's, and no network sees it: the reward is -1 until the goal is reached, which ends the
episode. V(s) is a high expectile of Q(s, a) over the stored actions, so no action outside the data is ever asked about;
the policy clones the stored actions, weighted by how much better than V they are.

The order of a step: V, then the actor (with the new V), then Q (with the new V), then the target of Q.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._common import (
    begin,
    copy,
    descend,
    follow,
    input_scale,
    polyak,
    rescale,
    scale_batch,
    scale_observation,
)
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.99)
    target_rate: float = fields.target_rate(0.02, "How far the target of Q moves to Q at each update; 1: they are one.")
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    critics: int = fields.critics(2, "Members of Q's ensemble; the smallest value counts.")
    layer_norm: bool = fields.layer_norm(True)
    critic_rate: float = fields.critic_rate(1e-3, "Learning rate of V and Q.")
    actor_rate: float = fields.actor_rate(1e-3)
    decay_updates: int = setting(
        0, "Updates over which the actor's learning rate falls to zero along a cosine; 0: it does not."
    )
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    expectile_level: float = fields.expectile_level(0.9)
    sharpness: float = fields.sharpness(10.0)
    max_weight: float = fields.max_weight(100.0)

    @property
    def sampling(self) -> GoalSampling:
        """The fields this agent needs."""
        return GoalSampling(self.discount, fields=("observation", "action", "next_observation", "reward"))


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(),
        target_rate=0.005,
        layer_norm=False,
        critic_rate=3e-4,
        actor_rate=3e-4,
        decay_updates=1_000_000,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
    ),
}
OFFLINE_TRAINING = {"paper": {"updates": 1_000_000}}


class Agent(eqx.Module):
    """Actor, Q with its target, V, and optimiser states."""

    config: Config = eqx.field(static=True)
    scale: InputScale
    actor: Actor
    average: Actor
    critic: ScalarCritic
    target: ScalarCritic
    value: ScalarCritic
    actor_state: object
    critic_state: object
    value_state: object

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, state, action = config, spec.observation_size, spec.action_size
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        common: Any = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = Actor(actor_key, state, 0, action, min_std=c.min_std, **common)
        critic = ScalarCritic(critic_key, state + action, members=c.critics, **common)
        value = ScalarCritic(value_key, state, **common)
        states = begin(actor, c.actor_rate), begin(critic, c.critic_rate), begin(value, c.critic_rate)
        scale = input_scale(spec, scale, use=c.scale_inputs)
        return cls(c, scale, actor, copy(actor), critic, copy(critic), value, *states)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mean of the averaged policy; the goal is the task's, whatever is asked."""
        state = scale_observation(self, observation)
        nothing = state[..., :0]
        return self.average.mean(state, nothing) if greedy else self.actor.sample(state, nothing, key)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of V, actor and Q, then of the target."""
        c, batch = self.config, scale_batch(self, batch)
        best = smallest(self.target(batch.observation, batch.action))
        gradient, value_metrics = eqx.filter_grad(self._value_loss, has_aux=True)(self.value, batch, best)
        value, value_state = descend(self.value, gradient, self.value_state, c.critic_rate)
        advantage = best - value(batch.observation)[0]
        slope, actor_metrics = eqx.filter_grad(self._actor_loss, has_aux=True)(self.actor, batch, advantage)
        actor, actor_state = descend(self.actor, slope, self.actor_state, self._actor_rate())
        following = value(batch.next_observation)[0]
        gradient, critic_metrics = eqx.filter_grad(self._critic_loss, has_aux=True)(self.critic, batch, following)
        critic, critic_state = descend(self.critic, gradient, self.critic_state, c.critic_rate)
        target = polyak(self.target, critic, c.target_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        models = actor, average, critic, target, value
        new = type(self)(c, self.scale, *models, actor_state, critic_state, value_state)
        return new, value_metrics | actor_metrics | critic_metrics

    def _value_loss(self, value: ScalarCritic, batch: Batch, best: Array) -> tuple[Array, Metrics]:
        values = value(batch.observation)[0]
        loss = jnp.mean(losses.expectile(values, best, level=self.config.expectile_level))
        return loss, {"critic/value_loss": loss, "critic/value": jnp.mean(values)}

    def _critic_loss(self, critic: ScalarCritic, batch: Batch, following: Array) -> tuple[Array, Metrics]:
        goes_on = self.config.discount * (1 - batch.reward)
        values = critic(batch.observation, batch.action)
        errors = [losses.td_error(v, batch.reward - 1, following, discount=goes_on) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {"critic/loss": loss, "critic/reward": jnp.mean(batch.reward)}

    def _actor_loss(self, actor: Actor, batch: Batch, advantage: Array) -> tuple[Array, Metrics]:
        c = self.config
        log_prob = actor.log_prob(batch.observation, batch.observation[..., :0], batch.action)
        rows = losses.advantage_weighted(log_prob, advantage, sharpness=c.sharpness, max_weight=c.max_weight)
        clipped = c.sharpness * advantage >= jnp.log(c.max_weight)
        return jnp.mean(rows), {
            "actor/loss": jnp.mean(rows),
            "actor/advantage": jnp.mean(advantage),
            "actor/clipped": jnp.mean(clipped),
        }

    def _actor_rate(self) -> float | Array:
        c = self.config
        if not c.decay_updates:
            return c.actor_rate
        done = jnp.minimum(optax.tree_utils.tree_get(self.actor_state, "count") / c.decay_updates, 1.0)
        return c.actor_rate * (1 + jnp.cos(jnp.pi * done)) / 2
