"""Goal-conditioned IQL: implicit Q-learning for every goal at once, on goals taken from the data in hindsight.

Not the IQL of the paper's table, which knows one task only: this one is told more. The reward is -1 until the next
state is the goal itself, which ends the episode, so -V(s, g) counts the (discounted) steps from s to g that the data
allow. V is a high expectile of Q over the stored actions; the policy clones the stored actions, weighted by their
advantage.

The order of a step: V, then the actor (with the new V), then Q (with the new V), then the target of Q.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._common import (
    act,
    begin,
    copy,
    descend,
    follow,
    input_scale,
    mix_goals,
    polyak,
    rescale,
    scale_batch,
    scale_goal,
)
from tdinfonce.agents._goals import check_shares
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]

READS = ("observation", "action", "next_observation", "next_goal", "future_goal", "random_goal")


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.99, "Of the return, and of the geometric law of the future goals.")
    target_rate: float = fields.target_rate(0.02, "How far the target of Q moves to Q at each update; 1: they are one.")
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    critics: int = fields.critics(2, "Members of Q's ensemble; the smallest value counts.")
    layer_norm: bool = fields.layer_norm(True)
    critic_rate: float = fields.critic_rate(1e-3, "Learning rate of V and Q.")
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    expectile_level: float = fields.expectile_level(0.9)
    sharpness: float = fields.sharpness(3.0)
    max_weight: float = fields.max_weight(100.0)
    next_share: float = fields.share(0.2, "Share of the goals of V and Q that are the next state: reached.")
    future_share: float = fields.share(
        0.5,
        "Share of the goals of V and Q that are later states of the same episode; the others are random states. All "
        "goals of the actor are later states.",
    )
    uniform_future: bool = fields.uniform_future(
        False, "Whether later states are uniform over the rest of the episode instead of geometric."
    )

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "future_share", "next_share")

    @property
    def sampling(self) -> GoalSampling:
        """The goals this agent needs."""
        return GoalSampling(self.discount, uniform_future=self.uniform_future, fields=READS)


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(),
        target_rate=0.005,
        hidden=(512,) * 3,
        critic_rate=3e-4,
        actor_rate=3e-4,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
    ),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 1024, "updates": 1_000_000}}


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
        c, state, action, goal = config, spec.observation_size, spec.action_size, spec.goal_size
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        common: Any = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = Actor(actor_key, state, goal, action, min_std=c.min_std, **common)
        critic = ScalarCritic(critic_key, state + action + goal, members=c.critics, **common)
        value = ScalarCritic(value_key, state + goal, **common)
        states = begin(actor, c.actor_rate), begin(critic, c.critic_rate), begin(value, c.critic_rate)
        scale = input_scale(spec, scale, use=c.scale_inputs)
        return cls(c, scale, actor, copy(actor), critic, copy(critic), value, *states)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mean of the averaged policy."""
        return act(self, observation, goal, key, greedy=greedy, mean=True)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of V, actor and Q, then of the target."""
        c = self.config
        goal, reached = self._goals(batch)
        goal, batch = scale_goal(self, goal), scale_batch(self, batch)
        best = smallest(self.target(batch.observation, batch.action, goal))
        gradient, value_metrics = eqx.filter_grad(self._value_loss, has_aux=True)(self.value, batch, goal, best)
        value, value_state = descend(self.value, gradient, self.value_state, c.critic_rate)
        slope, actor_metrics = eqx.filter_grad(self._actor_loss, has_aux=True)(self.actor, value, batch)
        actor, actor_state = descend(self.actor, slope, self.actor_state, c.actor_rate)
        following = value(batch.next_observation, goal)[0]
        critic_gradient = eqx.filter_grad(self._critic_loss, has_aux=True)
        gradient, critic_metrics = critic_gradient(self.critic, batch, goal, reached, following)
        critic, critic_state = descend(self.critic, gradient, self.critic_state, c.critic_rate)
        target = polyak(self.target, critic, c.target_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        models = actor, average, critic, target, value
        new = type(self)(c, self.scale, *models, actor_state, critic_state, value_state)
        return new, value_metrics | actor_metrics | critic_metrics

    def _goals(self, batch: Batch) -> tuple[Array, Array]:
        """Goals of V and Q, and 1 where the next state is the goal."""
        c = self.config
        later = mix_goals(batch.future_goal, batch.next_goal, c.next_share)
        goal = mix_goals(batch.random_goal, later, c.next_share + c.future_share)
        return goal, jnp.all(batch.next_goal == goal, axis=-1).astype(jnp.float32)

    def _value_loss(self, value: ScalarCritic, batch: Batch, goal: Array, best: Array) -> tuple[Array, Metrics]:
        values = value(batch.observation, goal)[0]
        loss = jnp.mean(losses.expectile(values, best, level=self.config.expectile_level))
        return loss, {"critic/value_loss": loss, "critic/value": jnp.mean(values)}

    def _critic_loss(
        self, critic: ScalarCritic, batch: Batch, goal: Array, reached: Array, following: Array
    ) -> tuple[Array, Metrics]:
        goes_on = self.config.discount * (1 - reached)
        values = critic(batch.observation, batch.action, goal)
        errors = [losses.td_error(v, reached - 1, following, discount=goes_on) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {"critic/loss": loss, "critic/reached": jnp.mean(reached)}

    def _actor_loss(self, actor: Actor, value: ScalarCritic, batch: Batch) -> tuple[Array, Metrics]:
        c, goal = self.config, batch.future_goal
        best = smallest(self.target(batch.observation, batch.action, goal))
        advantage = best - value(batch.observation, goal)[0]
        log_prob = actor.log_prob(batch.observation, goal, batch.action)
        rows = losses.advantage_weighted(log_prob, advantage, sharpness=c.sharpness, max_weight=c.max_weight)
        clipped = c.sharpness * advantage >= jnp.log(c.max_weight)
        return jnp.mean(rows), {
            "actor/loss": jnp.mean(rows),
            "actor/advantage": jnp.mean(advantage),
            "actor/clipped": jnp.mean(clipped),
        }
