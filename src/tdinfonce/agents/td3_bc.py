"""TD3+BC: Q-learning with a deterministic policy that is held near the stored actions. One task, offline.

There is one goal, the task's, and no network sees it: the reward is -1 until the goal is reached, which ends the
episode. The policy maximises Q, divided by its mean size so that tasks compare, minus the squared distance to the
stored actions. As in TD3, targets take the smaller of two critics at a noisy action, and the policy and all targets
move at every second update only.

The actor sees the critic from after its step, as TD3's does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import refuse_discrete
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import DeterministicActor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, copy, polyak
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]


class Policy(eqx.Module):
    """What moves at every second update only."""

    actor: AveragedLearner[DeterministicActor]
    target_actor: DeterministicActor
    target: ScalarCritic
    metrics: Metrics
    """Those of the last time it moved."""


class Agent(eqx.Module):
    """Actor, critic, and a target of each."""

    config: Config = eqx.field(static=True)
    inputs: Inputs
    key: Array
    step: Array
    critic: Learner[ScalarCritic]
    policy: Policy

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of the critic; every second time then one of the actor and of the targets."""
        key, noise_key = jax.random.split(self.key)
        batch = self.inputs.batch(batch)
        critic, metrics = self.critic.descend(self._critic_loss, batch, noise_key)
        moves = self.step % self.config.policy_delay == 0
        policy = jax.lax.cond(moves, lambda p: self._improve(p, critic.model, batch), lambda p: p, self.policy)
        return replace(self, key=key, step=self.step + 1, critic=critic, policy=policy), metrics | policy.metrics

    def _improve(self, policy: Policy, critic: ScalarCritic, batch: Batch) -> Policy:
        """One step of the actor, then of the targets."""
        rate = self.config.target_rate
        actor, metrics = policy.actor.descend(self._actor_loss, critic, batch)
        targets = polyak(policy.target_actor, actor.model, rate), polyak(policy.target, critic, rate)
        return Policy(actor, *targets, metrics)

    def _critic_loss(self, critic: ScalarCritic, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c, later = self.config, batch.next_observation
        noise = jnp.clip(c.target_noise * jax.random.normal(key, batch.action.shape), -c.noise_clip, c.noise_clip)
        next_action = jnp.clip(self.policy.target_actor(later, later[..., :0]) + noise, -1, 1)
        following = smallest(self.policy.target(later, next_action))
        values = critic(batch.observation, batch.action)
        goes_on = c.discount * (1 - batch.reward)
        errors = [losses.td_error(v, batch.reward - 1, following, discount=goes_on) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {
            "critic/loss": loss,
            "critic/value": jnp.mean(values[0]),
            "critic/reward": jnp.mean(batch.reward),
        }

    def _actor_loss(self, actor: DeterministicActor, critic: ScalarCritic, batch: Batch) -> tuple[Array, Metrics]:
        action = actor(batch.observation, batch.observation[..., :0])
        values = critic(batch.observation, action)[0]
        weight = self.config.value_weight / jax.lax.stop_gradient(jnp.mean(jnp.abs(values)) + 1e-6)
        error = jnp.mean(losses.cloning_error(action, batch.action))
        loss = weight * jnp.mean(losses.maximise(values)) + error
        return loss, {"actor/loss": loss, "actor/value": jnp.mean(values), "actor/action_error": error}

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent, for continuous actions."""
        refuse_discrete("td3-bc", spec)
        c, state, action = config, spec.observation_size, spec.action_size
        key, actor_key, critic_key = jax.random.split(key, 3)
        common: Any = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = DeterministicActor(actor_key, state, 0, action, **common)
        critic = ScalarCritic(critic_key, state + action, members=c.critics, **common)
        metrics = {f"actor/{name}": jnp.zeros(()) for name in ("loss", "value", "action_error")}
        learner = AveragedLearner.begin(actor, Adam(c.actor_rate), c.average_rate)
        return cls(
            c,
            Inputs.create(spec, scale, scaled=c.scale_inputs),
            key,
            jnp.zeros((), jnp.int32),
            Learner.begin(critic, Adam(c.critic_rate)),
            Policy(learner, copy(actor), copy(critic), metrics),
        )

    @property
    def actor(self) -> AveragedLearner[DeterministicActor]:
        """The policy that learns."""
        return self.policy.actor

    @property
    def target_actor(self) -> DeterministicActor:
        """The target of the policy."""
        return self.policy.target_actor

    @property
    def target(self) -> ScalarCritic:
        """The target of the critic."""
        return self.policy.target

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """The policy is deterministic; the goal is the task's, whatever is asked."""
        state = self.inputs.observation(observation)
        return (self.actor.average if greedy else self.actor.model)(state, state[..., :0])

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.99)
    target_rate: float = fields.target_rate(0.02, "How far the targets move when they do; 1: to the networks.")
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    critics: int = fields.critics(2, "Members of the critic's ensemble; the smallest value counts.")
    layer_norm: bool = fields.layer_norm(True)
    critic_rate: float = fields.critic_rate(1e-3)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    target_noise: float = setting(0.2, "Standard deviation of the noise on the target policy's actions.", high=10)
    noise_clip: float = setting(0.5, "That noise is clipped to this.", high=10)
    policy_delay: int = setting(
        2, "The policy and all targets move at every so many updates: 2 is every second.", low=1, high=10**6
    )
    value_weight: float = fields.weight(
        2.5, "Weight α of Q over its mean size, against the squared distance to the stored actions; 0 is cloning."
    )

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads."""
        return GoalSampling(self.discount, fields=("observation", "action", "next_observation", "reward"))


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(), target_rate=0.005, layer_norm=False, critic_rate=3e-4, actor_rate=3e-4, average_rate=1.0
    ),
}
OFFLINE_TRAINING = {"paper": {"updates": 1_000_000}}
