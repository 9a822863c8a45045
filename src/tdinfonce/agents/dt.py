"""DT (decision transformer): continue a sequence of states and actions whose return is said to be a success. One task.

There is one goal, the task's, and no network sees it. A causal transformer reads the last steps of an episode as
(return to come, state, action) and predicts the action; there is no value function and no bootstrap. In a task with one
sparse reward the return to come is 1 if the episode will still reach the goal, else 0; acting, it is told 1.
"""

from dataclasses import dataclass, replace
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._common import copy, follow, input_scale, rescale, scale_batch, scale_observation
from tdinfonce.errors import UserError
from tdinfonce.networks.transformer import SequenceActor
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, History, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "Agent", "Config"]

READS = ("context_observation", "context_action", "context_return", "context_time")


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
        """The fields this agent needs."""
        return GoalSampling(context=self.context, fields=READS)


OFFLINE = {
    "fast": Config(),
    "paper": replace(
        Config(), context=20, width=128, layers=3, dropout=0.1, actor_rate=1e-4, rate_rise=10_000, average_rate=1.0
    ),
}
OFFLINE_TRAINING = {"fast": {"batch_size": 64}, "paper": {"batch_size": 64, "updates": 100_000}}


class Agent(eqx.Module):
    """The transformer and its optimiser state."""

    config: Config = eqx.field(static=True)
    scale: InputScale
    key: Array
    actor: SequenceActor
    average: SequenceActor
    actor_state: object

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, first) = config, jax.random.split(key)
        sizes = spec.observation_size, spec.action_size
        actor = SequenceActor(first, *sizes, times=spec.episode_length, width=c.width, layers=c.layers, heads=c.heads)
        state = _optimiser(c, 0.0).init(eqx.filter(actor, eqx.is_array))
        return cls(c, input_scale(spec, scale, use=c.scale_inputs), key, actor, copy(actor), state)

    @property
    def context(self) -> int:
        """How many steps `act` looks at, the present one included."""
        return self.config.context

    def act(
        self, observation: Array, goal: Array, key: Array, *, greedy: bool = False, history: History | None = None
    ) -> Array:
        """The next action after the steps of ``history``; the goal is the task's, whatever is asked."""
        observation = jnp.asarray(observation)[..., None, :]
        front = observation.shape[:-2]
        action = jnp.zeros((*front, 1, self.actor.embed_action.weights[0].shape[0]))
        time = jnp.zeros((*front, 1), jnp.int32)
        if history is not None:
            time = jnp.concatenate([history.time, history.time[..., -1:] + 1], axis=-1)
            observation = jnp.concatenate([history.observation, observation], axis=-2)
            action = jnp.concatenate([history.action, action], axis=-2)
        returns = jnp.full(time.shape, self.config.target_return, jnp.float32)
        net = self.average if greedy else self.actor
        return net(scale_observation(self, observation), action, returns, time)[..., -1, :]

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of the transformer."""
        c, (key, drop_key) = self.config, jax.random.split(self.key)
        batch = scale_batch(self, batch)
        slope, metrics = eqx.filter_grad(self._loss, has_aux=True)(self.actor, batch, drop_key)
        metrics["actor/gradient"] = optax.tree.norm(slope)
        count = optax.tree_utils.tree_get(self.actor_state, "count")
        rate = c.actor_rate * jnp.minimum((count + 1) / max(c.rate_rise, 1), 1.0)
        change, actor_state = _optimiser(c, rate).update(slope, self.actor_state, eqx.filter(self.actor, eqx.is_array))
        actor = eqx.apply_updates(self.actor, change)
        average = follow(self.average, actor, c.average_rate, actor_state)
        return type(self)(c, self.scale, key, actor, average, actor_state), metrics

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


def _optimiser(config: Config, rate: float | Array) -> optax.GradientTransformation:
    """AdamW on a clipped gradient."""
    clip = optax.clip_by_global_norm(config.gradient_clip)
    return optax.chain(clip, optax.adamw(rate, weight_decay=config.weight_decay))
