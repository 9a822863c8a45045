"""The four Fetch tasks seen through a camera: 64x64 images as observations and as goals.

Each episode begins by driving the simulator to the goal and taking a picture there; these steps do not count. Cameras,
goals and starts are those of the paper's release. Success and distance are judged on the true state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.envs.fetch import open_fetch
from tdinfonce.envs.offscreen import Camera, Pose
from tdinfonce.types import EnvSpec, GoalEnv, Start, Step

__all__ = ["NAMES", "FetchImageEnv", "goal_spaces", "make"]

NAMES = {
    "fetch-reach-image": "as fetch-reach, but observation and goal are 64x64 images",
    "fetch-push-image": "as fetch-push with images; the block must go forward",
    "fetch-pick-and-place-image": "as fetch-pick-and-place with images",
    "fetch-slide-image": "as fetch-slide with images",
}
SIZE = 64
TOLERANCE = 0.05
# Places of the hand relative to the object, in metres.
BEHIND, ABOVE, AROUND = np.array([-0.02, 0, 0]), np.array([0, 0, 0.025]), np.array([0.005, 0, -0.005])


def goal_spaces(name: str) -> tuple[str, ...]:
    """A goal is an image."""
    return ("image",)


def make(name: str, *, goal_space: str = "image", render: bool = False) -> GoalEnv:
    """Make an image task."""
    return FetchImageEnv(name)


class Robot:
    """The simulator behind a task, moved without the observations that nobody looks at."""

    def __init__(self, task: str) -> None:
        """Open the simulator; the markers around the hand and the target are made invisible."""
        self._env = open_fetch(task)  # before the import: it says what is missing
        import mujoco

        self._mujoco = mujoco
        self.episode_length = int(self._env.spec.max_episode_steps)
        self._sim = self._env.unwrapped
        self.model, self.data = self._sim.model, self._sim.data
        self.model.geom_rgba[self.model.geom_bodyid == self.model.body("robot0:mocap").id] = 0
        self.model.site_rgba[self.model.site("target0").id] = 0
        self._hand = self.model.site("robot0:grip").id
        self._has_object = bool(self._sim.has_object)
        self._object = int(self.model.joint("object0:joint").qposadr[0]) if self._has_object else 0

    def restart(self, seed: int | None = None) -> None:
        """Begin anew, with the next random numbers of the seed that was given last."""
        self._sim.reset(seed=seed)

    def move(self, direction: Any, fingers: float = 0.0) -> None:
        """One environment step: push the hand in a direction, and open (1) or close (-1) the fingers."""
        action = np.clip(np.append(direction, float(fingers)), -1, 1)
        self._sim._set_action(action)
        self._sim._mujoco_step(action)
        self._sim._step_callback()
        self._mujoco.mj_kinematics(self.model, self.data)

    @property
    def hand(self) -> np.ndarray:
        """Where the hand is."""
        return self.data.site_xpos[self._hand].copy()

    @property
    def thing(self) -> np.ndarray:
        """Where the object is, or the hand if there is none."""
        return self.data.qpos[self._object : self._object + 3].copy() if self._has_object else self.hand

    @property
    def wish(self) -> np.ndarray:
        """The point that the state task would ask for."""
        return self._sim.goal.copy()

    def put(self, place: Any) -> None:
        """Move the object to another place at once; its velocity stays."""
        self.data.qpos[self._object : self._object + len(place)] = place
        self._mujoco.mj_kinematics(self.model, self.data)

    def close(self) -> None:
        """Free the simulator."""
        self._env.close()


class Task(NamedTuple):
    """What makes the four tasks different."""

    base: str
    """The state task with the same simulator."""
    pose: Pose
    """Of the camera."""
    coordinates: int
    """Success is judged on the first coordinates: 2 on the table, 3 in space."""
    seek: Callable[[Robot], np.ndarray | None]
    """Bring a robot that was just reset to the goal, and return the goal's position; None: it did not work."""
    begin: Callable[[Robot], bool] = lambda robot: True
    """Bring a robot that was just reset to the start; whether it worked."""


def _seek_reach(robot: Robot) -> np.ndarray:
    for _ in range(10):
        robot.move(10 * (robot.wish - robot.hand))
    return robot.wish


def _follow(robot: Robot, steps: int = 100) -> None:
    """Bring the hand behind the object."""
    for _ in range(steps):
        way = robot.thing - robot.hand + BEHIND
        if np.linalg.norm(way) < 0.06:
            break
        robot.move(way)


def _on_table(robot: Robot) -> bool:
    return bool(robot.thing[2] >= 0.4)


def _seek_push(robot: Robot) -> np.ndarray | None:
    _withdraw(robot)
    robot.put((robot.thing[0], 0.75))
    _follow(robot)
    return robot.thing if _on_table(robot) else None


def _begin_push(robot: Robot) -> bool:
    _withdraw(robot)
    robot.put((1.15, 0.75))
    _follow(robot)
    return _on_table(robot)


def _withdraw(robot: Robot) -> None:
    for _ in range(8):
        robot.move((-1, 0, 0))


def _seek_slide(robot: Robot) -> np.ndarray:
    robot.put(robot.wish)
    for _ in range(100):
        robot.move((0, 0, 0.05))
    return robot.thing


def _begin_slide(robot: Robot) -> bool:
    _follow(robot)
    return True


def _seek_pick_and_place(robot: Robot) -> np.ndarray | None:
    """Grasp the block from above and carry it until it is near the goal; the goal is the point itself."""
    for _ in range(50):
        way = robot.thing - robot.hand + ABOVE
        if np.linalg.norm(way) < 0.01:
            break
        robot.move(way)
    for _ in range(50):
        robot.move(robot.thing - robot.hand + AROUND, 1)
    for _ in range(30):
        robot.move((0, 0, 0), -1)
    for _ in range(100):
        if np.linalg.norm(robot.thing - robot.wish) < TOLERANCE:
            return robot.wish
        robot.move(robot.wish - robot.hand, -1)
    return None


TASKS = {
    "fetch-reach-image": Task("fetch-reach", Pose((1.2, 0.8, 0.5), 0.8, 180, -30), 3, _seek_reach),
    "fetch-push-image": Task("fetch-push", Pose((1.25, 0.8, 0.4), 0.65, 90, -40), 2, _seek_push, _begin_push),
    "fetch-pick-and-place-image": Task(
        "fetch-pick-and-place", Pose((1.25, 0.8, 0.5), 1.2, 90, -30), 3, _seek_pick_and_place
    ),
    "fetch-slide-image": Task("fetch-slide", Pose((1.35, 0.8, 0.4), 1.75, 90, -40), 2, _seek_slide, _begin_slide),
}


class FetchImageEnv:
    """A Fetch task seen through a camera."""

    def __init__(self, name: str) -> None:
        """Open the simulator and the camera; raises UserError if nothing here can draw."""
        self.task = TASKS[name]
        self.robot = Robot(self.task.base)
        self.camera = Camera(self.robot.model, self.robot.data, self.task.pose, SIZE)
        image = (SIZE, SIZE, 3)
        size = int(np.prod(image))
        self.spec = EnvSpec(
            name=name,
            observation_size=size,
            action_size=4,
            goal_size=size,
            episode_length=self.robot.episode_length,
            tolerance=TOLERANCE,
            goal_space="image",
            image=image,
        )

    def reset(self, seed: int) -> Start:
        """Take a picture of the goal of ``seed``, then start; what goes wrong on the way is tried again."""
        self.robot.restart(seed)
        while True:
            goal = self.task.seek(self.robot)
            if goal is not None:
                self.goal_position = goal[: self.task.coordinates]
                self._goal = self.camera.image()
                self.robot.restart()
                if self.task.begin(self.robot):
                    break
            self.robot.restart()
        self._time = 0
        self._seen = self.camera.image()
        return Start(self._seen, self._seen, self._goal, self._distance(), self._position())

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1]."""
        action = np.asarray(action, np.float64)
        self.robot.move(action[:3], action[3])
        self._time += 1
        self._seen = self.camera.image()
        gap = self._distance()
        done = self._time >= self.spec.episode_length
        return Step(self._seen, self._seen, gap < TOLERANCE, gap, done, self._position())

    def render(self) -> np.ndarray:
        """What the agent sees now, beside its goal, four times as large."""
        return np.concatenate([self._seen, self._goal], axis=1).repeat(4, axis=0).repeat(4, axis=1)

    def close(self) -> None:
        """Free the camera and the simulator."""
        self.camera.close()
        self.robot.close()

    def _position(self) -> np.ndarray:
        return self.robot.thing[: self.task.coordinates]

    def _distance(self) -> float:
        return float(np.linalg.norm(self._position() - self.goal_position))
