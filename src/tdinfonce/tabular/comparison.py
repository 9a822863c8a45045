"""Compare estimators on the gridworld: the same data, the same grid of step sizes, tuned on seeds of their own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.estimators import CLearning, McInfonce, Successor, TdInfonce, certainty_equivalence
from tdinfonce.tabular.estimators.c_learning import CLearningVariant
from tdinfonce.tabular.fit import Estimator, Fit, fit
from tdinfonce.tabular.gridworld import ACTIONS, gridworld
from tdinfonce.tabular.mdp import Table, exact_occupancy, rollouts, uniform_policy
from tdinfonce.tabular.parallel import run_jobs
from tdinfonce.tabular.statistics import Draws, Statistics, stack_draws, summarise

__all__ = ["METHODS", "Comparison", "compare", "lane_steps"]

Row = dict[str, Any]

METHODS: dict[str, Callable[..., Estimator]] = {
    "td-infonce": TdInfonce,
    "contrastive-rl": McInfonce,
    "c-learning": CLearning,
    "c-learning-normalised": lambda discount, **sizes: CLearning(discount, normalise=True, **sizes),
    "successor": Successor,
}
for _bits in range(8):
    _switches = {"categorical": bool(_bits & 4), "self_normalised": bool(_bits & 2), "all_pairs": bool(_bits & 1)}
    METHODS["ablation-" + ("".join(c for c, on in zip("abc", _switches.values(), strict=True) if on) or "none")] = (
        lambda discount, _switches=_switches, **sizes: CLearningVariant(discount, **_switches, **sizes)
    )

TUNING_SEED = 1000
"""Tuning seeds count from here, evaluation seeds from 0."""


@dataclass(frozen=True)
class Comparison:
    """What to compare, and how hard to try."""

    methods: tuple[str, ...]
    """Names in `METHODS`."""
    sizes: tuple[tuple[float, tuple[int, ...]], ...]
    """For each discount, the sizes of the data sets (transitions)."""
    tuning_sizes: tuple[int, ...]
    """Sizes at which step sizes are tuned; a size between two of them takes the best over both."""
    steps: int = 50_000
    """Gradient steps."""
    points: int = 1
    """How often the error is measured."""
    learning_rates: tuple[float, ...] = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
    """The grid of step sizes, the same for every method."""
    tuning_seeds: int = 1
    """How many seeds tune; none of them evaluates."""
    episode_length: int = 10_000
    """Longest episode; long ones spare the Monte Carlo baseline the bias of cut-off futures."""
    batch_size: int = 256
    """Transitions in each minibatch."""
    target_rate: float = 0.005
    """Share of the new table in the target at each step."""
    slip: float = 0.0
    """Chance that the world replaces an action by a random one."""
    workers: int = field(default_factory=visible_cores)
    """Methods trained at the same time, a process each."""


REGIMES = ("constant", "averaged")


def lane_steps(config: Comparison, seeds: Sequence[int]) -> int:
    """Upper bound of the work, for the progress bar."""
    lanes = 0
    for _, sizes in config.sizes:
        tuned = len(_tuned(config, sizes)) * config.tuning_seeds * len(config.learning_rates)
        lanes += len(config.methods) * (tuned + len(REGIMES) * len(sizes) * len(seeds))
    return lanes * config.steps


def compare(
    config: Comparison,
    seeds: Sequence[int],
    log: Callable[[Row], None],
    progress: Callable[[int], None] = lambda steps: None,
) -> None:
    """Tune and evaluate every method at every discount and size; hand each result to ``log``.

    Rows say ``phase``: ``tune`` (final errors of the grid), ``choice`` (the step size taken for each regime),
    ``evaluate``, and ``picture`` (one row of the estimate itself). The regimes are ``constant`` (last iterate, as in
    the paper) and ``averaged`` (average of iterates); ``floor`` marks closed-form answers from the same data.
    """
    mdp = gridworld(slip=config.slip)
    policy = uniform_policy(mdp)
    exact = {discount: exact_occupancy(mdp, policy, discount) for discount, _ in config.sizes}
    data = _collect(config, seeds)
    for discount, table in exact.items():
        log(_picture(table) | {"method": "exact", "discount": discount})
    for (discount, size, seed), statistics in data.items():
        if seed < TUNING_SEED:
            for row in _floors(statistics, discount, exact[discount]):
                log({"phase": "evaluate", "discount": discount, "size": size, "seed": seed, "regime": "floor"} | row)
    jobs = [
        (config, method, discount, sizes, seeds, {k: v for k, v in data.items() if k[0] == discount}, exact[discount])
        for discount, sizes in config.sizes
        for method in config.methods
    ]
    for rows in run_jobs(_compare_one, jobs, config.workers, progress):
        for row in rows:
            log(row)


def _collect(config: Comparison, seeds: Sequence[int]) -> dict[tuple[float, int, int], Statistics]:
    """Walk once for each seed and size; count at each discount."""
    wanted: dict[tuple[int, int], list[float]] = {}
    for discount, sizes in config.sizes:
        plan = [(size, seeds) for size in sizes]
        plan += [(size, range(TUNING_SEED, TUNING_SEED + config.tuning_seeds)) for size in _tuned(config, sizes)]
        for size, who in plan:
            for seed in who:
                wanted.setdefault((size, seed), []).append(discount)
    jobs = [(config, size, seed, tuple(discounts)) for (size, seed), discounts in sorted(wanted.items(), reverse=True)]
    walked = run_jobs(_walk, jobs, config.workers, lambda steps: None)
    return {key: statistics for found in walked for key, statistics in found.items()}


def _walk(
    config: Comparison, size: int, seed: int, discounts: Sequence[float], _: Callable[[int], None]
) -> dict[tuple[float, int, int], Statistics]:
    mdp = gridworld(slip=config.slip)
    episodes = -(-size // config.episode_length)
    length = -(-size // episodes)
    rng = np.random.default_rng((seed, size))
    walk = rollouts(mdp, uniform_policy(mdp), rng, episodes=episodes, steps=length + 1)
    # The last transition of an episode has no next action, hence the extra step; trim the excess of rounding up.
    walk.lengths[-1] -= episodes * length - size
    return {(d, size, seed): summarise(walk, mdp.n_states, mdp.n_actions, d) for d in discounts}


def _floors(statistics: Statistics, discount: float, exact: Table) -> Iterable[Row]:
    solved = certainty_equivalence(statistics, discount)
    yield {"method": "certainty-equivalence", "error": _error(solved, exact)}
    visits = statistics.futures.sum(axis=1, keepdims=True)
    share = np.where(visits > 0, statistics.futures / np.maximum(visits, 1e-300), statistics.future_marginal)
    yield {"method": "monte-carlo-frequencies", "error": _error(share.reshape(exact.shape), exact)}


def _error(estimate: Table, exact: Table) -> float:
    return float(np.mean(np.abs(estimate - exact)))


def _compare_one(
    config: Comparison,
    method: str,
    discount: float,
    sizes: Sequence[int],
    seeds: Sequence[int],
    data: dict[tuple[float, int, int], Statistics],
    exact: Table,
    progress: Callable[[int], None],
) -> list[Row]:
    base = {"method": method, "discount": discount}

    estimator = METHODS[method](discount, batch_size=config.batch_size)

    def draws(lanes: list[tuple[int, int, float]]) -> Draws:
        return stack_draws([data[discount, size, seed] for size, seed, _ in lanes])

    def train(lanes: list[tuple[int, int, float]], points: int) -> Fit:
        keys = [jax.random.fold_in(jax.random.key(seed), size) for size, seed, _ in lanes]
        return fit(
            estimator,
            draws(lanes),
            jnp.stack(keys),
            jnp.asarray([rate for _, _, rate in lanes]),
            steps=config.steps,
            points=points,
            exact=exact,
            target_rate=config.target_rate,
            progress=progress,
        )

    tuned = _tuned(config, sizes)
    who = range(TUNING_SEED, TUNING_SEED + config.tuning_seeds)
    grid = [(size, seed, rate) for size in tuned for seed in who for rate in config.learning_rates]
    trial = train(grid, 1)
    rows = []
    for lane, (size, seed, rate) in enumerate(grid):
        final = {"constant": float(trial.error[-1, lane]), "averaged": float(trial.average_error[-1, lane])}
        rows.append(base | {"phase": "tune", "size": size, "seed": seed, "learning_rate": rate} | final)
    chosen = {(size, regime): _best(rows, regime, _around(tuned, size)) for size in sizes for regime in REGIMES}
    rows += [
        base | {"phase": "choice", "size": size, "regime": regime, "learning_rate": rate}
        for (size, regime), rate in chosen.items()
    ]
    plan = sorted({(size, seed, chosen[size, regime]) for size in sizes for seed in seeds for regime in REGIMES})
    progress(config.steps * (len(REGIMES) * len(sizes) * len(seeds) - len(plan)))
    result = train(plan, config.points)
    for lane, (size, seed, rate) in enumerate(plan):
        for regime, errors in zip(REGIMES, (result.error, result.average_error), strict=True):
            if chosen[size, regime] == rate:
                row = base | {"phase": "evaluate", "regime": regime, "size": size, "seed": seed, "learning_rate": rate}
                rows += [
                    row | {"step": int(step), "error": float(error)}
                    for step, error in zip(result.steps, errors[:, lane], strict=True)
                ]
    shown = plan.index((max(sizes), 0, chosen[max(sizes), "constant"]))
    estimate = estimator.occupancy(result.table[shown], jax.tree.map(lambda x: x[0], draws([plan[shown]])))
    return [*rows, base | _picture(estimate)]


def _picture(occupancy: Array | Table) -> Row:
    """Where the walk goes from the corner after its first step, for a figure."""
    state, action = 0, ACTIONS.index("right")
    row = [float(p) for p in occupancy[state, action]]
    return {"phase": "picture", "state": state, "action": action, "occupancy": row}


def _tuned(config: Comparison, sizes: Sequence[int]) -> list[int]:
    """The tuning sizes that the sizes to evaluate need."""
    return sorted({near for size in sizes for near in _around(config.tuning_sizes, size)})


def _around(tuning_sizes: Sequence[int], size: int) -> list[int]:
    """The tuning sizes next to ``size`` on either side, or itself."""
    below = [t for t in tuning_sizes if t <= size]
    above = [t for t in tuning_sizes if t >= size]
    return sorted({*([max(below)] if below else []), *([min(above)] if above else [])})


def _best(rows: list[Row], regime: str, sizes: list[int]) -> float:
    """The step size with the lowest mean log error over the given tuning sizes and all tuning seeds."""
    scores: dict[float, list[float]] = {}
    for row in rows:
        if row["size"] in sizes:
            scores.setdefault(row["learning_rate"], []).append(np.log(row[regime]))
    return min(scores, key=lambda rate: float(np.mean(scores[rate])) if np.all(np.isfinite(scores[rate])) else np.inf)
