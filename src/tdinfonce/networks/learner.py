"""A model with what it learns by: its optimiser and, where one is wanted, its average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

__all__ = ["Adam", "AveragedLearner", "Learner", "copy", "descend_together", "polyak"]

Model = TypeVar("Model")
Metrics = dict[str, Any]
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


class AveragedLearner(Learner[Model]):
    """A model that learns, with its exponential moving average, which has less of the noise of the last steps: a policy
    acts by it when no exploration is wanted, and a critic answers by it.
    """

    average: Model
    average_rate: float = eqx.field(static=True)

    @classmethod
    def begin(cls, model: Model, optimiser: Adam, average_rate: float = 1.0) -> Self:
        """A model that has not learned yet."""
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
