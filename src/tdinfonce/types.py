"""The words that the rooms of this package share: a batch, an episode, an environment's spec, two protocols.

A `Batch` is a named tuple, so JAX sees a pytree and numpy code needs no JAX to make one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

__all__ = [
    "Agent",
    "Batch",
    "EnvSpec",
    "Episode",
    "GoalEnv",
    "GoalSampling",
    "History",
    "InputScale",
    "Metrics",
    "Start",
    "Step",
    "flatten",
]

Metrics = dict[str, Any]
"""Scalars by name, ``group/name``."""


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know of an environment, and what a policy must know to act in its units.

    Agents see actions in [-1, 1], or one-hot where they are discrete; `native_action` and `own_action` translate.
    """

    name: str
    """How `envs.make` finds it."""
    observation_size: int
    """Length of an observation; of an image, the number of its values."""
    action_size: int
    """Length of an action; of discrete ones, how many there are."""
    goal_size: int
    """Length of a goal, both of a commanded one and of a state seen as one."""
    episode_length: int
    """Most steps of an episode."""
    tolerance: float | None = None
    """A goal is reached when its `success_coordinates` are nearer than this; None: only the environment knows.
    Where goals are images, it is the tolerance on the true state."""
    goal_space: str = "achieved"
    """How a state becomes a goal."""
    command: tuple[int, ...] = ()
    """For each goal coordinate, the coordinate of the environment's desired goal it takes; -1 is zero. Empty: as is."""
    success_coordinates: tuple[int, ...] = ()
    """The goal coordinates that decide success. Empty: all."""
    image: tuple[int, int, int] | None = None
    """Observations and goals are images of this height, width and number of channels, in uint8, and a state as a goal
    is its image. None: they are float32 vectors."""
    discrete: bool = False
    """Whether there are `action_size` actions to choose from; agents see them one-hot."""
    action_low: tuple[float, ...] = ()
    """The environment's smallest action, a number for each coordinate; empty: -1. Of discrete actions, the first."""
    action_high: tuple[float, ...] = ()
    """The environment's largest action, likewise; empty: 1."""
    action_shape: tuple[int, ...] = ()
    """Shape of the environment's actions; empty: a vector."""
    tasks: int = 0
    """How many fixed tasks there are to evaluate in turn; that of an episode is its seed modulo their number. 0: goals
    are drawn."""
    data_goal: str = ""
    """What of an observation is this state as a goal, as `open_dataset` takes it; empty: it is not known."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return self.image or (self.observation_size,)

    @property
    def goal_shape(self) -> tuple[int, ...]:
        """Shape of one goal."""
        return self.image or (self.goal_size,)

    @property
    def dtype(self) -> Any:
        """Of observations and goals."""
        return np.float32 if self.image is None else np.uint8

    def goal(self, desired: Any) -> np.ndarray:
        """Turn the environment's desired goal (or a batch of them) into a commanded goal of this goal space."""
        desired = np.asarray(desired, dtype=self.dtype)
        if not self.command:
            return desired
        padded = np.concatenate([desired, np.zeros((*desired.shape[:-1], 1), np.float32)], axis=-1)
        return padded[..., list(self.command)]

    @property
    def action_bounds(self) -> Any:
        """What `open_dataset` is told of the actions: the smallest and the largest, or how many there are."""
        return self.action_size if self.discrete else (self.action_low or -1.0, self.action_high or 1.0)

    def native_action(self, action: Any) -> Any:
        """The environment's own action, or a batch of them, from one in [-1, 1] or one-hot."""
        action = np.asarray(action, np.float32)
        if self.discrete:
            return np.argmax(action, axis=-1) + int(self.action_low[0] if self.action_low else 0)
        action = np.clip(action, -1, 1)
        if self.action_low:
            low, high = np.array(self.action_low), np.array(self.action_high)
            action = ((high + low) / 2 + (high - low) / 2 * action.astype(np.float64)).astype(np.float32)
        return action.reshape(*action.shape[:-1], *self.action_shape) if self.action_shape else action

    def own_action(self, action: Any) -> np.ndarray:
        """The inverse of `native_action`: float32, in [-1, 1] or one-hot."""
        action = np.asarray(action)
        if self.discrete:
            index = action.astype(np.int64) - int(self.action_low[0] if self.action_low else 0)
            return np.eye(self.action_size, dtype=np.float32)[index]
        flat = action.reshape(*action.shape[: action.ndim - max(len(self.action_shape), 1)], self.action_size)
        if self.action_low:
            low, high = np.array(self.action_low), np.array(self.action_high)
            flat = (flat - (high + low) / 2) / np.where(high > low, (high - low) / 2, 1.0)
        return np.clip(flat, -1, 1).astype(np.float32)

    def random_action(self, rng: np.random.Generator) -> np.ndarray:
        """A uniform action as agents see it."""
        if self.discrete:
            return np.eye(self.action_size, dtype=np.float32)[rng.integers(self.action_size)]
        return rng.uniform(-1, 1, self.action_size).astype(np.float32)

    @property
    def deciding(self) -> list[int]:
        """Indices of the goal coordinates that decide success."""
        return list(self.success_coordinates or range(self.goal_size))


def flatten(value: Any, dtype: Any = np.float32) -> np.ndarray:
    """A nested observation as one vector: dictionaries in the order of their sorted keys, tuples and lists in theirs.

    >>> flatten({"b": np.eye(2), "a": (5, [6.5])}).tolist()
    [5.0, 6.5, 1.0, 0.0, 0.0, 1.0]
    """
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=str)]
    if isinstance(value, tuple | list):
        return np.concatenate([flatten(part, dtype) for part in value]) if value else np.zeros(0, dtype)
    return np.asarray(value, dtype).ravel()


class Batch(NamedTuple):
    """Transitions with goals. Every field has the same leading axes; behind them is the feature (if any): a float32
    vector, or a uint8 image where the environment shows images.

    ``s_t, a_t, s_{t+1}`` are one step of an episode; goals are states as the environment's spec sees them.
    The last three fields are for n-step bootstrapping; with n = 1 they repeat the next step.
    """

    observation: Any
    """s_t"""
    action: Any
    """a_t"""
    next_observation: Any
    """s_{t+1}"""
    next_goal: Any
    """The next state as a goal."""
    future_goal: Any
    """A later state of the same episode as a goal: t + k with k from the truncated geometric (or uniform) law."""
    random_goal: Any
    """Any stored state as a goal, independent of the transition."""
    commanded_goal: Any
    """The goal that the policy was told to reach in this episode."""
    near_goal: Any
    """A state of the next m ones, truncated geometric law, as a goal; m = min(n, steps left), or all steps left."""
    bootstrap_observation: Any
    """s_{t+m}"""
    bootstrap_discount: Any
    """discount ** m"""
    reward: Any = None
    """For agents of one task: 1 if s_{t+1} reaches the task's goal, else 0. None where the data have no task."""
    context_observation: Any = None
    """The last states up to s_t, oldest first; one axis more than `observation`. None unless a context is asked for."""
    context_action: Any = None
    """Their actions, up to a_t."""
    context_return: Any = None
    """For each of them, the largest reward still to come in the episode: 1 if it will reach the task's goal."""
    context_time: Any = None
    """For each of them, its time in the episode; -1 before the episode began, where the other fields mean nothing."""
    present_goal: Any = None
    """s_t itself as a goal."""
    subgoal: Any = None
    """The state k steps on, or the last of the episode if that is nearer, as a goal; k is `GoalSampling.subgoal_steps`.
    None, like the following, unless sub-goals are asked for."""
    subgoal_observation: Any = None
    """The same state."""
    later_goal: Any = None
    """A later state of the same episode as a goal, uniform over the rest of it; drawn apart from `future_goal`."""
    waypoint_goal: Any = None
    """The state k steps on, or that of `later_goal` if it is nearer, as a goal."""
    waypoint_observation: Any = None
    """The same state."""


class GoalSampling(NamedTuple):
    """How an agent wants its goals drawn."""

    discount: float = 0.99
    """Of the geometric law of future goals."""
    n_step: int = 1
    """Steps before bootstrapping."""
    uniform_future: bool = False
    """Future goals uniform over the rest of the episode instead of geometric."""
    context: int = 0
    """How many states up to the present one an agent that reads sequences wants to see; 0: none."""
    whole_share: float = 0.0
    """Share of the rows of a batch, the first ones, that bootstrap at the end of the episode, however far it is."""
    subgoal_steps: int = 0
    """How many steps ahead an agent that plans by sub-goals looks for one; 0: there are none."""
    fields: tuple[str, ...] = Batch._fields[: Batch._fields.index("reward")]
    """The fields of a batch that the agent reads, no more and no less; the others are None. The default is all of them
    but rewards, contexts and sub-goals."""

    @property
    def of_one_task(self) -> bool:
        """Whether the agent needs rewards, so the data must be given a task."""
        return "reward" in self.fields or "context_return" in self.fields


class History(NamedTuple):
    """The steps of an episode before the present one, for agents that read sequences; oldest first."""

    observation: Any
    """``[..., steps, observation_size]``"""
    action: Any
    """``[..., steps, action_size]``"""
    time: Any
    """``[..., steps]``, the time in the episode; -1 before it began."""


class InputScale(NamedTuple):
    """Mean and standard deviation of the inputs, from the data of the run; (0, 1) leaves them alone."""

    observation_mean: Any
    observation_std: Any
    goal_mean: Any
    goal_std: Any

    @classmethod
    def identity(cls, spec: EnvSpec) -> "InputScale":
        """The scale that changes nothing. Images are never scaled, so theirs are single numbers."""
        shapes = [() if spec.image else n for n in (spec.observation_shape, spec.goal_shape)]
        return cls(*(f(n, np.float32) for n in shapes for f in (np.zeros, np.ones)))


class Episode(NamedTuple):
    """One episode of T steps: T + 1 states, T actions."""

    observation: np.ndarray
    """``[T + 1, *observation_shape]``"""
    achieved: np.ndarray
    """``[T + 1, *goal_shape]``, each state as a goal; of images, the observations themselves."""
    action: np.ndarray
    """``[T, action_size]``"""
    goal: np.ndarray
    """``[*goal_shape]``, what the policy was told to reach."""


class Start(NamedTuple):
    """What an environment says at the start of an episode."""

    observation: np.ndarray
    achieved: np.ndarray
    goal: np.ndarray
    distance: float
    """Distance to the goal in the environment's own goal coordinates."""
    position: np.ndarray | None = None
    """What decides success, in true coordinates, where `achieved` does not tell: an image, or a misread state."""


class Step(NamedTuple):
    """What an environment says after a step."""

    observation: np.ndarray
    achieved: np.ndarray
    success: bool
    distance: float
    done: bool
    """The episode is over: its time is up, or the environment ended it early. Either is the end of the data only."""
    position: np.ndarray | None = None
    """As in `Start`."""


class GoalEnv(Protocol):
    """An environment that is told a goal."""

    spec: EnvSpec

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``, whatever came before."""

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1], or one-hot."""

    def render(self) -> np.ndarray:
        """The current state as an RGB image."""

    def close(self) -> None:
        """Free what the environment holds."""


class Agent(Protocol):
    """An immutable value that learns: `update` returns a new one.

    One whose critic is a model of the occupancy also has ``logits(observation, action, goal, candidates)``: of each row
    and each candidate, how much likelier than by chance the candidate is in the discounted future, in the log.
    """

    @classmethod
    def create(cls, key: Any, spec: EnvSpec, config: Any, scale: InputScale | None = None) -> Self:
        """A fresh agent; ``scale`` is used if the config asks for scaled inputs."""

    def update(self, batch: Batch) -> tuple[Self, Metrics]:
        """One gradient step on everything. Pure."""

    def rescaled(self, scale: InputScale) -> Self:
        """The same agent with another scale of its inputs, if its config asks for scaled inputs."""

    def act(self, observation: Any, goal: Any, key: Any, *, greedy: bool = False) -> Any:
        """Actions for one state and goal, or for a batch of them.

        An agent with a property ``context`` above 0 also takes ``history``, the `History` of ``context - 1`` steps;
        without it, it acts as at the start of an episode.
        """
