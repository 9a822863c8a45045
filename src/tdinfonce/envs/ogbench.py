"""OGBench's environments and its evaluation: five tasks, a goal that is a whole observation, success as it counts it.

`ogbench:antmaze-medium-navigate-v0` names a data set and the environment it is for, `ogbench:antmaze-medium-v0` the
environment alone. An episode's task is its seed modulo five, and all else in it comes from the seed, too.
"""

import contextlib
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tdinfonce.envs._maze import Grid
from tdinfonce.envs._simulators import load, reason
from tdinfonce.envs.offscreen import open_graphics
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["LISTED", "NAMES", "Chance", "OGBenchEnv", "environment_of", "goal_spaces", "make", "open_ogbench"]

PREFIX = "ogbench:"
SIZES = ("medium", "large", "giant", "teleport")
PUZZLES = ("3x3", "4x4", "4x5", "4x6")
CUBES = ("single", "double", "triple", "quadruple")
WALKED, PLAYED = ("navigate", "stitch"), ("play", "noisy")
FAMILIES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "pointmaze": (SIZES, WALKED, "move a point through a maze"),
    "antmaze": (SIZES, (*WALKED, "explore"), "walk an ant through a maze"),
    "humanoidmaze": (SIZES, WALKED, "walk a humanoid through a maze"),
    "antsoccer": (("arena", "medium"), WALKED, "an ant dribbles a ball"),
    "cube": ((*CUBES, "octuple"), PLAYED, "a robot arm puts cubes where they belong"),
    "scene": (("",), PLAYED, "a robot arm arranges a cube, buttons, a drawer and a window"),
    "puzzle": (PUZZLES, PLAYED, "a robot arm presses buttons until all have their colour"),
    "visual-antmaze": (SIZES, (*WALKED, "explore"), "antmaze from 64x64 images"),
    "visual-humanoidmaze": (SIZES, WALKED, "humanoidmaze from 64x64 images"),
    "visual-cube": (CUBES, PLAYED, "cube from 64x64 images"),
    "visual-scene": (("",), PLAYED, "scene from 64x64 images"),
    "visual-puzzle": (PUZZLES, PLAYED, "puzzle from 64x64 images"),
}
"""Of each: the sizes, the kinds of its data sets, and what there is to do."""


def _titled(family: str, size: str, kind: str = "") -> str:
    return f"{PREFIX}{'-'.join(part for part in (family, size, kind) if part)}-v0"


NAMES = {
    _titled(family, size, kind): about
    for family, (sizes, kinds, about) in FAMILIES.items()
    for size in sizes
    for kind in ("", *kinds)
}
LISTED = {
    _titled(family, *(f"{{{','.join(words)}}}" if len(words) > 1 else words[0] for words in (sizes, kinds))): about
    for family, (sizes, kinds, about) in FAMILIES.items()
}
"""The same in a line for each family."""
KIND = re.compile(rf"-(?:{'|'.join((*WALKED, 'explore', *PLAYED))})(?=-v0$)")
ARM, CUBE, BUTTON = 19, 9, 4
"""Numbers of an observation that speak of the arm, of a cube, and of a button."""
CUBE_TOLERANCE = 0.4
"""Four centimetres, in the units of an observation. Of several cubes each must be as near: that is no one distance."""
HALF_A_BUTTON = 0.5
"""The states of buttons are 0 and 1, so nearer than this is equal."""


def environment_of(name: str) -> str:
    """OGBench's id of the environment that a name asks for, with or without the kind of a data set."""
    return KIND.sub("", name.removeprefix(PREFIX))


def goal_spaces(name: str) -> tuple[str, ...]:
    """`observation`: a goal is a whole observation, as for OGBench's own agents. `achieved`: what success looks at,
    which it calls the oracle representation. Of images: `image`.
    """
    return ("image",) if "visual-" in name else ("observation", "achieved")


def make(name: str, *, goal_space: str = "", render: bool = False) -> GoalEnv:
    """Make an environment; the data sets of one environment differ in their data only."""
    visual = "visual-" in name
    if visual or render:
        _draw_offscreen()
    larger: dict[str, Any] = {"width": 400, "height": 400} if render and not visual else {}
    return OGBenchEnv(name, open_ogbench(name, **larger), goal_space or goal_spaces(name)[0])


def open_ogbench(name: str, **options: Any) -> Any:
    """OGBench's own environment, with what it leaves behind put away and its chance in our hands."""
    gymnasium = load("gymnasium")
    try:
        with warnings.catch_warnings(), Chance().of(0):
            warnings.simplefilter("ignore")  # of missing displays, and the precision of spaces
            _load()
            env = gymnasium.make(environment_of(name), disable_env_checker=True, **options)
            env.reset(seed=0)
            _hold_actions(env.unwrapped)
    except UserError:
        raise
    except Exception as error:  # it runs whatever the name leads to
        raise UserError(f"cannot make the environment '{name}': {reason(error)}") from error
    file = getattr(env.unwrapped, "fullpath", "")
    if file and os.path.dirname(file) == tempfile.gettempdir():
        os.unlink(file)  # the maze as XML, a new file for each environment
    return env


def _hold_actions(inner: Any) -> None:
    """Keep one space of actions: an arm makes a new one each time it is asked, whose random draws no seed reaches."""
    kind = type(inner)
    if isinstance(getattr(kind, "action_space", None), property):
        inner.__class__ = type(kind.__name__, (kind,), {"action_space": inner.action_space})


def _load() -> None:
    """Import OGBench, which registers its environments."""
    try:
        load("ogbench")
    except UserError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name in ("ogbench", "dm_control"):
            raise UserError("OGBench is not installed: pip install 'tdinfonce[ogbench]'") from error
        raise


def _draw_offscreen() -> None:
    """Let OGBench's renderer draw without a display; its choice is made when MuJoCo is imported."""
    if os.environ.get("DISPLAY"):
        return
    mujoco = load("mujoco")
    found = open_graphics(mujoco.MjModel.from_xml_string("<mujoco/>"), 64)
    found.target.free()
    found.context.free()
    load(mujoco.Renderer.__module__).gl_context.GLContext = load(f"mujoco.{found.backend}").GLContext


class Chance:
    """NumPy's global chance, of which OGBench draws, as one that belongs to an episode."""

    def __init__(self) -> None:
        self._state: Any = None

    @contextlib.contextmanager
    def of(self, seed: int | None = None) -> Iterator[None]:
        """Begin anew with a seed, or go on where this episode was; whoever else draws notices nothing."""
        outside = np.random.get_state()  # noqa: NPY002
        if seed is None:
            np.random.set_state(self._state)  # noqa: NPY002
        else:
            np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            self._state = np.random.get_state()  # noqa: NPY002
            np.random.set_state(outside)  # noqa: NPY002


class OGBenchEnv:
    """One of them, told a goal by the number of its task."""

    def __init__(self, name: str, env: Any, goal_space: str) -> None:
        """Wrap OGBench's environment."""
        self._env, self._inner, self._chance = env, env.unwrapped, Chance()
        self._maze = hasattr(self._inner, "cur_goal_xy")
        self._coordinates: list[int] | slice = slice(None)
        shape = tuple(int(n) for n in env.observation_space.shape)
        image = (shape[0], shape[1], shape[2]) if len(shape) > 1 else None
        deciding, tolerance = _deciding(environment_of(name), self._inner)
        goal, success = int(np.prod(shape)), deciding
        if goal_space == "achieved":
            self._coordinates, goal, success = list(deciding), len(deciding), ()
        whole = goal_space != "achieved"
        self.spec = EnvSpec(
            name,
            observation_size=int(np.prod(shape)),
            action_size=int(env.action_space.shape[0]),
            goal_size=goal,
            episode_length=int(env.spec.max_episode_steps),
            tolerance=tolerance,
            goal_space=goal_space,
            success_coordinates=() if image else success,
            image=image,
            tasks=int(self._inner.num_tasks),
            data_goal="all" if whole else ",".join(map(str, deciding)),
        )

    @property
    def grid(self) -> Grid | None:
        """The cells of a maze, for those who draw it; OGBench counts rows upwards."""
        if not self._maze:
            return None
        unit = self._inner._maze_unit
        first = (-self._inner._offset_x, (len(self._inner.maze_map) - 1) * unit - self._inner._offset_y)
        return Grid(self._inner.maze_map[::-1].tolist(), unit, first)

    def reset(self, seed: int) -> Start:
        """Start the episode that belongs to ``seed``: the task is its remainder."""
        self._env.action_space.seed(seed)
        with self._chance.of(seed):
            observation, info = self._env.reset(seed=seed, options={"task_id": seed % self.spec.tasks + 1})
        self._time = 0
        self._target = self._seen(info["goal"])
        self._last = self._seen(observation)
        return Start(self._last, self._goal(self._last), self._goal(self._target), self._distance(), self._position())

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1]."""
        with self._chance.of():
            answer = self._env.step(np.clip(action, -1, 1).astype(np.float32))
        observation, _, terminated, truncated, info = answer
        self._time += 1
        self._last = self._seen(observation)
        done = bool(terminated or truncated) or self._time >= self.spec.episode_length
        success = bool(info["success"])
        return Step(self._last, self._goal(self._last), success, self._distance(), done, self._position())

    def render(self) -> np.ndarray:
        """The scene, or of images what the agent sees beside its goal."""
        if self.spec.image:
            return np.concatenate([self._last, self._target], axis=1).repeat(4, axis=0).repeat(4, axis=1)
        try:
            return np.asarray(self._inner.render())
        except Exception as error:  # each graphics library fails in its own way
            raise UserError(f"cannot render {self.spec.name}: {reason(error)}; install libegl1") from error

    def close(self) -> None:
        """Free the simulator, and what draws."""
        for name in ("custom_renderer", "_renderer"):
            renderer = getattr(self._inner, name, None)
            if renderer is not None:
                renderer.close()
                setattr(self._inner, name, None)
        self._env.close()

    def _seen(self, observation: Any) -> np.ndarray:
        return np.array(observation, self.spec.dtype)

    def _goal(self, observation: np.ndarray) -> np.ndarray:
        return observation if self.spec.image else observation[self._coordinates]

    def _parts(self) -> np.ndarray:
        """What is already as the goal has it: of an arm's task, each cube, button, drawer and window."""
        found = self._inner._compute_successes()
        return np.hstack([np.atleast_1d(part) for part in found]).astype(bool)

    def _position(self) -> np.ndarray | None:
        if self.spec.image is None:
            return None
        return self._xy() if self._maze else self._parts().astype(np.float64)

    def _xy(self) -> np.ndarray:
        """Of the ball, if there is one; of who walks, otherwise."""
        ball = getattr(self._inner, "get_agent_ball_xy", None)
        return np.array(self._inner.get_xy() if ball is None else ball()[1])

    def _distance(self) -> float:
        """To the goal in the plane; of an arm's task, how many parts are not yet as they should be."""
        if self._maze:
            return float(np.linalg.norm(self._xy() - self._inner.cur_goal_xy))
        return float(np.sum(~self._parts()))


def _deciding(name: str, inner: Any) -> tuple[tuple[int, ...], float | None]:
    """The coordinates of an observation that success looks at, and how near they must be, where that is a distance."""
    if hasattr(inner, "cur_goal_xy"):
        return ((15, 16) if "antsoccer" in name else (0, 1)), float(inner._goal_tol)
    cubes, buttons = getattr(inner, "_num_cubes", 0), getattr(inner, "_num_buttons", 0)
    first = ARM + CUBE * cubes
    places = [ARM + CUBE * cube + axis for cube in range(cubes) for axis in range(3)]
    states = [first + BUTTON * button + 1 for button in range(buttons)]
    last = first + BUTTON * buttons
    drawers = [last, last + 2] if "scene" in name else []
    deciding = (*places, *states, *drawers)
    if not places:
        return deciding, HALF_A_BUTTON
    return deciding, CUBE_TOLERANCE if len(deciding) == 3 else None
