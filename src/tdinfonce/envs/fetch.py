"""The four Fetch tasks on states, with the goal spaces that matter for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdinfonce.envs.gymnasium import GymnasiumEnv, open_gymnasium
from tdinfonce.types import GoalEnv

__all__ = ["NAMES", "goal_spaces", "make", "open_fetch"]

NAMES = {
    "fetch-reach": "move the gripper of a robot arm to a point",
    "fetch-push": "push a block to a point on the table",
    "fetch-pick-and-place": "carry a block to a point, half of the time in the air",
    "fetch-slide": "hit a puck so that it stops at a point out of reach",
}
IDS = {
    "fetch-reach": "FetchReach-v4",
    "fetch-push": "FetchPush-v4",
    "fetch-pick-and-place": "FetchPickAndPlace-v4",
    "fetch-slide": "FetchSlide-v4",
}


CAMERA = {"distance": 1.4, "azimuth": 132.0, "elevation": -24.0, "lookat": np.array([1.3, 0.75, 0.45])}
"""Nearer than the environment's own: the object and the goal should be seen in a small picture."""


def goal_spaces(name: str) -> tuple[str, ...]:
    """`achieved`: a position, 3-d. `gripper+object`: two, 6-d. `full`: the observation, as in the paper's release."""
    return ("achieved", "full") if name == "fetch-reach" else ("achieved", "gripper+object", "full")


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make a Fetch task.

    In the two larger goal spaces the commanded goal asks the gripper to be where the object must go, and in `full`
    every other coordinate is zero: the paper's release does so, and its test goals are therefore unlike any state.
    """
    env = open_fetch(name, render=render, default_camera_config=CAMERA)
    if goal_space == "achieved":
        return GymnasiumEnv(name, env)
    positions = (0, 1, 2) if name == "fetch-reach" else (0, 1, 2, 0, 1, 2)
    size = 6 if goal_space == "gripper+object" else int(env.observation_space["observation"].shape[0])

    def state_to_goal(state: Mapping[str, np.ndarray]) -> np.ndarray:
        return state["observation"][:size]

    return GymnasiumEnv(
        name,
        env,
        goal_space=goal_space,
        state_to_goal=state_to_goal,
        goal_size=size,
        command=positions + (-1,) * (size - len(positions)),
        success_coordinates=(0, 1, 2) if name == "fetch-reach" else (3, 4, 5),
    )


def open_fetch(name: str, **options: Any) -> Any:
    """The task's Gymnasium environment; the simulator's joints are read by number."""
    env = open_gymnasium(IDS[name], **options)
    env.unwrapped._utils = _ByNumber(env.unwrapped._utils)
    return env


class _ByNumber:
    """gymnasium-robotics' helpers, but for one: it asks for thirty joints by name, a fifth of the time of a step."""

    def __init__(self, helpers: Any) -> None:
        self._helpers = helpers
        self._rows: tuple[np.ndarray, np.ndarray] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._helpers, name)

    def robot_get_obs(self, model: Any, data: Any, joint_names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of the robot's joints, each of which has one of either."""
        if self._rows is None:
            joints = [model.joint(name).id for name in joint_names if name.startswith("robot")]
            self._rows = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        positions, velocities = self._rows
        return data.qpos[positions], data.qvel[velocities]
