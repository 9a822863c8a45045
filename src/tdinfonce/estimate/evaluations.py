"""Many policies and rewards from one log, by several methods: the work of the experiment `policy-evaluation`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from tdinfonce.data import Episodes
from tdinfonce.estimate import rivals
from tdinfonce.estimate._logged import open_logged
from tdinfonce.estimate._members import build_steps
from tdinfonce.estimate._target import Choices, follow
from tdinfonce.estimate.off_policy import TABLE, estimate
from tdinfonce.estimate.predictor import Config
from tdinfonce.estimate.sepsis import Model, exact_value, read_model, record, small_model
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs

__all__ = ["METHODS", "Evaluations", "check", "compare", "evaluate_by", "fits"]

METHODS = ("td", "mc", "fqe", "importance", "counting")


@dataclass(frozen=True)
class Evaluations:
    """What is evaluated, from how much data."""

    model: str = "icu-sepsis"
    """icu-sepsis, or small: a random one."""
    discount: float = 0.9
    """Of all values."""
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    """Transitions by the clinicians' policy."""
    updates: int = 6_000
    """Of each network of every method."""
    td_rate: float = 1e-2
    """Learning rate of TD InfoNCE."""
    mc_rate: float = 3e-3
    """Of Monte Carlo InfoNCE."""
    fqe_rate: float = 3e-3
    """Of FQE."""
    fqe_hidden: int = 64
    """Width of the hidden layer of FQE; ours has 256."""


@cache
def _model(name: str, discount: float) -> Model:
    return read_model(discount) if name == "icu-sepsis" else small_model(discount)


def check(config: Evaluations) -> None:
    """Install what is missing."""
    _model(config.model, config.discount)


def fits(config: Evaluations, seeds: Sequence[int]) -> int:
    """How many data sets and policies there are."""
    return 3 * len(config.sizes) * len(seeds)


def compare(
    config: Evaluations,
    seeds: Sequence[int],
    log: Callable[[Mapping[str, Any]], None],
    advance: Callable[[int], None],
) -> None:
    """Hand out the exact values, then those of every method."""
    model = _model(config.model, config.discount)
    for name, policy in {**model.policies, "behaviour": model.behaviour}.items():
        log({"phase": "truth", "policy": name, "values": exact_value(model, policy, config.discount).tolist()})
    jobs = [(config, size, seed) for size in sorted(config.sizes, reverse=True) for seed in seeds]
    for rows in run_jobs(_evaluate, jobs, visible_cores(), advance):
        for row in rows:
            log(row)


def _evaluate(config: Evaluations, size: int, seed: int, advance: Callable[[int], None]) -> list[dict[str, Any]]:
    """Every policy and method on one data set."""
    model, rows = _model(config.model, config.discount), []
    data = record(model, size, seed)
    for name, policy in model.policies.items():
        for method in METHODS:
            begun = time.perf_counter()
            values = evaluate_by(method, config, model, policy, data, seed)
            seconds = time.perf_counter() - begun
            base = {"phase": "evaluate", "size": size, "seed": seed, "policy": name, "method": method}
            rows.append(base | {"values": values.tolist(), "seconds": seconds})
            if method == "fqe":
                rows[-1] |= {"seconds_each": _one_by_one(config, model, policy, data, seed)}
        advance(1)
    return rows


def _one_by_one(config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int) -> float:
    """Seconds of FQE if rewards were fitted one after the other, as its libraries do: those of the first, times all."""
    begun = time.perf_counter()
    _fqe(config, replace(model, rewards=model.rewards[:, :1]), policy, data, seed)
    return (time.perf_counter() - begun) * model.rewards.shape[1]


def _number(state: np.ndarray) -> np.ndarray:
    return state[:, 0].astype(int)


def _ours(config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int, method: str) -> Any:
    rate = {"td": config.td_rate, "mc": config.mc_rate}[method]
    options: dict[str, Any] = {"learning_rate": rate, "updates": config.updates, "method": method}
    fitted = estimate(data, lambda s: policy[_number(s)], discount=config.discount, seed=seed, table=True, **options)
    return fitted.value(lambda s: model.rewards[_number(s)]).mean


def _fqe(config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int) -> Any:
    logged = open_logged(data, "absorbing", True, None)
    own, episodes = _number(logged.state), np.arange(len(data))
    actions = np.eye(policy.shape[1], dtype=np.float32)[:, None].repeat(len(own), axis=1)
    choices = follow(Choices(actions, policy[own].T), logged, episodes)
    steps, _ = build_steps(logged, choices, np.random.default_rng(seed), episodes)
    settings: dict[str, Any] = TABLE | {"learning_rate": config.fqe_rate, "hidden": (config.fqe_hidden,)}
    final = Config(**settings, discount=config.discount)
    value = rivals.fitted_q(steps, choices.chance.T, model.rewards[own], final, config.updates, seed)
    return value[logged.which[logged.start]].mean(axis=0)


def _importance(config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int) -> Any:
    logged = open_logged(data, "absorbing", True, None)
    own = _number(logged.state)
    tables = (policy[own], model.behaviour[own], model.rewards[own])
    return rivals.importance_sampling(logged, *tables, config.discount)


def _counting(config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int) -> Any:
    logged = open_logged(data, "absorbing", True, None)
    own = _number(logged.state)
    return rivals.counting(logged, policy[own], model.rewards[own], config.discount)


def evaluate_by(
    method: str, config: Evaluations, model: Model, policy: np.ndarray, data: Episodes, seed: int
) -> np.ndarray:
    """``[rewards]``, the values of a policy by one of the `METHODS`."""
    if method in ("td", "mc"):
        return np.asarray(_ours(config, model, policy, data, seed, method))
    rival = {"fqe": _fqe, "importance": _importance, "counting": _counting}[method]
    return np.asarray(rival(config, model, policy, data, seed))
