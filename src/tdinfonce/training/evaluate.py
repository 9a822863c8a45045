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
    """
    rng = np.random.default_rng(0)  # never drawn from: there is no exploration
    outcomes = []
    for seed in evaluation_seeds(episodes):
        outcome = _episode(env, policy, seed, rng)
        outcomes.append(outcome)
        if each is not None:
            each(outcome)
    return summarise(outcomes)


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
