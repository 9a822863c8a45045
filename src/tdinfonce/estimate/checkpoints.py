"""Checkpoints of a run as policies to evaluate, from the log of an early one: `policy-evaluation-continuous`."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.data import Episodes
from tdinfonce.estimate import rivals
from tdinfonce.estimate._logged import open_logged
from tdinfonce.estimate._members import build_steps
from tdinfonce.estimate._target import make_policy
from tdinfonce.estimate.off_policy import estimate
from tdinfonce.estimate.predictor import Config
from tdinfonce.plans.plan import Plan, plan, read_plan
from tdinfonce.plans.policy import TrainedPolicy
from tdinfonce.plans.train import train
from tdinfonce.runs import checkpoint
from tdinfonce.system.machine import visible_cores
from tdinfonce.tabular.parallel import run_jobs
from tdinfonce.training.collect import Exploration, collect
from tdinfonce.types import GoalEnv

__all__ = ["METHODS", "Checkpoints", "Task", "compare", "fits"]

METHODS = ("td", "mc", "fqe")
TAIL = 1e-3
"""How much of the discounted future may lie behind the end of a rollout."""


@dataclass(frozen=True)
class Task:
    """Where, and what is asked."""

    env: str
    """Environment."""
    goals: tuple[tuple[float, ...], ...]
    """Each checkpoint is told each of them: so many policies."""
    near: float
    """A place is near a goal within this."""
    settings: tuple[tuple[str, Any], ...]
    """Of the training run."""


POINT = Task("point", ((0.6, 0.6), (-0.5, 0.2)), 0.3, (("env_steps", 1_200), ("eval_every", 300)))
REACH = Task("fetch-reach", ((1.42, 0.85, 0.6), (1.25, 0.65, 0.45)), 0.08, (("env_steps", 2_000), ("eval_every", 400)))


@dataclass(frozen=True)
class Checkpoints:
    """What is evaluated, from how much data."""

    tasks: tuple[Task, ...] = (POINT, REACH)
    """Environments."""
    discount: float = 0.9
    """Of all values."""
    kept: int = 3
    """Checkpoints of each run; the data are by the first of them."""
    episodes: int = 200
    """Of data, with goals of the environment's own choice."""
    noise: float = 0.3
    """Standard deviation of what is added to the actions of the data."""
    uniform: float = 0.3
    """Share of the actions of the data that are uniform."""
    starts: int = 30
    """First states from which values are asked."""
    updates: int = 2_000
    """Of each network of every method."""
    rate: float = 3e-3
    """Learning rate, likewise."""
    target_rate: float = 0.05
    """Likewise."""

    @property
    def steps(self) -> int:
        """Of a rollout."""
        return math.ceil(math.log(TAIL) / math.log(self.discount))


def fits(config: Checkpoints, seeds: Sequence[int]) -> int:
    """How many policies there are."""
    return sum(len(task.goals) for task in config.tasks) * config.kept * len(seeds)


def compare(
    config: Checkpoints,
    seeds: Sequence[int],
    log: Callable[[Mapping[str, Any]], None],
    advance: Callable[[int], None],
) -> None:
    """Hand out what rollouts and every method say of every policy."""
    jobs = [(config, number, seed) for number in reversed(range(len(config.tasks))) for seed in seeds]
    for rows in run_jobs(_evaluate, jobs, visible_cores(), advance):
        for row in rows:
            log(row)


def _evaluate(config: Checkpoints, number: int, seed: int, advance: Callable[[int], None]) -> list[dict[str, Any]]:
    """Train, log, and evaluate each checkpoint told each goal."""
    task, rows = config.tasks[number], []
    with tempfile.TemporaryDirectory() as folder:
        plan, policies = _train(task, config.kept, Path(folder) / "run", seed)
    with contextlib.closing(plan.make_env()) as env:
        data = _log_data(env, policies[0], config, seed)
        rewards = make_rewards(task, data)
        spread = rewards(data.observation).std(axis=0)
        for policy in policies:
            for goal in task.goals:
                truth = _roll_out(env, policy, goal, rewards, config, seed)
                base = {"env": task.env, "seed": seed, "env_steps": policy.env_steps, "goal": task.goals.index(goal)}
                rows.append({"phase": "truth", **base, "values": truth.tolist(), "spread": spread.tolist()})
                for method in METHODS:
                    begun = time.perf_counter()
                    values = _evaluate_by(method, config, policy, goal, data, rewards, seed)
                    found = {"method": method, "values": values.tolist(), "seconds": time.perf_counter() - begun}
                    rows.append({"phase": "evaluate"} | base | found)
                advance(1)
    return rows


def _train(task: Task, kept: int, folder: Path, seed: int) -> tuple[Plan, list[TrainedPolicy]]:
    """A short run of TD InfoNCE; its newest checkpoints, the oldest first."""
    wanted = plan(task.env, seed=seed, threads=1, keep_checkpoints=kept, final_episodes=1, **dict(task.settings))
    run = train(wanted, out=folder, loggers=()).folder
    _, spec = read_plan(run)
    assert spec is not None
    policies = []
    for path in checkpoint.list_checkpoints(run):
        counters, parts = checkpoint.read(path, "agent")
        agent = checkpoint.restore_agent(wanted.create_agent(spec, 0), parts["agent"])
        policies.append(TrainedPolicy(agent, spec, wanted, counters["env_steps"], counters["updates"]))
    return wanted, policies


def _log_data(env: GoalEnv, policy: TrainedPolicy, config: Checkpoints, seed: int) -> Episodes:
    rng, explore = seeding.generator(seed, "evaluate/explore"), Exploration(config.noise, config.uniform)
    act = policy.for_episodes()
    return Episodes.of([collect(env, act, _start(seed, n), rng, explore)[0] for n in range(config.episodes)])


def _start(seed: int, number: int) -> int:
    return seeding.derive(seed, "evaluate/start", number)


def make_rewards(task: Task, data: Episodes) -> Callable[[np.ndarray], np.ndarray]:
    """Functions of place, which stands first in the observation: for each goal the distance to it and whether it is
    near, then whether the first and whether the second coordinate lies below its median.
    """
    size = len(task.goals[0])
    middle = np.median(data.observation[:, :2], axis=0)

    def rewards(observation: np.ndarray) -> np.ndarray:
        place = np.asarray(observation)[:, :size]
        far = [np.linalg.norm(place - np.array(goal, np.float32), axis=1) for goal in task.goals]
        columns = [*far, *(distance < task.near for distance in far), *(place[:, :2] < middle).T]
        return np.stack(columns, axis=1).astype(np.float64)

    return rewards


def _roll_out(
    env: GoalEnv, policy: TrainedPolicy, goal: Any, rewards: Any, config: Checkpoints, seed: int
) -> np.ndarray:
    """``[rewards]``, the mean over the first episodes' starts, past the time limit if need be."""
    act, place = policy.for_episodes(), np.array(goal, np.float32)
    weight = config.discount ** np.arange(config.steps)
    total = []
    for number in range(config.starts):
        path = [env.reset(_start(seed, number)).observation]
        for step in range(config.steps - 1):
            path.append(env.step(np.asarray(act(path[-1], place, step), np.float32)).observation)
        total.append(weight @ rewards(np.stack(path)))
    return np.mean(total, axis=0)


def _evaluate_by(
    method: str, config: Checkpoints, policy: TrainedPolicy, goal: Any, data: Episodes, rewards: Any, seed: int
) -> np.ndarray:
    """``[rewards]``, the values by one of the `METHODS`."""
    start = data.observation[data.start[: config.starts]]
    settings: dict[str, Any] = {
        "discount": config.discount,
        "learning_rate": config.rate,
        "target_rate": config.target_rate,
    }
    if method != "fqe":
        found = estimate(
            data,
            policy,
            goal=goal,
            method=method,
            table=False,
            terminal="continue",
            seed=seed,
            updates=config.updates,
            **settings,
        )
        return np.asarray(found.value(rewards, start=start).mean)
    logged = open_logged(data, "continue", False, None)
    choose = make_policy(policy, goal, logged)
    assert choose is not None
    steps, _ = build_steps(logged, choose(logged.state), np.random.default_rng(seed), np.arange(len(data)))
    rows = logged.start[: config.starts]
    value = rivals.fitted_q_smooth(steps, rewards(logged.state), Config(**settings), config.updates, seed, rows)
    return value.mean(axis=0)
