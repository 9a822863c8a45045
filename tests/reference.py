"""The networks once more, in plain numpy and from their raw weights, and gradients by differences.

Nothing here calls a network, a loss or a goal mix of the package: a fault there cannot hide here.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.special import log_ndtr

__all__ = [
    "agree",
    "bends",
    "compress",
    "cross_entropy",
    "deterministic",
    "embeddings",
    "gaussian",
    "iqe",
    "log_density",
    "logits",
    "logsumexp",
    "mean_action",
    "mixed",
    "mlp",
    "mrn",
    "sigmoid",
    "softmax",
    "softplus",
    "transformer",
    "values",
    "weights",
]


def weights(tree: Any) -> Any:
    """The arrays of a model as double-precision copies that may be changed in place."""
    return jax.tree.map(lambda x: np.array(x, np.float64), eqx.filter(tree, eqx.is_inexact_array))


def agree(loss: Callable[[], float], model: Any, gradient: Any, *, sign: float = 1.0) -> None:
    """Assert that a gradient is that of a loss of the model's arrays, along random directions of each array."""
    rng = np.random.default_rng(0)
    pairs = list(zip(jax.tree.leaves(model), jax.tree.leaves(weights(gradient)), strict=True))
    size = np.sqrt(sum(np.sum(slope**2) for _, slope in pairs))
    assert size > 1e-4, "a loss without a gradient tells nothing"
    for array, slope in pairs:
        start = array.copy()
        for _ in range(6):
            direction = rng.normal(size=array.shape)
            direction /= np.linalg.norm(direction)
            ends = []
            for step in (1e-6, -1e-6):
                array[...] = start + step * direction
                ends.append(loss())
            array[...] = start
            difference = sign * (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(np.sum(slope * direction), difference, rtol=2e-3, atol=2e-4 * size)


def mlp(
    net: Any, *inputs: np.ndarray, norm: bool = False, activate_last: bool = False, gelu: bool = False
) -> np.ndarray:
    """Linear layers with ReLU between them, or with ``gelu`` that, standardised before it with ``norm``."""
    x = np.concatenate(inputs, axis=-1)
    for index, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        x = x @ weight + bias
        if index < len(net.weights) - 1 or activate_last:
            x = standardise(x) if norm else x
            bend = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
            x = x * (1 + bend) / 2 if gelu else np.maximum(x, 0)
    return x


def bends(c: Any) -> bool:
    """Whether an agent's networks have GELU between their layers; most have no such choice."""
    return getattr(c, "activation", "relu") == "gelu"


def standardise(x: np.ndarray) -> np.ndarray:
    """Mean 0, variance 1 (of five numbers after the point) over the last axis."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def compress(x: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Inputs in units of their standard deviation; beyond five of them, logarithmic."""
    z = (x - mean) / std
    return np.where(np.abs(z) <= 5, z, np.sign(z) * (5 + np.log(np.maximum(np.abs(z), 5) - 4)))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.logaddexp(0, x)


def logsumexp(x: np.ndarray) -> np.ndarray:
    """Over the columns of each row."""
    return np.log(np.exp(x).sum(1))


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the columns of each row."""
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Of each row."""
    return -(labels * np.log(softmax(logits))).sum(1)


def gaussian(actor: Any, observation: np.ndarray, goal: np.ndarray, c: Any) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale of a tanh-Gaussian policy before the squashing."""
    body = mlp(actor.body, observation, goal, norm=c.layer_norm, activate_last=True, gelu=bends(c))
    loc, raw = np.split(mlp(actor.heads, body), 2, -1)
    return loc, softplus(raw) + c.min_std


def mean_action(loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """MacKay's approximation of the mean of tanh(Normal)."""
    return np.tanh(loc / np.sqrt(1 + np.pi / 2 * scale**2))


def log_density(action: np.ndarray, loc: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Of a row's action under tanh(Normal(loc, scale)); beyond ±0.999 the tail's mass, spread evenly."""
    inside = np.clip(action, -0.999, 0.999)
    normal = -0.5 * ((np.arctanh(inside) - loc) / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
    tail = log_ndtr((np.sign(action) * loc - np.arctanh(0.999)) / scale) - np.log(0.001)
    return np.where(np.abs(action) >= 0.999, tail, normal - np.log(1 - inside**2)).sum(-1)


def deterministic(actor: Any, observation: np.ndarray, goal: np.ndarray, c: Any) -> np.ndarray:
    """The action of a policy without noise."""
    return np.tanh(mlp(actor.net, observation, goal, norm=c.layer_norm))


def deterministic_mean(actor: Any, observation: np.ndarray, goal: np.ndarray, c: Any) -> np.ndarray:
    """The mean of a clipped policy, before it is clipped."""
    return mlp(actor.net, observation, goal, norm=c.layer_norm)


def embeddings(
    towers: tuple[Any, ...], *inputs: np.ndarray, c: Any, normalise: bool, temperature: Any = 1.0
) -> list[np.ndarray]:
    """φ or ψ of each member, divided by the temperature."""
    found = [mlp(tower, *inputs, norm=c.layer_norm) for tower in towers]
    return [(x / np.linalg.norm(x, axis=1, keepdims=True) if normalise else x) / temperature for x in found]


def logits(left: list[np.ndarray], right: list[np.ndarray]) -> np.ndarray:
    """``[members, rows, columns]``."""
    return np.stack([np.einsum("ik,jk->ij", a, b) for a, b in zip(left, right, strict=True)])


def values(critic: Any, *inputs: np.ndarray, c: Any) -> np.ndarray:
    """``[members, rows]``, of a scalar critic."""
    return np.stack([mlp(tower, *inputs, norm=c.layer_norm, gelu=bends(c))[:, 0] for tower in critic.towers])


def mixed(batch: Any, counts: dict[str, int]) -> np.ndarray:
    """Goals of several kinds: so many rows of the first, then so many of the second, and so on."""
    kinds = np.repeat(list(counts), list(counts.values()))
    return np.stack([getattr(batch, kind)[row] for row, kind in enumerate(kinds)])


def iqe(head: Any, x: np.ndarray, y: np.ndarray, components: int) -> np.ndarray:
    """Lengths of unions of intervals from x to y, by a sweep, reduced to a mix of maximum and mean."""
    lengths = []
    for part in range(components):
        start, end = x[:, part::components], y[:, part::components]
        order = np.argsort(start, axis=1)
        start, end = np.take_along_axis(start, order, 1), np.take_along_axis(end, order, 1)
        covered, length = np.full(len(x), -np.inf), np.zeros(len(x))
        for column in range(start.shape[1]):
            length = length + np.maximum(end[:, column] - np.maximum(start[:, column], covered), 0)
            covered = np.maximum(covered, end[:, column])
        lengths.append(length)
    share = sigmoid(head.raw_share)
    return share * np.max(lengths, 0) + (1 - share) * np.mean(lengths, 0)


def mrn(head: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A Euclidean distance plus the largest coordinate that must be given up."""
    metric = np.sqrt(np.mean((mlp(head.symmetric, x) - mlp(head.symmetric, y)) ** 2, -1))
    return metric + np.maximum(mlp(head.asymmetric, x) - mlp(head.asymmetric, y), 0).max(-1)


def transformer(actor: Any, batch: Any, masks: list[np.ndarray], heads: int) -> np.ndarray:
    """The actions of a decision transformer; ``masks``: factors of the dropout, in the order in which it happens."""
    factors = iter(masks)
    rows, steps = batch.context_time.shape
    parts = mlp(actor.embed_return, batch.context_return[..., None]), mlp(actor.embed_state, batch.context_observation)
    tokens = np.stack([*parts, mlp(actor.embed_action, batch.context_action)], 2)
    tokens = tokens + actor.times[np.maximum(batch.context_time, 0)][:, :, None]
    x = standardise(tokens.reshape(rows, 3 * steps, -1)) * next(factors)
    seen = np.repeat(batch.context_time >= 0, 3, axis=1)
    for block in actor.blocks:
        x = x + mlp(block.join, _attention(block, standardise(x), seen, heads)) * next(factors)
        x = x + mlp(block.feed, standardise(x)) * next(factors)
    return np.tanh(mlp(actor.head, standardise(x)[:, 1::3]))


def _attention(block: Any, x: np.ndarray, seen: np.ndarray, heads: int) -> np.ndarray:
    """Each token looks at itself and those before; a padding that sees nobody gives answers that nobody reads."""
    length, width = x.shape[1:]
    query, key, value = np.split(mlp(block.mix, x), 3, axis=-1)
    hidden = ~(np.tri(length, dtype=bool) & seen[:, None, :])
    result = np.zeros_like(x)
    for head in np.split(np.arange(width), heads):
        score = np.einsum("bqd,bkd->bqk", query[..., head], key[..., head]) / np.sqrt(len(head))
        odds = np.exp(np.where(hidden, -1e3, score - np.max(score, -1, keepdims=True)))
        result[..., head] = odds / np.maximum(odds.sum(-1, keepdims=True), 1e-300) @ value[..., head]
    return result
