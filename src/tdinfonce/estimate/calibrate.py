"""Does what was predicted happen? The chance that a policy is near a place, by its critic and by rollouts."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce import seeding
from tdinfonce.analysis.calibration import Calibration
from tdinfonce.errors import UserError
from tdinfonce.occupancy import Occupancy
from tdinfonce.plans.plan import Plan, check_sizes
from tdinfonce.plans.policy import TrainedPolicy, load
from tdinfonce.plans.run import Run
from tdinfonce.system.progress import Progress
from tdinfonce.training.collect import Policy
from tdinfonce.training.compiled import policy_of
from tdinfonce.types import GoalEnv, Step

__all__ = ["calibrate", "measure"]

TAIL = 1e-3
"""How much of the discounted future may lie behind the end of a rollout."""
LIMITS = {"starts": (2, 10**5), "rollouts": (2, 10**4), "places": (2, 10**4), "bins": (1, 1000), "seed": (0, 2**63 - 1)}
MOST_STEPS = 10**9
Ask = Callable[[np.ndarray, np.ndarray, np.ndarray], Occupancy]
"""(observation, goal, action), a batch of each → what is predicted."""


def calibrate(
    policy: Any,
    env: Any = None,
    *,
    starts: int = 100,
    rollouts: int = 5,
    places: int = 20,
    radius: float | None = None,
    bins: int = 10,
    seed: int = 0,
    best: bool = False,
    out: str | Path | None = None,
) -> Calibration:
    """Hold a critic's probabilities against those of rollouts: how much of its discounted future a policy spends within
    a radius of a place.

    The policy acts as its critic takes it to act: by samples. Rollouts go on past the environment's time limit, as a
    critic that learns by temporal differences does, until a thousandth of the future is left. Where the environment
    ends an episode before that limit, the rest of the future stays where it ended.

    Args:
        policy: a `TrainedPolicy`, a `Run` or a run folder, whose critic is a model of the occupancy.
        env: where; anything that `tdinfonce.plan` takes. Default: the run's own environment.
        starts: how many, each with its goal, from the environment's reset.
        rollouts: from each start; one more only chooses places.
        places: of each start: half from the discounted future of that one rollout, half from the stored states that
            are the critic's candidates.
        radius: how near is near; default: the environment's tolerance, or a quarter of the standard deviation of the
            candidates if it has none.
        bins: of the predictions, for the expected calibration error.
        seed: of starts, samples and places; no training or evaluation episode has these starts.
        best: of a run: the policy that did best during training instead of the newest one.
        out: a folder, to write ``calibration.json`` and ``calibration.png`` to.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", agent="td-infonce", env_steps=1_000, out="runs/asked")
    >>> found = td.calibrate(run, starts=5, rollouts=2)
    >>> 0 <= found.error <= found.mean_absolute_error <= 1
    True
    """
    counts = {"starts": starts, "rollouts": rollouts, "places": places, "bins": bins, "seed": seed}
    _check(counts, radius, out)
    policy = policy.policy(best=best) if isinstance(policy, Run) else policy
    policy = load(policy, best=best) if isinstance(policy, str | Path) else policy
    if not isinstance(policy, TrainedPolicy):
        raise UserError(f"policy must be a trained policy, a run or its folder; got {type(policy).__name__}")
    _check_occupancy(policy)
    plan = _in_this_process(policy.plan.at(env))

    def ask(observation: np.ndarray, goal: np.ndarray, action: np.ndarray) -> Occupancy:
        return policy.occupancy(observation, goal, policy.spec.native_action(action))

    def sample(seed: int, steps: int) -> Policy:
        return policy_of(policy.agent, seed, steps)

    with contextlib.closing(plan.make_env()) as world:
        check_sizes(policy.spec, world.spec)
        found = measure(world, sample, ask, plan.agent_config.discount, radius=radius, **counts)
    about = {"env": plan.env, "agent": plan.agent, "preset": plan.preset, "trained_with_seed": plan.seed}
    about |= {"env_steps": policy.env_steps, "updates": policy.updates}
    found = dataclasses.replace(found, about=about | found.about)
    if out is not None:
        found.save(out)
    return found


def measure(
    env: GoalEnv,
    sample: Callable[[int, int], Policy],
    ask: Ask,
    discount: float,
    *,
    starts: int,
    rollouts: int,
    places: int,
    radius: float | None = None,
    bins: int = 10,
    seed: int = 0,
) -> Calibration:
    """Hold anybody's probabilities against rollouts; see `calibrate`.

    Args:
        env: where.
        sample: from a seed and a number of steps to a policy, which draws its actions by that seed.
        ask: what is predicted.
        discount: of the future.
        starts, rollouts, places, radius, bins, seed: as in `calibrate`.
    """
    steps = max(1, math.ceil(math.log(TAIL) / math.log(discount))) if discount > 0 else 1
    total = starts * (rollouts + 1) * steps
    if total > MOST_STEPS:
        raise UserError(f"{starts:,} starts with {rollouts:,} rollouts are {total:,} steps; ask for fewer")
    law = discount ** np.arange(steps, dtype=np.float64)
    law /= law.sum()
    pairs, ended = [], 0
    with Progress(f"calibrate on {env.spec.name}", total) as bar:
        for number in range(starts):
            first, *others = (
                _roll_out(env, sample, steps, (seed, number, number * (rollouts + 1) + index))
                for index in range(rollouts + 1)
            )
            actions = np.stack([other.action for other in others])
            start, goal = (np.repeat(x[None], rollouts, axis=0) for x in (first.observation, first.goal))
            predicted = ask(start, goal, actions)
            radius = _radius(env, predicted.candidates) if radius is None else radius
            rng = seeding.generator(seed, "calibrate-places", number)
            chosen = _places(first.path, predicted.candidates, law, places, rng)
            pairs.append(_pairs(others, predicted, chosen, law, radius) | {"start": np.full(places, number)})
            ended += sum(rollout.ended for rollout in (first, *others))
            bar.advance(total // starts)
    columns: Any = {name: np.concatenate([part[name] for part in pairs]) for name in pairs[0]}
    about: dict[str, Any] = {"seed": seed, "starts": starts, "rollouts": rollouts, "places": places, "steps": steps}
    about["ended_early"] = ended / (starts * (rollouts + 1))
    assert radius is not None
    return Calibration(**columns, radius=float(radius), discount=float(discount), about=about, bins=bins)


class Rollout(NamedTuple):
    """Where a policy went."""

    observation: np.ndarray
    """Of the start."""
    achieved: np.ndarray
    """The start as a place."""
    goal: np.ndarray
    action: np.ndarray
    """The first one."""
    path: np.ndarray
    """``[steps, goal_size]``, the places after each step."""
    ended: bool
    """Whether the environment ended it before its time limit."""


def _roll_out(env: GoalEnv, sample: Callable[[int, int], Policy], steps: int, address: tuple[int, int, int]) -> Rollout:
    seed, number, index = address
    policy = sample(seeding.derive(seed, "calibrate-policy", index), steps)
    start = env.reset(seeding.derive(seed, "calibrate", number))
    observation, path, actions = start.observation, np.zeros((steps, env.spec.goal_size), np.float32), []
    for time in range(steps):
        actions.append(np.asarray(policy(observation, start.goal, time), np.float32))
        step = _step(env, actions[-1], time)
        observation, path[time:] = step.observation, step.achieved
        if step.done and time + 1 < env.spec.episode_length:
            return Rollout(start.observation, start.achieved, start.goal, actions[0], path, ended=True)
    return Rollout(start.observation, start.achieved, start.goal, actions[0], path, ended=False)


def _step(env: GoalEnv, action: np.ndarray, time: int) -> Step:
    """A step, also past the time limit."""
    if time < env.spec.episode_length:
        return env.step(action)
    try:
        return env.step(action)
    except Exception as error:  # it is the user's code
        raise UserError(
            f"{env.spec.name} cannot go on past its time limit of {env.spec.episode_length} steps, and the discounted "
            f"future is longer ({error}); give one with a longer limit (env)"
        ) from error


def _places(
    path: np.ndarray, candidates: np.ndarray, law: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Half where the policy will be, half where anybody was."""
    visited = path[rng.choice(len(path), count // 2, p=law)]
    stored = candidates[rng.integers(len(candidates), size=count - count // 2)]
    return np.concatenate([visited, stored]).astype(np.float64)


def _pairs(
    rollouts: list[Rollout], predicted: Occupancy, places: np.ndarray, law: np.ndarray, radius: float
) -> dict[str, np.ndarray]:
    """What is said of each place: the mean over the first actions, and over the rollouts that began with them."""
    inside = [np.linalg.norm(r.path[:, None] - places, axis=-1) <= radius for r in rollouts]
    observed = np.stack([law @ each for each in inside])
    return {
        "predicted": np.clip(predicted.probability(places, radius).mean(axis=0), 0, 1),
        "observed": observed.mean(axis=0),
        "standard_error": observed.std(axis=0, ddof=1) / math.sqrt(len(rollouts)),
        "distance": np.linalg.norm(places - rollouts[0].achieved, axis=-1),
    }


def _radius(env: GoalEnv, candidates: np.ndarray) -> float:
    whole = len(env.spec.deciding) == env.spec.goal_size
    if env.spec.tolerance and whole:
        return env.spec.tolerance
    spread = float(np.sqrt(candidates.var(axis=0).sum())) / 4
    if not spread > 0:
        raise UserError("all candidates are one place; name a radius (radius)")
    return spread


def _in_this_process(plan: Plan) -> Plan:
    """The worker of an environment makes it anew when it fails; here that must be seen."""
    if plan.kind == "offline":
        return plan
    return dataclasses.replace(plan, training=dataclasses.replace(plan.training, env_worker=False))


def _check_occupancy(policy: TrainedPolicy) -> None:
    if policy.spec.image is not None:
        raise UserError("places are compared by their distance, which says nothing of images")


def _check(counts: dict[str, int], radius: float | None, out: str | Path | None) -> None:
    for name, (low, high) in LIMITS.items():
        value = counts[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise UserError(f"{name} must be a whole number from {low:,} to {high:,}; got {value!r}")
    if radius is not None and not (isinstance(radius, int | float | np.number) and 0 < radius < math.inf):
        raise UserError(f"radius must be a positive number; got {radius!r}")
    if out is not None and not Path(out).is_dir():
        raise UserError(f"there is no folder {out} to write to (out)")
