"""Contrastive RL (NCE): a classifier tells true futures of a state and action from futures of other rows.

The critic f(s, a, g) = φ(s, a)·ψ(g) is trained with binary cross entropy on every pair of the batch: the diagonal is
true, the rest is not. The optimum is identified (no free constant), so the policy maximises the logit as it is.

The actor sees the critic from before its step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import equinox as eqx
import jax
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import act
from tdinfonce.agents._critic import OccupancyModel, contrastive_learners, maximise_logit, recognise_futures
from tdinfonce.agents._goals import actor_goals, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic
from tdinfonce.networks.learner import AveragedLearner
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["PRESETS", "Agent", "Config"]


class Agent(OccupancyModel, eqx.Module):
    """Actor and critic; Monte Carlo needs no target network."""

    config: Config = eqx.field(static=True)
    key: Array
    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: AveragedLearner[ContrastiveCritic]

    chance: ClassVar[str] = "future_goal"

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters."""
        key, actor_key = jax.random.split(self.key)
        batch = self.inputs.batch(batch)
        critic, critic_metrics = self.critic.descend(self._critic_loss, batch)
        actor, actor_metrics = self.actor.descend(self._actor_loss, batch, actor_key)
        return replace(self, key=key, actor=actor, critic=critic), critic_metrics | actor_metrics

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch) -> tuple[Array, Metrics]:
        return recognise_futures(critic, batch, losses.binary_nce, learn_temperature=self.config.learn_temperature)

    def _actor_loss(self, actor: Actor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        return maximise_logit(actor, self.critic.model, batch, key, self.config)

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, first) = config, jax.random.split(key)
        learners = contrastive_learners(first, spec, c, normalise=c.normalise, temperature=c.temperature)
        return cls(c, key, Inputs.create(spec, scale, scaled=c.scale_inputs), *learners)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))

    @classmethod
    def log_constant(cls, batch_size: int) -> float:
        """None is free: a positive meets all others of its batch as negatives."""
        return math.log(max(batch_size - 1, 1))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the geometric law of the future goals.")
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    goal_hidden: tuple[int, ...] = fields.goal_hidden((128, 128))
    representation_size: int = fields.representation_size(64)
    critics: int = fields.critics(1)
    normalise: bool = fields.normalise(
        False, "Whether φ and ψ have length one; then logits are divided by the temperature."
    )
    temperature: float = fields.temperature(1.0)
    learn_temperature: bool = fields.learn_temperature(False)
    layer_norm: bool = fields.layer_norm(False)
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    mean_penalty: float = fields.mean_penalty(1.0)
    commanded_share: float = fields.commanded_share(0.4)
    actor_future_share: float = fields.actor_future_share(0.3)
    actor: str = fields.actor()
    actor_std: float = fields.actor_std()
    actor_uniform_share: float = fields.actor_uniform_share()
    cloning_weight: float = fields.cloning_weight()
    sharpness: float = fields.sharpness(3.0)

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "actor_future_share", "actor_uniform_share", "commanded_share")

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the law of its goals."""
        return GoalSampling(self.discount, fields=reads("observation", "action", "future_goal", actor_goals(self)))


PRESETS = {
    "fast": Config(),
    "paper": Config(
        **fields.PAPER,
        critic_rate=3e-4,
        actor_rate=3e-4,
        actor_future_share=0.5,
    ),
}
