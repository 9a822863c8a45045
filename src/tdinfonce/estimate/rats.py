"""Where will the rat be? TD against Monte Carlo on real tracks, cut and uncut, by the likelihood of what came later."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np

from tdinfonce import seeding
from tdinfonce.errors import UserError
from tdinfonce.estimate import tracks
from tdinfonce.estimate._sessions import Sessions
from tdinfonce.estimate.predictor import Config, Predictor, Steps, fit
from tdinfonce.estimate.processes import cut
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs

__all__ = ["METHODS", "SERIES", "Rats", "Track", "compare", "fits", "later_ratios", "scores"]

Row = dict[str, Any]
Log = Callable[[Row], None]
METHODS, SERIES = ("td", "mc"), ("cut", "uncut")
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
    folder = tracks.data_folder()
    sessions = {rat: tracks.read(rat, folder, config.rate) for rat in config.rats}
    jobs = [(config, rat, series, method, sessions[rat], tuple(seeds)) for rat, series, method in _cells(config)]
    # The longest first, so that no core is idle at the end: TD is fitted with more updates.
    for rows in run_jobs(_job, sorted(jobs, key=lambda job: job[3] != "td"), visible_cores(), advance):
        for row in rows:
            log(row)


def fits(config: Rats, seeds: Sequence[int]) -> int:
    """How many fits there will be."""
    return len(list(_cells(config))) * (len(config.networks) + len(seeds))


def _cells(config: Rats) -> Iterator[tuple[str, str, str]]:
    return product(config.rats, SERIES, METHODS)


def _job(
    config: Rats,
    rat: str,
    series: str,
    method: str,
    sessions: list[np.ndarray],
    seeds: Sequence[int],
    progress: Callable[[int], None],
) -> list[Row]:
    name = {"rat": rat, "series": series, "method": method}
    training, later = tracks.halves(sessions)
    shorter, between = tracks.halves(training, config.fitted)
    tried: list[Row] = []
    for network in config.networks:
        track = Track(config, shorter, series, method, network, seeding.generator(0, f"rats/choose/{rat}"))
        for updates in config.updates:
            score = scores(config, track.fit(updates).ratios(between))["score"]
            tried.append(name | {"phase": "choose", "network": network, "updates": updates, "score": score})
        progress(1)
    best = max(tried, key=lambda row: row["score"])
    rows = list(tried)
    for seed in seeds:
        began = time.perf_counter()
        rng = seeding.generator(seed, f"rats/{rat}")
        track = Track(config, training, series, method, best["network"], rng).fit(best["updates"])
        seconds = time.perf_counter() - began
        chosen = {"seed": seed, "network": best["network"], "updates": best["updates"], "seconds": seconds}
        rows.append(name | {"phase": "evaluate"} | chosen | scores(config, track.ratios(later)))
        progress(1)
    return rows


class Track:
    """A predictor of positions from states, on a training track, and what normalises its answers."""

    def __init__(
        self,
        config: Rats,
        sessions: Sequence[np.ndarray],
        series: str,
        method: str,
        network: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        """Cut the sessions or not; scale states as the training ones are."""
        self.config = config
        pieces = [p for s in sessions for p in cut(s, config.piece)] if series == "cut" else sessions
        parts = [tracks.states(p, config.lags) for p in pieces if len(p) > max(config.lags) + 1]
        found = Sessions(np.concatenate(parts), np.array([len(p) for p in parts]))
        self._mean, self._scale = found.rows.mean(axis=0), found.rows.std(axis=0) + 1e-8
        self.steps = self._steps(found)
        width, dim = network
        learner = Config(
            discount=config.discount,
            monte_carlo=method == "mc",
            hidden=(width, width),
            representation_size=dim,
        )
        # The same candidates for every method and network, of a cut track or not.
        positions = np.concatenate(sessions)
        kept = np.sort(rng.permutation(len(positions))[: config.candidates])
        self._candidates = self._scaled(positions[kept])
        self._predictor, self._done = Predictor.create(int(rng.integers(2**31)), self.steps, learner), 0

    def fit(self, updates: int) -> "Track":
        """Go on until so many updates in all."""
        chunk = self.config.updates[0]  # always as many at once: each number of them is compiled on its own
        for _ in range((updates - self._done) // chunk):
            self._predictor, _ = fit(self._predictor, self.steps, chunk)
        self._done = updates
        return self

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
            rows, places = chosen[chosen[:, 0] == i, 1], self._scaled(part[:, :2])
            for block in np.split(rows, range(BLOCK, len(rows), BLOCK)):
                states = self._scaled(part[block])
                by_chance = self._logits(states, self._candidates)
                found.append(later_ratios(self._logits(states, places), by_chance, block, ahead))
        return np.concatenate(found)

    def _logits(self, states: jnp.ndarray, places: jnp.ndarray) -> np.ndarray:
        return np.asarray(self._predictor.logits(states, jnp.zeros((len(states), 0)), places), np.float64)

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
