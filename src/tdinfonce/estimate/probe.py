"""What a representation holds of the future: a linear map from it to the rat's position some seconds ahead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
METHODS, LEARNED = ("cebra", "td", "untrained", "raw"), ("cebra", "td")
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
    seconds: tuple[float, ...] = (1.0, 3.0)
    """How far ahead."""
    dim: int = 32
    """Length of a representation."""
    hidden: int = 128
    """Width of the hidden layers."""
    horizons: tuple[int, ...] = (10, 50)
    """Rows, to choose from: 1 / (1 - discount) of ours, time offset of CEBRA."""
    updates: int = 4_000
    """Of ours."""
    iterations: int = 2_000
    """Of CEBRA, whose batch is twice ours."""
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
    return len(config.rats) * sum(len(_horizons(config, method)) + len(seeds) for method in METHODS)


def _horizons(config: Probe, method: str) -> tuple[int, ...]:
    return config.horizons if method in LEARNED else config.horizons[:1]


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
    rows: list[Row] = []
    for horizon in _horizons(config, method):
        features = represent(config, method, horizon, TUNING_SEED, shorter, between, python)
        for penalty in PENALTIES:
            found = decode(config, features, shorter, between, penalty)
            rows.append(name | {"phase": "choose", "horizon": horizon, "penalty": penalty, "r2": found})
        progress(1)
    best = max(rows, key=lambda row: float(np.mean(row["r2"])))
    chosen = {key: best[key] for key in ("horizon", "penalty")}
    for seed in seeds:
        features = represent(config, method, best["horizon"], seed, training, later, python)
        found = decode(config, features, training, later, best["penalty"])
        rows.append(name | {"phase": "evaluate", "seed": seed} | chosen | {"r2": found})
        progress(1)
    return rows


def represent(
    config: Probe,
    method: str,
    horizon: int,
    seed: int,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    python: Path,
) -> tuple[np.ndarray, np.ndarray]:
    """Features of the states of ``first``, on which the representation is learned, and of ``second``."""
    given, other = _states(config, first), _states(config, second)
    if method == "raw":
        return given, other
    if method == "cebra":
        mean, scale = given.mean(axis=0), given.std(axis=0) + 1e-8
        scaled = (given - mean) / scale
        settings = {"dim": config.dim, "hidden": config.hidden, "offset": horizon, "iterations": config.iterations}
        both = np.concatenate([scaled, (other - mean) / scale])
        found = cebra.embed(python, scaled, both, seed=seed, **settings)
        return found[: len(given)], found[len(given) :]
    updates = 1 if method == "untrained" else config.updates
    hidden = (config.hidden, config.hidden)
    model = TDInfoNCE(1 - 1 / horizon, config.dim, hidden=hidden, updates=updates, random_state=seed)
    model.fit([tracks.states(s, config.lags) for s in first])
    return model.transform(given), model.transform(other)


def _states(config: Probe, sessions: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([tracks.states(s, config.lags) for s in sessions])


def decode(
    config: Probe,
    features: tuple[np.ndarray, np.ndarray],
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    penalty: float,
) -> list[float]:
    """R² on ``second`` of a linear map learned on ``first``, for each time ahead; nothing crosses a session."""
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
