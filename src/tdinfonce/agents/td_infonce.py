"""TD InfoNCE (Algorithm 1): predict where the policy will be by temporal differences, and steer it to goals.

The critic f(s, a, g, u) = φ(s, a, g)·ψ(u) answers: acting in s with a and then following the policy for goal g, how
much likelier than by chance is the state u in the discounted future? Its positives are the next state (weight
1 - discount) and, weighted by the target critic at the next state, random states. The policy maximises the
log-probability of its own goal.

The actor sees the critic from before its step, as in the paper's release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce import losses
from tdinfonce.agents import _fields as fields
from tdinfonce.agents._actor import act, improve, propose
from tdinfonce.agents._critic import OccupancyModel, contrastive_learners, td_metrics, weight_entropy, with_diagonal
from tdinfonce.agents._goals import GoalMix, actor_goals, check_shares, reads
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor, ClippedActor
from tdinfonce.networks.critic import ContrastiveCritic, logits, pair_logits, smallest
from tdinfonce.networks.learner import AveragedLearner, copy, polyak
from tdinfonce.settings import Settings, setting
from tdinfonce.types import Batch, EnvSpec, GoalSampling, InputScale, Metrics

__all__ = ["EARLIER", "OFFLINE", "PRESETS", "Agent", "Config"]

NEVER = -1e9
"""A logit whose softmax is zero, and that zero times it is still zero."""


class Agent(OccupancyModel, eqx.Module):
    """Actor, critic and target critic."""

    config: Config = eqx.field(static=True)
    key: Array
    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: AveragedLearner[ContrastiveCritic]
    target: ContrastiveCritic

    told_goal: ClassVar[bool] = True

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One step of critic and actor on the same old parameters, then of the target."""
        key, critic_key, actor_key = jax.random.split(self.key, 3)
        batch = self.inputs.batch(batch)
        critic, critic_metrics = self.critic.descend(self._critic_loss, batch, critic_key)
        actor, actor_metrics = self.actor.descend(self._actor_loss, batch, actor_key)
        target = polyak(self.target, critic.model, self.config.target_rate)
        return replace(self, key=key, actor=actor, critic=critic, target=target), critic_metrics | actor_metrics

    def _critic_loss(self, critic: ContrastiveCritic, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c = self.config
        if not c.learn_temperature:
            critic = critic.with_fixed_temperature()
        goal = c.critic_goals.of(batch)
        policy = propose(self.actor.model, batch.bootstrap_observation, goal, key)

        rows, left = len(goal), critic.embed(batch.observation, batch.action, goal)
        right = critic.embed_goal(jnp.concatenate([batch.near_goal, batch.random_goal]))  # one pass of ψ
        near, random = tuple(r[:rows] for r in right), tuple(r[rows:] for r in right)
        random_logits = logits(left, random)
        if c.random_negatives:
            # A row's own goal is no draw by chance: its place is the positive's, and elsewhere it is left out.
            next_logits = tuple(map(with_diagonal, random_logits, pair_logits(left, near)))
            random_logits = tuple(with_diagonal(table, NEVER) for table in random_logits)
        else:
            next_logits = logits(left, near)

        def bootstrap(next_action: Array) -> tuple[list[Array], Array]:
            future = self.target.embed(batch.bootstrap_observation, next_action, goal)
            target_logits = smallest(logits(future, self.target.embed_goal(batch.random_goal)))
            target_logits = with_diagonal(target_logits, NEVER) if c.random_negatives else target_logits
            members, discount = zip(next_logits, random_logits, strict=True), batch.bootstrap_discount
            terms = [losses.td_infonce(x, u, target_logits, discount=discount) for x, u in members]
            return terms, weight_entropy(target_logits)

        terms, entropy = policy.expected(bootstrap)
        loss = jnp.mean(jnp.stack(terms))
        return loss, td_metrics(loss, next_logits[0], entropy, critic)

    def _actor_loss(self, actor: Actor, batch: Batch, key: Array) -> tuple[Array, Metrics]:
        c, critic = self.config, self.critic.model
        goal = actor_goals(c).of(batch)

        def miss(action: Array) -> Array:
            left = critic.embed(batch.observation, action, goal)
            return losses.goal_infonce(smallest(logits(left, critic.embed_goal(goal))))

        if isinstance(actor, ClippedActor):
            return improve(actor, lambda action: -miss(action), batch, goal, c)
        policy = propose(actor, batch.observation, goal, key)

        def judge(action: Array) -> tuple[Array, Array]:
            return miss(action), losses.cloning_error(action, batch.action)

        reach, error = map(jnp.mean, policy.expected(judge))
        clone = error * (batch.action.shape[-1] if c.cloning_sum else 1)
        loss = (1 - c.cloning_share) * reach + c.cloning_share * clone + c.mean_penalty * policy.size
        return loss, policy.metrics | {"actor/loss": reach, "actor/action_error": error}

    @classmethod
    def create(cls, key: Array, spec: EnvSpec, config: Config, scale: InputScale | None = None) -> Self:
        """A fresh agent."""
        c, (key, first) = config, jax.random.split(key)
        options: Any = {"normalise": c.normalise, "temperature": c.temperature}
        actor, critic = contrastive_learners(first, spec, c, conditioned=True, **options)
        return cls(c, key, Inputs.create(spec, scale, scaled=c.scale_inputs), actor, critic, copy(critic.model))

    def act(self, observation: Array, goal: Array, key: Array, *, greedy: bool = False) -> Array:
        """Sample an action, or take the mode of the averaged policy."""
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        return act(self.actor, state, target, key, greedy=greedy)

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs."""
        return replace(self, inputs=self.inputs.rescaled(scale))

    def embed(self, observation: Array, action: Array, goal: Array) -> tuple[Array, ...]:
        """φ of raw inputs, for each member of the averaged critic."""
        return self.critic.average.embed(self.inputs.observation(observation), action, self.inputs.goal(goal))

    def represent(self, observation: Array, action: Array, goal: Array) -> Array:
        """φ of raw inputs, one row each, with length one; of an ensemble, the first member's."""
        left = self.embed(observation, action, goal)[0]
        return left / jnp.linalg.norm(left, axis=-1, keepdims=True)


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
        "Ours: positives are among the next n states, the bootstrap behind them. 1 is the paper.",
        low=1,
        high=10**4,
    )
    monte_carlo_weight: float = fields.share(
        0.2,
        "Ours: share of rows (commanded first) with any later state as positive, and the bootstrap at the end of "
        "the episode. 0 is the paper.",
    )
    random_negatives: bool = setting(
        True,
        "Ours: positives compete with random states only, and a row's own goal is no candidate. False is the paper: "
        "with the positives of other rows.",
    )
    cloning_share: float = fields.share(
        0.0, "Offline: share λ of the squared distance to the stored actions; reaching goals weighs 1 - λ. 0 online."
    )
    cloning_sum: bool = setting(
        False, "Whether that distance is summed over dimensions, as in the paper, or averaged, as in its release."
    )
    actor: str = fields.actor()
    actor_std: float = fields.actor_std()
    actor_uniform_share: float = fields.actor_uniform_share()
    cloning_weight: float = fields.cloning_weight()
    sharpness: float = fields.sharpness(3.0)

    def check(self) -> None:
        """Refuse shares of more than the whole."""
        check_shares(self, "actor_future_share", "actor_uniform_share", "commanded_share")
        check_shares(self, "critic_future_share", "commanded_share")

    @property
    def critic_goals(self) -> GoalMix:
        """The goals that the critic is conditioned on."""
        return GoalMix("random_goal", commanded_goal=self.commanded_share, future_goal=self.critic_future_share)

    @property
    def sampling(self) -> GoalSampling:
        """The fields of a batch that this agent reads, and the laws of its goals."""
        steps = "observation", "action", "bootstrap_observation", "bootstrap_discount", "random_goal"
        names = reads(*steps, "near_goal", self.critic_goals, actor_goals(self))
        return GoalSampling(self.discount, self.n_step, whole_share=self.monte_carlo_weight, fields=names)


ESTIMATE: Any = {
    "goal_hidden": (256, 256),
    "critic_rate": 2e-3,
    "average_rate": 0.0005,
    "n_step": 1,
    "monte_carlo_weight": 0.0,
}
"""For probabilities that are right: positives that only the policy made, and a critic that learns fast and is averaged
long, of a policy that moves slowly."""
PRESETS = {
    "fast": Config(),
    "paper": Config(
        **fields.PAPER,
        target_rate=0.005,
        representation_size=16,
        critics=2,
        temperature=1.0,
        learn_temperature=False,
        critic_rate=3e-4,
        actor_rate=5e-5,
        actor_future_share=0.0,
        critic_future_share=0.0,
        n_step=1,
        monte_carlo_weight=0.0,
        random_negatives=False,
    ),
    "estimate": Config(**ESTIMATE, actor_rate=3e-4),
}
EARLIER = {"random_negatives": False}
"""What runs did whose version did not know a setting yet."""
OFFLINE_ACTOR: Any = {"actor_future_share": 1.0, "cloning_share": 0.1, "cloning_sum": True}
OFFLINE_PAPER = replace(PRESETS["paper"], **OFFLINE_ACTOR)
OFFLINE = {
    "fast": replace(
        PRESETS["fast"],
        **OFFLINE_ACTOR,
        discount=0.99,
        layer_norm=True,
        critic_future_share=0.0,
        commanded_share=0.0,
        n_step=25,
        monte_carlo_weight=0.0,
    ),
    "estimate": replace(PRESETS["estimate"], **OFFLINE_ACTOR, discount=0.99, layer_norm=True, commanded_share=0.0),
    "paper": OFFLINE_PAPER,
    "release": replace(
        OFFLINE_PAPER, hidden=(1024,) * 4, goal_hidden=(1024,) * 4, cloning_share=0.2, cloning_sum=False
    ),
}
