"""Processes whose future is known: what an estimator says of them can be held against the exact answer.

Each has a law of motion, a partition of its states into bins, and places to ask about. Probabilities are of the
discounted future: k ≥ 1 steps ahead with chance (1 - discount) · discount ** (k - 1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, pi, sqrt
from typing import Any, Protocol

import numpy as np

__all__ = ["PROCESSES", "DoubleWell", "OrnsteinUhlenbeck", "Pendulum", "Process", "Ring", "cut", "horizon"]

NEGLIGIBLE = 1e-5
"""Of the discounted future, what lies so far ahead is left out of sums."""
cdf = np.vectorize(lambda z: 0.5 * (1 + erf(z / sqrt(2))))


def horizon(discount: float) -> int:
    """So many steps ahead hold all of the discounted future but a negligible part."""
    return int(np.ceil(np.log(NEGLIGIBLE) / np.log(discount)))


def cut(series: np.ndarray, rows: int) -> list[np.ndarray]:
    """Pieces of so many rows; what is left at the end is dropped. Nothing tells which piece follows which."""
    return [series[i : i + rows] for i in range(0, len(series) - rows + 1, rows)]


class Process(Protocol):
    """A process in discrete time, in equilibrium."""

    @property
    def starts(self) -> np.ndarray:
        """``[starts, size]``, the states from which is asked."""
        ...

    @property
    def places(self) -> np.ndarray:
        """``[places, size]``."""
        ...

    @property
    def radius(self) -> float:
        """How near to a place is near."""
        ...

    def simulate(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series ``[rows, size]``."""
        ...

    def bin(self, states: np.ndarray) -> np.ndarray:
        """The number of the bin of each state."""
        ...

    def truth(self, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """The chance of being near each place, ``[starts, places]``, and in each bin, ``[starts, bins]``."""
        ...


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """x' = a x + sqrt(1 - a²) ε, with equilibrium N(0, 1). Truth: sums of normal distributions."""

    memory: float = 0.9
    starts = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    places = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    radius = 0.3
    edges = np.linspace(-3, 3, 25)

    def simulate(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series, as the protocol says."""
        noise = rng.normal(size=rows) * sqrt(1 - self.memory**2)
        return _recursion(rng.normal(), noise, lambda x: self.memory * x)[:, None]

    def bin(self, states: np.ndarray) -> np.ndarray:
        """Of equal width, the outer two open."""
        return np.digitize(states[:, 0], self.edges)

    def below(self, level: np.ndarray, discount: float) -> np.ndarray:
        """The chance of lying below each level, ``[starts, levels]``."""
        ahead = np.arange(1, horizon(discount) + 1)
        chance = (1 - discount) * discount ** (ahead - 1)
        mean = self.starts * self.memory**ahead
        spread = np.sqrt(1 - self.memory ** (2 * ahead))
        return np.stack([cdf((x - mean) / spread) @ chance for x in level], axis=1) / chance.sum()

    def truth(self, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """Exact."""
        return _of_levels(self, lambda level: self.below(level, discount))


@dataclass(frozen=True)
class DoubleWell:
    """x' = x + h (x - x³) + sqrt(2 h T) ε, wells at -1 and 1. Truth: a transition matrix on a fine grid."""

    step: float = 0.15
    temperature: float = 0.25
    cells: int = 1200
    starts = np.array([[-1.3], [-0.8], [0.0], [0.8], [1.3]])
    places = np.array([[-1.4], [-0.9], [0.0], [0.9], [1.4]])
    radius = 0.25
    edges = np.linspace(-1.8, 1.8, 25)

    def move(self, x: np.ndarray | float) -> np.ndarray | float:
        """Where it goes without noise."""
        return x + self.step * (x - x**3)

    def simulate(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series, as the protocol says."""
        noise = rng.normal(size=rows + 500) * sqrt(2 * self.step * self.temperature)
        return _recursion(rng.choice([-1.0, 1.0]), noise, self.move)[500:, None]

    def bin(self, states: np.ndarray) -> np.ndarray:
        """Of equal width, the outer two open."""
        return np.digitize(states[:, 0], self.edges)

    def truth(self, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """Exact but for the grid's width."""
        edge = np.linspace(-3, 3, self.cells + 1)
        spread = sqrt(2 * self.step * self.temperature)

        def into(x: np.ndarray) -> np.ndarray:
            rows = np.diff(cdf((edge - np.asarray(self.move(x))[:, None]) / spread), axis=1)
            return rows / rows.sum(axis=1, keepdims=True)

        matrix = into((edge[1:] + edge[:-1]) / 2)
        later = np.linalg.solve(np.eye(self.cells) - discount * matrix.T, (1 - discount) * into(self.starts[:, 0]).T).T
        total = np.concatenate([np.zeros((len(later), 1)), np.cumsum(later, axis=1)], axis=1)
        return _of_levels(self, lambda level: np.stack([np.interp(level, edge, row) for row in total]))


@dataclass(frozen=True)
class Ring:
    """A random walk on a circle with a drift, seen as (cos, sin). Truth: a Fourier series."""

    drift: float = 0.15
    spread: float = 0.3
    terms: int = 200
    radius = 0.4
    angles = np.arange(5) * 2 * pi / 5
    starts = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    places = np.stack([np.cos(angles + 0.5), np.sin(angles + 0.5)], axis=1)
    count = 24

    def simulate(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series, as the protocol says."""
        angle = rng.uniform(0, 2 * pi) + np.cumsum(self.drift + self.spread * rng.normal(size=rows))
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def bin(self, states: np.ndarray) -> np.ndarray:
        """Arcs of equal length."""
        turn = np.arctan2(states[:, 1], states[:, 0]) / (2 * pi) % 1
        return np.minimum((turn * self.count).astype(int), self.count - 1)

    def arc(self, begin: np.ndarray, end: np.ndarray, discount: float) -> np.ndarray:
        """The chance of each arc from an angle to a larger one, ``[starts, arcs]``."""
        order = np.arange(1, self.terms + 1)
        once = np.exp(1j * order * self.drift - (order * self.spread) ** 2 / 2)
        wave = (1 - discount) * once / (1 - discount * once)

        def integral(angle: np.ndarray) -> np.ndarray:
            turn = np.subtract.outer(self.angles, angle)[..., None]
            return np.real(wave * np.exp(1j * order * turn) / (-1j * order)).sum(axis=-1)

        return (end - begin) / (2 * pi) + (integral(end) - integral(begin)) / pi

    def truth(self, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """Exact."""
        reach = 2 * np.arcsin(self.radius / 2)
        edge = np.linspace(0, 2 * pi, self.count + 1)
        near = self.arc(self.angles + 0.5 - reach, self.angles + 0.5 + reach, discount)
        return near, self.arc(edge[:-1], edge[1:], discount)


@dataclass(frozen=True)
class Pendulum:
    """A damped pendulum that is kicked at random, seen as (cos, sin, speed). Truth: many simulations of each start."""

    step: float = 0.15
    damping: float = 0.3
    kick: float = 1.0
    copies: int = 8_000
    radius = 0.6
    _angle = np.array([0.0, 0.8, 1.6, -1.0, 3.0])
    _speed = np.array([0.0, 1.5, 0.0, -1.0, 0.0])
    starts = np.stack([np.cos(_angle), np.sin(_angle), _speed], axis=1)
    places = starts

    def move(self, angle: np.ndarray, speed: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step."""
        speed = speed - self.step * (np.sin(angle) + self.damping * speed) + self.kick * sqrt(self.step) * noise
        return angle + self.step * speed, speed

    def simulate(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series, as the protocol says."""
        angle, speed, found = np.zeros(1), np.zeros(1), []
        for noise in rng.normal(size=(rows + 500, 1)):
            angle, speed = self.move(angle, speed, noise)
            found.append((angle[0], speed[0]))
        angle, speed = np.array(found[500:]).T
        return np.stack([np.cos(angle), np.sin(angle), speed], axis=1)

    def bin(self, states: np.ndarray) -> np.ndarray:
        """Eight sectors of angle, with four ranges of speed each."""
        turn = np.arctan2(states[:, 1], states[:, 0]) / (2 * pi) % 1
        return np.minimum((turn * 8).astype(int), 7) * 4 + np.digitize(states[:, 2], (-1.0, 0.0, 1.0))

    def truth(self, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """By simulation; the standard error of a probability is below 0.006."""
        rng = np.random.default_rng(2024)
        angle, speed = (np.repeat(x, self.copies) for x in (self._angle, self._speed))
        start, count = np.repeat(np.arange(len(self._angle)), self.copies), len(self._angle)
        near, bins, left = np.zeros((count, len(self.places))), np.zeros(count * 32), 1.0
        for _ in range(horizon(discount)):
            angle, speed = self.move(angle, speed, rng.normal(size=angle.shape))
            states = np.stack([np.cos(angle), np.sin(angle), speed], axis=1)
            apart = np.square(states).sum(axis=1, keepdims=True) + np.square(self.places).sum(axis=1)
            close = apart - 2 * states @ self.places.T <= self.radius**2
            near += (1 - discount) * left * close.reshape(count, self.copies, -1).mean(axis=1)
            found = np.bincount(start * 32 + self.bin(states), minlength=count * 32)
            bins += (1 - discount) * left * found / self.copies
            left *= discount
        return near / (1 - left), bins.reshape(count, 32) / (1 - left)


PROCESSES: dict[str, Process] = {
    "ornstein-uhlenbeck": OrnsteinUhlenbeck(),
    "double-well": DoubleWell(),
    "ring": Ring(),
    "pendulum": Pendulum(),
}
"""By name."""


def _recursion(x: float, noise: np.ndarray, move: Callable[[Any], Any]) -> np.ndarray:
    found = np.empty(len(noise))
    for t, kick in enumerate(noise):
        x = move(x) + kick
        found[t] = x
    return found


def _of_levels(
    process: OrnsteinUhlenbeck | DoubleWell, below: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Chances of intervals from those of lying below a level."""
    place = process.places[:, 0]
    inside = below(process.edges)
    outer = np.zeros((len(inside), 1)), np.ones((len(inside), 1))
    near = below(place + process.radius) - below(place - process.radius)
    return near, np.diff(np.concatenate([outer[0], inside, outer[1]], axis=1), axis=1)
