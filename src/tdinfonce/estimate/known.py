"""How far from the truth: the estimator for plain series on processes whose future is known exactly."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.estimate.processes import PROCESSES, Process, cut
from tdinfonce.estimate.series import TDInfoNCE
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs

__all__ = ["KnownProcess", "compare", "errors", "fits"]

Row = dict[str, Any]


@dataclass(frozen=True)
class KnownProcess:
    """Which processes, how much data, and how it is learned from."""

    processes: tuple[str, ...] = tuple(PROCESSES)
    """Names."""
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    """Rows of a series."""
    piece: int = 10
    """Rows of a piece of a cut series; fewer than the horizon 1 / (1 - discount)."""
    discount: float = 0.95
    """Of the occupancy."""
    updates: int = 3_000
    """Of each fit."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    dim: int = 16
    """Length of the representations."""
    candidates: int = 5_000
    """Rows to answer with."""


def compare(
    config: KnownProcess, seeds: Sequence[int], log: Callable[[Row], None], advance: Callable[[int], None]
) -> None:
    """Fit on each series, whole and cut, by TD and by Monte Carlo; hand out the errors."""
    for name in config.processes:
        near, bins = PROCESSES[name].truth(config.discount)
        log({"phase": "truth", "process": name, "near": near.tolist(), "bins": bins.tolist()})
    jobs = [(config, *words, tuple(seeds)) for words in _cells(config)]
    # The longest first, so that no core is idle at the end.
    for rows in run_jobs(_job, sorted(jobs, key=lambda job: -job[2]), visible_cores(), advance):
        for row in rows:
            log(row)


def fits(config: KnownProcess, seeds: Sequence[int]) -> int:
    """How many fits there will be."""
    return len(list(_cells(config))) * len(seeds)


def _cells(config: KnownProcess) -> Iterator[tuple[str, int, str, str]]:
    return product(config.processes, config.sizes, ("whole", "cut"), ("td", "mc"))


def _job(
    config: KnownProcess,
    name: str,
    size: int,
    series: str,
    method: str,
    seeds: Sequence[int],
    progress: Callable[[int], None],
) -> list[Row]:
    process, rows = PROCESSES[name], []
    near, bins = process.truth(config.discount)
    for seed in seeds:
        data = process.simulate(size, seeding.generator(seed, f"known-process/{name}", size))
        pieces = cut(data, config.piece) if series == "cut" else [data]
        began = time.perf_counter()
        model = TDInfoNCE(
            config.discount,
            config.dim,
            method,
            hidden=config.hidden,
            updates=config.updates,
            n_candidates=config.candidates,
            random_state=seed,
        ).fit(pieces)
        base = {"phase": "evaluate", "process": name, "size": size, "series": series, "method": method, "seed": seed}
        rows.append(base | errors(model, process, near, bins) | {"seconds": time.perf_counter() - began})
        progress(1)
    return rows


def errors(model: TDInfoNCE, process: Process, near: np.ndarray, bins: np.ndarray) -> Row:
    """Mean and largest error of the chance to be near a place, total variation over bins, and what was believed."""
    answer = model.occupancy(process.starts)
    believed = answer.probability(process.places, process.radius)
    where = np.eye(bins.shape[1])[process.bin(answer.candidates)]
    found = answer.weights @ where
    return {
        "error": float(np.abs(believed - near).mean()),
        "worst": float(np.abs(believed - near).max()),
        "total_variation": float(0.5 * np.abs(found - bins).sum(axis=1).mean()),
        "bins": np.round(found[1], 4).tolist(),
    }
