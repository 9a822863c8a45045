"""Where it will go: a discounted occupancy, as weights of candidate states. Every estimator answers with this."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["Estimate", "Information", "Occupancy", "check_prior"]


class Estimate(NamedTuple):
    """A number, or one for each start and function, with its standard error."""

    mean: Any
    standard_error: Any
    """From the finite number of candidates alone: it knows nothing of what the critic has not learned."""


class Information(NamedTuple):
    """A lower bound of a mutual information, in nats. With few candidates it cannot say much: see `ceiling`."""

    mean: float
    standard_error: float
    """Of the bound, which may lie far below the information itself."""
    candidates: int
    """Among how many the true one had to be found."""

    @property
    def ceiling(self) -> float:
        """The most that the bound can be: the logarithm of the candidates."""
        return math.log(self.candidates)

    def __repr__(self) -> str:
        """The bound, and what it cannot exceed."""
        return (
            f"<at least {self.mean:.3f} ± {self.standard_error:.3f} nats; with {self.candidates:,} candidates this "
            f"bound cannot exceed log {self.candidates:,} = {self.ceiling:.3f}>"
        )


@dataclass(frozen=True)
class Occupancy:
    """The law of a later state: k steps ahead with chance (1 - discount) · discount ** (k - 1).

    ``weights[..., i]`` is the chance of ``candidates[i]``, which stands for all that is like it. Of a batch of starts
    there is one row of weights for each, and every answer has one entry for each.

    >>> line = Occupancy(np.array([[0.0], [1.0], [2.0]]), np.array([0.5, 0.25, 0.25]), 0.9)
    >>> line.probability(near=[0.0], radius=1.5)
    0.75
    >>> line.expectation(lambda place: place[:, 0])
    0.75
    """

    candidates: np.ndarray
    """``[N, *shape]``, places in the units of the data."""
    weights: np.ndarray
    """``[N]`` or ``[starts, N]``; rows sum to 1."""
    discount: float
    mass: Any = None
    """What the weights summed to before they were normalised, where the critic says: 1 if it is consistent."""

    @classmethod
    def of_logits(
        cls, candidates: np.ndarray, logits: Any, discount: float, *, prior: Any = None, normalised: bool = False
    ) -> Self:
        """Weigh candidates by how much likelier than by chance each is.

        Args:
            candidates: draws from the states that are likely by chance, or any others with their ``prior``.
            logits: ``[N]`` or ``[starts, N]``, in the log.
            discount: of the occupancy.
            prior: ``[N]``, how many of those states each candidate stands for; default: as many each.
            normalised: whether the critic fixes the constant, so that ``mass`` says something.
        """
        logits = np.asarray(logits, np.float64)
        count = np.ones(len(candidates)) if prior is None else np.asarray(prior, np.float64)
        check_prior(count, len(candidates))
        top = logits.max(axis=-1, keepdims=True)
        weights = np.exp(logits - top) * (count / count.sum())
        total = weights.sum(axis=-1, keepdims=True)
        mass = (total * np.exp(np.minimum(top, 700)))[..., 0] if normalised else None
        return cls(candidates, weights / total, discount, mass)

    def probability(self, near: Any, radius: float) -> Any:
        """The chance of being within ``radius`` of a place, by Euclidean distance; of several places, one for each."""
        shape = self.candidates.shape[1:]
        place = np.asarray(near, np.float64)
        if shape == (1,) and place.shape[-1:] != (1,):
            place = place[..., None]  # numbers, where a place is one number
        if place.shape[place.ndim - len(shape) :] != shape or not np.isfinite(place).all():
            raise UserError(f"near must be a place of shape {list(shape)}, or several; got shape {list(place.shape)}")
        if not radius > 0:
            raise UserError(f"radius must be positive; got {radius}")
        places = place.reshape(-1, int(np.prod(shape)))
        flat = self.candidates.reshape(len(self.candidates), -1).astype(np.float64)
        inside = np.stack([np.linalg.norm(flat - p, axis=1) <= radius for p in places], axis=1)
        chance = (self.weights @ inside).reshape(self.weights.shape[:-1] + place.shape[: place.ndim - len(shape)])
        return _number(chance)

    def expectation(self, function: Callable[[np.ndarray], Any]) -> Any:
        """The mean of a function of the state. It is called once with all candidates, and returns one number for each,
        or several.
        """
        return _number(self.weights @ self._values(function))

    def estimate(self, function: Callable[[np.ndarray], Any]) -> Estimate:
        """The mean of a function of the state, with its standard error."""
        return self._weigh(self._values(function))

    def value(self, reward: Callable[[np.ndarray], Any]) -> Estimate:
        """The expected discounted sum of a reward of the states to come, beginning with the next one.

        Args:
            reward: called once with all candidates; one number for each, or several: then as many values.
        """
        return Estimate(*(_number(x / (1 - self.discount)) for x in self._weigh(self._values(reward))))

    def sample(self, count: int, *, seed: int = 0) -> np.ndarray:
        """Draw ``count`` later states; of a batch of starts, as many for each."""
        if count < 1:
            raise UserError(f"count must be at least 1; got {count}")
        uniform = np.random.default_rng(seed).random((*self.weights.shape[:-1], count))
        edges = np.cumsum(self.weights, axis=-1)
        rows, draws = edges.reshape(-1, edges.shape[-1]), uniform.reshape(-1, count)
        index = np.stack([np.searchsorted(e, u * e[-1], side="right") for e, u in zip(rows, draws, strict=True)])
        return self.candidates[index.reshape(uniform.shape)]

    @property
    def effective_candidates(self) -> Any:
        """How many equally likely candidates would be as good: with few, ask with more of them."""
        return _number(1 / np.sum(np.square(self.weights), axis=-1))

    def _values(self, function: Callable[[np.ndarray], Any]) -> np.ndarray:
        values = np.asarray(function(self.candidates), np.float64)
        if values.ndim not in (1, 2) or len(values) != len(self.candidates):
            raise UserError(
                f"a function of the state must return one number for each of the {len(self.candidates)} candidates, or "
                f"several; got shape {list(values.shape)}"
            )
        if not np.isfinite(values).all():
            raise UserError("a function of the state returned numbers that are not finite")
        return values

    def _weigh(self, values: np.ndarray) -> Estimate:
        mean = self.weights @ values
        square = np.square(self.weights)
        # Of a ratio of two sums: Σ w² (x - mean)².
        spread = square @ np.square(values) - 2 * mean * (square @ values)
        spread += np.square(mean) * square.sum(axis=-1).reshape(square.shape[:-1] + (1,) * (values.ndim - 1))
        return Estimate(_number(mean), _number(np.sqrt(np.maximum(spread, 0))))


def check_prior(prior: np.ndarray, candidates: int) -> None:
    """Raise UserError unless these can be the prior weights of so many candidates."""
    if prior.shape != (candidates,) or not (prior >= 0).all() or not 0 < prior.sum() < np.inf:
        raise UserError("prior must be one number for each candidate, none negative, and not all zero")


def _number(x: Any) -> Any:
    """A float if it is one."""
    return float(x) if np.ndim(x) == 0 else x
