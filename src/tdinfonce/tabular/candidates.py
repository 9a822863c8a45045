"""How many candidates an estimator needs: the same draws at every step, split into smaller and smaller groups.

A row of InfoNCE is compared with the candidates of its group alone. For Monte Carlo futures the optimum is the same for
every number of them; TD InfoNCE also normalises the target's weights among them, which is exact only without end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.comparison import METHODS
from tdinfonce.tabular.fit import Estimator, fit
from tdinfonce.tabular.gridworld import gridworld
from tdinfonce.tabular.mdp import exact_occupancy, uniform_policy
from tdinfonce.tabular.parallel import run_jobs
from tdinfonce.tabular.statistics import Draws, endless_data, stack_draws

__all__ = ["Candidates", "Grouped", "lane_steps", "vary_candidates"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Candidates:
    """Which numbers of candidates to try, and what all of them have in common."""

    methods: tuple[str, ...] = ("td-infonce", "contrastive-rl")
    """Names in `METHODS`."""
    numbers: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    """How many candidates a row has, its own positive among them; each divides ``rows``."""
    rows: int = 1024
    """Transitions, and random states, of each gradient step."""
    steps: int = 10_000
    """Gradient steps."""
    learning_rate: float = 2e-3
    """Step size."""
    target_rate: float = 0.02
    """Share of the new table in the target at each step."""
    discount: float = 0.95
    """Of the occupancy."""
    workers: int = field(default_factory=visible_cores)
    """Fits at the same time, a process each."""


@dataclass(frozen=True)
class Grouped:
    """An estimator on several minibatches at once; each row's candidates are those of its own minibatch."""

    estimator: Estimator
    groups: int

    def initial(self) -> Array:
        """The first table."""
        return self.estimator.initial()

    def sample(self, draws: Draws, key: Array) -> Any:
        """One minibatch for each group."""
        return jax.vmap(lambda key: self.estimator.sample(draws, key))(jax.random.split(key, self.groups))

    def loss(self, table: Array, target: Array, batch: Any, draws: Draws) -> Array:
        """The mean over the groups."""
        return jnp.mean(jax.vmap(lambda group: self.estimator.loss(table, target, group, draws))(batch))

    def occupancy(self, table: Array, draws: Draws) -> Array:
        """``[S, A, S]``."""
        return self.estimator.occupancy(table, draws)


def lane_steps(config: Candidates, seeds: Sequence[int]) -> int:
    """The work, for the progress bar."""
    return len(config.methods) * len(config.numbers) * len(seeds) * config.steps


def vary_candidates(
    config: Candidates,
    seeds: Sequence[int],
    log: Callable[[Row], None],
    progress: Callable[[int], None] = lambda steps: None,
) -> None:
    """Fit each method with each number of candidates to endless data of the gridworld; hand each error to ``log``.

    The error is the total variation between estimate and exact occupancy, the mean over state-actions.
    """
    jobs = [(config, method, number, seeds) for method in config.methods for number in config.numbers]
    for rows in run_jobs(_fit_one, jobs, config.workers, progress):
        for row in rows:
            log(row)


def _fit_one(
    config: Candidates, method: str, number: int, seeds: Sequence[int], progress: Callable[[int], None]
) -> list[Row]:
    mdp = gridworld()
    policy = uniform_policy(mdp)
    result = fit(
        Grouped(METHODS[method](config.discount, batch_size=number), config.rows // number),
        stack_draws([endless_data(mdp, policy, config.discount)] * len(seeds)),
        jnp.stack([jax.random.key(seed) for seed in seeds]),
        jnp.full(len(seeds), config.learning_rate),
        steps=config.steps,
        exact=exact_occupancy(mdp, policy, config.discount),
        target_rate=config.target_rate,
        progress=progress,
    )
    base = {"phase": "evaluate", "method": method, "discount": config.discount, "candidates": number}
    variation = {"constant": result.error, "averaged": result.average_error}
    return [
        base | {"regime": regime, "seed": seed, "error": float(errors[-1, lane]) * mdp.n_states / 2}
        for regime, errors in variation.items()
        for lane, seed in enumerate(seeds)
    ]
