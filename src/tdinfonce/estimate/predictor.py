"""TD InfoNCE with a policy that is fixed, or none: where will the process be, from transitions alone.

The critic f(s, a, u) = φ(s, a)·ψ(u) answers: how much likelier than by chance is the state u in the discounted future
of s and a? There is no actor: the next action comes with the data, and a plain series has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from tdinfonce import losses
from tdinfonce.networks.critic import ContrastiveCritic, logits, pair_logits, smallest
from tdinfonce.networks.learner import Adam, AveragedLearner, copy, polyak
from tdinfonce.settings import Settings, setting

__all__ = ["Config", "Predictor", "Steps", "fit"]


class Predictor(eqx.Module):
    """A critic, its target and its average, by which it answers."""

    config: Config = eqx.field(static=True)
    key: Array
    critic: AveragedLearner[ContrastiveCritic]
    target: ContrastiveCritic

    def update(self, steps: Steps) -> tuple[Self, Array]:
        """One step of the critic on a batch of its own drawing, then of the target; also the loss."""
        key, draw = jax.random.split(self.key)
        critic, metrics = self.critic.descend(self._loss, steps, draw)
        target = polyak(self.target, critic.model, self.config.target_rate)
        return replace(self, key=key, critic=critic, target=target), metrics["loss"]

    def _loss(self, critic: ContrastiveCritic, steps: Steps, key: Array) -> tuple[Array, dict[str, Array]]:
        c = self.config
        batch = steps.draw(key, c)
        left = critic.embed(batch.state, batch.action)
        if steps.counts is not None:
            return self._whole_loss(critic, steps, batch, left)
        right = critic.embed_goal(jnp.concatenate([batch.near, batch.random]))
        near, random = tuple(r[: c.batch_size] for r in right), tuple(r[c.batch_size :] for r in right)
        # The positive competes with random states: it takes the place of the one that has its number.
        random_logits, own = logits(left, random), jnp.eye(c.batch_size, dtype=bool)
        pairs = zip(pair_logits(left, near), random_logits, strict=True)
        next_logits = [jnp.where(own, p[:, None], x) for p, x in pairs]
        future = self.target.embed(batch.later_state, batch.later_action)
        target_logits = smallest(logits(future, self.target.embed_goal(batch.random)))
        members = zip(next_logits, random_logits, strict=True)
        terms = [losses.td_infonce(x, u, target_logits, discount=batch.discount) for x, u in members]
        loss = jnp.mean(jnp.stack(terms))
        return loss, {"loss": loss}

    def _whole_loss(
        self, critic: ContrastiveCritic, steps: Steps, batch: Draw, left: tuple[Array, ...]
    ) -> tuple[Array, dict[str, Array]]:
        """The limit of many candidates: every state is one, as often as it is a random state."""
        future = self.target.embed(batch.later_state, batch.later_action)
        target_logits = smallest(logits(future, self.target.embed_goal(steps.place)))
        grouped = {"next_counts": steps.counts, "random_counts": steps.counts, "positive": batch.positive}
        members = logits(left, critic.embed_goal(steps.place))
        terms = [losses.td_infonce(x, x, target_logits, discount=batch.discount, **grouped) for x in members]
        loss = jnp.mean(jnp.stack(terms))
        return loss, {"loss": loss}

    @classmethod
    def create(cls, seed: int, steps: Steps, config: Config, critic: ContrastiveCritic | None = None) -> Self:
        """One that has not learned yet, or begins with what ``critic`` has learned."""
        key, first = jax.random.split(jax.random.PRNGKey(seed))
        critic = critic or ContrastiveCritic(
            first,
            steps.state.shape[1] + steps.action.shape[1],
            steps.place.shape[1],
            hidden=config.hidden,
            representation_size=config.representation_size,
            members=config.critics,
            temperature=config.temperature,
        )
        optimiser = Cosine(config.learning_rate, config.decay) if config.decay else Adam(config.learning_rate)
        learner = AveragedLearner.begin(critic, optimiser, 1e-9)
        return cls(config, key, learner, copy(critic))

    def logits(self, state: Array, action: Array, place: Array) -> Array:
        """f(s, a, u) of the averaged critic: rows are s and a, columns the places u."""
        critic = self.critic.average
        return smallest(logits(critic.embed(state, action), critic.embed_goal(place)))


@dataclass(frozen=True)
class Cosine(Adam):
    """Adam whose learning rate falls to 0 over a number of updates, as a half cosine."""

    updates: int

    def at(self, updates: Any) -> optax.GradientTransformation:
        """The step that follows so many updates."""
        done = jnp.minimum(jnp.asarray(updates, jnp.float32) / self.updates, 1)
        return optax.adam(self.rate * 0.5 * (1 + jnp.cos(jnp.pi * done)))


FOREVER = 10**6
"""Steps that a session makes in a state that it never leaves."""


class Draw(NamedTuple):
    """A batch."""

    state: Array
    action: Array
    near: Array
    random: Array
    later_state: Array
    later_action: Array
    discount: Array
    positive: Array
    """Which state `near` is."""


class Steps(NamedTuple):
    """Transitions on the device. Row r of the last four belongs to one moment; moments of one session are adjacent."""

    state: Array
    """``[states, state_size]``, scaled, each once."""
    place: Array
    """``[states, place_size]``, what is predicted of each: the state itself, or a part of it."""
    which: Array
    """``[rows]``, which state it was."""
    action: Array
    """``[rows, action_size]``, what was done then; of a plain series, of length 0."""
    policy_action: Array
    """``[draws, rows, action_size]``, what the policy would do then."""
    moment: Array
    """``[transitions]``, the rows that have a next one."""
    left: Array
    """``[transitions]``, how many later rows their session has."""
    absorbed: Array | None = None
    """``[transitions]``, whether their session stays in its last state for ever: then that state may be a moment."""
    counts: Array | None = None
    """``[states]``, how many transitions lead to each. Given: all states are candidates, and none has to be drawn."""

    def draw(self, key: Array, config: Config) -> Draw:
        """A batch: transitions and random states uniformly, near states by the truncated geometric law."""
        size, gamma = config.batch_size, config.discount
        first, near, other, policy = jax.random.split(key, 4)
        drawn = jax.random.randint(first, (size,), 0, len(self.moment))
        row, left = self.moment[drawn], self.left[drawn]
        lasting = left if self.absorbed is None else jnp.where(self.absorbed[drawn], FOREVER, left)
        steps = lasting if config.monte_carlo else jnp.minimum(lasting, config.n_step)
        mass = -jnp.expm1(steps * jnp.log(gamma)) if gamma > 0 else jnp.ones(size)
        ahead = jnp.log1p(-jax.random.uniform(near, (size,)) * mass) / jnp.log(gamma) if gamma > 0 else jnp.zeros(size)
        ahead = jnp.clip(1 + ahead.astype(jnp.int32), 1, steps)
        # A random state is any that is the next one of some transition: their law is the chance that ratios are of.
        other = jax.random.randint(other, (size,), 0, len(self.moment))
        random = self.moment[other] + jnp.minimum(self.left[other], 1)
        chosen = jax.random.randint(policy, (size,), 0, len(self.policy_action))
        ahead, later = jnp.minimum(ahead, left), row + jnp.minimum(steps, left)
        return Draw(
            self.state[self.which[row]],
            self.action[row],
            self.place[self.which[row + ahead]],
            self.place[self.which[random]],
            self.state[self.which[later]],
            self.policy_action[chosen, later],
            jnp.zeros(size) if config.monte_carlo else gamma ** steps.astype(jnp.float32),
            self.which[row + ahead],
        )


@dataclass(frozen=True)
class Config(Settings):
    """Hyper-parameters of a `Predictor`."""

    discount: float = setting(0.95, "Of the occupancy: 1 / (1 - discount) steps is the horizon.", below=1)
    monte_carlo: bool = setting(False, "Positives are any later states of the session, and nothing is bootstrapped.")
    n_step: int = setting(1, "Positives are among the next n states, the bootstrap behind them.", low=1, high=10**6)
    hidden: tuple[int, ...] = setting((128, 128), "Widths of the hidden layers of φ and ψ.")
    representation_size: int = setting(32, "Length of φ and ψ.", low=1, high=10**5)
    critics: int = setting(1, "Members of the ensemble.", low=1, high=100)
    temperature: float = setting(0.05, "Of the logits at first.", above=0, high=1e6)
    batch_size: int = setting(256, "Transitions of an update.", low=2, high=10**5)
    learning_rate: float = setting(1e-3, "Of Adam.", above=0, high=1)
    decay: int = setting(0, "Updates over which the learning rate falls to 0, as a half cosine; 0: it stays.")
    target_rate: float = setting(0.02, "How far the target moves to the critic at each update.", above=0, high=1)


@eqx.filter_jit(donate="all-except-first")
def _updates(steps: Steps, predictor: Predictor, count: int) -> tuple[Predictor, Array]:
    arrays, static = eqx.partition(predictor, eqx.is_array)

    def step(arrays: Any, _: None) -> tuple[Any, Array]:
        new, loss = eqx.combine(arrays, static).update(steps)
        return eqx.filter(new, eqx.is_array), loss

    arrays, loss = jax.lax.scan(step, arrays, None, length=count)
    return eqx.combine(arrays, static), loss


def fit(predictor: Predictor, steps: Steps, updates: int) -> tuple[Predictor, np.ndarray]:
    """So many updates; also the loss of each."""
    predictor, loss = _updates(steps, predictor, updates)
    return predictor, np.asarray(loss)
