"""A model with what it learns by: its optimiser and, of a policy, its average; and the inputs of networks, scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce.types import Batch, EnvSpec, InputScale, Metrics

__all__ = ["Adam", "Inputs", "Learner", "PolicyLearner", "copy", "descend_together", "polyak"]

Model = TypeVar("Model")
Loss = Callable[..., tuple[Array, Metrics]]
"""Of a model and other arguments: one number, and what to log."""


@dataclass(frozen=True)
class Adam:
    """Adam with a constant learning rate. A value, so that two agents of one config run the same program."""

    rate: float

    def at(self, updates: Any) -> optax.GradientTransformation:
        """The step that follows so many updates; subclasses change it, but not the shape of its state."""
        return optax.adam(self.rate)


class Learner(eqx.Module, Generic[Model]):
    """A model and the state of its optimiser."""

    model: Model
    state: Any
    optimiser: Adam = eqx.field(static=True)

    @classmethod
    def begin(cls, model: Model, optimiser: Adam) -> Self:
        """A model that has not learned yet."""
        return cls(model, optimiser.at(0).init(eqx.filter(model, eqx.is_array)), optimiser)

    @property
    def updates(self) -> Array:
        """How many steps it has made."""
        return optax.tree_utils.tree_get(self.state, "count")

    def descend(self, loss: Loss, *args: Any) -> tuple[Self, Metrics]:
        """One step down the gradient of ``loss(model, *args)``; also what the loss logs."""
        gradient, metrics = eqx.filter_grad(loss, has_aux=True)(self.model, *args)
        return self.step(gradient), metrics

    def step(self, gradient: Any) -> Self:
        """One step of the optimiser."""
        optimiser = self.optimiser.at(self.updates)
        change, state = optimiser.update(gradient, self.state, eqx.filter(self.model, eqx.is_array))
        return replace(self, model=eqx.apply_updates(self.model, change), state=state)


class PolicyLearner(Learner[Model]):
    """A policy that learns, with its exponential moving average, which acts when no exploration is wanted."""

    average: Model
    average_rate: float = eqx.field(static=True)

    @classmethod
    def begin(cls, model: Model, optimiser: Adam, average_rate: float = 1.0) -> Self:
        """A policy that has not learned yet."""
        learner = Learner.begin(model, optimiser)
        return cls(learner.model, learner.state, optimiser, copy(model), average_rate)

    def step(self, gradient: Any) -> Self:
        """One step of the optimiser, then of the average: faster at first, so that it forgets the beginning (iterate k
        weighs about as k³), and by the average's rate once that is larger.
        """
        new = super().step(gradient)
        rate = jnp.maximum(self.average_rate, 4.0 / (new.updates + 3))
        return replace(new, average=polyak(self.average, new.model, rate))


def descend_together(learners: tuple[Learner, ...], loss: Loss, *args: Any) -> tuple[Any, Metrics]:
    """One step of each learner down the gradient of ``loss(models, *args)``."""
    models = tuple(learner.model for learner in learners)
    gradients, metrics = eqx.filter_grad(loss, has_aux=True)(models, *args)
    return tuple(learner.step(gradient) for learner, gradient in zip(learners, gradients, strict=True)), metrics


def polyak(target: Model, online: Model, rate: float | Array) -> Model:
    """Move each array of the target by ``rate`` of its way to the online one."""

    def move(old: Any, new: Any) -> Any:
        return old + rate * (new - old) if eqx.is_array(old) else old

    return jax.tree.map(move, target, online)


def copy(model: Model) -> Model:
    """A model with its own arrays: two names for one buffer could not be donated."""
    return jax.tree.map(lambda x: jnp.copy(x) if eqx.is_array(x) else x, model)


class Inputs(eqx.Module):
    """Observations and goals as the networks see them: in units of their standard deviation, or as they are."""

    scale: InputScale
    scaled: bool = eqx.field(static=True)

    @classmethod
    def create(cls, spec: EnvSpec, scale: InputScale | None, *, scaled: bool) -> Self:
        """Keep ``scale`` if the inputs are to be scaled, otherwise one that changes nothing."""
        return cls(_as_arrays(scale if scaled and scale is not None else InputScale.identity(spec)), scaled)

    def rescaled(self, scale: InputScale) -> Self:
        """With another scale, if the inputs are scaled at all."""
        return replace(self, scale=_as_arrays(scale)) if self.scaled else self

    def observation(self, x: Array) -> Array:
        """Observations as the networks see them."""
        return self._seen(x, self.scale.observation_mean, self.scale.observation_std)

    def goal(self, x: Array) -> Array:
        """Goals as the networks see them."""
        return self._seen(x, self.scale.goal_mean, self.scale.goal_std)

    def batch(self, batch: Batch) -> Batch:
        """A batch whose observations and goals are as the networks see them."""
        drawn = {name: value for name, value in batch._asdict().items() if value is not None}
        observations = {name: self.observation(value) for name, value in drawn.items() if "observ" in name}
        goals = {name: self.goal(value) for name, value in drawn.items() if name.endswith("goal")}
        return batch._replace(**observations, **goals)

    def _seen(self, x: Array, mean: Array, std: Array) -> Array:
        return _compress((x - mean) / std) if self.scaled and x.dtype != jnp.uint8 else x


def _as_arrays(scale: InputScale) -> InputScale:
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32), scale)


def _compress(x: Array, knee: float = 5.0) -> Array:
    """Identity up to ±knee, logarithmic beyond.

    The first data hardly move some coordinates (the height of a block), so later values lie far outside; clipping
    would erase them.
    """
    excess = jnp.maximum(jnp.abs(x) - knee, 0.0)
    return jnp.clip(x, -knee, knee) + jnp.sign(x) * jnp.log1p(excess)
