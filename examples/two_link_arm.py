"""An arm of two links that must bring its tip to a place: how far can its probabilities be trusted?

From this folder:

    tdinfonce train --env two_link_arm:Arm-v0 --preset estimate --out runs/arm
    tdinfonce calibrate runs/arm
"""

import gymnasium
import numpy as np


class Arm(gymnasium.Env):
    """Two joints that are turned by up to 0.2 rad a step; links of length 0.5; a goal is where the tip should be."""

    distance_threshold = 0.1
    max_episode_steps = 40

    def __init__(self, render_mode=None):
        box = gymnasium.spaces.Box
        self.observation_space = gymnasium.spaces.Dict(
            observation=box(-1, 1, (4,)), achieved_goal=box(-1, 1, (2,)), desired_goal=box(-1, 1, (2,))
        )
        self.action_space = box(-1, 1, (2,))

    def _tip(self, angles):
        first, second = angles[0], angles[0] + angles[1]
        return np.float32([np.cos(first) + np.cos(second), np.sin(first) + np.sin(second)]) / 2

    def _state(self):
        seen = np.float32([*np.cos(self.angles), *np.sin(self.angles)])
        return {"observation": seen, "achieved_goal": self._tip(self.angles), "desired_goal": self.goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angles, wanted = self.np_random.uniform(-np.pi, np.pi, (2, 2))
        self.goal = self._tip(wanted)
        return self._state(), {}

    def step(self, action):
        self.angles = self.angles + 0.2 * np.clip(action, -1, 1) + self.np_random.normal(0, 0.02, 2)
        state = self._state()
        near = np.linalg.norm(state["achieved_goal"] - self.goal) < self.distance_threshold
        return state, 0.0, False, False, {"is_success": bool(near)}


gymnasium.register("Arm-v0", Arm, max_episode_steps=Arm.max_episode_steps)
