"""Run a policy on the fixed evaluation episodes."""

from collections.abc import Callable, Sequence

import numpy as np

from tdinfonce.errors import EnvironmentLost, UserError, nearest
from tdinfonce.seeding import evaluation_seeds, generator
from tdinfonce.training.collect import Exploration, Outcome, Policy, collect
from tdinfonce.types import GoalEnv, Metrics

__all__ = ["ACTING", "NOISE", "act_as", "evaluate", "summarise"]

TRIES = 5
ACTING = ("greedy", "sampled", "noisy")
"""Ways of a policy to act: its best action, samples of it, or its best action with Gaussian noise."""
NOISE = 0.2
"""Standard deviation of the noise, of actions in [-1, 1]."""


def act_as(acting: str, make: Callable[[int, bool], Policy]) -> tuple[Policy, Exploration]:
    """A policy that acts in one of the ways of `ACTING`, and what is added to its actions.

    Args:
        acting: the way.
        make: from a seed and whether it is greedy to a policy of one episode.
    """
    if acting not in ACTING:
        raise nearest("way of acting", acting, ACTING)
    noise = Exploration(noise=NOISE if acting == "noisy" else 0.0)
    if acting != "sampled":
        return make(0, True), noise
    policies: list[Policy] = []

    def sample(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        """Each episode has draws of its own."""
        if time == 0:
            policies.append(make(len(policies), False))
        return policies[-1](observation, goal, time)

    return sample, noise


def evaluate(
    env: GoalEnv,
    policy: Policy,
    episodes: int,
    *,
    explore: Exploration | None = None,
    each: Callable[[Outcome], None] | None = None,
) -> Metrics:
    """Success and distance over the first ``episodes`` evaluation episodes, without exploration unless it is asked for.

    ``success_any`` (the goal is reached at some step) is the paper's measure; ``success_final`` asks the last step.
    Where the environment has fixed tasks they take turns, and ``success_task_1`` and so on are those of each.
    """
    outcomes, tasks = [], env.spec.tasks
    for seed in evaluation_seeds(episodes, tasks):
        outcome = _episode(env, policy, seed, explore)
        outcomes.append(outcome)
        if each is not None:
            each(outcome)
    each_task = {f"success_task_{task + 1}": outcomes[task::tasks] for task in range(min(tasks, episodes))}
    return summarise(outcomes) | {name: summarise(found)["success_any"] for name, found in each_task.items()}


def _episode(env: GoalEnv, policy: Policy, seed: int, explore: Exploration | None) -> Outcome:
    """An episode belongs to its seed, so one that its environment did not survive is run again."""
    for _ in range(TRIES):
        try:
            return collect(env, policy, seed, generator(seed, "evaluation-noise"), explore)[1]
        except EnvironmentLost as error:
            reason = error
    raise UserError(f"the environment was lost {TRIES} times in one evaluation episode: {reason}")


def summarise(outcomes: Sequence[Outcome]) -> Metrics:
    """Means over episodes."""
    names = ("success_any", "success_final", "min_distance", "final_distance", "length")
    return {name: float(np.mean([getattr(o, name) for o in outcomes])) for name in names} | {"episodes": len(outcomes)}
