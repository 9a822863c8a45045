"""What a representation holds of the future: a linear map from it to the rat's position some seconds ahead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.estimate import cebra, tracks
from tdinfonce.estimate.series import TDInfoNCE
from tdinfonce.system import venv
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs

__all__ = ["METHODS", "PENALTIES", "Probe", "cebra_python", "compare", "decode", "fits", "represent", "ridge"]

Row = dict[str, Any]
Features = tuple[np.ndarray, np.ndarray]
METHODS = ("cebra", "td", "untrained", "raw")
"""The longest first, so that no core is idle at the end."""
TUNING_SEED = 1_000
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Of the linear map, to choose from."""


@dataclass(frozen=True)
class Probe:
    """Which rats, what is decoded, and how representations are learned."""

    rats: tuple[str, ...] = tracks.RATS
    """Names of the recordings."""
    rate: float = 10.0
    """Rows in a second."""
    lags: tuple[int, ...] = (1, 5)
    """A state is a position and how it differs from those so many rows before."""
    seconds: tuple[float, ...] = (1.0, 3.0, 5.0)
    """How far ahead."""
    dim: int = 32
    """Length of a representation."""
    hidden: int = 128
    """Width of the hidden layers."""
    horizons: tuple[int, ...] = (10, 50)
    """Rows, to choose from: 1 / (1 - discount) of ours, time offset of CEBRA."""
    updates: tuple[int, ...] = (500, 2_000, 8_000)
    """Of ours, to choose from."""
    iterations: tuple[int, ...] = (100, 500, 2_000)
    """Of CEBRA, to choose from."""
    batch_size: int = 512
    """Of both."""
    fitted: float = 0.7
    """Share of the training half that is fitted while choosing; the rest is to choose by."""


def cebra_python() -> Path:
    """The Python of the environment that has CEBRA, installed if it is not there."""
    return venv.install("CEBRA", Path("runs") / "cebra", cebra.REQUIREMENTS)


def compare(config: Probe, seeds: Sequence[int], log: Callable[[Row], None], advance: Callable[[int], None]) -> None:
    """Choose for each representation on the training half, learn for each seed, decode the half that came after."""
    folder, python = tracks.data_folder(), cebra_python()
    sessions = {rat: tracks.read(rat, folder, config.rate) for rat in config.rats}
    jobs = [(config, rat, method, sessions[rat], tuple(seeds), python) for method in METHODS for rat in config.rats]
    for rows in run_jobs(_job, jobs, visible_cores(), advance):
        for row in rows:
            log(row)


def fits(config: Probe, seeds: Sequence[int]) -> int:
    """How many representations there will be."""
    return len(config.rats) * sum(len(_settings(config, method)) + len(seeds) for method in METHODS)


def _settings(config: Probe, method: str) -> list[tuple[int, tuple[int, ...]]]:
    """To choose from: a horizon, and for how long it is learned."""
    if method == "cebra":
        return [(horizon, config.iterations) for horizon in config.horizons]
    if method == "td":
        return [(horizon, (updates,)) for horizon in config.horizons for updates in config.updates]
    return [(config.horizons[0], (1,))]


def _job(
    config: Probe,
    rat: str,
    method: str,
    sessions: list[np.ndarray],
    seeds: Sequence[int],
    python: Path,
    progress: Callable[[int], None],
) -> list[Row]:
    name = {"rat": rat, "method": method}
    training, later = tracks.halves(sessions)
    shorter, between = tracks.halves(training, config.fitted)
    tried: list[Row] = []
    for horizon, amounts in _settings(config, method):
        learned = represent(config, method, horizon, amounts, TUNING_SEED, shorter, between, python)
        for amount, features in zip(amounts, learned, strict=True):
            for beside, penalty in product(_beside(method), PENALTIES):
                r2 = decode(config, features, shorter, between, penalty, beside_state=beside)
                setting = {"horizon": horizon, "amount": amount, "beside_state": beside, "penalty": penalty}
                tried.append(name | {"phase": "choose"} | setting | {"r2": r2})
        progress(1)
    best = _best(tried, beside_state=False)
    chosen = {key: best[key] for key in ("horizon", "amount")}
    rows = list(tried)
    for seed in seeds:
        (features,) = represent(config, method, best["horizon"], (best["amount"],), seed, training, later, python)
        for beside in _beside(method):
            penalty = _best(tried, beside_state=beside, **chosen)["penalty"]
            r2 = decode(config, features, training, later, penalty, beside_state=beside)
            setting = {"seed": seed, "beside_state": beside, "penalty": penalty}
            rows.append(name | {"phase": "evaluate"} | chosen | setting | {"r2": r2})
        progress(1)
    return rows


def _beside(method: str) -> tuple[bool, ...]:
    return (False,) if method == "raw" else (False, True)


def _best(tried: Sequence[Row], **where: Any) -> Row:
    """Of those, the one with the best mean R²."""
    rows = (row for row in tried if all(row[key] == value for key, value in where.items()))
    return max(rows, key=lambda row: float(np.mean(row["r2"])))


def represent(
    config: Probe,
    method: str,
    horizon: int,
    amounts: Sequence[int],
    seed: int,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    python: Path,
) -> list[Features]:
    """After each of ``amounts``: features of the states of ``first``, from which it is learned, and of ``second``."""
    given, other = _states(config, first), _states(config, second)
    if method == "raw":
        return [(given, other)]
    if method == "cebra":
        mean, scale = given.mean(axis=0), given.std(axis=0) + 1e-8
        scaled = (given - mean) / scale
        settings = {"dim": config.dim, "hidden": config.hidden, "offset": horizon, "batch_size": config.batch_size}
        both = np.concatenate([scaled, (other - mean) / scale])
        found = cebra.embed(python, scaled, both, seed=seed, iterations=list(amounts), **settings)
        return [(x[: len(given)], x[len(given) :]) for x in found]
    (updates,) = amounts
    model = TDInfoNCE(
        1 - 1 / horizon,
        config.dim,
        hidden=(config.hidden, config.hidden),
        updates=updates,
        batch_size=config.batch_size,
        random_state=seed,
    )
    model.fit([tracks.states(s, config.lags) for s in first])
    return [(model.transform(given), model.transform(other))]


def _states(config: Probe, sessions: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([tracks.states(s, config.lags) for s in sessions])


def decode(
    config: Probe,
    features: Features,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    penalty: float,
    *,
    beside_state: bool = False,
) -> list[float]:
    """R² on ``second`` of a linear map learned on ``first``, for each time ahead; nothing crosses a session.

    Args:
        config: says how far ahead.
        features: of the states of ``first`` and of ``second``.
        first: sessions of positions.
        second: sessions of positions.
        penalty: of the map.
        beside_state: whether the map is given the raw state too.
    """
    if beside_state:
        both = zip(features, (first, second), strict=True)
        ours, others = (np.concatenate([x, _states(config, sessions)], axis=1) for x, sessions in both)
        features = ours, others
    found = []
    for seconds in config.seconds:
        ahead = round(seconds * config.rate)
        (x, y), (u, v) = (_pairs(config, f, s, ahead) for f, s in zip(features, (first, second), strict=True))
        guess = ridge(x, y, u, penalty)
        found.append(float(1 - np.square(v - guess).sum() / np.square(v - v.mean(axis=0)).sum()))
    return found


def _pairs(
    config: Probe, features: np.ndarray, sessions: Sequence[np.ndarray], ahead: int
) -> tuple[np.ndarray, np.ndarray]:
    """Features of each state, and the position so many rows later in its session."""
    later = [s[max(config.lags) :] for s in sessions]
    parts = np.split(features, np.cumsum([len(s) for s in later])[:-1])
    return np.concatenate([p[:-ahead] for p in parts]), np.concatenate([s[ahead:] for s in later])


def ridge(x: np.ndarray, y: np.ndarray, other: np.ndarray, penalty: float) -> np.ndarray:
    """What the penalised linear map from scaled ``x`` to ``y`` says of ``other``."""
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-8
    z = (x - mean) / scale
    weights = np.linalg.solve(z.T @ z + penalty * np.eye(z.shape[1]), z.T @ (y - y.mean(axis=0)))
    answer: np.ndarray = (other - mean) / scale @ weights + y.mean(axis=0)
    return answer
