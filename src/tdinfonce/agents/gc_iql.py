"""Goal-conditioned IQL: implicit Q-learning for every goal at once, on goals taken from the data in hindsight.

Not the IQL of the paper's table, which knows one task only: this one is told more. The reward is -1 until the next
state is the goal itself, which ends the episode, so -V(s, g) counts the (discounted) steps from s to g that the data
allow. V is a high expectile of Q over the stored actions; the policy clones the stored actions, weighted by their
advantage.

The order of a step: V, then the actor (with the new V), then Q (with the new V), then the target of Q.
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
from tdinfonce.agents._actor import act, make_actor
from tdinfonce.agents._goals import GoalMix, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, copy, polyak
from tdinfonce.settings import Settings
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
        goal = self.config.value_goals.of(batch)
        reached = jnp.all(batch.next_goal == goal, axis=-1).astype(jnp.float32)  # before any scaling
        goal, batch = self.inputs.goal(goal), self.inputs.batch(batch)
        value, value_metrics = self.value.descend(self._value_loss, batch, goal)
        actor, actor_metrics = self.actor.descend(self._actor_loss, value.model, batch)
        critic, critic_metrics = self.critic.descend(self._critic_loss, value.model, batch, goal, reached)
        target = polyak(self.target, critic.model, self.config.target_rate)
        new = replace(self, actor=actor, critic=critic, target=target, value=value)
        return new, value_metrics | actor_metrics | critic_metrics

    def _value_loss(self, value: ScalarCritic, batch: Batch, goal: Array) -> tuple[Array, Metrics]:
        best = smallest(self.target(batch.observation, batch.action, goal))
        values = value(batch.observation, goal)[0]
        loss = jnp.mean(losses.expectile(values, best, level=self.config.expectile_level))
        return loss, {"critic/value_loss": loss, "critic/value": jnp.mean(values)}

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

    def _critic_loss(
        self, critic: ScalarCritic, value: ScalarCritic, batch: Batch, goal: Array, reached: Array
    ) -> tuple[Array, Metrics]:
        following = value(batch.next_observation, goal)[0]
        goes_on = self.config.discount * (1 - reached)
        values = critic(batch.observation, batch.action, goal)
        errors = [losses.td_error(v, reached - 1, following, discount=goes_on) for v in values]
        loss = jnp.mean(jnp.stack(errors))
        return loss, {"critic/loss": loss, "critic/reached": jnp.mean(reached)}

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, state, action, goal = config, spec.observation_size, spec.action_size, spec.goal_size
        actor_key, critic_key, value_key = jax.random.split(key, 3)
        common: Any = {"hidden": c.hidden, "layer_norm": c.layer_norm}
        actor = make_actor(actor_key, spec, c)
        critic = ScalarCritic(critic_key, state + action + goal, members=c.critics, **common)
        value = ScalarCritic(value_key, state + goal, **common)
        return cls(
            c,
            Inputs.create(spec, scale, scaled=c.scale_inputs),
            AveragedLearner.begin(actor, Adam(c.actor_rate), c.average_rate),
            Learner.begin(critic, Adam(c.critic_rate)),
            copy(critic),
            Learner.begin(value, Adam(c.critic_rate)),
        )

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mean of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy, mean=True)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


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
    def value_goals(self) -> GoalMix:
        """The goals that V and Q are trained on."""
        return GoalMix("random_goal", next_goal=self.next_share, future_goal=self.future_share)

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the law of its goals."""
        names = reads("observation", "action", "next_observation", "next_goal", "future_goal", self.value_goals)
        return GoalSampling(self.discount, uniform_future=self.uniform_future, fields=names)


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
