"""IQL (implicit Q-learning): value a state by the best actions that the data show, and clone those. One task, offline.

There is one goal, the task's, and no network sees it: the reward is -1 until the goal is reached, which ends the
episode. V(s) is a high expectile of Q(s, a) over the stored actions, so no action outside the data is ever asked about;
the policy clones the stored actions, weighted by how much better than V they are.

The order of a step: V, then the actor (with the new V), then Q (with the new V), then the target of Q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import act, refuse_discrete
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor, GaussianActor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, copy, polyak
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]


class Agent(eqx.Module):
    """Actor, Q with its target, and V."""

    config: Config = eqx.field(static=True)
    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: Learner[ScalarCritic]
    target: ScalarCritic
    value: Learner[ScalarCritic]

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of V, actor and Q, then of the target."""
        batch = self.inputs.batch(batch)
        best = smallest(self.target(batch.observation, batch.action))
        value, value_metrics = self.value.descend(self._value_loss, batch, best)
        advantage = best - value.model(batch.observation)[0]
        actor, actor_metrics = self.actor.descend(self._actor_loss, batch, advantage)
        critic, critic_metrics = self.critic.descend(self._critic_loss, value.model, batch)
        target = polyak(self.target, critic.model, self.config.target_rate)
        new = replace(self, actor=actor, critic=critic, target=target, value=value)
        return new, value_metrics | actor_metrics | critic_metrics

    def _value_loss(self, value: ScalarCritic, batch: Batch, best: Array) -> tuple[Array, Metrics]:
        values = value(batch.observation)[0]
        loss = jnp.mean(losses.expectile(values, best, level=self.config.expectile_level))
        return loss, {"critic/value_loss": loss, "critic/value": jnp.mean(values)}

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

    def _critic_loss(self, critic: ScalarCritic, value: ScalarCritic, batch: Batch) -> tuple[Array, Metrics]:
        following = value(batch.next_observation)[0]
        goes_on = self.config.discount * (1 - batch.reward)
        values = critic(batch.observation, batch.action)
        errors = [losses.td_error(v, batch.reward - 1, following, discount=goes_on) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {"critic/loss": loss, "critic/reward": jnp.mean(batch.reward)}

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent, for continuous actions."""
        refuse_discrete("iql", spec)
        c, state, action = config, spec.observation_size, spec.action_size
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        common: Any = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = GaussianActor(actor_key, state, 0, action, min_std=c.min_std, **common)
        critic = ScalarCritic(critic_key, state + action, members=c.critics, **common)
        value = ScalarCritic(value_key, state, **common)
        return cls(
            c,
            Inputs.create(spec, scale, scaled=c.scale_inputs),
            AveragedLearner.begin(actor, CosineAdam(c.actor_rate, c.decay_updates), c.average_rate),
            Learner.begin(critic, Adam(c.critic_rate)),
            copy(critic),
            Learner.begin(value, Adam(c.critic_rate)),
        )

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mean of the averaged policy; the goal is the task's, whatever is asked."""
        state = self.inputs.observation(observation)
        return act(self.actor, state, state[..., :0], key, greedy=greedy, mean=True)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class CosineAdam(Adam):
    """Adam whose learning rate falls to zero along a cosine; over 0 updates: it does not."""

    decay_updates: int

    def at(self, updates: Any) -> optax.GradientTransformation:
        """The step that follows so many updates."""
        if not self.decay_updates:
            return super().at(updates)
        done = jnp.minimum(updates / self.decay_updates, 1.0)
        return optax.adam(self.rate * (1 + jnp.cos(jnp.pi * done)) / 2)


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
        """The fields of a batch that this agent reads."""
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
