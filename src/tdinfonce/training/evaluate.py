"""Run a policy on the fixed evaluation episodes."""

from collections.abc import Callable, Sequence

import numpy as np

from tdinfonce.errors import EnvironmentLost, UserError
from tdinfonce.seeding import evaluation_seeds
from tdinfonce.training.collect import Outcome, Policy, collect
from tdinfonce.types import GoalEnv, Metrics

__all__ = ["evaluate", "summarise"]

TRIES = 5


def evaluate(env: GoalEnv, policy: Policy, episodes: int, *, each: Callable[[Outcome], None] | None = None) -> Metrics:
    """Success and distance over the first ``episodes`` evaluation episodes, without exploration.

    ``success_any`` (the goal is reached at some step) is the paper's measure; ``success_final`` asks the last step.
    Where the environment has fixed tasks they take turns, and ``success_task_1`` and so on are those of each.
    """
    rng = np.random.default_rng(0)  # never drawn from: there is no exploration
    outcomes, tasks = [], env.spec.tasks
    for seed in evaluation_seeds(episodes, tasks):
        outcome = _episode(env, policy, seed, rng)
        outcomes.append(outcome)
        if each is not None:
            each(outcome)
    each_task = {f"success_task_{task + 1}": outcomes[task::tasks] for task in range(min(tasks, episodes))}
    return summarise(outcomes) | {name: summarise(found)["success_any"] for name, found in each_task.items()}


def _episode(env: GoalEnv, policy: Policy, seed: int, rng: np.random.Generator) -> Outcome:
    """An episode belongs to its seed, so one that its environment did not survive is run again."""
    for _ in range(TRIES):
        try:
            return collect(env, policy, seed, rng)[1]
        except EnvironmentLost as error:
            reason = error
    raise UserError(f"the environment was lost {TRIES} times in one evaluation episode: {reason}")


def summarise(outcomes: Sequence[Outcome]) -> Metrics:
    """Means over episodes."""
    names = ("success_any", "success_final", "min_distance", "final_distance", "length")
    return {name: float(np.mean([getattr(o, name) for o in outcomes])) for name in names} | {"episodes": len(outcomes)}
