"""A trained policy for use: no environment, no replay, arrays in and out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.plans import plan as recipe
from tdinfonce.runs import checkpoint
from tdinfonce.types import EnvSpec

__all__ = ["TrainedPolicy", "load"]


class TrainedPolicy:
    """What `tdinfonce.load` returns."""

    def __init__(self, agent: Any, spec: EnvSpec, env_steps: int, updates: int = 0) -> None:
        """Wrap an agent; ``env_steps`` (0 offline) and ``updates`` are how long it has trained."""
        import equinox as eqx

        self.spec, self.env_steps, self.updates = spec, env_steps, updates
        self.agent = agent
        self._act = eqx.filter_jit(lambda agent, *inputs, greedy: agent.act(*inputs, greedy=greedy))

    def act(self, observation: Any, goal: Any, *, seed: int | None = None) -> np.ndarray:
        """The action for a state and a goal, or one for each row of two batches; always in [-1, 1].

        Args:
            observation: of the spec's `observation_shape`, or a batch of them.
            goal: as the environment gives its desired goal, or already in the run's goal space.
            seed: sample an action instead of taking the best one.
        """
        import jax

        state, target = np.asarray(observation), np.asarray(goal)
        if self.spec.image is None:
            state, target = state.astype(np.float32), target.astype(np.float32)
        elif state.dtype != np.uint8 or target.dtype != np.uint8:
            raise ValueError(f"images must be uint8, from 0 to 255; got {state.dtype} and {target.dtype}")
        if self.spec.command and target.shape[-1:] != (self.spec.goal_size,):
            target = self._commanded(target)
        for name, array, shape in (
            ("observation", state, self.spec.observation_shape),
            ("goal", target, self.spec.goal_shape),
        ):
            if array.ndim - len(shape) not in (0, 1) or array.shape[-len(shape) :] != shape:
                wanted = f"length {shape[0]}" if len(shape) == 1 else f"shape {list(shape)}"
                raise ValueError(f"{name} must have {wanted}, or be a batch of such; got shape {list(array.shape)}")
        if state.shape[: -len(self.spec.observation_shape)] != target.shape[: -len(self.spec.goal_shape)]:
            raise ValueError(f"one goal for each observation; got shapes {list(state.shape)} and {list(target.shape)}")
        key = jax.random.PRNGKey(seed or 0)
        return np.asarray(self._act(self.agent, state, target, key, greedy=seed is None))

    def for_episodes(self) -> Callable[[Any, Any, int], np.ndarray]:
        """The best actions as a function of observation, goal and the time in the episode, which starts at 0.

        An agent that reads sequences remembers the episode here; `act` alone answers as at the start of one.
        """
        from tdinfonce.training.compiled import policy_of

        return policy_of(self.agent, 0, self.spec.episode_length, greedy=True)

    def _commanded(self, goal: np.ndarray) -> np.ndarray:
        wanted = max(self.spec.command) + 1
        if goal.shape[-1:] != (wanted,):
            raise ValueError(f"goal must have length {wanted} or {self.spec.goal_size}; got shape {list(goal.shape)}")
        return self.spec.goal(goal)


def load(run: str | Path, *, best: bool = False) -> TrainedPolicy:
    """Load the newest policy of a run folder, or the one that did best in the evaluations during training."""
    folder = Path(run)
    if not folder.is_dir():
        raise UserError(f"there is no run folder {folder}")
    plan, spec = recipe.read(folder)
    path, counters, parts = checkpoint.load(folder, "agent", best=best)
    with checkpoint.understood(path):
        agent = checkpoint.restore_agent(plan.create_agent(spec, 0), parts["agent"])
        return TrainedPolicy(agent, spec, counters.get("env_steps", 0), counters["updates"])
