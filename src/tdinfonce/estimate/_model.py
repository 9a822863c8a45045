"""What a fitted `TDInfoNCE` answers by: two towers and the scale of their input, in plain NumPy.

Answering needs no JAX, hence no compiling for each new number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

__all__ = ["Model", "Scale"]

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights and biases."""
KNEE = 5.0


@dataclass(frozen=True)
class Scale:
    """What columns are divided by after their centre is subtracted."""

    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Self:
        """From the middle 80 % of each column, so that a few wild values do not squeeze the others together; from all
        of it if that is constant. A normal law gets its mean and standard deviation.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            low, centre, high = np.quantile(rows, (0.1, 0.5, 0.9), axis=0)
            deviation = rows.std(axis=0)
            spread = (high - low) / 2.563
        rare = spread == 0
        centre, spread = np.where(rare, rows.mean(axis=0), centre), np.where(rare, deviation, spread)
        return cls(centre, np.where(spread > 0, spread, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows as the towers see them: linear up to 5 deviations, logarithmic beyond."""
        x = (rows - self.centre) / self.spread
        return np.clip(x, -KNEE, KNEE) + np.sign(x) * np.log1p(np.maximum(np.abs(x) - KNEE, 0.0))


@dataclass(frozen=True)
class Model:
    """f(s, u) = φ(s)·ψ(u) / temperature."""

    scale: Scale
    left: Layers
    right: Layers
    temperature: float

    def embed(self, rows: np.ndarray) -> np.ndarray:
        """φ of each row, of length 1."""
        return _tower(self.left, self.scale(rows))

    def embed_place(self, rows: np.ndarray) -> np.ndarray:
        """ψ of each row, divided by the temperature: its product with φ is the logit."""
        return _tower(self.right, self.scale(rows)) / self.temperature

    @classmethod
    def of_critic(cls, scale: Scale, critic: Any) -> Self:
        """From a `ContrastiveCritic` of one member."""
        left, right = (
            [(np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in zip(t.weights, t.biases, strict=True)]
            for t in (critic.left[0], critic.right[0])
        )
        return cls(scale, left, right, float(np.exp(critic.log_temperature)))

    def fill(self, critic: Any) -> Any:
        """A critic of the same sizes with these weights."""
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        def nodes(c: Any) -> list[Any]:
            return [c.left[0].weights, c.left[0].biases, c.right[0].weights, c.right[0].biases, c.log_temperature]

        layers = [part for tower in (self.left, self.right) for part in zip(*tower, strict=True)]
        weights = jax.tree.map(lambda x: jnp.array(x, jnp.float32), [*layers, np.log(self.temperature)])
        return eqx.tree_at(nodes, critic, weights)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it by name."""
        found = {"centre": self.scale.centre, "spread": self.scale.spread, "temperature": np.array([self.temperature])}
        for side, layers in (("left", self.left), ("right", self.right)):
            for i, (weight, bias) in enumerate(layers):
                found |= {f"{side}.{i}.weight": weight, f"{side}.{i}.bias": bias}
        return found

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray], features: int) -> Self:
        """What `arrays` wrote; raises KeyError or ValueError if it is something else."""
        left, right = (_layers(arrays, side, features) for side in ("left", "right"))
        if left[-1][1].shape != right[-1][1].shape:
            raise ValueError("its representations differ in length")
        scale = Scale(_shaped(arrays, "centre", (features,)), _shaped(arrays, "spread", (features,)))
        temperature = float(_shaped(arrays, "temperature", (1,))[0])
        if not temperature > 0 or not (scale.spread > 0).all():
            raise ValueError("temperature and spread must be positive")
        return cls(scale, left, right, temperature)


def _layers(arrays: dict[str, np.ndarray], side: str, width: int) -> Layers:
    count = sum(name.startswith(f"{side}.") for name in arrays) // 2
    found: Layers = []
    for i in range(max(count, 1)):
        bias = arrays[f"{side}.{i}.bias"]
        weight = _shaped(arrays, f"{side}.{i}.weight", (width, bias.size))
        found.append((weight, _shaped(arrays, f"{side}.{i}.bias", (bias.size,))))
        width = bias.size
    return found


def _shaped(arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = arrays[name]
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers of shape {list(shape)}; its shape is {list(array.shape)}")
    return array


def _tower(layers: Layers, x: np.ndarray) -> np.ndarray:
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    x = x @ layers[-1][0] + layers[-1][1]
    return x / np.sqrt(np.sum(np.square(x), axis=1, keepdims=True) + 1e-12)
