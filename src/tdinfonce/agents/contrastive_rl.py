"""Contrastive RL (InfoNCE): tell the future of a state and action from the futures of others, Monte Carlo.

The critic f(s, a, g) = φ(s, a)·ψ(g) is trained with InfoNCE on future states of the same episode; the policy maximises
the logit of its goal. A penalty on the log-sum-exp of each row pins the constant that InfoNCE leaves free, or logits
of different actions could not be compared.

The actor sees the critic from before its step.
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
    contrastive_networks,
    copy,
    descend,
    follow,
    input_scale,
    maximise_logit,
    rescale,
    scale_batch,
)
from tdinfonce.agents._goals import check_shares
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.critic import ContrastiveCritic, logits
from tdinfonce.settings import Settings
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "PRESETS", "Agent", "Config"]


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
    logsumexp_weight: float = fields.weight(0.01, "Weight of the squared log-sum-exp of each row.")
    cloning_share: float = fields.share(
        0.0,
        "Offline: share of the negative log-likelihood of the stored actions; the logit weighs one minus it. 0 online.",
    )
    mean_action: bool = fields.mean_action(False)

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
OFFLINE_GOALS: Any = {"commanded_share": 0.0, "actor_future_share": 1.0, "cloning_share": 0.05}
OFFLINE = {
    "fast": replace(
        PRESETS["fast"], discount=0.99, layer_norm=True, mean_penalty=0.01, mean_action=True, **OFFLINE_GOALS
    ),
    "paper": replace(
        PRESETS["paper"],
        hidden=(1024, 1024),
        goal_hidden=(1024, 1024),
        representation_size=16,
        critics=2,
        **OFFLINE_GOALS,
    ),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 1024}}


class Agent(eqx.Module):
    """Actor, critic and optimiser states; Monte Carlo needs no target network."""

    config: Config = eqx.field(static=True)
    key: Array
    scale: InputScale
    actor: Actor
    average: Actor
    critic: ContrastiveCritic
    actor_state: object
    critic_state: object

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, first) = config, jax.random.split(key)
        actor, critic = contrastive_networks(
            first, spec, c, conditioned=False, normalise=c.normalise, temperature=c.temperature
        )
        scale = input_scale(spec, scale, use=c.scale_inputs)
        states = begin(actor, c.actor_rate), begin(critic, c.critic_rate)
        return cls(config, key, scale, actor, copy(actor), critic, *states)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode or mean of the averaged policy."""
        return act(self, observation, goal, key, greedy=greedy, mean=self.config.mean_action)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters."""
        c = self.config
        key, actor_key = jax.random.split(self.key)
        batch = scale_batch(self, batch)
        gradient, critic_metrics = eqx.filter_grad(self._critic_loss, has_aux=True)(self.critic, batch)
        slope, actor_metrics = eqx.filter_grad(self._actor_loss, has_aux=True)(self.actor, batch, actor_key)
        critic, critic_state = descend(self.critic, gradient, self.critic_state, c.critic_rate)
        actor, actor_state = descend(self.actor, slope, self.actor_state, c.actor_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        new = type(self)(c, key, self.scale, actor, average, critic, actor_state, critic_state)
        return new, critic_metrics | actor_metrics

    def _actor_loss(self, actor: Actor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        share = self.config.cloning_share
        reach, metrics = maximise_logit(actor, self.critic, batch, key, self.config)
        if not share:
            return reach, metrics
        clone = jnp.mean(losses.cloning(actor.log_prob(batch.observation, batch.future_goal, batch.action)))
        return (1 - share) * reach + share * clone, metrics | {"actor/cloning": clone}

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch) -> tuple[Array, Metrics]:
        c = self.config
        if not c.learn_temperature:
            critic = critic.with_fixed_temperature()
        future_logits = logits(critic.embed(batch.observation, batch.action), critic.embed_goal(batch.future_goal))
        terms = [losses.infonce(x) + c.logsumexp_weight * losses.logsumexp_penalty(x) for x in future_logits]
        loss = jnp.mean(jnp.stack(terms))
        rows = len(batch.action)
        return loss, {
            "critic/loss": loss,
            "critic/accuracy": jnp.mean(jnp.argmax(future_logits[0], axis=1) == jnp.arange(rows)),
            "critic/positive_logit": jnp.mean(jnp.diagonal(future_logits[0])),
            "critic/temperature": jnp.exp(critic.log_temperature),
        }
