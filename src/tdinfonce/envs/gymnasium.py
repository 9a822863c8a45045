"""The one adapter: any Gymnasium environment whose observation is a goal dict becomes a `GoalEnv`."""

import contextlib
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tdinfonce.envs._simulators import load, mujoco_version, reason
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, Start, Step, flatten

__all__ = [
    "KEYS",
    "SUCCESS",
    "GymnasiumEnv",
    "attribute",
    "call",
    "open_gymnasium",
    "shape_problems",
    "size_of",
    "time_limit",
]

KEYS = ("observation", "achieved_goal", "desired_goal")
SUCCESS = ("is_success", "success")
"""What the info of a step may call it when the goal is reached."""
LIMITS = ("max_episode_steps", "_max_episode_steps", "episode_length")
"""What an environment that was not made by its id may call its time limit; the second is Gymnasium's TimeLimit."""
SAY_SUCCESS = "put 'is_success' into the info of step, or give the environment an attribute distance_threshold"


def open_gymnasium(name: str, *, render: bool = False, **options: Any) -> Any:
    """Call ``gymnasium.make`` on an id, with the robotics environments registered, and explain what fails."""
    gymnasium = load("gymnasium")
    broken = ""
    if ":" not in name and name not in gymnasium.registry:
        try:
            gymnasium.register_envs(load("gymnasium_robotics"))
        except UserError as error:
            broken = f"; {error}"
    try:
        return call(functools.partial(gymnasium.make, name, **options), render=render)
    except Exception as error:  # it runs whatever the name leads to
        version = mujoco_version() if "mujoco" in sys.modules else ""
        why = broken or (f"; {version}" if version else "")
        raise UserError(f"cannot make the environment '{name}': {reason(error)}{why}") from error


def call(make: Callable[..., Any], *, render: bool) -> Any:
    """Call what makes an environment; one that takes no ``render_mode`` can do everything but render."""
    if render:
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("MUJOCO_GL", "egl")  # the default needs a display
        with contextlib.suppress(TypeError), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*render_mode")  # Gymnasium's; `render` says it when asked
            return make(render_mode="rgb_array")
    return make()


class GymnasiumEnv:
    """A Gymnasium goal environment; its spec says how actions are translated to its own."""

    def __init__(
        self,
        name: str,
        env: Any,
        *,
        goal_space: str = "achieved",
        state_to_goal: Callable[[Mapping[str, Any]], Any] | None = None,
        goal_size: int | None = None,
        command: tuple[int, ...] = (),
        success_coordinates: tuple[int, ...] = (),
    ) -> None:
        """Wrap ``env``; the last four arguments describe a goal space other than the achieved goal."""
        problems = shape_problems(env)
        if problems:
            raise UserError(f"{name} is not a goal environment: {'; '.join(problems)}")
        self._env = env
        self._state_to_goal = state_to_goal or (lambda state: state["achieved_goal"])
        self._compute_reward = attribute(env, "compute_reward")
        self._failures: set[float] = set()
        spaces = env.observation_space.spaces
        threshold = attribute(env, "distance_threshold")
        self.spec = EnvSpec(
            name=name,
            observation_size=size_of(spaces["observation"]),
            goal_size=goal_size or size_of(spaces["desired_goal"]),
            episode_length=time_limit(env),
            tolerance=None if threshold is None else float(threshold),
            goal_space=goal_space,
            command=command,
            success_coordinates=success_coordinates,
            **_actions(env.action_space),
        )

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``."""
        answer = self._env.reset(seed=seed)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UserError(f"{self.spec.name}: reset must return two things, the observation and an info dict")
        state = self._state(answer[0])
        self._time = 0
        goal = self.spec.goal(flatten(state["desired_goal"]))
        return Start(self._observation(state), self._goal(state), goal, distance(state))

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1], or one-hot."""
        answer = self._env.step(self._native(action))
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise UserError(
                f"{self.spec.name}: step must return five things, observation, reward, terminated, truncated and info"
            )
        state, _, terminated, truncated, info = answer
        state = self._state(state)
        self._time += 1
        gap = distance(state)
        done = bool(terminated or truncated) or self._time >= self.spec.episode_length
        return Step(self._observation(state), self._goal(state), self._success(state, gap, info), gap, done)

    def render(self) -> np.ndarray:
        """The current state as an RGB image."""
        fault: Exception | None = None
        image: Any = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Gymnasium's, about what is said below
                image = self._env.render()
        except Exception as error:  # each graphics library fails in its own way
            fault = error
        if isinstance(image, np.ndarray):
            return image
        if fault is None or isinstance(fault, NotImplementedError) or self._env.render_mode != "rgb_array":
            raise UserError(
                f"{self.spec.name} does not render: it needs a method render that returns an image, and to be made "
                "with render_mode='rgb_array'"
            ) from fault
        mend = "; install libegl1 (or libosmesa6 and set MUJOCO_GL=osmesa)" if "mujoco" in sys.modules else ""
        raise UserError(f"cannot render {self.spec.name}: {reason(fault)}{mend}") from fault

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()

    def _native(self, action: np.ndarray) -> Any:
        """The environment's own action, of the type and within the bounds of its space to the last bit."""
        native, space = self.spec.native_action(action), self._env.action_space
        if self.spec.discrete:
            return native
        native = native.astype(space.dtype, copy=False)
        return np.clip(native, space.low, space.high) if self.spec.action_low else native

    def _state(self, state: Any) -> Mapping[str, Any]:
        missing = [key for key in KEYS if not isinstance(state, Mapping) or key not in state]
        if missing:
            raise UserError(f"{self.spec.name} gave an observation without {', '.join(missing)}")
        return state

    def _observation(self, state: Mapping[str, Any]) -> np.ndarray:
        return self._flat(state["observation"], self.spec.observation_size, "observation")

    def _goal(self, state: Mapping[str, Any]) -> np.ndarray:
        return self._flat(self._state_to_goal(state), self.spec.goal_size, "achieved_goal")

    def _flat(self, value: Any, size: int, what: str) -> np.ndarray:
        flat = flatten(value)
        if flat.size != size:
            raise UserError(f"{self.spec.name} gave {what} of {flat.size} numbers, but its space has {size}")
        return flat

    def _success(self, state: Mapping[str, Any], gap: float, info: Mapping[str, Any]) -> bool:
        for key in SUCCESS:
            if key in info:
                return bool(np.all(np.asarray(info[key]) > 0))
        if self.spec.tolerance is not None:
            return gap < self.spec.tolerance
        if self._compute_reward is None:
            raise UserError(f"{self.spec.name}: nothing says when a goal is reached; {SAY_SUCCESS}")
        return self._rewarded(state, info)

    def _rewarded(self, state: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Whether the reward is the one for being at the goal. It must be sparse: one other value, and no more."""
        desired = state["desired_goal"]
        reward, best = (
            float(np.ravel(self._compute_reward(achieved, desired, info))[0])
            for achieved in (state["achieved_goal"], desired)
        )
        if reward >= best:
            return True
        self._failures.add(reward)
        if len(self._failures) > 1:
            raise UserError(
                f"{self.spec.name}: compute_reward is not sparse, so nothing says when a goal is reached; {SAY_SUCCESS}"
            )
        return False


def distance(state: Mapping[str, Any]) -> float:
    """Euclidean distance between achieved and desired goal."""
    return float(
        np.linalg.norm(flatten(state["achieved_goal"], np.float64) - flatten(state["desired_goal"], np.float64))
    )


def attribute(env: Any, name: str) -> Any:
    """An attribute of an environment or of one that it wraps, the outermost first; None if there is none."""
    wrapper = load("gymnasium").Wrapper
    while getattr(env, name, None) is None and isinstance(env, wrapper):
        env = env.env
    return getattr(env, name, None)


def time_limit(env: Any) -> int:
    """Most steps of an episode; 0 if nothing says it."""
    found = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    found += [attribute(env, name) for name in LIMITS]
    counts = [int(n) for n in found if isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0]
    return counts[0] if counts else 0


def shape_problems(env: Any) -> list[str]:
    """What of an environment's spaces and limits does not fit, in plain words."""
    gymnasium = load("gymnasium")
    if not isinstance(env, gymnasium.Env):
        many = isinstance(env, gymnasium.vector.VectorEnv)
        what = "a vector of environments; give one of them" if many else f"{type(env).__name__}, no gymnasium.Env"
        return [f"it is {what}"]
    spaces = getattr(getattr(env, "observation_space", None), "spaces", None)
    missing = [key for key in KEYS if not isinstance(spaces, Mapping) or key not in spaces]
    if missing or spaces is None:
        return [f"its observation must be a dict with {', '.join(KEYS)}; missing: {', '.join(missing)}"]
    problems = [
        f"the space of '{key}' must have a fixed number of values; it is {spaces[key]}"
        for key in KEYS
        if not size_of(spaces[key])
    ]
    achieved, desired = (spaces[key] for key in KEYS[1:])
    if not problems and (achieved.shape != desired.shape or size_of(achieved) != size_of(desired)):
        problems.append(f"achieved_goal {achieved} and desired_goal {desired} must have the same shape")
    problems += _action_problems(getattr(env, "action_space", None))
    parameters = inspect.signature(env.unwrapped.reset).parameters.values()
    if not any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters):
        problems.append("its reset must take a seed: reset(self, *, seed=None, options=None)")
    if not time_limit(env):
        problems.append(
            "it needs a time limit: wrap it in gymnasium.wrappers.TimeLimit, or register it with max_episode_steps"
        )
    return problems


def _action_problems(space: Any) -> list[str]:
    spaces = load("gymnasium").spaces
    if isinstance(space, spaces.Discrete):
        return []
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return [f"several discrete actions at once ({space}) are not supported: number their combinations, Discrete(n)"]
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return [f"actions must be continuous (a Box of floats) or Discrete; the action space is {space}"]
    if not space.shape or not all(space.shape):
        return [f"an action must have at least one number; the shape of the action space is {space.shape}"]
    if not (np.all(np.isfinite(space.low)) and np.all(np.isfinite(space.high)) and np.all(space.low < space.high)):
        return ["the action space needs finite bounds, low below high: give its Box those that actions should keep to"]
    return []


def _actions(space: Any) -> dict[str, Any]:
    """What a spec says of an action space."""
    if isinstance(space, load("gymnasium").spaces.Discrete):
        first = int(space.start)
        return {"discrete": True, "action_size": int(space.n), "action_low": (float(first),) if first else ()}
    shape = tuple(int(n) for n in space.shape)
    found: dict[str, Any] = {"action_size": int(np.prod(shape)), "action_shape": shape if len(shape) > 1 else ()}
    if np.any(space.low != -1) or np.any(space.high != 1):
        bounds = (tuple(float(x) for x in bound.ravel()) for bound in (space.low, space.high))
        found |= dict(zip(("action_low", "action_high"), bounds, strict=True))
    return found


def size_of(space: Any) -> int:
    """How many numbers a value of this space has when it is flattened; 0 if they are none, or not always as many."""
    spaces = load("gymnasium").spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        sizes = [size_of(part) for part in parts]
        return sum(sizes) if all(sizes) else 0
    fixed = isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
    return int(np.prod(space.shape)) if fixed else 0
