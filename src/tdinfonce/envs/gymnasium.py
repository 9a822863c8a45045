"""The one adapter: any Gymnasium environment whose observation is a goal dict becomes a `GoalEnv`."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["NAMES", "GymnasiumEnv", "goal_spaces", "make", "open_gymnasium", "quiet_imports"]

NAMES: dict[str, str] = {}
KEYS = ("observation", "achieved_goal", "desired_goal")
LIBRARIES = {"egl": "libegl1 libgl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""The Debian packages of the graphics libraries that MuJoCo can be told to use."""


def goal_spaces(name: str) -> tuple[str, ...]:
    """A state becomes a goal as the environment says: its achieved goal."""
    return ("achieved",)


def make(name: str, *, goal_space: str = "achieved", render: bool = False) -> GoalEnv:
    """Make the environment with this Gymnasium id."""
    return GymnasiumEnv(name, open_gymnasium(name, render=render))


def open_gymnasium(name: str, *, render: bool = False, **options: Any) -> Any:
    """Call ``gymnasium.make`` on an id, with the robotics environments registered, and explain what fails."""
    try:
        with quiet_imports():
            import gymnasium
    except ModuleNotFoundError as error:
        raise UserError("this environment needs Gymnasium: pip install 'tdinfonce[robotics]'") from error
    with quiet_imports(), contextlib.suppress(ModuleNotFoundError):
        import gymnasium_robotics  # type: ignore[import-untyped]

        gymnasium.register_envs(gymnasium_robotics)
    if render and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # the default needs a display
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # an installed command does not look for modules where it is called
    try:
        return gymnasium.make(name, render_mode="rgb_array" if render else None, **options)
    except TypeError as error:
        raise UserError(f"cannot make the environment '{name}': {error} (does it accept render_mode?)") from error
    except Exception as error:  # it runs whatever the name leads to
        raise UserError(f"cannot make the environment '{name}': {' '.join(str(error).split())}") from error


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """Swallow the notice that gymnasium-robotics prints at import; show everything else it printed.

    While it is imported, MuJoCo loads the graphics library that ``MUJOCO_GL`` names, and fails in that library's way.
    """
    caught = io.StringIO()
    asked = os.environ.get("MUJOCO_GL")
    try:
        with contextlib.redirect_stderr(caught):
            yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        if not asked:
            raise
        mend = f"install {LIBRARIES[asked.lower()]}, or unset it" if asked.lower() in LIBRARIES else "unset it"
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(f"cannot load the simulator with MUJOCO_GL={asked} ({reason}); {mend}") from error
    finally:
        kept = [line for line in caught.getvalue().splitlines() if "Adroit" not in line and line.strip()]
        if kept:
            print("\n".join(kept), file=sys.stderr)


class GymnasiumEnv:
    """A Gymnasium goal environment; actions are rescaled from [-1, 1] to its bounds."""

    def __init__(
        self,
        name: str,
        env: Any,
        *,
        goal_space: str = "achieved",
        state_to_goal: Callable[[Mapping[str, np.ndarray]], np.ndarray] | None = None,
        goal_size: int | None = None,
        command: tuple[int, ...] = (),
        success_coordinates: tuple[int, ...] = (),
    ) -> None:
        """Wrap ``env``; the last four arguments describe a goal space other than the achieved goal."""
        problems = shape_problems(env)
        if problems:
            raise UserError(f"{name} is not a goal environment: {problems[0]}; `tdinfonce check-env {name}` says more")
        self._env = env
        self._state_to_goal = state_to_goal or (lambda state: state["achieved_goal"])
        spaces = env.observation_space.spaces
        low, high = env.action_space.low.ravel(), env.action_space.high.ravel()
        self._centre, self._half = (high + low) / 2, (high - low) / 2
        self._action_shape = env.action_space.shape
        threshold = getattr(env.unwrapped, "distance_threshold", None)
        self.spec = EnvSpec(
            name=name,
            observation_size=int(np.prod(spaces["observation"].shape)),
            action_size=low.size,
            goal_size=goal_size or int(np.prod(spaces["desired_goal"].shape)),
            episode_length=int(env.spec.max_episode_steps),
            tolerance=None if threshold is None else float(threshold),
            goal_space=goal_space,
            command=command,
            success_coordinates=success_coordinates,
        )

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``."""
        state, _ = self._env.reset(seed=seed)
        goal = self.spec.goal(np.ravel(state["desired_goal"]))
        return Start(self._flat(state["observation"]), self._goal(state), goal, distance(state))

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1]."""
        native = self._centre + self._half * np.clip(np.asarray(action, np.float64), -1, 1)
        native = native.reshape(self._action_shape).astype(self._env.action_space.dtype)
        state, _, terminated, truncated, info = self._env.step(native)
        gap = distance(state)
        if "is_success" in info:
            success = bool(np.all(np.asarray(info["is_success"]) > 0))
        elif self.spec.tolerance is not None:
            success = gap < self.spec.tolerance
        else:
            raise UserError(
                f"{self.spec.name} does not say when a goal is reached: put 'is_success' into the info of step, "
                "or give the environment an attribute distance_threshold"
            )
        return Step(self._flat(state["observation"]), self._goal(state), success, gap, bool(terminated or truncated))

    def render(self) -> np.ndarray:
        """The current state as an RGB image."""
        try:
            image = self._env.render()
        except Exception as error:  # each graphics library fails in its own way
            raise UserError(
                f"cannot render {self.spec.name}: {type(error).__name__}: {error}; "
                "install libegl1 (or libosmesa6 and set MUJOCO_GL=osmesa)"
            ) from error
        if image is None:
            raise UserError(f"{self.spec.name} does not render; its render_mode must allow 'rgb_array'")
        return np.asarray(image)

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()

    def _goal(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        return self._flat(self._state_to_goal(state))

    @staticmethod
    def _flat(value: Any) -> np.ndarray:
        return np.asarray(value, np.float32).ravel()


def distance(state: Mapping[str, Any]) -> float:
    """Euclidean distance between achieved and desired goal."""
    return float(np.linalg.norm(np.ravel(state["achieved_goal"]) - np.ravel(state["desired_goal"])))


def shape_problems(env: Any) -> list[str]:
    """What of an environment's spaces and limits does not fit, in plain words."""
    problems = []
    spaces = getattr(env.observation_space, "spaces", None)
    missing = [key for key in KEYS if not isinstance(spaces, Mapping) or key not in spaces]
    if missing or spaces is None:
        return [f"its observation must be a dict with {', '.join(KEYS)}; missing: {', '.join(missing)}"]
    for key in KEYS:
        if getattr(spaces[key], "shape", None) is None or len(spaces[key].shape) > 1:
            problems.append(f"the space of '{key}' must be a flat Box; it is {spaces[key]}")
    if not problems and spaces["achieved_goal"].shape != spaces["desired_goal"].shape:
        problems.append(
            f"achieved_goal {spaces['achieved_goal'].shape} and desired_goal {spaces['desired_goal'].shape} "
            "must have the same shape"
        )
    low, high = getattr(env.action_space, "low", None), getattr(env.action_space, "high", None)
    if low is None or high is None:
        problems.append(f"actions must be continuous (a Box); the action space is {env.action_space}")
    elif not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        problems.append("the action space needs finite bounds, low below high")
    if not getattr(env.spec, "max_episode_steps", None):
        problems.append("it needs a time limit: register it with max_episode_steps")
    return problems
