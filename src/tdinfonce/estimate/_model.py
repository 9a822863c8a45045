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
        low, centre, high = np.quantile(rows, (0.1, 0.5, 0.9), axis=0)
        deviation = rows.std(axis=0)
        spread = (high - low) / 2.563
        rare = spread <= 1e-3 * deviation
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


def _tower(layers: Layers, x: np.ndarray) -> np.ndarray:
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    x = x @ layers[-1][0] + layers[-1][1]
    return x / np.sqrt(np.sum(np.square(x), axis=1, keepdims=True) + 1e-12)
