"""A goal environment of your own: a cart on a track must stand at a given place.

Train on it from this folder with one command:

    tdinfonce check-env custom_env:Cart-v0
    tdinfonce train --env custom_env:Cart-v0 --env-steps 8000 --set warmup_steps=1000 eval_every=1000

A function or class that makes an environment will do as well, if the environment says how long an episode is:
custom_env:Cart.
"""

import gymnasium
import numpy as np


class Cart(gymnasium.Env):
    """Position and velocity on a line; the action is a force."""

    distance_threshold = 0.1
    max_episode_steps = 30

    def __init__(self, render_mode=None):
        box = gymnasium.spaces.Box
        self.observation_space = gymnasium.spaces.Dict(
            observation=box(-2, 2, (2,)), achieved_goal=box(-1, 1, (1,)), desired_goal=box(-1, 1, (1,))
        )
        self.action_space = box(-1, 1, (1,))

    def _state(self):
        position, goal = np.float32([self.x]), np.float32([self.goal])
        return {"observation": np.float32([self.x, self.v]), "achieved_goal": position, "desired_goal": goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.goal = self.np_random.uniform(-0.9, 0.9, 2)
        self.v = 0.0
        return self._state(), {}

    def step(self, action):
        self.v = 0.7 * self.v + 0.1 * float(action[0])
        self.x = float(np.clip(self.x + self.v, -1, 1))
        return self._state(), 0.0, False, False, {"is_success": abs(self.x - self.goal) < self.distance_threshold}


gymnasium.register("Cart-v0", Cart, max_episode_steps=Cart.max_episode_steps)
