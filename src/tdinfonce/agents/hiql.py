"""HIQL (hierarchical implicit Q-learning): one value function, and two policies that read it at two distances.

V(s, g) is learned without actions: a high expectile, over the stored steps, of -1 plus the discounted value behind the
step, and 0 where the state is its goal. V sees its goal through φ(s, g), a short vector of fixed length. The high
policy names a sub-goal some steps ahead on the way to the goal, as φ; the low policy takes the action that leads there.
Both clone what is stored, weighted by how much V gains. Far from the goal V hardly differs between neighbours, and its
noise drowns what an action gains; over many steps it gains more, and a near sub-goal is far from nothing.

All losses see the same old parameters; only the loss of V moves φ, and the target of V shares it.
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
from tdinfonce.agents._actor import act, make_actor, refuse_images
from tdinfonce.agents._goals import GoalMix, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ScalarCritic, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, copy, descend_together, polyak
from tdinfonce.networks.mlp import MLP
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]


class Agent(eqx.Module):
    """Two policies, V with its target, and φ before it gets its length."""

    config: Config = eqx.field(static=True)
    inputs: Inputs
    actor: AveragedLearner[Actor]
    """The low policy: an action from a state and a sub-goal's φ."""
    high_actor: AveragedLearner[MLP]
    """The high policy: the mean of a sub-goal's φ, from a state and a goal; its standard deviation is one."""
    critic: Learner[ScalarCritic]
    target: ScalarCritic
    representation: Learner[MLP]

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of V with φ, of the low and of the high policy, then of the target."""
        goal = self.config.value_goals.of(batch)
        reached = jnp.all(batch.present_goal == goal, axis=-1).astype(jnp.float32)  # before any scaling
        goal, batch = self.inputs.goal(goal), self.inputs.batch(batch)
        value = self.critic, self.representation
        (critic, representation), value_metrics = descend_together(value, self._value_loss, batch, goal, reached)
        actor, low_metrics = self.actor.descend(self._low_loss, batch)
        high_actor, high_metrics = self.high_actor.descend(self._high_loss, batch)
        target = polyak(self.target, critic.model, self.config.target_rate)
        new = replace(
            self, actor=actor, high_actor=high_actor, critic=critic, target=target, representation=representation
        )
        return new, value_metrics | low_metrics | high_metrics

    def _value_loss(
        self, parameters: tuple[ScalarCritic, MLP], batch: Batch, goal: Array, reached: Array
    ) -> tuple[Array, Metrics]:
        c, (critic, representation) = self.config, parameters
        following = self.target(batch.next_observation, self._phi(batch.next_observation, goal))
        present = self.target(batch.observation, self._phi(batch.observation, goal))
        # Each member has a target of its own; whether a step was a good one, both say together.
        targets = [reached - 1 + c.discount * (1 - reached) * value for value in following]
        advantage = smallest(tuple(targets)) - _mean(present)
        values = critic(batch.observation, _lengthen(representation(batch.observation, goal)))
        rows = [
            losses.expectile(value, target, level=c.expectile_level, advantage=advantage)
            for value, target in zip(values, targets, strict=True)
        ]
        loss = jnp.mean(jnp.stack(rows))
        seen = {"loss": loss, "value": _mean(values), "advantage": advantage, "reached": reached}
        return loss, {f"critic/{name}": jnp.mean(value) for name, value in seen.items()}

    def _low_loss(self, actor: Actor, batch: Batch) -> tuple[Array, Metrics]:
        c, goal = self.config, batch.subgoal
        advantage = self._value(batch.next_observation, goal) - self._value(batch.observation, goal)
        log_prob = actor.log_prob(batch.observation, self._phi(batch.observation, goal), batch.action)
        rows = losses.advantage_weighted(log_prob, advantage, sharpness=c.sharpness, max_weight=c.max_weight)
        return jnp.mean(rows), {
            "actor/loss": jnp.mean(rows),
            "actor/advantage": jnp.mean(advantage),
            "actor/clipped": jnp.mean(c.sharpness * advantage >= jnp.log(c.max_weight)),
        }

    def _high_loss(self, actor: MLP, batch: Batch) -> tuple[Array, Metrics]:
        c, goal, subgoal = self.config, self.config.high_goals.of(batch), self.config.high_targets.of(batch)
        there = self.config.high_target_observations.of(batch)
        advantage = self._value(there, goal) - self._value(batch.observation, goal)
        named = self._phi(batch.observation, subgoal)
        error = jnp.sum(jnp.square(named - actor(batch.observation, goal)), axis=-1)
        log_prob = -(error + c.representation_size * jnp.log(2 * jnp.pi)) / 2
        rows = losses.advantage_weighted(log_prob, advantage, sharpness=c.high_sharpness, max_weight=c.max_weight)
        return jnp.mean(rows), {
            "actor/high_loss": jnp.mean(rows),
            "actor/high_advantage": jnp.mean(advantage),
            "actor/high_clipped": jnp.mean(c.high_sharpness * advantage >= jnp.log(c.max_weight)),
            "actor/high_error": jnp.mean(error),
        }

    def _phi(self, observation: Array, goal: Array) -> Array:
        """How a goal looks from a state; gets no gradient."""
        return _lengthen(self.representation.model(observation, goal))

    def _value(self, observation: Array, goal: Array) -> Array:
        return _mean(self.critic.model(observation, self._phi(observation, goal)))

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent, for vectors."""
        refuse_images("hiql", spec)
        c, state, goal, size = config, spec.observation_size, spec.goal_size, config.representation_size
        low_key, high_key, critic_key, representation_key = jax.random.split(key, 4)
        common: Any = {"layer_norm": c.layer_norm, "activation": c.activation}
        low = make_actor(low_key, replace(spec, goal_size=size), c)
        high = MLP(high_key, (state + goal, *c.hidden, size), **common)
        critic = ScalarCritic(critic_key, state + size, hidden=c.hidden, members=c.critics, **common)
        representation = MLP(representation_key, (state + goal, *c.hidden, size), **common)
        return cls(
            c,
            Inputs.create(spec, scale, scaled=c.scale_inputs),
            AveragedLearner.begin(low, Adam(c.actor_rate), c.average_rate),
            AveragedLearner.begin(high, Adam(c.actor_rate), c.average_rate),
            Learner.begin(critic, Adam(c.critic_rate)),
            copy(critic),
            Learner.begin(representation, Adam(c.critic_rate)),
        )

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Name a sub-goal and go there: samples of both policies, or the means of their averages."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        high_key, low_key = jax.random.split(key)
        named = (self.high_actor.average if greedy else self.high_actor.model)(state, target)
        if not greedy:
            named += jax.random.normal(high_key, named.shape)
        return act(self.actor, state, _lengthen(named), low_key, greedy=greedy, mean=True)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


def _lengthen(x: Array) -> Array:
    """Vectors with the length that a standard normal one has, so that a unit of noise is one of theirs."""
    # The square root of zero has no gradient, so the small number goes inside.
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-12)


def _mean(members: tuple[Array, ...]) -> Array:
    return jnp.mean(jnp.stack(members), axis=0)


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.99, "Of the return, and of the geometric law of V's future goals.")
    target_rate: float = fields.target_rate(0.02, "How far the target of V moves to V at each update; 1: they are one.")
    hidden: tuple[int, ...] = fields.hidden((256, 256))
    representation_size: int = fields.size(10, "Length of φ, what the high policy tells the low one.")
    critics: int = fields.critics(2, "Members of V: the smallest target judges a step, policies read the mean.")
    layer_norm: bool = fields.layer_norm(True)
    activation: str = fields.activation("relu")
    critic_rate: float = fields.critic_rate(1e-3, "Learning rate of V and φ.")
    actor_rate: float = fields.actor_rate(1e-3, "Learning rate of both policies.")
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    min_std: float = fields.min_std(0.1)
    expectile_level: float = fields.expectile_level(
        0.7, "V is this expectile of what the stored steps lead to: 0.5 is the mean, 1 the largest."
    )
    sharpness: float = fields.sharpness(3.0)
    high_sharpness: float = fields.sharpness(3.0, "The same of the high policy.")
    max_weight: float = fields.max_weight(100.0)
    subgoal_steps: int = setting(25, "How many steps ahead a sub-goal is.", low=1, high=10**6)
    present_share: float = fields.share(0.2, "Share of V's goals that are the present state: reached.")
    future_share: float = fields.share(
        0.5, "Share of V's goals that are later states of the same episode; the others are random states."
    )
    high_random_share: float = fields.share(
        0.0, "Share of the high policy's goals that are random states; the others are later states of the same episode."
    )

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "future_share", "present_share")

    @property
    def value_goals(self) -> GoalMix:
        """The goals that V is trained on."""
        return GoalMix("random_goal", present_goal=self.present_share, future_goal=self.future_share)

    @property
    def high_goals(self) -> GoalMix:
        """The goals that the high policy is trained on."""
        return GoalMix("later_goal", random_goal=self.high_random_share)

    @property
    def high_targets(self) -> GoalMix:
        """The sub-goals that it is to name for them: on the way to a later state, or wherever the episode went."""
        return GoalMix("waypoint_goal", subgoal=self.high_random_share)

    @property
    def high_target_observations(self) -> GoalMix:
        """The same states as observations."""
        return GoalMix("waypoint_observation", subgoal_observation=self.high_random_share)

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the laws of its goals."""
        mixes = self.value_goals, self.high_goals, self.high_targets, self.high_target_observations
        names = reads("observation", "action", "next_observation", "present_goal", "subgoal", *mixes)
        return GoalSampling(self.discount, subgoal_steps=self.subgoal_steps, fields=names)


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(),
        target_rate=0.005,
        hidden=(512,) * 3,
        activation="gelu",
        critic_rate=3e-4,
        actor_rate=3e-4,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-6,
    ),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 1024, "updates": 1_000_000}}
