"""DT (decision transformer): continue a sequence of states and actions whose return is said to be a success. One task.

There is one goal, the task's, and no network sees it. A causal transformer reads the last steps of an episode as
(return to come, state, action) and predicts the action; there is no value function and no bootstrap. In a task with one
sparse reward the return to come is 1 if the episode will still reach the goal, else 0; acting, it is told 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import refuse_discrete
from tdinfonce.agents._inputs import Inputs
from tdinfonce.errors import UserError
from tdinfonce.networks.learner import Adam, AveragedLearner
from tdinfonce.networks.transformer import SequenceActor
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, History, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]


class Agent(eqx.Module):
    """The transformer."""

    config: Config = eqx.field(static=True)
    inputs: Inputs
    key: Array
    actor: AveragedLearner[SequenceActor]

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of the transformer."""
        key, drop_key = jax.random.split(self.key)
        batch = self.inputs.batch(batch)
        gradient, metrics = eqx.filter_grad(self._loss, has_aux=True)(self.actor.model, batch, drop_key)
        metrics["actor/gradient"] = optax.tree.norm(gradient)
        return replace(self, key=key, actor=self.actor.step(gradient)), metrics

    def _loss(self, actor: SequenceActor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        inputs = batch.context_observation, batch.context_action, batch.context_return, batch.context_time
        action = actor(*inputs, dropout=self.config.dropout, key=key)
        size = action.shape[-1]
        rows = losses.cloning_error(action.reshape(-1, size), batch.context_action.reshape(-1, size))
        seen = (batch.context_time >= 0).reshape(-1)
        loss = jnp.sum(rows * seen) / jnp.sum(seen)
        return loss, {
            "actor/loss": loss,
            "actor/return": jnp.sum(batch.context_return.reshape(-1) * seen) / jnp.sum(seen),
        }

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent, for continuous actions."""
        refuse_discrete("dt", spec)
        c, (key, first) = config, jax.random.split(key)
        sizes = spec.observation_size, spec.action_size
        actor = SequenceActor(first, *sizes, times=spec.episode_length, width=c.width, layers=c.layers, heads=c.heads)
        optimiser = ClippedAdamW(c.actor_rate, c.rate_rise, c.gradient_clip, c.weight_decay)
        learner = AveragedLearner.begin(actor, optimiser, c.average_rate)
        return cls(c, Inputs.create(spec, scale, scaled=c.scale_inputs), key, learner)

    @property
    def context(self) -> int:
        """How many steps `act` looks at, the present one included."""
        return self.config.context

    def act(
        self, observation: Array, goal: Array, key: Array, *, greedy: bool = False, history: History | None = None
    ) -> Array:
        """The next action after the steps of ``history``; the goal is the task's, whatever is asked."""
        policy = self.actor.average if greedy else self.actor.model
        observation = jnp.asarray(observation)[..., None, :]
        front = observation.shape[:-2]
        action = jnp.zeros((*front, 1, policy.embed_action.weights[0].shape[0]))
        time = jnp.zeros((*front, 1), jnp.int32)
        if history is not None:
            time = jnp.concatenate([history.time, history.time[..., -1:] + 1], axis=-1)
            observation = jnp.concatenate([history.observation, observation], axis=-2)
            action = jnp.concatenate([history.action, action], axis=-2)
        returns = jnp.full(time.shape, self.config.target_return, jnp.float32)
        return policy(self.inputs.observation(observation), action, returns, time)[..., -1, :]

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class ClippedAdamW(Adam):
    """AdamW on a clipped gradient, with a learning rate that rises at first."""

    rate_rise: int
    gradient_clip: float
    weight_decay: float

    def at(self, updates: Any) -> optax.GradientTransformation:
        """The step that follows so many updates."""
        rate = self.rate * jnp.minimum((updates + 1) / max(self.rate_rise, 1), 1.0)
        clip = optax.clip_by_global_norm(self.gradient_clip)
        return optax.chain(clip, optax.adamw(rate, weight_decay=self.weight_decay))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    context: int = setting(10, "Steps of an episode that it sees, the present one included.", low=1, high=10**4)
    width: int = setting(64, "Length of a token.", low=1, high=10**4)
    layers: int = setting(2, "Blocks of the transformer.", low=1, high=100)
    heads: int = setting(1, "Heads of the attention; must divide the width.", low=1, high=1000)
    dropout: float = setting(0.0, "Share of activations dropped while learning.", below=1)
    actor_rate: float = fields.actor_rate(1e-3, "Learning rate.")
    rate_rise: int = setting(500, "Updates over which the learning rate rises from zero.")
    gradient_clip: float = setting(0.25, "The gradient is scaled down to this length.", above=0, high=1e6)
    weight_decay: float = setting(1e-4, "Of AdamW.", high=1)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    target_return: float = setting(1.0, "The return it is told to get when it acts.", high=1e6)

    def check(self) -> None:
        """Refuse sizes that do not fit each other."""
        if self.context < 2:
            raise UserError(f"context must be at least 2, the present step and one before it; got {self.context}")
        if self.width % self.heads:
            raise UserError(f"the width of dt must be a multiple of its heads; got {self.width} and {self.heads}")

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and how many steps of an episode each row holds."""
        names = ("context_observation", "context_action", "context_return", "context_time")
        return GoalSampling(context=self.context, fields=names)


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(), context=20, width=128, layers=3, dropout=0.1, actor_rate=1e-4, rate_rise=10_000, average_rate=1.0
    ),
}
OFFLINE_TRAINING = {"fast": {"batch_size": 64}, "paper": {"batch_size": 64, "updates": 100_000}}
