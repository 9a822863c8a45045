"""A point in a square that must reach another point: no simulator, thousands of steps a second."""

import dataclasses

import numpy as np

from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["NAMES", "PointEnv", "goal_spaces", "make"]

NAMES = {
    "point": "a point in a square reaches a point; no simulator, for tests and first steps",
    "point-one-goal": "the same with one goal for all episodes, for agents that learn one task",
}


def goal_spaces(name: str) -> tuple[str, ...]:
    """The point's position is its only goal."""
    return ("achieved",)


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make the world."""
    return PointEnv(np.array([0.6, 0.6], np.float32) if name == "point-one-goal" else None)


class PointEnv:
    """Position in [-1, 1]², moved by 0.2 times the action with a little noise; 20 steps; reached within 0.15."""

    tolerance = 0.15
    spec = EnvSpec("point", observation_size=2, action_size=2, goal_size=2, episode_length=20, tolerance=tolerance)

    def __init__(self, goal: np.ndarray | None = None) -> None:
        """Make a world whose goal is always ``goal``, or drawn anew in each episode."""
        self._only_goal = goal
        if goal is not None:
            self.spec = dataclasses.replace(self.spec, name="point-one-goal")

    def reset(self, seed: int) -> Start:
        """Draw start and goal uniformly."""
        self._rng = np.random.default_rng(seed)
        self._position, self._goal = self._rng.uniform(-1, 1, (2, 2)).astype(np.float32)
        if self._only_goal is not None:
            self._goal = self._only_goal
        self._time = 0
        return Start(self._position, self._position, self._goal, self._distance())

    def step(self, action: np.ndarray) -> Step:
        """Move; walls stop the point."""
        noise = self._rng.normal(0, 0.01, 2)
        move = 0.2 * np.clip(np.asarray(action, np.float64), -1, 1) + noise
        self._position = np.clip(self._position + move, -1, 1).astype(np.float32)
        self._time += 1
        distance, done = self._distance(), self._time >= self.spec.episode_length
        return Step(self._position, self._position, distance < self.tolerance, distance, done)

    def render(self) -> np.ndarray:
        """A white square, the goal in green, the point in red."""
        image = np.full((96, 96, 3), 255, np.uint8)
        for place, colour in ((self._goal, (40, 160, 60)), (self._position, (200, 40, 40))):
            column, row = np.clip((np.asarray(place) + 1) / 2 * 95, 3, 92).astype(int)
            image[95 - row - 3 : 95 - row + 4, column - 3 : column + 4] = colour
        return image

    def close(self) -> None:
        """Nothing to free."""

    def _distance(self) -> float:
        return float(np.linalg.norm(self._position - self._goal))
