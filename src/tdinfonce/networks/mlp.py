"""The multi-layer perceptron: the only place that names an activation and an initialiser."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["ACTIVATIONS", "MLP"]

ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu}


class MLP(eqx.Module):
    """Linear layers with ReLU between them, or another activation; LeCun-uniform weights, zero biases. The last axis is
    the feature.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    layer_norm: bool = eqx.field(static=True)
    activate_last: bool = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        sizes: Sequence[int],
        *,
        layer_norm: bool = False,
        activate_last: bool = False,
        zero_last: bool = False,
        activation: str = "relu",
    ) -> None:
        """Make layers from ``sizes[0]`` inputs to ``sizes[-1]`` outputs; ``zero_last``: the output starts as zero."""
        bounds = [(3.0 / n) ** 0.5 for n in sizes[:-1]]
        if zero_last:
            bounds[-1] = 0.0
        shapes = list(itertools.pairwise(sizes))
        ends = list(itertools.accumulate(n * m for n, m in shapes))
        # One draw for all layers: each draw would be compiled by itself, which takes longer than the first updates.
        flat = jax.random.uniform(key, (ends[-1],), minval=-1.0, maxval=1.0)
        self.weights = tuple(
            flat[end - n * m : end].reshape(n, m) * bound
            for end, (n, m), bound in zip(ends, shapes, bounds, strict=True)
        )
        self.biases = tuple(jnp.zeros(n) for n in sizes[1:])
        self.layer_norm = layer_norm
        self.activate_last = activate_last
        self.activation = activation

    def __call__(self, *inputs: Array) -> Array:
        """Join the inputs along the last axis and run the layers."""
        x = jnp.concatenate(inputs, axis=-1) if len(inputs) > 1 else inputs[0]
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            if index < last or self.activate_last:
                x = ACTIVATIONS[self.activation](_standardise(x) if self.layer_norm else x)
        return x


def _standardise(x: Array) -> Array:
    """Layer norm without learned gain: the next linear layer can learn it."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + 1e-5)
