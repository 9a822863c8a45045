"""Walks as journeys: episodes that end where a new goal was commanded, or soon after they arrived."""

from dataclasses import replace

import numpy as np

from tdinfonce.data.check import FEWEST_STEPS
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError

__all__ = ["arrivals", "cut_at_goals", "trim_after_arrival"]


def cut_at_goals(episodes: Episodes) -> Episodes:
    """Each episode in pieces, one for each goal that was commanded in it; pieces of one step are left out.

    The state in which a new goal is commanded ends one piece and begins the next. Nothing is copied.
    """
    if not episodes.commanded:
        raise UserError("the data name no commanded goals, so there is nowhere to cut them (cut_at_goals)")
    row, goal = episodes.renewed_row, episodes.renewed_goal
    inside = np.searchsorted(episodes.start, row, side="right") - 1
    kept = np.zeros(len(row), bool)
    end = episodes.start + episodes.length
    known = inside >= 0
    kept[known] = (row[known] > episodes.start[inside[known]]) & (row[known] < end[inside[known]])
    row, goal = row[kept], goal[kept]
    start = np.concatenate([episodes.start, row])
    order = np.argsort(start, kind="stable")
    goals = np.concatenate([episodes.goal, goal])[order]
    # A piece ends where the next one begins, and the last one of an episode where that ends.
    last = np.concatenate([end, end[inside[kept]]])[order]
    start = start[order]
    following = np.append(start[1:], np.iinfo(start.dtype).max)
    length = np.minimum(following, last) - start
    terminal = episodes.terminal
    if terminal is not None:
        owner = np.concatenate([np.arange(len(episodes)), inside[kept]])[order]
        terminal = terminal[owner] & (start + length == last)
    enough = length >= FEWEST_STEPS
    return replace(
        episodes,
        start=start[enough],
        length=length[enough],
        goal=goals[enough],
        terminal=None if terminal is None else terminal[enough],
    )


def trim_after_arrival(episodes: Episodes, steps: int, radius: float) -> Episodes:
    """Each episode up to ``steps`` steps after it first came within ``radius`` of its goal. Nothing is copied."""
    if not episodes.commanded:
        raise UserError("the data name no commanded goals, so none is ever reached (trim_after_arrival)")
    arrival = arrivals(episodes, radius)
    length = np.where(arrival < 0, episodes.length, np.minimum(episodes.length, arrival + steps))
    length = np.maximum(length, np.minimum(episodes.length, FEWEST_STEPS))
    terminal = None if episodes.terminal is None else episodes.terminal & (length == episodes.length)
    return replace(episodes, length=length, terminal=terminal)


def arrivals(episodes: Episodes, radius: float) -> np.ndarray:
    """``[episodes]``, after how many steps each first came within ``radius`` of its goal; -1: never."""
    found = np.full(len(episodes), -1, np.int64)
    for index, (first, steps, goal) in enumerate(zip(episodes.start, episodes.length, episodes.goal, strict=True)):
        away = np.linalg.norm(episodes.achieved[first + 1 : first + steps + 1] - goal, axis=-1)
        near = np.flatnonzero(away < radius)
        found[index] = near[0] + 1 if len(near) else -1
    return found
