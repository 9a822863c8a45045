"""C-learning: a classifier of future against random states, trained by temporal differences.

The critic σ(f(s, a, u)) tells whether u comes from the discounted future of (s, a) or from anywhere. The next state is
positive with weight 1 - discount; a random state is positive with the odds that the target classifier gives it at the
next state, where the policy acts for that same state as its goal. The policy maximises the logit of its goal.

The actor sees the critic from before its step.
"""

from dataclasses import dataclass
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._common import (
    act,
    begin,
    contrastive_networks,
    copy,
    descend,
    follow,
    input_scale,
    maximise_logit,
    polyak,
    rescale,
    scale_batch,
)
from tdinfonce.agents._goals import check_shares
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic, pair_logits, smallest
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["PRESETS", "Agent", "Config"]


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

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "actor_future_share", "commanded_share")

    @property
    def sampling(self) -> GoalSampling:
        """The goals this agent needs."""
        return GoalSampling(self.discount)


PRESETS = {
    "fast": Config(),
    "paper": Config(
        discount=0.99,
        target_rate=0.005,
        hidden=(512,) * 4,
        goal_hidden=(512,) * 4,
        torso="conv",
        critic_rate=3e-4,
        actor_rate=3e-4,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
        mean_penalty=0.0,
        commanded_share=0.0,
        actor_future_share=0.5,
    ),
}


class Agent(eqx.Module):
    """Actor, critic, target critic and optimiser states."""

    config: Config = eqx.field(static=True)
    key: Array
    scale: InputScale
    actor: Actor
    average: Actor
    critic: ContrastiveCritic
    target: ContrastiveCritic
    actor_state: object
    critic_state: object

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, first) = config, jax.random.split(key)
        actor, critic = contrastive_networks(first, spec, c, conditioned=False, normalise=False)
        scale = input_scale(spec, scale, use=c.scale_inputs)
        states = begin(actor, c.actor_rate), begin(critic, c.critic_rate)
        return cls(config, key, scale, actor, copy(actor), critic, copy(critic), *states)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode of the averaged policy."""
        return act(self, observation, goal, key, greedy=greedy)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, then of the target."""
        c = self.config
        key, critic_key, actor_key = jax.random.split(self.key, 3)
        batch = scale_batch(self, batch)
        gradient, critic_metrics = eqx.filter_grad(self._critic_loss, has_aux=True)(self.critic, batch, critic_key)
        actor_gradient = eqx.filter_grad(maximise_logit, has_aux=True)
        slope, actor_metrics = actor_gradient(self.actor, self.critic, batch, actor_key, c)
        critic, critic_state = descend(self.critic, gradient, self.critic_state, c.critic_rate)
        actor, actor_state = descend(self.actor, slope, self.actor_state, c.actor_rate)
        target = polyak(self.target, critic, c.target_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        new = type(self)(c, key, self.scale, actor, average, critic, target, actor_state, critic_state)
        return new, critic_metrics | actor_metrics

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c = self.config
        critic = critic.with_fixed_temperature()
        random = batch.random_goal
        next_action = self.actor.sample(batch.next_observation, random, key)
        later = self.target.embed(batch.next_observation, next_action)
        target_logits = smallest(pair_logits(later, self.target.embed_goal(random)))

        rows = len(batch.action)
        left = critic.embed(batch.observation, batch.action)
        right = critic.embed_goal(jnp.concatenate([batch.next_goal, random]))
        next_logits = pair_logits(left, tuple(r[:rows] for r in right))
        random_logits = pair_logits(left, tuple(r[rows:] for r in right))
        terms = [
            losses.c_learning(x, u, target_logits, discount=c.discount, max_weight=c.max_weight)
            for x, u in zip(next_logits, random_logits, strict=True)
        ]
        loss = jnp.mean(jnp.stack(terms))
        return loss, {
            "critic/loss": loss,
            "critic/next_logit": jnp.mean(next_logits[0]),
            "critic/random_logit": jnp.mean(random_logits[0]),
            "critic/weight": jnp.mean(jnp.minimum(jnp.exp(target_logits), c.max_weight)),
        }
