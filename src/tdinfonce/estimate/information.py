"""How much a state tells of its discounted future: the InfoNCE bound, held against the exact mutual information."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.estimate.processes import horizon
from tdinfonce.estimate.series import TDInfoNCE
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.gridworld import gridworld
from tdinfonce.tabular.mdp import exact_occupancy, uniform_policy
from tdinfonce.tabular.parallel import run_jobs

__all__ = ["GaussianChain", "GridWalk", "Information", "compare", "fits", "infonce_bound"]

Row = dict[str, Any]


def infonce_bound(logits: np.ndarray, count: int, rng: np.random.Generator) -> float:
    """The bound log N - InfoNCE loss on the mutual information, in nats; never above log N.

    Implements: App. B, the mutual information that InfoNCE bounds from below.
    Deviates: no.

    Args:
        logits: ``[pairs, pairs]``, of each first with each second; true pairs are on the diagonal. The constant of each
            row is free.
        count: N, the true second and N - 1 of other pairs.
        rng: draws the others.
    """
    pairs = len(logits)
    others = (np.arange(pairs)[:, None] + rng.integers(1, pairs, size=(pairs, count - 1))) % pairs
    own = np.diag(logits)[:, None]
    rows = np.concatenate([own, np.take_along_axis(logits, others, axis=1)], axis=1) - own
    top = rows.max(axis=1)
    return float(np.log(count) - np.mean(top + np.log(np.exp(rows - top[:, None]).sum(axis=1))))


@dataclass(frozen=True)
class GaussianChain:
    """x' = a x + sqrt(1 - a²) ε in several independent dimensions."""

    memory: float
    size: int
    discount: float

    def series(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series in equilibrium."""
        noise = rng.normal(size=(rows, self.size))
        found = np.empty_like(noise)
        x = rng.normal(size=self.size)
        for t, kick in enumerate(np.sqrt(1 - self.memory**2) * noise):
            x = self.memory * x + kick
            found[t] = x
        return found

    def pairs(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Independent states, each with a later one."""
        first, noise = rng.normal(size=(2, count, self.size))
        kept = self.memory ** rng.geometric(1 - self.discount, size=(count, 1))
        return first, kept * first + np.sqrt(1 - kept**2) * noise

    def log_ratio(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """log p(second | first) / p(second), of arrays ``[..., size]``."""
        kept = self.memory ** np.arange(1, horizon(self.discount) + 1)
        chance = (1 - self.discount) * self.discount ** np.arange(len(kept))
        product = np.einsum("...d,...d->...", first, second)
        long, wide = np.square(first).sum(axis=-1), np.square(second).sum(axis=-1)
        top, total = np.full(product.shape, -np.inf), 0.0
        for a, weight in zip(kept, chance / chance.sum(), strict=True):
            gap = (a**2 * (long + wide) - 2 * a * product) / (1 - a**2)  # |y - a x|² / (1 - a²) - |y|²
            term = np.log(weight) - 0.5 * (gap + self.size * np.log1p(-(a**2)))
            new = np.maximum(top, term)
            total, top = total * np.exp(top - new) + np.exp(term - new), new
        return top + np.log(total)

    def exact(self) -> float:
        """The mutual information: a mean over pairs of which the logarithm is known, with an error below 0.01."""
        first, second = self.pairs(100_000, np.random.default_rng(2024))
        return float(self.log_ratio(first, second).mean())


@dataclass(frozen=True)
class GridWalk:
    """A random walk on the paper's grid, each cell a vector with a single 1."""

    discount: float

    def later(self) -> np.ndarray:
        """``[cells, cells]``, the exact law of the later cell."""
        mdp = gridworld()
        policy = uniform_policy(mdp)
        found: np.ndarray = np.einsum("sa,sau->su", policy, exact_occupancy(mdp, policy, self.discount))
        return found

    def series(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """A series in equilibrium, which is uniform."""
        mdp = gridworld()
        assert mdp.successor is not None
        cell, found = int(rng.integers(mdp.n_states)), np.empty(rows, int)
        for t, action in enumerate(rng.integers(mdp.n_actions, size=rows)):
            cell = found[t] = mdp.successor[cell, action]
        return np.eye(mdp.n_states)[found]

    def pairs(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Independent states, each with a later one."""
        law = self.later()
        first = rng.integers(len(law), size=count)
        second = np.array([rng.choice(len(law), p=law[s]) for s in first])
        return np.eye(len(law))[first], np.eye(len(law))[second]

    def log_ratio(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """log p(second | first) / p(second)."""
        law = self.later()
        with np.errstate(divide="ignore"):  # with discount 0 most cells cannot be the later one
            found: np.ndarray = np.log(law * len(law))[first.argmax(axis=-1), second.argmax(axis=-1)]
        return found

    def exact(self) -> float:
        """The mutual information, by linear algebra."""
        law = self.later()
        some = law[law > 0]
        return float(np.sum(some * np.log(some * len(law))) / len(law))


@dataclass(frozen=True)
class Information:
    """Which worlds, and how much is learned from."""

    memories: tuple[float, ...] = (0.0, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99)
    """Strengths of the Gaussian chain."""
    size: int = 6
    """Its dimensions."""
    discount: float = 0.9
    """Its discount."""
    discounts: tuple[float, ...] = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
    """Of the walk on the grid: the larger, the less a cell tells."""
    counts: tuple[int, ...] = (16, 256)
    """N of the bound; its ceiling is log N."""
    rows: int = 50_000
    """Of the series that is learned from."""
    pairs: int = 1_000
    """Of the test."""
    updates: int = 3_000
    """Of each fit."""


def compare(
    config: Information, seeds: Sequence[int], log: Callable[[Row], None], advance: Callable[[int], None]
) -> None:
    """The bound by the exact critic and by learned ones, for each world."""
    jobs = [(config, world, strength, tuple(seeds)) for world, strength in _worlds(config)]
    for rows in run_jobs(_job, jobs, visible_cores(), advance):
        for row in rows:
            log(row)


def fits(config: Information, seeds: Sequence[int]) -> int:
    """How many fits there will be."""
    return 2 * len(_worlds(config)) * len(seeds)


def _worlds(config: Information) -> list[tuple[str, float]]:
    return [("chain", a) for a in config.memories] + [("grid", d) for d in config.discounts]


def _job(
    config: Information, name: str, strength: float, seeds: Sequence[int], progress: Callable[[int], None]
) -> list[Row]:
    world: GaussianChain | GridWalk = GridWalk(strength)
    if name == "chain":
        world = GaussianChain(strength, config.size, config.discount)
    base = {"phase": "evaluate", "world": name, "strength": strength, "exact": world.exact()}
    rows = []
    for seed in seeds:
        first, second = world.pairs(config.pairs, seeding.generator(seed, "information/test"))
        series = world.series(config.rows, seeding.generator(seed, "information/train"))
        logits = {"exact": world.log_ratio(first[:, None], second[None])}
        for method in ("td", "mc"):
            model = TDInfoNCE(world.discount, method=method, updates=config.updates, random_state=seed).fit(series)
            with np.errstate(divide="ignore"):
                logits[method] = np.maximum(np.log(model.predict_proba(first, second)), -500)
            progress(1)
        for method, found in logits.items():
            for count in config.counts:
                bound = infonce_bound(found, count, seeding.generator(seed, "information/others", count))
                rows.append(base | {"method": method, "seed": seed, "count": count, "bound": bound})
    return rows
