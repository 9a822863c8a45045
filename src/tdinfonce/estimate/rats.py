"""Where will the rat be? TD, Monte Carlo and successor features on real tracks, cut and uncut."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from tdinfonce import seeding
from tdinfonce.errors import UserError
from tdinfonce.estimate import successor, tracks
from tdinfonce.estimate._cells import Cells
from tdinfonce.estimate._sessions import Sessions
from tdinfonce.estimate.predictor import Config, Predictor, Steps, fit
from tdinfonce.estimate.processes import cut
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs

__all__ = [
    "METHODS",
    "SERIES",
    "Foresight",
    "Rats",
    "Successor",
    "Track",
    "compare",
    "fits",
    "later_ratios",
    "options",
    "scores",
]

Row = dict[str, Any]
Log = Callable[[Row], None]
METHODS, SERIES = ("td", "mc", "sf"), ("cut", "uncut")
BLOCK = 50
"""Starts that are scored at once."""


@dataclass(frozen=True)
class Rats:
    """Which rats, what is asked of them, and what each method may choose from."""

    rats: tuple[str, ...] = tracks.RATS
    """Names of the recordings."""
    rate: float = 10.0
    """Rows in a second."""
    discount: float = 0.98
    """Of the occupancy: 5 s ahead in the mean."""
    piece: int = 20
    """Rows of a piece of a cut track."""
    lags: tuple[int, ...] = (1, 5)
    """A state is a position and how it differs from those so many rows before: position alone is not Markov."""
    networks: tuple[tuple[int, int], ...] = ((32, 8), (128, 32))
    """To choose from: width of two hidden layers, length of the representations."""
    updates: tuple[int, ...] = (25, 50, 100, 200, 500, 1_000, 2_000, 4_000, 8_000)
    """To choose from, for each network: multiples of the smallest."""
    cells: tuple[int, ...] = (16, 144)
    """Successor features choose from: about how many place cells."""
    visits: tuple[int, ...] = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 36_000, 48_000)
    """And for each of these, rows that are visited."""
    bins: int = 64
    """Of position, about, that successor features predict: as many as place cells, but no more than this."""
    learning_rate: float = 0.005
    """Of successor features."""
    fitted: float = 0.7
    """Share of the training half that is fitted while choosing; the rest is to choose by."""
    candidates: int = 4_000
    """Training positions that normalise an answer."""
    starts: int = 1_000
    """Of which the likelihood of what came later is averaged."""
    reach: float = 1e-3
    """What weighs less than this share of the first step ahead is left out."""
    chance: float = 0.01
    """Share of the law by chance in the mixed score."""

    @property
    def ahead(self) -> int:
        """So many rows ahead are scored."""
        return int(np.ceil(np.log(self.reach) / np.log(self.discount)))


def compare(config: Rats, seeds: Sequence[int], log: Log, advance: Callable[[int], None]) -> None:
    """Choose for each method on the training half, fit for each seed, score on the half that came after."""
    folder, python = tracks.data_folder(), tracks.python()
    sessions = {rat: tracks.read(rat, folder, config.rate) for rat in config.rats}
    jobs = [
        (config, rat, series, method, sessions[rat], tuple(seeds), python) for rat, series, method in _cells(config)
    ]
    # The longest first, so that no core is idle at the end.
    jobs.sort(key=lambda job: ("sf", "td", "mc").index(job[3]))
    for rows in run_jobs(_job, jobs, visible_cores(), advance):
        for row in rows:
            log(row)


def fits(config: Rats, seeds: Sequence[int]) -> int:
    """How many fits there will be."""
    return sum(len(options(config, method)[0]) + len(seeds) for _, _, method in _cells(config))


def options(config: Rats, method: str) -> tuple[list[Row], str, tuple[int, ...]]:
    """What a method may choose from: settings, and for each how long it learns, with the name of that."""
    if method == "sf":
        return [{"cells": cells} for cells in config.cells], "visits", config.visits
    return [{"network": network} for network in config.networks], "updates", config.updates


def _cells(config: Rats) -> Iterator[tuple[str, str, str]]:
    return product(config.rats, SERIES, METHODS)


def _job(
    config: Rats,
    rat: str,
    series: str,
    method: str,
    sessions: list[np.ndarray],
    seeds: Sequence[int],
    python: Path,
    progress: Callable[[int], None],
) -> list[Row]:
    name = {"rat": rat, "series": series, "method": method}
    training, later = tracks.halves(sessions)
    shorter, between = tracks.halves(training, config.fitted)

    def begin(rows: list[np.ndarray], option: Row, rng: np.random.Generator) -> Foresight:
        if method == "sf":
            return Successor(config, rows, series, option["cells"], rng, python)
        return Track(config, rows, series, method, option["network"], rng)

    tried: list[Row] = []
    settings, long, amounts = options(config, method)
    for option in settings:
        learned = begin(shorter, option, seeding.generator(0, f"rats/choose/{rat}")).path(amounts)
        for amount, foresight in zip(amounts, learned, strict=True):
            score = scores(config, foresight.ratios(between))["score"]
            tried.append(name | {"phase": "choose"} | option | {long: amount, "score": score})
        progress(1)
    best = max(tried, key=lambda row: row["score"])
    chosen = {key: best[key] for key in (*settings[0], long)}
    rows = list(tried)
    for seed in seeds:
        began = time.perf_counter()
        foresight = begin(training, chosen, seeding.generator(seed, f"rats/{rat}")).fit(chosen[long])
        evaluated = {"phase": "evaluate", "seed": seed} | chosen | {"seconds": time.perf_counter() - began}
        rows.append(name | evaluated | scores(config, foresight.ratios(later)))
        progress(1)
    return rows


class Foresight(ABC):
    """What a method learned of a training track says of later positions, and what normalises its answers."""

    def __init__(self, config: Rats, sessions: Sequence[np.ndarray], series: str, rng: np.random.Generator) -> None:
        """Cut the sessions or not."""
        self.config = config
        pieces = [p for s in sessions for p in cut(s, config.piece)] if series == "cut" else sessions
        self.parts = [tracks.states(p, config.lags) for p in pieces if len(p) > max(config.lags) + 1]
        # The same candidates for every method and setting, of a cut track or not.
        positions = np.concatenate(sessions)
        self.candidates = positions[np.sort(rng.permutation(len(positions))[: config.candidates])]

    @abstractmethod
    def fit(self, amount: int) -> Self:
        """Go on until it has learned for so long in all."""

    @abstractmethod
    def logits(self, states: np.ndarray, places: np.ndarray) -> np.ndarray:
        """``[states, places]``, log-likelihood ratios up to a constant of each state."""

    def path(self, amounts: Sequence[int]) -> Iterator[Self]:
        """As it is after each of these, ascending."""
        return (self.fit(amount) for amount in amounts)

    def ratios(self, sessions: Sequence[np.ndarray]) -> np.ndarray:
        """``[starts, ahead]``, log of how much likelier than by chance each later position was held to be."""
        parts = [tracks.states(s, self.config.lags) for s in sessions if len(s) > max(self.config.lags) + 1]
        ahead = self.config.ahead
        possible = np.array([(i, t) for i, part in enumerate(parts) for t in range(len(part) - ahead)])
        if not len(possible):
            raise UserError(f"no session has {ahead} rows ahead of a state; the discounted future needs so many")
        chosen = possible[np.linspace(0, len(possible) - 1, min(self.config.starts, len(possible))).astype(int)]
        found = []
        for i, part in enumerate(parts):
            rows = chosen[chosen[:, 0] == i, 1]
            for block in np.split(rows, range(BLOCK, len(rows), BLOCK)):
                by_chance = self.logits(part[block], self.candidates)
                found.append(later_ratios(self.logits(part[block], part[:, :2]), by_chance, block, ahead))
        return np.concatenate(found)


class Track(Foresight):
    """TD InfoNCE or Monte Carlo InfoNCE: a predictor of positions from states."""

    def __init__(
        self,
        config: Rats,
        sessions: Sequence[np.ndarray],
        series: str,
        method: str,
        network: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        """Scale states as the training ones are."""
        super().__init__(config, sessions, series, rng)
        found = Sessions(np.concatenate(self.parts), np.array([len(p) for p in self.parts]))
        self._mean, self._scale = found.rows.mean(axis=0), found.rows.std(axis=0) + 1e-8
        self.steps = self._steps(found)
        width, dim = network
        learner = Config(
            discount=config.discount,
            monte_carlo=method == "mc",
            hidden=(width, width),
            representation_size=dim,
        )
        self._predictor, self._done = Predictor.create(int(rng.integers(2**31)), self.steps, learner), 0

    def fit(self, amount: int) -> Self:
        """Go on until so many updates in all."""
        chunk = self.config.updates[0]  # always as many at once: each number of them is compiled on its own
        for _ in range((amount - self._done) // chunk):
            self._predictor, _ = fit(self._predictor, self.steps, chunk)
        self._done = amount
        return self

    def logits(self, states: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Of the averaged critic."""
        nothing = jnp.zeros((len(states), 0))
        found = self._predictor.logits(self._scaled(states), nothing, self._scaled(places))
        return np.asarray(found, np.float64)

    def _scaled(self, rows: np.ndarray) -> jnp.ndarray:
        size = rows.shape[1]
        return jnp.asarray((rows - self._mean[:size]) / self._scale[:size], jnp.float32)

    def _steps(self, found: Sessions) -> Steps:
        states, rows = self._scaled(found.rows), len(found.rows)
        return Steps(
            state=states,
            place=states[:, :2],
            which=jnp.arange(rows),
            action=jnp.zeros((rows, 0)),
            policy_action=jnp.zeros((1, rows, 0)),
            moment=jnp.asarray(found.moments),
            left=jnp.asarray(found.left[found.moments]),
        )


class Successor(Foresight):
    """RatInABox's successor features: the discounted sum of one-hot bins of position, linear in cells."""

    def __init__(
        self,
        config: Rats,
        sessions: Sequence[np.ndarray],
        series: str,
        cells: int,
        rng: np.random.Generator,
        python: Path,
    ) -> None:
        """Lay cells and bins over the box; show the pieces in an order of ``rng``, the only chance in this."""
        super().__init__(config, sessions, series, rng)
        self._rows = np.concatenate([self.parts[i] for i in rng.permutation(len(self.parts))])
        self._cells, self._python = Cells(self._rows, cells, min(cells, config.bins)), python
        share = np.bincount(self._cells.bins(self.candidates), minlength=self._cells.count_bins)
        self._chance = np.maximum(share, 1) / len(self.candidates)
        self._weights = np.zeros(0)

    def fit(self, amount: int) -> Self:
        """Visit so many rows."""
        return next(self.path((amount,)))

    def path(self, amounts: Sequence[int]) -> Iterator[Self]:
        """One run of the program tells all."""
        config, cells = self.config, self._cells
        ends = np.cumsum([len(part) for part in self.parts])
        found = successor.fit(
            self._python,
            cells.place(self._rows),
            cells.velocity(self._rows),
            cells.bins(self._rows),
            [0, *ends[:-1].tolist()],
            count=cells.count_bins,
            dt=1 / config.rate,
            tau=1 / config.rate / (1 - config.discount),
            rate=config.learning_rate,
            visits=list(amounts),
        )
        for self._weights in found:
            yield self

    def logits(self, states: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Linear answers may be negative: none is taken for less than the share of chance of the mixed score."""
        expected = np.maximum(self._cells.basis(states) @ self._weights.T, 0)
        ratios = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-12) / self._chance
        return np.log(np.maximum(ratios, self.config.chance))[:, self._cells.bins(places)]


def later_ratios(logits: np.ndarray, by_chance: np.ndarray, rows: np.ndarray, ahead: int) -> np.ndarray:
    """``[starts, ahead]``, log of p(later position) / p(it by chance).

    Args:
        logits: ``[starts, rows of the session]``.
        by_chance: ``[starts, candidates]``; their mean likelihood ratio is 1, which fixes the constant of each start.
        rows: ``[starts]``, the row of the session that each start is.
        ahead: how many rows ahead, from the next one on.
    """
    top = by_chance.max(axis=1, keepdims=True)
    constant = top + np.log(np.exp(by_chance - top).mean(axis=1, keepdims=True))
    return np.take_along_axis(logits, rows[:, None] + 1 + np.arange(ahead), axis=1) - constant


def scores(config: Rats, ratios: np.ndarray) -> Row:
    """Discounted means in nats, as it is and mixed with chance; the mixed one also for times ahead."""
    weights = config.discount ** np.arange(ratios.shape[1])
    weights /= weights.sum()
    mixed = np.logaddexp(ratios + np.log(1 - config.chance), np.log(config.chance))
    return {
        "score": float(ratios.mean(axis=0) @ weights),
        "mixed": float(mixed.mean(axis=0) @ weights),
        "by_time": np.round(mixed.mean(axis=0), 4).tolist(),
    }
