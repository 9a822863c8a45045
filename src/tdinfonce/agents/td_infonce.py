"""TD InfoNCE (Algorithm 1): predict where the policy will be by temporal differences, and steer it to goals.

The critic f(s, a, g, u) = φ(s, a, g)·ψ(u) answers: acting in s with a and then following the policy for goal g, how
much likelier than by chance is the state u in the discounted future? Its positives are the next state (weight
1 - discount) and, weighted by the target critic at the next state, random states. The policy maximises the
log-probability of its own goal.

The actor sees the critic from before its step, as in the paper's release.
"""

from dataclasses import dataclass, replace
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
    mix_goals,
    polyak,
    propose,
    rescale,
    scale_batch,
    scale_goal,
    scale_observation,
    training_goals,
)
from tdinfonce.agents._goals import check_shares
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic, logits, smallest
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "PRESETS", "Agent", "Config"]

READS = (
    *("observation", "action", "bootstrap_observation", "bootstrap_discount"),
    *("near_goal", "future_goal", "random_goal", "commanded_goal"),
)


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the occupancy: 1 / (1 - discount) steps is the horizon.")
    target_rate: float = fields.target_rate(0.02)
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    goal_hidden: tuple[int, ...] = fields.goal_hidden((128, 128))
    representation_size: int = fields.representation_size(32)
    critics: int = fields.critics(1)
    normalise: bool = fields.normalise(True)
    temperature: float = fields.temperature(0.05)
    learn_temperature: bool = fields.learn_temperature(True)
    layer_norm: bool = fields.layer_norm(False)
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    mean_penalty: float = fields.mean_penalty(0.01)
    actor_future_share: float = fields.actor_future_share(
        0.3, "Share of future goals among the goals the actor is trained on; the others are random states."
    )
    critic_future_share: float = fields.share(
        0.3, "Share of future goals among the goals the critic is conditioned on; the others are random states."
    )
    commanded_share: float = fields.commanded_share(
        0.4, "Ours: share of goals, of both, that were commanded: what the policy really meets. 0 is the paper."
    )
    n_step: int = setting(
        5,
        "Ours: the positive is drawn from the next n states, and the bootstrap starts behind them. 1 is the paper.",
        low=1,
        high=10**4,
    )
    monte_carlo_weight: float = fields.share(
        0.2,
        "Ours: share of rows whose positive is any future state of the episode, without bootstrap; they are taken from "
        "the rows with commanded goals first. 0 is the paper.",
    )
    cloning_share: float = fields.share(
        0.0,
        "Offline: share λ of the squared distance between the policy's actions and the stored ones; reaching goals "
        "weighs 1 - λ. 0 online.",
    )
    cloning_sum: bool = setting(
        False,
        "Whether that distance is summed over the action's dimensions, as the paper writes it, or averaged, as its "
        "release does.",
    )

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "actor_future_share", "commanded_share")
        check_shares(self, "critic_future_share", "commanded_share")

    @property
    def sampling(self) -> GoalSampling:
        """The goals this agent needs."""
        return GoalSampling(self.discount, self.n_step, fields=READS)


PRESETS = {
    "fast": Config(),
    "paper": Config(
        discount=0.99,
        target_rate=0.005,
        hidden=(512,) * 4,
        goal_hidden=(512,) * 4,
        torso="conv",
        representation_size=16,
        critics=2,
        temperature=1.0,
        learn_temperature=False,
        critic_rate=3e-4,
        actor_rate=5e-5,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
        mean_penalty=0.0,
        actor_future_share=0.0,
        critic_future_share=0.0,
        commanded_share=0.0,
        n_step=1,
        monte_carlo_weight=0.0,
    ),
}
OFFLINE_FAST = replace(
    PRESETS["fast"],
    discount=0.99,
    layer_norm=True,
    actor_future_share=1.0,
    critic_future_share=0.0,
    commanded_share=0.0,
    n_step=25,
    monte_carlo_weight=0.0,
    cloning_share=0.1,
    cloning_sum=True,
)
OFFLINE_PAPER = replace(PRESETS["paper"], actor_future_share=1.0, cloning_share=0.1, cloning_sum=True)
OFFLINE = {
    "fast": OFFLINE_FAST,
    "paper": OFFLINE_PAPER,
    "release": replace(
        OFFLINE_PAPER, hidden=(1024,) * 4, goal_hidden=(1024,) * 4, cloning_share=0.2, cloning_sum=False
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
        actor, critic = contrastive_networks(
            first, spec, c, conditioned=True, normalise=c.normalise, temperature=c.temperature
        )
        scale = input_scale(spec, scale, use=c.scale_inputs)
        states = begin(actor, c.actor_rate), begin(critic, c.critic_rate)
        return cls(config, key, scale, actor, copy(actor), critic, copy(critic), *states)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode of the averaged policy."""
        return act(self, observation, goal, key, greedy=greedy)

    def represent(self, observation: Array, action: Array, goal: Array) -> Array:
        """φ of raw inputs, one row each, with length one; of an ensemble, the first member's."""
        inputs = scale_observation(self, observation), action, scale_goal(self, goal)
        left = self.critic.embed(*inputs)[0]
        return left / jnp.linalg.norm(left, axis=-1, keepdims=True)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, then of the target."""
        c = self.config
        key, critic_key, actor_key = jax.random.split(self.key, 3)
        batch = scale_batch(self, batch)
        gradient, critic_metrics = eqx.filter_grad(self._critic_loss, has_aux=True)(self.critic, batch, critic_key)
        slope, actor_metrics = eqx.filter_grad(self._actor_loss, has_aux=True)(self.actor, batch, actor_key)
        critic, critic_state = descend(self.critic, gradient, self.critic_state, c.critic_rate)
        actor, actor_state = descend(self.actor, slope, self.actor_state, c.actor_rate)
        target = polyak(self.target, critic, c.target_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        new = type(self)(c, key, self.scale, actor, average, critic, target, actor_state, critic_state)
        return new, critic_metrics | actor_metrics

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c = self.config
        if not c.learn_temperature:
            critic = critic.with_fixed_temperature()
        goal = training_goals(batch, c.commanded_share, c.critic_future_share)
        next_action = self.actor.sample(batch.bootstrap_observation, goal, key)
        future = self.target.embed(batch.bootstrap_observation, next_action, goal)
        target_logits = smallest(logits(future, self.target.embed_goal(batch.random_goal)))

        # A Monte Carlo row has a far future as its positive and does not bootstrap; its goal was commanded.
        positive = mix_goals(batch.near_goal, batch.future_goal, c.monte_carlo_weight)
        discount = mix_goals(batch.bootstrap_discount, jnp.zeros_like(batch.bootstrap_discount), c.monte_carlo_weight)

        rows = len(goal)
        left = critic.embed(batch.observation, batch.action, goal)
        right = critic.embed_goal(jnp.concatenate([positive, batch.random_goal]))  # one pass of ψ
        next_logits = logits(left, tuple(r[:rows] for r in right))
        random_logits = logits(left, tuple(r[rows:] for r in right))
        terms = [
            losses.td_infonce(near, random, target_logits, discount=discount)
            for near, random in zip(next_logits, random_logits, strict=True)
        ]
        loss = jnp.mean(jnp.stack(terms))
        return loss, critic_metrics(loss, next_logits[0], target_logits, critic)

    def _actor_loss(self, actor: Actor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c = self.config
        goal = training_goals(batch, c.commanded_share, c.actor_future_share)
        action, size, metrics = propose(actor, batch.observation, goal, key)
        left = self.critic.embed(batch.observation, action, goal)
        goal_logits = smallest(logits(left, self.critic.embed_goal(goal)))
        reach = jnp.mean(losses.goal_infonce(goal_logits))
        error = jnp.mean(losses.cloning_error(action, batch.action))
        clone = error * (batch.action.shape[-1] if c.cloning_sum else 1)
        loss = (1 - c.cloning_share) * reach + c.cloning_share * clone + c.mean_penalty * size
        return loss, metrics | {"actor/loss": reach, "actor/action_error": error}


def critic_metrics(loss: Array, next_logits: Array, target_logits: Array, critic: ContrastiveCritic) -> Metrics:
    """What to watch while a critic learns."""
    rows = len(next_logits)
    weights = losses.importance_weights(target_logits)
    return {
        "critic/loss": loss,
        "critic/next_accuracy": jnp.mean(jnp.argmax(next_logits, axis=1) == jnp.arange(rows)),
        "critic/weight_entropy": -jnp.mean(jnp.sum(weights * jnp.log(weights + 1e-12), axis=1)),
        "critic/temperature": jnp.exp(critic.log_temperature),
    }
