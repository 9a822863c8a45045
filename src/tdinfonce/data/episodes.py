"""Episodes in flat arrays: state rows of one episode are adjacent, and two integers say where it is."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tdinfonce.types import Episode

__all__ = ["Episodes"]


@dataclass(frozen=True)
class Episodes:
    """Many episodes. Row ``start[e] + t`` of each array belongs to time t of episode e, for t = 0..length[e].

    The action of the last row of an episode means nothing: T steps have T + 1 states.
    """

    observation: np.ndarray
    """``[rows, *observation_shape]``"""
    achieved: np.ndarray
    """``[rows, *goal_shape]``, each state as a goal. The very array `observation` if a state as a goal is its image."""
    action: np.ndarray
    """``[rows, action_size]``"""
    start: np.ndarray
    """``[episodes]``, the first row of each episode."""
    length: np.ndarray
    """``[episodes]``, the number of steps (one less than of states)."""
    goal: np.ndarray
    """``[episodes, *goal_shape]``, what the policy was told to reach in each episode; see `commanded`."""
    reward: np.ndarray | None = None
    """``[rows]``, the reward of arriving in each state, where the data have one task; see `Batch.reward`."""
    terminal: np.ndarray | None = None
    """``[episodes]``, whether the last state of each is one that is never left; None: the data do not say."""

    action_low: tuple[float, ...] = ()
    """The smallest action in the units of the data, before it was scaled to -1; empty: it was not scaled.
    Of discrete actions, the first."""
    action_high: tuple[float, ...] = ()
    """The largest one, which is 1 here."""
    actions: int = 0
    """How many discrete actions there are, which are one-hot here; 0: they are not discrete."""
    commanded: bool = True
    """Whether somebody commanded the goals; False: the data name none, and `goal` is the last state of each episode."""
    renewed_row: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The rows in which a new goal was commanded in the midst of an episode; `goal` is the first one."""
    renewed_goal: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """``[rows, *goal_shape]``, those goals."""

    def __post_init__(self) -> None:
        """Check that every episode lies inside the arrays."""
        rows = len(self.observation)
        if len(self.achieved) != rows or len(self.action) != rows:
            raise ValueError("observation, achieved and action must have the same number of rows")
        if self.start.shape != self.length.shape or self.start.ndim != 1 or len(self.goal) != len(self.start):
            raise ValueError("start and length must hold one integer for each episode, and goal one row")
        if len(self.start) and (
            self.length.min() < 1 or self.start.min() < 0 or (self.start + self.length).max() >= rows
        ):
            raise ValueError("an episode is empty or reaches beyond the arrays")

    def __len__(self) -> int:
        """Number of episodes."""
        return len(self.start)

    @property
    def transitions(self) -> int:
        """Number of steps in all episodes."""
        return int(self.length.sum())

    def episode(self, index: int) -> Episode:
        """One episode as views of the arrays."""
        first, steps = int(self.start[index]), int(self.length[index])
        states = slice(first, first + steps + 1)
        actions = self.action[first : first + steps]
        observation = self.observation[states]
        achieved = observation if self.achieved is self.observation else self.achieved[states]
        return Episode(observation, achieved, actions, self.goal[index])

    @cached_property
    def reward_to_come(self) -> np.ndarray | None:
        """``[rows]``, the largest reward of the later states of the same episode; 0 in its last state."""
        if self.reward is None:
            return None
        best = np.zeros_like(self.reward)
        for first, steps in zip(self.start, self.length, strict=True):
            later = self.reward[first + 1 : first + steps + 1]
            best[first : first + steps] = np.maximum.accumulate(later[::-1])[::-1]
        return best

    def chosen(self, index: np.ndarray) -> "Episodes":
        """Some of the episodes; the states stay where they are, so nothing is copied."""
        terminal = None if self.terminal is None else self.terminal[index]
        return replace(
            self, start=self.start[index], length=self.length[index], goal=self.goal[index], terminal=terminal
        )

    @classmethod
    def of(cls, episodes: list[Episode]) -> "Episodes":
        """Join episodes one after the other."""
        if not episodes:
            raise ValueError("no episodes to join")
        length = np.array([len(e.action) for e in episodes])
        start = np.concatenate([[0], np.cumsum(length + 1)[:-1]])
        action = [np.concatenate([e.action, np.zeros_like(e.action[:1])]) for e in episodes]
        observation = np.concatenate([e.observation for e in episodes])
        same = all(e.achieved is e.observation for e in episodes)
        achieved = observation if same else np.concatenate([e.achieved for e in episodes])
        goal = np.stack([e.goal for e in episodes])
        return cls(observation, achieved, np.concatenate(action), start, length, goal)
