"""Image torsos: what turns a uint8 image into features. Networks that get images hold one.

A convolution is written as patches times a matrix, so that its gradient is a matrix product too.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["TORSOS", "Torso", "image_torso", "patches", "see", "shrink"]


class Plan(NamedTuple):
    """How a torso is built."""

    shrink: int
    """Squares of so many pixels a side are averaged first; 1: none."""
    layers: tuple[tuple[int, int, int], ...]
    """Filters, kernel and stride of each."""


TORSOS = {
    "conv": Plan(1, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    "patches": Plan(2, ((32, 4, 4), (64, 2, 2), (64, 4, 4))),
}
"""`conv` is the paper's. `patches` is ours: each layer looks at each of its inputs once, which takes a twentieth of the
arithmetic, and a 64x64 image becomes 64 features instead of 4096, which spares the networks behind it."""


class Torso(eqx.Module):
    """Convolutions with ReLU behind each, then flattened; pixels become 0 to 1.

    Weights are truncated normal with standard deviation 1/sqrt(fan-in), biases zero, padding as much as gives an output
    of ceil(input / stride).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    plan: Plan = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, key: Array, image: tuple[int, int, int], plan: Plan) -> None:
        """Make a torso for images of a height, width and number of channels; ``size`` is its number of features."""
        height, width, channels = image[0] // plan.shrink, image[1] // plan.shrink, image[2]
        weights, keys = [], jax.random.split(key, len(plan.layers))
        for each, (filters, kernel, stride) in zip(keys, plan.layers, strict=True):
            inputs = kernel * kernel * channels
            drawn = jax.random.truncated_normal(each, -2.0, 2.0, (inputs, filters)) / UNIT
            weights.append(drawn * inputs**-0.5)
            height, width, channels = -(-height // stride), -(-width // stride), filters
        self.weights = tuple(weights)
        self.biases = tuple(jnp.zeros(filters) for filters, _, _ in plan.layers)
        self.plan = plan
        self.size = height * width * channels

    def __call__(self, image: Array) -> Array:
        """Features of one image or of a batch, ``[..., size]``."""
        x = shrink(image, self.plan.shrink)
        for weight, bias, (_, kernel, stride) in zip(self.weights, self.biases, self.plan.layers, strict=True):
            x = jax.nn.relu(patches(x, kernel, stride) @ weight + bias)
        return x.reshape(*x.shape[:-3], -1)


UNIT = 0.87962566
"""Standard deviation of a standard normal cut off at ±2."""


def shrink(image: Array, side: int) -> Array:
    """The mean of each square of pixels, from 0 to 1; what is left over at the lower and right edges is cut off."""
    high, wide = image.shape[-3] // side, image.shape[-2] // side
    cut = image[..., : high * side, : wide * side, :]
    squares = cut.reshape(*image.shape[:-3], high, side, wide, side, image.shape[-1])
    total = sum(squares[..., i, :, j, :].astype(jnp.uint16) for i in range(side) for j in range(side))
    return jnp.asarray(total).astype(jnp.float32) * np.float32(1 / (255 * side * side))


def patches(x: Array, kernel: int, stride: int) -> Array:
    """What a convolution sees at each place, ``[..., height, width, kernel * kernel * channels]``.

    The kernel must be a multiple of the stride: then a patch is a few neighbours in a grid of blocks. Within a patch,
    blocks come row by row, and within a block pixels do.
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
