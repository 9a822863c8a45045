"""Goal-conditioned behavioural cloning: what was done before a state was reached is what to do to reach it.

No critic: the policy maximises the log-likelihood of the stored action, given the state and a later state of the same
episode as the goal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import act, make_actor
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.learner import Adam, AveragedLearner
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "PRESETS", "Agent", "Config"]


class Agent(eqx.Module):
    """The actor alone."""

    config: Config = eqx.field(static=True)
    inputs: Inputs
    actor: AveragedLearner[Actor]

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of the actor. Nothing is random but the batch."""
        actor, metrics = self.actor.descend(self._actor_loss, self.inputs.batch(batch))
        return replace(self, actor=actor), metrics

    def _actor_loss(self, actor: Actor, batch: Batch) -> tuple[Array, Metrics]:
        log_prob = actor.log_prob(batch.observation, batch.future_goal, batch.action)
        loss = jnp.mean(losses.cloning(log_prob))
        mode = actor.mode(batch.observation, batch.future_goal)
        return loss, {
            "actor/loss": loss,
            "actor/action_error": jnp.mean(jnp.square(jax.lax.stop_gradient(mode) - batch.action)),
        }

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c = config
        actor = AveragedLearner.begin(make_actor(key, spec, c), Adam(c.actor_rate), c.average_rate)
        return cls(c, Inputs.create(spec, scale, scaled=c.scale_inputs), actor)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode or mean of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy, mean=self.config.mean_action)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the geometric law of the future goals.")
    uniform_future: bool = fields.uniform_future(False)
    hidden: tuple[int, ...] = fields.hidden((256, 256), "Widths of the hidden layers.")
    layer_norm: bool = fields.layer_norm(False)
    torso: str = fields.torso("patches")
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    mean_action: bool = fields.mean_action(False)

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the law of its goals."""
        names = ("observation", "action", "future_goal")
        return GoalSampling(self.discount, uniform_future=self.uniform_future, fields=names)


PRESETS = {
    "fast": Config(),
    "paper": Config(
        discount=0.99,
        hidden=(512,) * 4,
        torso="conv",
        actor_rate=3e-4,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
    ),
}
OFFLINE = {
    "fast": replace(PRESETS["fast"], discount=0.99, layer_norm=True, mean_action=True),
    "paper": replace(PRESETS["paper"], hidden=(1024, 1024), actor_rate=1e-3, uniform_future=True, mean_action=True),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 16_384, "updates": 20_000, "eval_every": 2_000, "updates_per_call": 10}}
