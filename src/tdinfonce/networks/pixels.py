"""Image torsos: what turns a uint8 image into features. Networks that get images hold one.

A convolution is written as a matrix product of patches, which a CPU differentiates faster than a convolution.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["TORSOS", "Torso", "image_torso", "patches", "see"]

TORSOS = {"conv": ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "patches": ((32, 8, 8), (64, 2, 2))}
"""Filters, kernel and stride of each layer. `conv` is the paper's; `patches`, ours, looks at each pixel once and takes
a twelfth of the arithmetic."""


class Torso(eqx.Module):
    """Convolutions with ReLU behind each, then flattened; pixels become 0 to 1.

    Weights are truncated normal with standard deviation 1/sqrt(fan-in), biases zero, padding as much as gives an output
    of ceil(input / stride).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    layers: tuple[tuple[int, int, int], ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, key: Array, image: tuple[int, int, int], layers: tuple[tuple[int, int, int], ...]) -> None:
        """Make a torso for images of a height, width and number of channels; ``size`` is its number of features."""
        height, width, channels = image
        weights = []
        for each, (filters, kernel, stride) in zip(jax.random.split(key, len(layers)), layers, strict=True):
            inputs = kernel * kernel * channels
            drawn = jax.random.truncated_normal(each, -2.0, 2.0, (inputs, filters)) / UNIT
            weights.append(drawn * inputs**-0.5)
            height, width, channels = -(-height // stride), -(-width // stride), filters
        self.weights = tuple(weights)
        self.biases = tuple(jnp.zeros(filters) for filters, _, _ in layers)
        self.layers = layers
        self.size = height * width * channels

    def __call__(self, image: Array) -> Array:
        """Features of one image or of a batch, ``[..., size]``."""
        x = image
        for weight, bias, (_, kernel, stride) in zip(self.weights, self.biases, self.layers, strict=True):
            x = patches(x, kernel, stride)
            if x.dtype == jnp.uint8:  # only now: patches of bytes are four times as cheap
                x = x.astype(jnp.float32) * np.float32(1 / 255)
            x = jax.nn.relu(x @ weight + bias)
        return x.reshape(*x.shape[:-3], -1)


UNIT = 0.87962566
"""Standard deviation of a standard normal cut off at ±2."""


def patches(x: Array, kernel: int, stride: int) -> Array:
    """What a convolution sees at each place, ``[..., height, width, kernel * kernel * channels]``.

    The kernel must be a multiple of the stride: then a patch is a few neighbours of a grid of blocks that do not overlap.
    Within a patch, blocks come row by row, and within a block pixels do.
    """
    if kernel % stride:
        raise ValueError(f"the kernel must be a multiple of the stride; got {kernel} and {stride}")
    high, wide = (-(-n // stride) for n in x.shape[-3:-1])
    missing = [max((n - 1) * stride + kernel - m, 0) for n, m in zip((high, wide), x.shape[-3:-1], strict=True)]
    before = [(0, 0)] * (x.ndim - 3)
    if any(missing):
        x = jnp.pad(x, [*before, *((m // 2, m - m // 2) for m in missing), (0, 0)])
    lead, channels, reach = x.shape[:-3], x.shape[-1], kernel // stride
    rows, columns = high + reach - 1, wide + reach - 1
    blocks = x[..., : rows * stride, : columns * stride, :].reshape(*lead, rows, stride, columns, stride, channels)
    grid = jnp.swapaxes(blocks, -4, -3).reshape(*lead, rows, columns, stride * stride * channels)
    if reach == 1:
        return grid
    neighbours = [grid[..., i : i + high, j : j + wide, :] for i in range(reach) for j in range(reach)]
    return jnp.concatenate(neighbours, axis=-1)


def image_torso(key: Array, image: tuple[int, int, int] | None, kind: str, *, stacked: int = 1) -> Torso | None:
    """The torso of a kind for ``stacked`` images, one upon the other; None where there are no images."""
    if image is None:
        return None
    height, width, channels = image
    return Torso(key, (height, width, stacked * channels), TORSOS[kind])


def see(torso: Torso | None, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """The inputs with features in the place of images; vectors stay as they are."""
    return tuple(x if torso is None or x.dtype != jnp.uint8 else torso(x) for x in inputs)
