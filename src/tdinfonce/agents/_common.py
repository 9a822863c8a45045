"""What several agents need: functions, no base class."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tdinfonce.types import Batch, EnvSpec, InputScale

__all__ = ["begin", "descend", "input_scale", "mix_goals", "polyak", "scale_batch", "scale_goal", "scale_observation"]

Model = TypeVar("Model")


def begin(model: Any, rate: float) -> Any:
    """A fresh Adam state for the arrays of a model."""
    return optax.adam(rate).init(eqx.filter(model, eqx.is_array))


def descend(model: Model, gradient: Any, state: Any, rate: float) -> tuple[Model, Any]:
    """One Adam step: the new model and the new optimiser state."""
    change, state = optax.adam(rate).update(gradient, state)
    return eqx.apply_updates(model, change), state


def polyak(target: Model, online: Model, rate: float) -> Model:
    """Move each array of the target by ``rate`` of its way to the online one."""

    def move(old: Any, new: Any) -> Any:
        return old + rate * (new - old) if eqx.is_array(old) else old

    return jax.tree.map(move, target, online)


def mix_goals(random: Array, future: Array, share: float) -> Array:
    """Future goals in the first ``share`` of the rows, random goals in the others (rows are independent draws)."""
    split = round(share * len(random))
    return jnp.concatenate([future[:split], random[split:]])


def input_scale(spec: EnvSpec, scale: InputScale | None, *, use: bool) -> InputScale:
    """The scale an agent keeps: the one it was given if it wants scaled inputs, otherwise one that changes nothing."""
    chosen = scale if use and scale is not None else InputScale.identity(spec)
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32), chosen)


def scale_observation(scale: InputScale, observation: Array) -> Array:
    """An observation in units of its standard deviation."""
    return _compress((observation - scale.observation_mean) / scale.observation_std)


def scale_goal(scale: InputScale, goal: Array) -> Array:
    """A goal in units of its standard deviation."""
    return _compress((goal - scale.goal_mean) / scale.goal_std)


def scale_batch(scale: InputScale, batch: Batch) -> Batch:
    """A batch whose observations and goals are scaled."""
    observations = {name: scale_observation(scale, getattr(batch, name)) for name in batch._fields if "observ" in name}
    goals = {name: scale_goal(scale, getattr(batch, name)) for name in batch._fields if name.endswith("goal")}
    return batch._replace(**observations, **goals)


def _compress(x: Array, knee: float = 5.0) -> Array:
    """Identity up to ±knee, logarithmic beyond.

    The first data hardly move some coordinates (the height of a block), so later values lie far outside; clipping
    would erase them.
    """
    excess = jnp.maximum(jnp.abs(x) - knee, 0.0)
    return jnp.clip(x, -knee, knee) + jnp.sign(x) * jnp.log1p(excess)
