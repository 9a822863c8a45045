"""Stable-Baselines3's DDPG with hindsight experience replay, as a program of its own.

Its one argument is a plan as JSON. It prints JSON lines: what it runs with, then one row for each evaluation, and
stops at the target or at the step limit.
"""

import json
import sys
import time
from importlib import metadata
from typing import Any

__all__ = ["REQUIREMENTS", "SETTINGS", "main"]

# torch by itself and by this version is the build without CUDA; asked for in any other way it takes gigabytes.
REQUIREMENTS = (("torch==2.13.0",), ("stable-baselines3>=2.9,<2.10",))

SETTINGS: dict[str, Any] = {
    "net_arch": [256, 256],
    "batch_size": 256,
    "learning_rate": 1e-3,
    "gamma": 0.95,
    "tau": 0.05,
    "learning_starts": 1_000,
    "train_freq": 1,
    "gradient_steps": 1,
    "action_noise": 0.1,
    "n_sampled_goal": 4,
    "goal_selection_strategy": "future",
    "normalise_observations": True,
}
"""How SB3 learns unless the plan changes it."""


def main(plan: dict[str, Any]) -> None:
    """Train until the target is reached.

    Args:
        plan: ``env_id``, ``seed``, ``every`` (steps between evaluations), ``limit`` (of steps), ``threads``,
            ``episode_seeds`` (one for each evaluation episode), ``success_any`` and ``success_final`` (the target), and
            ``settings`` (names as in `SETTINGS`).
    """
    import gymnasium
    import gymnasium_robotics  # type: ignore[import-untyped]
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    settings = plan["settings"]
    torch.set_num_threads(plan["threads"])
    gymnasium.register_envs(gymnasium_robotics)
    packages = ("stable-baselines3", "torch", "numpy", "gymnasium", "gymnasium-robotics", "mujoco")
    say(settings=settings | {"threads": plan["threads"]}, versions={name: metadata.version(name) for name in packages})

    world = DummyVecEnv([lambda: gymnasium.make(plan["env_id"])])
    worlds = VecNormalize(world, norm_obs=settings["normalise_observations"], norm_reward=False)
    test_world = gymnasium.make(plan["env_id"])
    began, evaluating = time.monotonic(), 0.0
    model = create(worlds, settings, plan["seed"], plan["limit"])

    def watch(_locals: dict[str, Any], _globals: dict[str, Any]) -> bool:
        """Evaluate when it is time; False ends the training."""
        nonlocal evaluating
        steps = model.num_timesteps
        if steps % plan["every"] or steps <= settings["learning_starts"]:
            return True
        clock = time.monotonic()
        success_any, success_final = evaluate(model, worlds, test_world, plan["episode_seeds"])
        evaluating += time.monotonic() - clock
        seconds = {"total_seconds": time.monotonic() - began, "evaluate_seconds": evaluating}
        say(env_steps=steps, success_any=success_any, success_final=success_final, **seconds)
        return success_any < plan["success_any"] or success_final < plan["success_final"]

    model.learn(plan["limit"], callback=watch)


def create(worlds: Any, settings: dict[str, Any], seed: int, limit: int) -> Any:
    """A fresh learner. SB3's HER buffer scans its whole length for each batch, so it is made no longer than the run."""
    import numpy as np
    from stable_baselines3 import DDPG, HerReplayBuffer
    from stable_baselines3.common.noise import NormalActionNoise

    same = ("batch_size", "learning_rate", "gamma", "tau", "learning_starts", "train_freq", "gradient_steps")
    size = worlds.action_space.shape
    return DDPG(
        "MultiInputPolicy",
        worlds,
        **{name: settings[name] for name in same},
        buffer_size=limit,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={name: settings[name] for name in ("n_sampled_goal", "goal_selection_strategy")},
        action_noise=NormalActionNoise(np.zeros(size), np.full(size, settings["action_noise"])),
        policy_kwargs={"net_arch": settings["net_arch"]},
        seed=seed,
        device="cpu",
    )


def evaluate(model: Any, worlds: Any, test_world: Any, seeds: list[int]) -> tuple[float, float]:
    """The share of episodes in which the policy without noise is at the goal at some step, and at the last step."""
    at_some = at_last = 0
    for seed in seeds:
        state, _ = test_world.reset(seed=seed)
        reached, done = [], False
        while not done:
            action, _ = model.predict(worlds.normalize_obs(state), deterministic=True)
            state, _, terminated, truncated, info = test_world.step(action)
            reached.append(bool(info["is_success"]))
            done = terminated or truncated
        at_some += any(reached)
        at_last += reached[-1]
    return at_some / len(seeds), at_last / len(seeds)


def say(**row: Any) -> None:
    """Print a JSON line at once."""
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
