"""Critics: how one is made for an environment, and what the contrastive agents do with theirs."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tdinfonce import losses
from tdinfonce.agents._actor import TORSO, improve, make_actor, propose
from tdinfonce.agents._goals import actor_goals
from tdinfonce.agents._inputs import Inputs
from tdinfonce.networks.actor import Actor, CategoricalActor, ClippedActor
from tdinfonce.networks.critic import ContrastiveCritic, logits, pair_logits, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner
from tdinfonce.networks.pixels import Torso, image_torso
from tdinfonce.networks.quasimetric import QuasimetricCritic
from tdinfonce.types import Batch, EnvSpec, Metrics

__all__ = [
    "OccupancyModel",
    "contrastive_learners",
    "critic_inputs",
    "maximise_logit",
    "quasimetric_critic",
    "recognise_futures",
    "td_metrics",
    "weight_entropy",
    "with_diagonal",
]


def critic_inputs(key: Array, spec: EnvSpec, config: Any) -> tuple[Torso | None, int, int]:
    """A critic's torso for images, and how long a state and a goal are for it: as they are, or as features."""
    torso = image_torso(jax.random.fold_in(key, TORSO), spec.image, config.torso)
    return (None, spec.observation_size, spec.goal_size) if torso is None else (torso, torso.size, torso.size)


def contrastive_learners(
    key: Array,
    spec: EnvSpec,
    config: Any,
    *,
    conditioned: bool = False,
    normalise: bool = False,
    temperature: float = 1.0,
) -> tuple[AveragedLearner[Actor], AveragedLearner[ContrastiveCritic]]:
    """A policy and a critic with the config's widths and rates; ``conditioned``: φ also sees the commanded goal."""
    actor_key, critic_key = jax.random.split(key)
    torso, state, goal = critic_inputs(critic_key, spec, config)
    critic = ContrastiveCritic(
        critic_key,
        state + spec.action_size + (goal if conditioned else 0),
        goal,
        torso=torso,
        hidden=config.hidden,
        goal_hidden=config.goal_hidden,
        representation_size=config.representation_size,
        members=config.critics,
        layer_norm=config.layer_norm,
        normalise=normalise,
        temperature=temperature,
    )
    actor = make_actor(actor_key, spec, config)
    policy = AveragedLearner.begin(actor, Adam(config.actor_rate), config.average_rate)
    return policy, AveragedLearner.begin(critic, Adam(config.critic_rate), config.average_rate)


def quasimetric_critic(key: Array, spec: EnvSpec, config: Any) -> QuasimetricCritic:
    """One quasimetric with the widths of the config."""
    torso, state, goal = critic_inputs(key, spec, config)
    names = "hidden", "goal_hidden", "projector_hidden", "dynamics_hidden", "latent_size", "components"
    options = {name: getattr(config, name) for name in (*names, "component_size", "mrn", "layer_norm")}
    return QuasimetricCritic(key, state, goal, spec.action_size, torso=torso, **options)


class OccupancyModel:
    """What agents share whose critic says how much likelier than by chance each place is in the discounted future."""

    inputs: Inputs
    actor: AveragedLearner[Actor]
    critic: AveragedLearner[ContrastiveCritic]

    chance: ClassVar[str] = "random_goal"
    """The field of a batch that places are likely by chance as: the law of the negatives."""
    told_goal: ClassVar[bool] = False
    """Whether the critic knows the commanded goal."""

    @classmethod
    def log_constant(cls, batch_size: int) -> float | None:
        """What makes a logit the log of the ratio; None: each row has a free constant, as InfoNCE leaves it."""
        return None

    def embed(self, observation: Array, action: Array, goal: Array) -> tuple[Array, ...]:
        """φ of raw inputs, for each member of the averaged critic; here the commanded goal does not matter."""
        return self.critic.average.embed(self.inputs.observation(observation), action)

    def embed_goal(self, place: Array) -> tuple[Array, ...]:
        """ψ of raw places, for each member of the averaged critic."""
        return self.critic.average.embed_goal(self.inputs.goal(place))

    def logits(self, observation: Array, action: Array, goal: Array, candidates: Array) -> Array:
        """The smallest logit of the members: rows are s, a and g, columns the candidates u."""
        return smallest(logits(self.embed(observation, action, goal), self.embed_goal(candidates)))

    def choose(self, observation: Array, goal: Array, key: Array, draws: int) -> tuple[Array, Array]:
        """Actions of the policy ``[K, B, action_size]`` and their probabilities ``[K, B]``: every discrete action, or
        so many draws.
        """
        state, target = self.inputs.observation(observation), self.inputs.goal(goal)
        if isinstance(self.actor.model, CategoricalActor):
            chance = jax.nn.softmax(self.actor.model(state, target))
            return jnp.broadcast_to(jnp.eye(chance.shape[1])[:, None], (chance.shape[1], *chance.shape)), chance.T
        keys = jax.random.split(key, draws)
        action = jax.vmap(lambda key: propose(self.actor.model, state, target, key).action)(keys)
        return action, jnp.full(action.shape[:2], 1 / draws)


def recognise_futures(
    critic: ContrastiveCritic, batch: Batch, loss: Callable[[Array], Array], *, learn_temperature: bool
) -> tuple[Array, Metrics]:
    """The loss of a Monte Carlo critic f(s, a, g): each row must know its own future among those of the batch.

    Args:
        critic: the model.
        batch: transitions with future goals.
        loss: of each row, from a square matrix of logits with the row's own future on the diagonal.
        learn_temperature: whether the temperature gets a gradient.
    """
    if not learn_temperature:
        critic = critic.with_fixed_temperature()
    future_logits = logits(critic.embed(batch.observation, batch.action), critic.embed_goal(batch.future_goal))
    mean = jnp.mean(jnp.stack([loss(x) for x in future_logits]))
    rows = len(batch.action)
    return mean, {
        "critic/loss": mean,
        "critic/accuracy": jnp.mean(jnp.argmax(future_logits[0], axis=1) == jnp.arange(rows)),
        "critic/positive_logit": jnp.mean(jnp.diagonal(future_logits[0])),
        "critic/temperature": jnp.exp(critic.log_temperature),
    }


def maximise_logit(
    actor: Actor, critic: ContrastiveCritic, batch: Batch, key: Array, config: Any
) -> tuple[Array, Metrics]:
    """The actor's loss of the critics f(s, a, g) that tie commanded and predicted goal, by the smallest logit."""
    goal = actor_goals(config).of(batch)

    def value(action: Array) -> Array:
        return smallest(pair_logits(critic.embed(batch.observation, action), critic.embed_goal(goal)))

    if isinstance(actor, ClippedActor):
        return improve(actor, value, batch, goal, config)
    policy = propose(actor, batch.observation, goal, key)
    reach = jnp.mean(policy.expected(lambda action: losses.maximise(value(action))))
    return reach + config.mean_penalty * policy.size, policy.metrics | {"actor/loss": reach}


def with_diagonal(table: Array, diagonal: ArrayLike) -> Array:
    """A square table with another diagonal."""
    return jnp.where(jnp.eye(len(table), dtype=bool), jnp.reshape(jnp.asarray(diagonal), (-1, 1)), table)


def weight_entropy(target_logits: Array) -> Array:
    """The entropy of each row's importance weights."""
    weights = losses.importance_weights(target_logits)
    return -jnp.sum(weights * jnp.log(weights + 1e-12), axis=1)


def td_metrics(loss: Array, next_logits: Array, entropy: Array, critic: ContrastiveCritic) -> Metrics:
    """What to watch while a critic learns by temporal differences; ``entropy`` is that of the importance weights."""
    rows = len(next_logits)
    return {
        "critic/loss": loss,
        "critic/next_accuracy": jnp.mean(jnp.argmax(next_logits, axis=1) == jnp.arange(rows)),
        "critic/weight_entropy": jnp.mean(entropy),
        "critic/temperature": jnp.exp(critic.log_temperature),
    }
