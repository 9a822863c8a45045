"""C-learning: a classifier of future against random states, trained by temporal differences.

The critic σ(f(s, a, u)) tells whether u comes from the discounted future of (s, a) or from anywhere. The next state is
positive with weight 1 - discount; a random state is positive with the odds that the target classifier gives it at the
next state, where the policy acts for that same state as its goal. The policy maximises the logit of its goal.

The actor sees the critic from before its step.
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
from tdinfonce.agents._actor import act, propose
from tdinfonce.agents._critic import OccupancyModel, contrastive_learners, maximise_logit
from tdinfonce.agents._goals import actor_goals, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic, pair_logits, smallest
from tdinfonce.networks.learner import AveragedLearner, copy, polyak
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["PRESETS", "Agent", "Config"]


class Agent(OccupancyModel, eqx.Module):
    """Actor, critic and target critic."""

    config: Config = eqx.field(static=True)
    key: Array
    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: AveragedLearner[ContrastiveCritic]
    target: ContrastiveCritic

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, then of the target."""
        key, critic_key, actor_key = jax.random.split(self.key, 3)
        batch = self.inputs.batch(batch)
        critic, critic_metrics = self.critic.descend(self._critic_loss, batch, critic_key)
        actor, actor_metrics = self.actor.descend(self._actor_loss, batch, actor_key)
        target = polyak(self.target, critic.model, self.config.target_rate)
        return replace(self, key=key, actor=actor, critic=critic, target=target), critic_metrics | actor_metrics

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c = self.config
        critic = critic.with_fixed_temperature()
        random = batch.random_goal
        policy = propose(self.actor.model, batch.next_observation, random, key)

        rows = len(batch.action)
        left = critic.embed(batch.observation, batch.action)
        right = critic.embed_goal(jnp.concatenate([batch.next_goal, random]))
        next_logits = pair_logits(left, tuple(r[:rows] for r in right))
        random_logits = pair_logits(left, tuple(r[rows:] for r in right))

        def bootstrap(next_action: Array) -> tuple[list[Array], Array]:
            later = self.target.embed(batch.next_observation, next_action)
            target_logits = smallest(pair_logits(later, self.target.embed_goal(random)))
            terms = [
                losses.c_learning(x, u, target_logits, discount=c.discount, max_weight=c.max_weight)
                for x, u in zip(next_logits, random_logits, strict=True)
            ]
            return terms, jnp.minimum(jnp.exp(target_logits), c.max_weight)

        terms, weight = policy.expected(bootstrap)
        loss = jnp.mean(jnp.stack(terms))
        return loss, {
            "critic/loss": loss,
            "critic/next_logit": jnp.mean(next_logits[0]),
            "critic/random_logit": jnp.mean(random_logits[0]),
            "critic/weight": jnp.mean(weight),
        }

    def _actor_loss(self, actor: Actor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        return maximise_logit(actor, self.critic.model, batch, key, self.config)

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        key, first = jax.random.split(key)
        actor, critic = contrastive_learners(first, spec, config)
        inputs = Inputs.create(spec, scale, scaled=config.scale_inputs)
        return cls(config, key, inputs, actor, critic, copy(critic.model))

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))

    @classmethod
    def log_constant(cls, batch_size: int) -> float:
        """None is free: the odds of the classifier are the ratio."""
        return 0.0


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the occupancy: 1 / (1 - discount) steps is the horizon.")
    target_rate: float = fields.target_rate(0.02)
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    goal_hidden: tuple[int, ...] = fields.goal_hidden((128, 128))
    representation_size: int = fields.representation_size(64)
    critics: int = fields.critics(2)
    max_weight: float = fields.max_weight(20.0, "The odds of the target classifier are clipped to this.")
    layer_norm: bool = fields.layer_norm(False)
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    mean_penalty: float = fields.mean_penalty(0.01)
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
        steps = "observation", "action", "next_observation", "next_goal"
        return GoalSampling(self.discount, fields=reads(*steps, "random_goal", actor_goals(self)))


PRESETS = {
    "fast": Config(),
    "paper": Config(
        **fields.PAPER,
        target_rate=0.005,
        critic_rate=3e-4,
        actor_rate=3e-4,
        actor_future_share=0.5,
    ),
}
