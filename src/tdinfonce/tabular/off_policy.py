"""Two tests of off-policy reasoning on the gridworld: stitching trajectories, and finding shortcuts.

Monte Carlo estimates where the *behaviour* went after an action. It ranks two actions wrongly only where an action is
good if one acts differently later than the data did. Both tests are built on that; `docs/off-policy.md` draws them.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.control import GoalMcInfonce, GoalTdInfonce, follow, greedy
from tdinfonce.tabular.fit import fit
from tdinfonce.tabular.gridworld import ACTIONS, follow_words, gridworld, sample_paths, shortest_path, state, z_words
from tdinfonce.tabular.mdp import Trajectories
from tdinfonce.tabular.parallel import run_jobs
from tdinfonce.tabular.statistics import Statistics, stack_draws, summarise

__all__ = ["OffPolicy", "Task", "compare_policies", "policy_lane_steps", "shortcut_tasks", "stitching_tasks"]

METHODS: dict[str, type[GoalTdInfonce] | type[GoalMcInfonce]] = {
    "td-infonce": GoalTdInfonce,
    "contrastive-rl": GoalMcInfonce,
}
TUNING_SEED = 1000


@dataclass(frozen=True)
class Task:
    """A data set made of a few paths, and the journeys to try afterwards."""

    name: str
    """Its name in tables."""
    paths: tuple[tuple[int, str], ...]
    """(start, word) of each path, see `tdinfonce.tabular.gridworld.follow_words`."""
    share: tuple[float, ...]
    """The chance of each path."""
    steps: int
    """Actions of each episode; a path that ends sooner stays."""
    journeys: tuple[tuple[int, int], ...]
    """(start, goal) pairs to try."""


@dataclass(frozen=True)
class OffPolicy:
    """What to try, and how hard."""

    tasks: tuple[Task, ...]
    """The data sets."""
    discount: float = 0.95
    """Discount of both methods."""
    transitions: int = 20_000
    """Size of each data set."""
    steps: int = 50_000
    """Gradient steps."""
    learning_rates: tuple[float, ...] = (1e-3, 2e-3, 5e-3, 1e-2)
    """The grid of step sizes, the same for both methods; tuned on a seed of its own."""
    limit: int = 50
    """A journey longer than this has failed."""
    workers: int = field(default_factory=visible_cores)
    """Trained at the same time, a process each."""


def stitching_tasks() -> tuple[Task, ...]:
    """Zig-zag paths between opposite corners; journeys between corners that share an edge, never in one episode."""
    paths = z_words()
    corners = (state(0, 0), state(0, 4), state(4, 0), state(4, 4))
    journeys = [(a, b) for a, b in itertools.permutations(corners, 2) if a + b != state(4, 4)]
    return (Task("z", tuple(paths), (1 / len(paths),) * len(paths), 8, tuple(journeys)),)


def shortcut_tasks() -> tuple[Task, ...]:
    """95 % long paths, 5 % short ones, between one start and one goal; the last task is a control.

    In the first three the short path begins like the *longer* of two long paths. The behaviour mostly goes the long
    way from there, so on average its first step looks worse than that of the other long path, though the short path
    is open. In the control each action at the fork has an outcome of its own, and Monte Carlo has to be right.
    """
    return (
        _shortcut("across", state(2, 0), "RRRR", "DRRRRU", "RULURRRRDD"),
        _shortcut("down", state(0, 2), "DDDD", "RDDDDL", "DLULDDDDRR"),
        _shortcut("corner", state(4, 0), "UURRR", "RRRRUUL", "UUUURRRRDDL"),
        _shortcut("control", state(2, 0), "RRRR", "DRRRRU"),
    )


def _shortcut(name: str, start: int, short: str, *long: str) -> Task:
    goal = follow_words(start, short)[0][-1]
    paths = tuple((start, word) for word in (short, *long))
    if any(follow_words(start, word)[0][-1] != goal for word in long):
        raise ValueError(f"the paths of {name} must end at one goal")
    return Task(name, paths, (0.05, *(0.95 / len(long) for _ in long)), 12, ((start, goal),))


def policy_lane_steps(config: OffPolicy, seeds: Sequence[int]) -> int:
    """The work, for the progress bar."""
    return len(config.tasks) * len(METHODS) * (len(config.learning_rates) + len(seeds)) * config.steps


def compare_policies(
    config: OffPolicy,
    seeds: Sequence[int],
    log: Callable[[dict[str, Any]], None],
    progress: Callable[[int], None] = lambda steps: None,
) -> None:
    """Train both methods on every task under the same rules, and try the journeys; hand each result to ``log``."""
    for task in config.tasks:
        for row in _behaviour(config, task, _data(config, task, 0)):
            log({"phase": "data", "task": task.name} | row)
    jobs = [(config, task, method, seeds) for task in config.tasks for method in METHODS]
    for rows in run_jobs(_compare_one, jobs, config.workers, progress):
        for row in rows:
            log(row)


def _compare_one(
    config: OffPolicy, task: Task, method: str, seeds: Sequence[int], progress: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Tune the step size, then evaluate."""
    base = {"task": task.name, "method": method}
    tuning = _data(config, task, TUNING_SEED)
    tuned = _journeys(config, task, method, [(tuning, TUNING_SEED, rate) for rate in config.learning_rates], progress)
    scores: dict[float, list[tuple[bool, int]]] = {}
    for row in tuned:
        scores.setdefault(row["learning_rate"], []).append((not row["success"], row["length"]))
    best = min(scores, key=lambda rate: tuple(np.sum(scores[rate], axis=0)))
    lanes = [(_data(config, task, seed), seed, best) for seed in seeds]
    tried = _journeys(config, task, method, lanes, progress)
    return [base | {"phase": "tune"} | row for row in tuned] + [base | {"phase": "evaluate"} | row for row in tried]


def _data(config: OffPolicy, task: Task, seed: int) -> Trajectories:
    rng = np.random.default_rng((seed, config.transitions))
    return sample_paths(task.paths, task.share, rng, transitions=config.transitions, steps=task.steps)


def _count(config: OffPolicy, data: Trajectories) -> Statistics:
    return summarise(data, 25, len(ACTIONS), config.discount, sarsa=False)


def _behaviour(config: OffPolicy, task: Task, data: Trajectories) -> list[dict[str, Any]]:
    """What the data themselves say at each start: how often each action came, and the goal's share of its future."""
    counted = _count(config, data)
    rows = []
    for start, goal in task.journeys:
        visits = counted.moves.sum(axis=1).reshape(25, -1)[start]
        for action in np.nonzero(visits)[0]:
            future = counted.futures.reshape(25, -1, 25)[start, action]
            chance = float(future[goal] / future.sum())
            share = float(visits[action] / visits.sum())
            rows.append({"start": start, "goal": goal, "action": int(action), "share": share, "future": chance})
    return rows


def _journeys(
    config: OffPolicy,
    task: Task,
    method: str,
    lanes: list[tuple[Trajectories, int, float]],
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    mdp = gridworld()
    estimator = METHODS[method](config.discount)
    draws = stack_draws([_count(config, data) for data, _, _ in lanes])
    keys = jnp.stack([jax.random.key(seed) for _, seed, _ in lanes])
    rates = jnp.asarray([rate for _, _, rate in lanes])
    result = fit(estimator, draws, keys, rates, steps=config.steps, progress=progress)
    rows = []
    for lane, (data, seed, rate) in enumerate(lanes):
        one = jax.tree.map(lambda x, lane=lane: x[lane], draws)
        policy = np.asarray(greedy(estimator.scores(result.table[lane], one), one.seen))
        for start, goal in task.journeys:
            path = follow(mdp, policy, start, goal, config.limit)
            row = {"seed": seed, "learning_rate": rate, "start": start, "goal": goal, "path": path}
            done = {"success": path[-1] == goal, "length": len(path) - 1, "shortest": shortest_path(data, start, goal)}
            rows.append(row | done)
    return rows
