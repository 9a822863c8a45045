"""What a trained TD InfoNCE critic makes of states, as plain arrays: representations between starts and goals.

φ(s, no action, g) of a start, of a state at the goal, of states that were not trained on and of anchors. Drawing and
arithmetic on them is the business of `tdinfonce.analysis.interpolation`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.data import open_dataset, read_record
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError
from tdinfonce.plans.plan import Plan, read_plan
from tdinfonce.plans.policy import load
from tdinfonce.system.files import write_npz_atomic
from tdinfonce.training import offline

__all__ = ["REPRESENTATIONS", "represent"]

REPRESENTATIONS = "representations.npz"
DRAWS = 50
"""A pair's goal is the farthest of so many states from its start."""


def represent(run: Path, folder: Path, *, pairs: int = 3, states: int = 5_000, anchors: int = 1_000) -> Path:
    """Write ``folder/representations.npz`` from an offline run.

    The first pair of start and goal is the environment's first evaluation episode, the others are far pairs of states
    of the data. Episodes that the run held out serve if there are any.

    Args:
        run: a finished run of td-infonce.
        folder: where to write.
        pairs: how many pairs of start and goal.
        states: how many states to find neighbours among.
        anchors: how many other states the features of the non-parametric way compare with.
    """
    plan, spec = read_plan(run)
    if plan.agent != "td-infonce" or not plan.dataset or not plan.env:
        raise UserError(f"{run} is no offline run of td-infonce with an environment: it has no such representations")
    agent = load(run).agent
    episodes = open_dataset(plan.dataset, goal=plan.goal, default_goal=(spec.data_goal if spec else "") or None)
    _, held_out = offline.split(episodes, plan.training.held_out, plan.seed)
    rng = seeding.generator(plan.seed, "interpolation")
    rows = _rows(held_out or episodes, rng, states + anchors)
    chosen, other = rows[: max(len(rows) - anchors, 1)], rows[-anchors:]
    observation, place = episodes.observation[chosen], episodes.achieved[chosen]
    starts, goals = _pairs(plan, observation, place, rng, pairs)

    found: dict[str, list[np.ndarray]] = {"start": [], "goal": [], "states": [], "anchors": []}
    for start, goal in zip(starts, goals, strict=True):
        # φ wants a whole state at the goal, and a goal is but a place: take the nearest state.
        nearest = observation[np.argmin(np.linalg.norm(place - goal, axis=1))]
        parts = (start[None], nearest[None], observation, episodes.observation[other])
        for name, part in zip(found, parts, strict=True):
            idle = np.zeros((len(part), episodes.action.shape[1]), np.float32)
            found[name].append(np.asarray(agent.represent(part, idle, np.tile(goal, (len(part), 1)))))
    arrays: dict[str, Any] = {name: np.stack(values) for name, values in found.items()}
    arrays |= {
        "place": place,
        "start_place": starts[:, : place.shape[1]],
        "goal_place": goals,
        "maze": np.array(json.dumps(read_record(plan.dataset).get("maze"))),
        "task": np.array(plan.env),
    }
    write_npz_atomic(folder / REPRESENTATIONS, arrays)
    return folder / REPRESENTATIONS


def _rows(episodes: Episodes, rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows of different states, drawn at random."""
    spans = zip(episodes.start, episodes.length, strict=True)
    rows = np.concatenate([np.arange(start, start + length + 1) for start, length in spans])
    return rng.permutation(rows)[:count]


def _pairs(
    plan: Plan, observation: np.ndarray, place: np.ndarray, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start states and goals."""
    env = plan.make_env()
    first = env.reset(seeding.evaluation_seeds(1)[0])
    env.close()
    starts, goals = [first.observation], [first.goal]
    for _ in range(count - 1):
        start, far = int(rng.integers(len(place))), rng.integers(len(place), size=DRAWS)
        starts.append(observation[start])
        goals.append(place[far[np.argmax(np.linalg.norm(place[far] - place[start], axis=1))]])
    return np.stack(starts), np.stack(goals)
