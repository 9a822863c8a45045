"""QRL (quasimetric RL): learn the fewest steps from any state to any goal, and walk downhill.

The critic is a quasimetric: it obeys the triangle inequality by construction. Two rules make its distance the length
of a shortest path: a seen step costs at most one, and all other states, and goals, are pushed as far apart as that
allows. A goal is a point of its own, at distance zero from every state that achieves it, so that reaching a goal is
reaching the nearest such state. A latent model tells where an action leads, and the policy picks the action whose
outcome is nearest to the goal. There is no discount, no bootstrap and no target network; the dynamics must be
deterministic.

The actor sees the critic from before its step.
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
from tdinfonce.agents._actor import TANH, act, improve, make_actor, propose
from tdinfonce.agents._critic import quasimetric_critic
from tdinfonce.agents._goals import actor_goals, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor, ClippedActor
from tdinfonce.networks.learner import Adam, AveragedLearner, Learner, descend_together
from tdinfonce.networks.quasimetric import QuasimetricCritic
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["OFFLINE", "OFFLINE_TRAINING", "ONLINE_TRAINING", "PRESETS", "Agent", "Config"]


class Agent(eqx.Module):
    """Actor, quasimetric, and the weights of the constraints before they are made positive."""

    config: Config = eqx.field(static=True)
    key: Array
    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: Learner[tuple[QuasimetricCritic, ...]]
    multiplier: Learner[Array]
    """``[critics, 2]``: of the cost of steps, and of arrivals."""
    entropy_weight: Learner[Array]

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, each with the multipliers of its constraints."""
        key, actor_key = jax.random.split(self.key)
        batch = self.inputs.batch(batch)
        pairs = (self.critic, self.multiplier), (self.actor, self.entropy_weight)
        (critic, multiplier), critic_metrics = descend_together(pairs[0], self._critic_loss, batch)
        (actor, weight), actor_metrics = descend_together(pairs[1], self._actor_loss, batch, actor_key)
        new = replace(self, key=key, actor=actor, critic=critic, multiplier=multiplier, entropy_weight=weight)
        return new, critic_metrics | actor_metrics

    def _critic_loss(
        self, parameters: tuple[tuple[QuasimetricCritic, ...], Array], batch: Batch
    ) -> tuple[Array, Metrics]:
        critic, raw_multiplier = parameters
        multiplier = jax.nn.softplus(raw_multiplier)
        results = [self._member_loss(member, m, batch) for member, m in zip(critic, multiplier, strict=True)]
        rows, metrics = zip(*results, strict=True)
        return sum(rows), metrics[0]

    def _member_loss(self, member: QuasimetricCritic, multiplier: Array, batch: Batch) -> tuple[Array, Metrics]:
        c = self.config
        far, apart, step, arrival, there, back = member.distances(
            batch.observation, batch.action, batch.next_observation, batch.next_goal, batch.random_goal
        )
        # Goals may be a part of the state: pushed from goals alone, states that differ elsewhere would become one.
        away = jnp.concatenate([far, apart])
        push = losses.push_apart(away, offset=c.push_offset, sharpness=c.push_sharpness)
        # Two constraints: a step costs one, and from a state to what it achieves is no way at all.
        step_excess = losses.local_excess(step, 1.0, tolerance=c.local_tolerance)
        arrival_excess = losses.local_excess(arrival, 0.0, tolerance=c.local_tolerance)
        local = [losses.lagrangian(step_excess, multiplier[0]), losses.lagrangian(arrival_excess, multiplier[1])]
        dynamics = losses.latent_dynamics(there, back)
        loss = jnp.mean(push) + jnp.mean(jnp.concatenate(local)) + c.dynamics_weight * jnp.mean(dynamics)
        seen = {"push_distance": far, "step_distance": step, "arrival_distance": arrival}
        seen |= {"step_excess": step_excess, "arrival_excess": arrival_excess, "dynamics_loss": dynamics, "loss": loss}
        seen |= {"step_multiplier": multiplier[0], "arrival_multiplier": multiplier[1]}
        return loss, {f"critic/{name}": jnp.mean(value) for name, value in seen.items()}

    def _actor_loss(self, parameters: tuple[Actor, Array], batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c, (actor, raw_weight) = self.config, parameters
        goal = actor_goals(c).of(batch)
        if isinstance(actor, ClippedActor):
            return improve(actor, lambda a: -self._distance_after(batch.observation, a, goal), batch, goal, c)
        policy = propose(actor, batch.observation, goal, key)
        reach = jnp.mean(policy.expected(lambda action: self._distance_after(batch.observation, action, goal)))
        loss = reach + c.mean_penalty * policy.size
        metrics = policy.metrics | {"actor/loss": reach}
        # A term without weight would still be computed: each is one more pass through the policy.
        if c.entropy_weight:
            entropy = policy.expected(lambda action: -actor.log_prob(batch.observation, goal, action))
            weight = c.entropy_weight * jnp.exp(raw_weight)
            loss += jnp.mean(losses.lagrangian(policy.target_entropy - entropy, weight))
            metrics |= {"actor/entropy": jnp.mean(entropy), "actor/entropy_weight": weight}
        if c.cloning_weight:
            log_prob = actor.log_prob(batch.observation, batch.future_goal, batch.action)
            loss += c.cloning_weight * jnp.mean(losses.cloning(log_prob))
        return loss, metrics

    def _distance_after(self, observation: Array, action: Array, goal: Array) -> Array:
        """The largest distance to the goal, over the members, from where the latent model says the action leads."""
        members = self.critic.model
        distances = [m.distance(m.predict(m.embed(observation), action), m.embed_goal(goal)) for m in members]
        return jnp.max(jnp.stack(distances), axis=0)

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, actor_key, *keys) = config, jax.random.split(key, 2 + config.critics)
        actor = AveragedLearner.begin(make_actor(actor_key, spec, c), Adam(c.actor_rate), c.average_rate)
        critic = Learner.begin(tuple(quasimetric_critic(k, spec, c) for k in keys), Adam(c.critic_rate))
        # The inverse of softplus, in the form that large numbers survive.
        raw_multiplier = jnp.full((c.critics, 2), c.multiplier + jnp.log(-jnp.expm1(-c.multiplier)), jnp.float32)
        multiplier = Learner.begin(raw_multiplier, Adam(c.multiplier_rate))
        entropy_weight = Learner.begin(jnp.zeros(()), Adam(c.entropy_rate))
        inputs = Inputs.create(spec, scale, scaled=c.scale_inputs)
        return cls(c, key, inputs, actor, critic, multiplier, entropy_weight)

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode or mean of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy, mean=self.config.mean_action)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters; the defaults are the preset `fast`."""

    discount: float = fields.discount(0.95, "Of the geometric law of the actor's future goals.")
    hidden: tuple[int, ...] = fields.hidden((256, 256), "Hidden widths of the policy and of the encoder of states.")
    goal_hidden: tuple[int, ...] = fields.goal_hidden((128, 128), "Hidden widths of the encoder of goals.")
    projector_hidden: tuple[int, ...] = setting((64,), "Hidden widths between a latent point and the head.")
    dynamics_hidden: tuple[int, ...] = setting((128, 128), "Hidden widths of the latent model.")
    latent_size: int = fields.size(64, "Length of a latent point.")
    components: int = fields.size(16, "Components of the head, each the length of a union of intervals.")
    component_size: int = fields.size(4, "Intervals of a component.")
    mrn: bool = setting(False, "Whether the head is a metric residual network, not an interval quasimetric embedding.")
    critics: int = fields.critics(1, "Members of the critic's ensemble; the largest distance counts.")
    layer_norm: bool = fields.layer_norm(
        True, "Whether hidden layers are standardised; without it latent points grow until the action is lost in them."
    )
    torso: str = fields.torso("patches")
    critic_rate: float = fields.critic_rate(1e-3)
    multiplier_rate: float = setting(1e-2, "Learning rate of the multipliers; 0: they stay.", high=1)
    actor_rate: float = fields.actor_rate(1e-3)
    average_rate: float = fields.average_rate(0.002)
    scale_inputs: bool = fields.scale_inputs(True)
    multiplier: float = setting(1.0, "Of either local constraint, at the start; it is learned.", above=0, high=1e6)
    local_tolerance: float = setting(0.25, "How much longer than its cost a step may be (root mean square).", high=1e6)
    push_offset: float = setting(15.0, "Distances are pushed up to about here; must exceed the true ones.", high=1e6)
    push_sharpness: float = setting(0.1, "One over the width of the bend at the offset.", above=0, high=1e6)
    dynamics_weight: float = fields.weight(0.1, "Weight of the latent model's loss.")
    min_std: float = fields.min_std(0.1)
    mean_penalty: float = fields.mean_penalty(0.01)
    entropy_weight: float = fields.weight(
        0.0,
        "Of the policy's entropy at the start; learned to hold it at minus the action's dimensions (discrete: half of "
        "the largest, log(n) / 2). 0: no term.",
    )
    entropy_rate: float = setting(3e-4, "Learning rate of the entropy's weight; 0: it stays.", high=1)
    cloning_weight: float = fields.weight(
        0.0, "Weight of the log-likelihood of the stored actions; for data that the policy did not collect."
    )
    mean_action: bool = fields.mean_action(False)
    commanded_share: float = fields.commanded_share(0.4)
    actor_future_share: float = fields.actor_future_share(0.3)
    actor: str = fields.actor()
    actor_std: float = fields.actor_std()
    actor_uniform_share: float = fields.actor_uniform_share()
    sharpness: float = fields.sharpness(3.0)

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "actor_future_share", "actor_uniform_share", "commanded_share")

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the law of its goals."""
        steps = "observation", "action", "next_observation", "next_goal", "random_goal"
        cloned = ["future_goal"] if self.cloning_weight and self.actor == TANH else []
        return GoalSampling(self.discount, fields=reads(*steps, *cloned, actor_goals(self)))


PRESETS = {
    "fast": Config(),
    "paper": Config(
        **fields.PAPER | {"min_std": 1e-4},
        projector_hidden=(512,),
        dynamics_hidden=(512, 512),
        latent_size=128,
        components=64,
        component_size=32,
        critics=2,
        layer_norm=False,
        critic_rate=1e-4,
        actor_rate=3e-5,
        multiplier=0.01,
        entropy_weight=1.0,
        actor_future_share=0.5,
    ),
}
ONLINE_TRAINING = {"paper": {"exploration_noise": 0.3, "exploration_episodes": 1.0}}

FAR: Any = {"push_offset": 500.0, "push_sharpness": 0.01, "dynamics_weight": 1.0, "cloning_weight": 0.05}
OFFLINE = {
    "fast": Config(
        **FAR,
        discount=0.99,
        multiplier=100.0,
        multiplier_rate=0.1,
        mean_action=True,
        commanded_share=0.0,
        actor_future_share=0.5,
    ),
    "paper": replace(
        PRESETS["paper"],
        **FAR,
        hidden=(1024,) * 3,
        goal_hidden=(1024,) * 3,
        projector_hidden=(1024, 1024),
        dynamics_hidden=(1024,) * 3,
        latent_size=256,
        critic_rate=5e-4,
        entropy_weight=0.0,
        actor_future_share=0.0,
    ),
}
OFFLINE_TRAINING = {"paper": {"batch_size": 1024}}
