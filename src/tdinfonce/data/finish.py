"""From what a reader found to episodes that can be trusted: every value is looked at, block by block."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tdinfonce.data.actions import ActionBounds, normalise_actions
from tdinfonce.data.check import FEWEST_STEPS, Raw, check_lengths, goal_indices, refuse
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.store import BLOCK, empty

__all__ = ["WHOLE", "finish"]

WHOLE = "all"
"""As a goal: the whole observation, whatever goals the data have."""


def finish(
    raw: Raw,
    goal: str | None,
    action_bounds: ActionBounds | None,
    default_bounds: ActionBounds | None,
    memory_limit: int,
    fewest_steps: int = FEWEST_STEPS,
    default_goal: str | None = None,
) -> Episodes:
    """Check the values, cut out the goals, scale the actions, and give the episodes."""
    rows, size = len(raw.observation), math.prod(raw.observation.shape[1:])
    observation_field, action_field, achieved_field, goal_field = raw.fields
    check_lengths(raw.file, observation_field, raw.start, raw.length, raw.locate, fewest_steps)
    if raw.observation.ndim > 2:
        raw, goal = _images(raw, goal), None
    elif goal is None and raw.achieved is None:
        goal = default_goal or raw.usual_goal
    if goal == WHOLE:
        goal, raw = None, raw._replace(achieved=raw.observation, goal=None)
    indices = None if goal is None else goal_indices(goal, size, raw.file, observation_field)
    achieved = raw.achieved
    if achieved is None:
        if indices is None:
            problem = f"say which of its {size} coordinates make the goal, for example goal 0:2"
            raise refuse(raw.file, observation_field, problem)
        achieved = empty((rows, len(indices)), mapped=4 * rows * (size + raw.action.shape[1]) > memory_limit)
    elif indices is not None and len(indices) != achieved.shape[1]:
        raise refuse(raw.file, achieved_field, f"has {achieved.shape[1]} coordinates, but goal names {len(indices)}")
    for first in range(0, rows, BLOCK):
        block = slice(first, first + BLOCK)
        _finite(raw, observation_field, raw.observation[block], first)
        _finite(raw, action_field, raw.action[block], first)
        if raw.achieved is None:
            achieved[block] = raw.observation[block][:, indices]
        else:
            _finite(raw, achieved_field, achieved[block], first)
            if indices is not None:
                _equal(raw, achieved_field, achieved[block], raw.observation[block][:, indices], first)
    action, units = normalise_actions(raw, action_bounds, default_bounds, _steps(raw), memory_limit)
    action[raw.start + raw.length] = 0.0
    arrays = (raw.observation, achieved, action, raw.start, raw.length, _goals(raw, achieved, goal_field))
    units_of: Any = {"action_low": units.low, "action_high": units.high, "actions": units.choices}
    episodes = Episodes(*arrays, **units_of, terminal=raw.terminal, commanded=raw.goal is not None)
    if raw.goal is None or raw.renewed is None:
        return episodes
    row, renewed = raw.renewed
    bad = np.nonzero(~np.isfinite(renewed).all(axis=1))[0]
    if len(bad):
        raise refuse(raw.file, goal_field, f"{renewed[bad[0]].tolist()} is not a finite goal", raw.locate(row[bad[0]]))
    return replace(episodes, renewed_row=row, renewed_goal=renewed)


def _images(raw: Raw, goal: str | None) -> Raw:
    """Images as their own goals."""
    if goal not in (None, WHOLE):
        problem = f"are images, and a goal is an image, too; leave out goal '{goal}'"
        raise refuse(raw.file, raw.fields[0], problem)
    return raw._replace(achieved=raw.observation, goal=None)


def _steps(raw: Raw) -> np.ndarray:
    """The rows whose action was taken: neither the last of an episode, nor those that belong to none."""
    steps = np.zeros(len(raw.action), bool)
    for first, count in zip(raw.start, raw.length, strict=True):
        steps[first : first + count] = True
    return steps


def _goals(raw: Raw, achieved: np.ndarray, field: str) -> np.ndarray:
    if raw.goal is None:
        return np.ascontiguousarray(achieved[raw.start + raw.length])
    if raw.goal.shape[1] != achieved.shape[1]:
        raise refuse(raw.file, field, f"has {raw.goal.shape[1]} coordinates; a goal has {achieved.shape[1]}")
    bad = np.nonzero(~np.isfinite(raw.goal).all(axis=1))[0]
    if len(bad):
        where = raw.locate(int(raw.start[bad[0]]))
        raise refuse(raw.file, field, f"{raw.goal[bad[0]].tolist()} is not a finite goal", where)
    return raw.goal


def _finite(raw: Raw, field: str, block: np.ndarray, first: int) -> None:
    if block.dtype == np.uint8 or np.isfinite(block).all():
        return
    row, column = np.argwhere(~np.isfinite(block))[0]
    raise refuse(raw.file, field, f"coordinate {column} is {block[row, column]}", raw.locate(first + int(row)))


def _equal(raw: Raw, field: str, block: np.ndarray, sliced: np.ndarray, first: int) -> None:
    wrong = np.nonzero(~np.isclose(block, sliced, rtol=1e-4, atol=1e-4).all(axis=1))[0]
    if len(wrong):
        problem = "is not what goal cuts out of the observation"
        raise refuse(raw.file, field, problem, raw.locate(first + int(wrong[0])))
