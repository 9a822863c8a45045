"""QRL (quasimetric RL): learn the fewest steps from any state to any goal, and walk downhill.

The critic is a quasimetric: it obeys the triangle inequality by construction. Two rules make its distance the length
of a shortest path: a seen step costs at most one, and all other states, and goals, are pushed as far apart as that
allows. A goal is a point of its own, at distance zero from every state that achieves it, so that reaching a goal is
reaching the nearest such state. A latent model tells where an action leads, and the policy picks the action whose
outcome is nearest to the goal. There is no discount, no bootstrap and no target network; the dynamics must be
deterministic.

The actor sees the critic from before its step.
"""

from collections.abc import Callable
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
    actor_inputs,
    begin,
    copy,
    critic_inputs,
    descend,
    follow,
    input_scale,
    propose,
    rescale,
    scale_batch,
    training_goals,
)
from tdinfonce.agents._goals import check_shares
from tdinfonce.networks.actor import Actor
from tdinfonce.networks.quasimetric import QuasimetricCritic
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "ONLINE_TRAINING", "PRESETS", "Agent", "Config"]


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the geometric law of the actor's future goals.")
    hidden: tuple[int, ...] = fields.hidden(
        (256, 256), "Widths of the hidden layers of the policy and of the encoder of states."
    )
    goal_hidden: tuple[int, ...] = fields.goal_hidden(
        (128, 128), "Widths of the hidden layers of the encoder of goals."
    )
    projector_hidden: tuple[int, ...] = setting(
        (64,), "Widths of the hidden layers between a latent point and the head."
    )
    dynamics_hidden: tuple[int, ...] = setting((128, 128), "Widths of the hidden layers of the latent model.")
    latent_size: int = fields.size(64, "Length of a latent point.")
    components: int = fields.size(16, "Components of the head, each the length of a union of intervals.")
    component_size: int = fields.size(4, "Intervals of a component.")
    mrn: bool = setting(
        False, "Whether the head is a metric residual network instead of an interval quasimetric embedding."
    )
    critics: int = fields.critics(1, "Members of the critic's ensemble; the largest distance counts.")
    layer_norm: bool = fields.layer_norm(
        True,
        "Whether hidden layers are standardised; without it latent points grow until the latent model no longer hears "
        "the action.",
    )
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    multiplier_rate: float = setting(1e-2, "Learning rate of the multiplier; 0: it stays.", high=1)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    multiplier: float = setting(1.0, "Of the local constraint, at the start; it is learned.", above=0, high=1e6)
    local_tolerance: float = setting(
        0.25, "How much longer than its cost a seen step may be, in the root mean square.", high=1e6
    )
    push_offset: float = setting(15.0, "Distances are pushed up to about here; must exceed the true ones.", high=1e6)
    push_sharpness: float = setting(0.1, "One over the width of the bend at the offset.", above=0, high=1e6)
    dynamics_weight: float = fields.weight(0.1, "Weight of the latent model's loss.")
    min_std: float = fields.min_std(0.1)
    mean_penalty: float = fields.mean_penalty(0.01)
    entropy_weight: float = fields.weight(
        0.0,
        "Weight of the policy's entropy at the start; it is learned, so that the entropy is minus the number of action "
        "dimensions. 0: no entropy term.",
    )
    entropy_rate: float = setting(3e-4, "Learning rate of the entropy's weight; 0: it stays.", high=1)
    cloning_weight: float = fields.weight(
        0.0, "Weight of the log-likelihood of the stored actions; for data that the policy did not collect."
    )
    mean_action: bool = fields.mean_action(False)
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
        hidden=(512,) * 4,
        goal_hidden=(512,) * 4,
        projector_hidden=(512,),
        dynamics_hidden=(512, 512),
        latent_size=128,
        components=64,
        component_size=32,
        critics=2,
        layer_norm=False,
        torso="conv",
        critic_rate=1e-4,
        actor_rate=3e-5,
        average_rate=1.0,
        scale_inputs=False,
        min_std=1e-4,
        mean_penalty=0.0,
        multiplier=0.01,
        entropy_weight=1.0,
        commanded_share=0.0,
        actor_future_share=0.5,
    ),
}
ONLINE_TRAINING = {"paper": {"exploration_noise": 0.3, "exploration_episodes": 1.0}}

OFFLINE = {
    "fast": Config(
        discount=0.99,
        multiplier=100.0,
        multiplier_rate=0.1,
        push_offset=500.0,
        push_sharpness=0.01,
        dynamics_weight=1.0,
        cloning_weight=0.05,
        mean_action=True,
        commanded_share=0.0,
        actor_future_share=0.5,
    ),
    "paper": Config(
        discount=0.99,
        hidden=(1024,) * 3,
        goal_hidden=(1024,) * 3,
        projector_hidden=(1024, 1024),
        dynamics_hidden=(1024,) * 3,
        latent_size=256,
        components=64,
        component_size=32,
        critics=2,
        layer_norm=False,
        torso="conv",
        critic_rate=5e-4,
        actor_rate=3e-5,
        average_rate=1.0,
        scale_inputs=False,
        multiplier=0.01,
        push_offset=500.0,
        push_sharpness=0.01,
        dynamics_weight=1.0,
        min_std=1e-4,
        mean_penalty=0.0,
        cloning_weight=0.05,
        commanded_share=0.0,
        actor_future_share=0.0,
    ),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 1024}}


class Agent(eqx.Module):
    """Actor, quasimetric, the weights of the two constraints before they are made positive, and optimiser states."""

    config: Config = eqx.field(static=True)
    key: Array
    scale: InputScale
    actor: Actor
    average: Actor
    critic: tuple[QuasimetricCritic, ...]
    raw_multiplier: Array
    raw_entropy_weight: Array
    actor_state: object
    critic_state: object
    multiplier_state: object
    entropy_state: object

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, actor_key, *keys) = config, jax.random.split(key, 2 + config.critics)
        actor = Actor(**actor_inputs(actor_key, spec, c), hidden=c.hidden, min_std=c.min_std, layer_norm=c.layer_norm)
        critic = tuple(_member(k, spec, c) for k in keys)
        # The inverse of softplus, in the form that large numbers survive.
        raw_multiplier = jnp.full(c.critics, c.multiplier + jnp.log(-jnp.expm1(-c.multiplier)), jnp.float32)
        raw_entropy_weight = jnp.zeros(())
        return cls(
            c,
            key,
            input_scale(spec, scale, use=c.scale_inputs),
            actor,
            copy(actor),
            critic,
            raw_multiplier,
            raw_entropy_weight,
            begin(actor, c.actor_rate),
            begin(critic, c.critic_rate),
            begin(raw_multiplier, c.multiplier_rate),
            begin(raw_entropy_weight, c.entropy_rate),
        )

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode or mean of the averaged policy."""
        return act(self, observation, goal, key, greedy=greedy, mean=self.config.mean_action)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return rescale(self, scale)

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, each with the multiplier of its constraint."""
        c, (key, actor_key) = self.config, jax.random.split(self.key)
        batch = scale_batch(self, batch)
        gradient = eqx.filter_grad(self._critic_loss, has_aux=True)
        slope = eqx.filter_grad(self._actor_loss, has_aux=True)
        (g_critic, g_multiplier), critic_metrics = gradient((self.critic, self.raw_multiplier), batch)
        (g_actor, g_entropy), actor_metrics = slope((self.actor, self.raw_entropy_weight), batch, actor_key)
        critic, critic_state = descend(self.critic, g_critic, self.critic_state, c.critic_rate)
        actor, actor_state = descend(self.actor, g_actor, self.actor_state, c.actor_rate)
        multiplier = descend(self.raw_multiplier, g_multiplier, self.multiplier_state, c.multiplier_rate)
        entropy = descend(self.raw_entropy_weight, g_entropy, self.entropy_state, c.entropy_rate)
        average = follow(self.average, actor, c.average_rate, actor_state)
        models = actor, average, critic, multiplier[0], entropy[0]
        new = type(self)(c, key, self.scale, *models, actor_state, critic_state, multiplier[1], entropy[1])
        return new, critic_metrics | actor_metrics

    def _critic_loss(
        self, parameters: tuple[tuple[QuasimetricCritic, ...], Array], batch: Batch
    ) -> tuple[Array, Metrics]:
        critic, raw_multiplier = parameters
        multiplier = jax.nn.softplus(raw_multiplier)
        results = [self._member_loss(member, m, batch) for member, m in zip(critic, multiplier, strict=True)]
        rows, metrics = zip(*results, strict=True)
        return sum(rows), metrics[0] | {"critic/multiplier": multiplier[0]}

    def _member_loss(self, member: QuasimetricCritic, multiplier: Array, batch: Batch) -> tuple[Array, Metrics]:
        c = self.config
        # Every network runs once, on all its inputs together.
        state, later = _together(member.embed, batch.observation, batch.next_observation)
        reached, random = _together(member.embed_goal, batch.next_goal, batch.random_goal)
        predicted = member.predict(state, batch.action)
        z, z_later, z_reached, z_random, z_predicted = _together(
            member.projector, state, later, reached, random, predicted
        )
        z_other = jnp.roll(z_later, 1, axis=0)
        pairs = [(z, z_random), (z, z_other), (z, z_later), (z_later, z_reached)]
        pairs += [(z_predicted, z_later), (z_later, z_predicted)]
        starts, ends = (jnp.concatenate(points) for points in zip(*pairs, strict=True))
        far, apart, step, arrival, there, back = jnp.split(member.head(starts, ends), len(pairs))

        # Goals may be a part of the state: pushed from goals alone, states that differ elsewhere would become one.
        away = jnp.concatenate([far, apart])
        push = losses.push_apart(away, offset=c.push_offset, sharpness=c.push_sharpness)
        # Two kinds of edges: a step costs one, and from a state to what it achieves is no way at all.
        cost = jnp.repeat(jnp.array([1.0, 0.0]), len(step))
        excess = losses.local_excess(jnp.concatenate([step, arrival]), cost, tolerance=c.local_tolerance)
        local = losses.lagrangian(excess, multiplier)
        dynamics = losses.latent_dynamics(there, back)
        loss = jnp.mean(push) + jnp.mean(local) + c.dynamics_weight * jnp.mean(dynamics)
        return loss, {
            "critic/loss": loss,
            "critic/push_distance": jnp.mean(far),
            "critic/step_distance": jnp.mean(step),
            "critic/arrival_distance": jnp.mean(arrival),
            "critic/local_excess": jnp.mean(excess),
            "critic/dynamics_loss": jnp.mean(dynamics),
        }

    def _actor_loss(self, parameters: tuple[Actor, Array], batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c, (actor, raw_weight) = self.config, parameters
        goal = training_goals(batch, c.commanded_share, c.actor_future_share)
        action, size, metrics = propose(actor, batch.observation, goal, key)
        reach = jnp.mean(self._distance_after(batch.observation, action, goal))
        loss = reach + c.mean_penalty * size
        metrics["actor/loss"] = reach
        # A term without weight would still be computed: each is one more pass through the policy.
        if c.entropy_weight:
            entropy = -actor.log_prob(batch.observation, goal, action)
            weight = c.entropy_weight * jnp.exp(raw_weight)
            loss += jnp.mean(losses.lagrangian(-batch.action.shape[-1] - entropy, weight))
            metrics |= {"actor/entropy": jnp.mean(entropy), "actor/entropy_weight": weight}
        if c.cloning_weight:
            log_prob = actor.log_prob(batch.observation, batch.future_goal, batch.action)
            loss += c.cloning_weight * jnp.mean(losses.cloning(log_prob))
        return loss, metrics

    def _distance_after(self, observation: Array, action: Array, goal: Array) -> Array:
        """The largest distance to the goal, over the members, from where the latent model says the action leads."""
        distances = [m.distance(m.predict(m.embed(observation), action), m.embed_goal(goal)) for m in self.critic]
        return jnp.max(jnp.stack(distances), axis=0)


def _member(key: Array, spec: EnvSpec, config: Config) -> QuasimetricCritic:
    c, (torso, state, goal) = config, critic_inputs(key, spec, config)
    return QuasimetricCritic(
        key,
        state,
        goal,
        spec.action_size,
        hidden=c.hidden,
        goal_hidden=c.goal_hidden,
        projector_hidden=c.projector_hidden,
        dynamics_hidden=c.dynamics_hidden,
        latent_size=c.latent_size,
        components=c.components,
        component_size=c.component_size,
        mrn=c.mrn,
        layer_norm=c.layer_norm,
        torso=torso,
    )


def _together(network: Callable[[Array], Array], *inputs: Array) -> list[Array]:
    """The outputs of a network for several batches of equal size, by one pass."""
    return jnp.split(network(jnp.concatenate(inputs)), len(inputs))
