"""DDPG with hindsight experience replay: Q-learning for reaching, with goals exchanged for states that were reached.

The reward is -1 until the next state lies within the environment's tolerance of the goal (an image: equals it), then 0.
Most goals are later states of the same episode (uniformly drawn), so rewards of 0 are frequent.

The actor sees the critic from before its step.
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
from tdinfonce.agents._actor import actor_inputs, refuse_discrete
from tdinfonce.agents._critic import critic_inputs
from tdinfonce.agents._goals import GoalMix, reached, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.errors import UserError
from tdinfonce.networks.actor import DeterministicActor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, copy, polyak
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["ONLINE_TRAINING", "PRESETS", "Agent", "Config"]


class Agent(eqx.Module):
    """Actor, critic, and a target of each."""

    config: Config = eqx.field(static=True)
    spec: EnvSpec = eqx.field(static=True)
    inputs: Inputs
    actor: AveragedLearner[DeterministicActor]
    critic: Learner[ScalarCritic]
    target_actor: DeterministicActor
    target: ScalarCritic

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, then of both targets."""
        goal, rate = self.config.goals.of(batch), self.config.target_rate
        reward = reached(self.spec, batch.next_goal, goal) - 1.0  # before any scaling
        goal, batch = self.inputs.goal(goal), self.inputs.batch(batch)
        critic, critic_metrics = self.critic.descend(self._critic_loss, batch, goal, reward)
        actor, actor_metrics = self.actor.descend(self._actor_loss, batch, goal)
        target_actor, target = polyak(self.target_actor, actor.model, rate), polyak(self.target, critic.model, rate)
        new = replace(self, actor=actor, critic=critic, target_actor=target_actor, target=target)
        return new, critic_metrics | actor_metrics

    def _critic_loss(self, critic: ScalarCritic, batch: Batch, goal: Array, reward: Array) -> tuple[Array, Metrics]:
        c = self.config
        next_action = self.target_actor(batch.next_observation, goal)
        next_value = smallest(self.target(batch.next_observation, next_action, goal))
        values = critic(batch.observation, batch.action, goal)
        low = -1.0 / (1.0 - c.discount)
        errors = [losses.td_error(v, reward, next_value, discount=c.discount, low=low, high=0.0) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {
            "critic/loss": loss,
            "critic/value": jnp.mean(values[0]),
            "critic/reward": jnp.mean(reward),
        }

    def _actor_loss(self, actor: DeterministicActor, batch: Batch, goal: Array) -> tuple[Array, Metrics]:
        action = actor(batch.observation, goal)
        value = smallest(self.critic.model(batch.observation, action, goal))
        reach = jnp.mean(losses.maximise(value))
        size = jnp.mean(jnp.square(action))
        return reach + self.config.action_penalty * size, {"actor/loss": reach, "actor/action_size": size}

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent, for continuous actions; the environment must say how near is near enough."""
        refuse_discrete("ddpg-her", spec)
        if spec.tolerance is None:
            raise UserError(
                f"ddpg-her needs to know when a goal is reached: give {spec.name} an attribute distance_threshold"
            )
        actor_key, critic_key = jax.random.split(key)
        c, (torso, state, goal) = config, critic_inputs(critic_key, spec, config)
        common: dict[str, Any] = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = DeterministicActor(**actor_inputs(actor_key, spec, c), **common)
        critic = ScalarCritic(critic_key, state + spec.action_size + goal, members=c.critics, torso=torso, **common)
        learners = (
            AveragedLearner.begin(actor, Adam(c.actor_rate), c.average_rate),
            Learner.begin(critic, Adam(c.critic_rate)),
        )
        return cls(c, spec, Inputs.create(spec, scale, scaled=c.scale_inputs), *learners, copy(actor), copy(critic))

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """The policy is deterministic: exploration is the collector's."""
        policy = self.actor.average if greedy else self.actor.model
        return policy(self.inputs.observation(observation), self.inputs.goal(goal))

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95)
    target_rate: float = fields.target_rate(
        0.02, "How far the target networks move to the online ones at each update; 1: they are one."
    )
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    critics: int = fields.critics(
        1, "Members of the critic's ensemble; the smallest value counts. 2 is TD3's remedy for overestimation."
    )
    layer_norm: bool = fields.layer_norm(False)
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    future_share: float = fields.share(
        0.8, "Share of the goals that are later states of the same episode; the others are those that were commanded."
    )
    action_penalty: float = fields.weight(
        0.1, "Weight of the mean squared action in the actor's loss: keeps it out of the flat part of tanh."
    )

    @property
    def goals(self) -> GoalMix:
        """The goals that actor and critic are trained on."""
        return GoalMix("commanded_goal", future_goal=self.future_share)

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the law of its goals."""
        names = reads("observation", "action", "next_observation", "next_goal", self.goals)
        return GoalSampling(self.discount, uniform_future=True, fields=names)


PRESETS = {
    "fast": Config(),
    "paper": Config(
        discount=0.98,
        target_rate=0.005,
        hidden=(512,) * 4,
        torso="conv",
        average_rate=1.0,
        scale_inputs=True,
        action_penalty=1.0,
    ),
}
ONLINE_TRAINING = {"paper": {"exploration_noise": 0.2, "exploration_uniform": 0.3, "exploration_episodes": 1.0}}
"""A deterministic policy explores by the collector's noise alone; HER's."""
