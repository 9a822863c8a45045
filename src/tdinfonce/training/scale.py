"""The scale of an agent's inputs, measured on its data."""

import math

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.types import InputScale

__all__ = ["growth", "scale_of"]


def scale_of(view: Episodes, most: int | None = None) -> InputScale:
    """Mean and standard deviation of the stored observations and achieved goals.

    Coordinates that hardly move get a floor, or they would be blown up: 0.01 for observations (as HER does), and a
    quarter of the widest one for goals, whose coordinates mostly share a unit.

    Args:
        view: the episodes.
        most: look at about so many states, evenly spread, if there are more.
    """
    rows = np.concatenate([np.arange(s, s + n + 1) for s, n in zip(view.start, view.length, strict=True)])
    if most is not None:
        rows = rows[:: max(1, len(rows) // most)]
    observation, goal = view.observation[rows], view.achieved[rows]
    goal_std = goal.std(axis=0)
    floor = max(float(goal_std.max()) / 4, 1e-6)
    return InputScale(
        observation.mean(axis=0),
        np.maximum(observation.std(axis=0), 0.01),
        goal.mean(axis=0),
        np.maximum(goal_std, floor),
    )


def growth(env_steps: int, factor: float) -> int:
    """How often a run of this length has grown by the factor; a change says that it is time for a new scale."""
    return int(math.log(max(env_steps, 1)) / math.log(factor)) if factor > 1 else 0
