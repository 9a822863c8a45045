"""The inputs of networks, scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.types import Batch, EnvSpec, InputScale

__all__ = ["Inputs"]


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
