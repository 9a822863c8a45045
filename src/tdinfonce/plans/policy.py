"""A trained policy for use: no environment, no replay, arrays in and out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.plans.plan import Plan, read_plan
from tdinfonce.runs import checkpoint
from tdinfonce.types import EnvSpec, flatten

__all__ = ["TrainedPolicy", "load"]


class TrainedPolicy:
    """What `tdinfonce.load` returns: how to act, in the environment's own units."""

    def __init__(self, agent: Any, spec: EnvSpec, plan: Plan, env_steps: int, updates: int) -> None:
        """Wrap an agent of a plan; ``env_steps`` (0 offline) and ``updates`` are how long it has trained."""
        import equinox as eqx

        self.spec, self.plan, self.env_steps, self.updates = spec, plan, env_steps, updates
        self.agent = agent
        self._act = eqx.filter_jit(lambda agent, *inputs, greedy: agent.act(*inputs, greedy=greedy))

    def act(self, observation: Any, goal: Any = None, *, seed: int | None = None, normalised: bool = False) -> Any:
        """The action for a state and a goal, or one for each row of a batch of them.

        Args:
            observation: as the environment gives it: an array, a nested dict, or the whole dict of a goal environment,
                which also has the goal; or a batch.
            goal: as the environment gives its desired goal, or already in the run's goal space. One goal serves a
                whole batch of observations.
            seed: sample an action instead of taking the best one.
            normalised: give the action as the agent sees it: in [-1, 1], or one-hot where actions are discrete.

        Returns:
            The action in the environment's own units and shape; of discrete actions, its number.

        >>> import numpy as np, tdinfonce as td
        >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
        >>> policy = td.load("runs/first")
        >>> policy.act(np.zeros((5, 2)), goal=[0.5, 0.5]).shape
        (5, 2)
        """
        import jax

        if isinstance(observation, Mapping) and "observation" in observation and "desired_goal" in observation:
            goal = observation["desired_goal"] if goal is None else goal
            observation = observation["observation"]
        if goal is None:
            raise ValueError("name a goal, or give the whole dict of a goal environment as observation")
        state = self._rows("observation", observation, self.spec.observation_shape)
        target = self._rows("goal", self._commanded(goal), self.spec.goal_shape)
        if state.ndim != target.ndim:  # one for all
            rows = (len(state) if state.ndim > target.ndim else len(target),)
            state = np.broadcast_to(state, rows + state.shape[-len(self.spec.observation_shape) :])
            target = np.broadcast_to(target, rows + target.shape[-len(self.spec.goal_shape) :])
        elif state.shape[: -len(self.spec.observation_shape)] != target.shape[: -len(self.spec.goal_shape)]:
            raise ValueError(f"one goal for each observation; got shapes {list(state.shape)} and {list(target.shape)}")
        key = jax.random.PRNGKey(seed or 0)
        action = np.asarray(self._act(self.agent, state, target, key, greedy=seed is None))
        return action if normalised else self.spec.native_action(action)

    def for_episodes(self) -> Callable[[Any, Any, int], np.ndarray]:
        """The best normalised actions as a function of observation, goal and the time in the episode, which starts at
        0: a policy for `GoalEnv`.

        An agent that reads sequences remembers the episode here; `act` alone answers as at the start of one.
        """
        from tdinfonce.training.compiled import policy_of

        return policy_of(self.agent, 0, self.spec.episode_length, greedy=True)

    def _commanded(self, goal: Any) -> Any:
        """A goal of the environment's as one of the run's goal space."""
        if not self.spec.command:
            return goal
        given = np.asarray(goal, np.float32)
        wanted = max(self.spec.command) + 1
        if given.shape[-1:] == (self.spec.goal_size,):
            return given
        if given.shape[-1:] != (wanted,):
            raise ValueError(f"goal must have length {wanted} or {self.spec.goal_size}; got shape {list(given.shape)}")
        return self.spec.goal(given)

    def _rows(self, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """One item, or a batch of them, as the agent sees it."""
        array = flatten(value) if isinstance(value, Mapping) else np.asarray(value)
        if self.spec.image is not None and array.dtype != np.uint8:
            raise ValueError(f"images must be uint8, from 0 to 255; the {name} is {array.dtype}")
        array = array.astype(self.spec.dtype, copy=False)
        size = int(np.prod(shape))
        if array.shape[-len(shape) :] != shape and array.size == size:
            array = array.reshape(shape)  # what the environment gives in another shape
        elif array.shape[-len(shape) :] != shape and array.ndim > 1 and np.prod(array.shape[1:]) == size:
            array = array.reshape(-1, *shape)
        if array.ndim - len(shape) not in (0, 1) or array.shape[-len(shape) :] != shape:
            wanted = f"length {shape[0]}" if len(shape) == 1 else f"shape {list(shape)}"
            raise ValueError(f"{name} must have {wanted}, or be a batch of such; got shape {list(array.shape)}")
        return array

    def __repr__(self) -> str:
        """What it is, and what it takes and gives."""
        spec, plan = self.spec, self.plan
        trained = f"{self.env_steps:,} steps" if self.env_steps else f"{self.updates:,} updates"
        if spec.discrete:
            action = f"one of {spec.action_size}"
        else:
            bounds = spec.action_low or (-1.0,), spec.action_high or (1.0,)
            low, high = (f"{end[0]:g}" if len(set(end)) == 1 else [round(x, 3) for x in end] for end in bounds)
            action = f"{spec.action_size} numbers from {low} to {high}"
        return (
            f"<TrainedPolicy {plan.agent} for {spec.name} after {trained}: observation {list(spec.observation_shape)}, "
            f"goal {list(spec.goal_shape)} → action, {action}>"
        )


def load(run: str | Path, *, best: bool = False) -> TrainedPolicy:
    """Load the newest policy of a run folder, or the one that did best in the evaluations during training.

    It needs no environment and no data.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
    >>> td.load("runs/first")
    <TrainedPolicy gcbc for point after 1,000 steps: observation [2], goal [2] → action, 2 numbers from -1 to 1>
    """
    folder = Path(run)
    if not folder.is_dir():
        raise UserError(f"there is no run folder {folder}")
    plan, spec = read_plan(folder)
    if spec is None:
        raise UserError(f"{folder} is a plan that was not trained: it has no policy")
    path, counters, parts = checkpoint.load(folder, "agent", best=best)
    with checkpoint.understood(path):
        agent = checkpoint.restore_agent(plan.create_agent(spec, 0), parts["agent"])
        return TrainedPolicy(agent, spec, plan, counters.get("env_steps", 0), counters["updates"])
