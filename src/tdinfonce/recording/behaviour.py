"""Which behaviour each data set records: where episodes begin, where they are sent, and who steers."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tdinfonce import envs, seeding
from tdinfonce.analysis.datasets import upside_down
from tdinfonce.data.writer import Recorded
from tdinfonce.errors import UserError, nearest
from tdinfonce.recording.ogbench import OGBenchRecorder, ogbench_sets
from tdinfonce.recording.waypoints import AntPolicy, Waypoints, pd_controller
from tdinfonce.types import Start

__all__ = ["KINDS", "Behaviour", "behaviour_for", "default_kind", "known_sets", "record_block"]

KINDS = ("reach", "navigate", "stay", "stitch")
"""What a walker does when it has arrived: the episode ends, it is sent on, it stays; or it is sent a few cells only."""
STITCH_STEPS, STITCH_CELLS = 100, 3
"""Short episodes: so many steps, and goals at most so many cells off."""
LINGER = 5
"""Steps after which an episode ends that ends on arrival: about as long as an ant takes to walk through its goal."""
ON_THE_BACK = 10
"""Steps upside down after which an episode ends, if falls end episodes."""
POINT_NOISE, ANT_NOISE = 0.5, 0.2
HAND_PICKED = {
    "medium": ((0, 0), (20, 4), (0, 16), (16, 20)),
    "large": ((0, 0), (20, 0), (16, 8), (36, 8), (4, 16), (12, 24), (20, 24), (32, 24)),
}
"""The `play` sets: the cells that D4RL's maps mark as start or goal."""

Ends = Callable[[np.random.Generator], tuple[Any, Any, bool]]
"""Draws a start cell, a goal cell, and whether the start lies anywhere in its cell."""


class Steering(Protocol):
    """Who acts."""

    def begin(self, observation: np.ndarray, goal: np.ndarray) -> None:
        """A new goal."""

    def act(self, observation: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The action, before noise."""


class Behaviour(NamedTuple):
    """How the episodes of a data set are made."""

    env: Any
    steering: Steering
    length: int
    """Steps of an episode."""
    noise: float
    """Standard deviation of what is added to each action."""
    ends: Ends | None
    """None: the environment's own starts and goals."""
    kind: str
    """What happens on arrival; see `KINDS`."""
    policy: str | None
    """SHA-256 of the policy that steered."""
    end_falls: bool = False
    """Whether an episode ends when the ant lies on its back."""
    record: Callable[[int, int], Recorded] | None = None
    """Who records the episode of a seed and an index, if it is somebody else than `record_block`."""
    about: dict[str, Any] | None = None
    """What else the data set says about itself."""


class Guided:
    """A controller that follows waypoints."""

    def __init__(self, grid: Any, follow: Callable[..., np.ndarray]) -> None:
        """Find the way in ``grid``."""
        self._waypoints, self._follow = Waypoints(grid), follow

    def begin(self, observation: np.ndarray, goal: np.ndarray) -> None:
        """A new goal."""
        self._waypoints.begin(observation[:2], goal)

    def act(self, observation: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Head for the next waypoint."""
        return self._follow(observation, self._waypoints.towards(observation[:2]), rng)


class Trained:
    """A policy of ours, told the goal itself."""

    def __init__(self, run: Path, spec: Any) -> None:
        """Load the run's policy; it must fit the environment."""
        import tdinfonce

        self._policy = tdinfonce.load(str(run))
        for name in ("observation_size", "action_size", "goal_size"):
            if getattr(self._policy.spec, name) != getattr(spec, name):
                raise UserError(
                    f"the policy of {run} does not fit {spec.name}: its {name.replace('_', ' ')} is "
                    f"{getattr(self._policy.spec, name)}, not {getattr(spec, name)}"
                )

    def begin(self, observation: np.ndarray, goal: np.ndarray) -> None:
        """Nothing to remember."""

    def act(self, observation: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Ask the policy."""
        return self._policy.act(observation, goal)


def known_sets() -> list[str]:
    """The data sets that can be made without a run of ours."""
    ours = [name for name in envs.names() if name.startswith(("pointmaze-", "antmaze-")) and not name.endswith("-far")]
    return ours + ogbench_sets()


def default_kind(name: str) -> str:
    """What a data set of this environment records unless told otherwise."""
    if name.startswith("antmaze-"):
        return "reach"
    return "navigate" if name.startswith("pointmaze-") and name in known_sets() else "stay"


def behaviour_for(name: str, kind: str | None, policy: Path | None, *, end_falls: bool = False) -> Behaviour:
    """Look a data set up by its environment's name and its kind; None: the default one."""
    if kind is not None and kind not in KINDS:
        raise nearest("kind of data", kind, KINDS)
    if policy is not None and not policy.exists():
        raise UserError(f"there is no policy file or run folder {policy}")
    run = policy if policy is not None and policy.is_dir() else None
    if name in ogbench_sets() and run is None:
        return _of_ogbench(name, kind, policy)
    kind = default_kind(name) if kind is None else kind
    if name not in known_sets() and run is None:
        error = nearest("data set", name, known_sets())
        raise UserError(f"{error}; other environments need a trained run as policy")
    ant, point = name.startswith("antmaze-"), name in known_sets() and name.startswith("pointmaze-")
    if kind == "stitch" and not point:
        raise UserError(f"only pointmaze has data of the kind stitch; got {name}")
    if end_falls and not ant:
        raise UserError(f"only ants fall on their backs; got {name}")
    if kind in ("reach", "navigate") and not ant and not point:
        raise UserError(f"outside mazes every episode has one goal and its own end: the kind is stay; got {kind}")
    if ant and policy is None:
        raise UserError(f"{name} needs a policy that walks: a file of weights (.npz) or a run folder")
    if point and policy is not None and run is None:
        raise UserError("pointmaze is steered by its own controller; policy may only name a trained run")
    env: Any = envs.make(name)
    if run is not None:
        steering: Steering = Trained(run, env.spec)
    else:
        steering = Guided(env.grid, AntPolicy(policy) if ant and policy is not None else pd_controller)
    length = STITCH_STEPS if kind == "stitch" else env.spec.episode_length
    noise = POINT_NOISE if point and run is None else ANT_NOISE
    ends = _ends(env.grid, name, kind) if ant or point else None
    digest = None if policy is None else _digest(policy)
    return Behaviour(env, steering, length, noise, ends, kind, digest, end_falls)


def _of_ogbench(name: str, kind: str | None, policy: Path | None) -> Behaviour:
    """By OGBench's recipe."""
    if kind is not None:
        raise UserError(f"{name} says what kind of data it is; leave out kind")
    made = OGBenchRecorder(name, policy)
    digest = None if policy is None else _digest(policy)
    idle: Any = None
    own: dict[str, Any] = {"record": made.record, "about": made.about}
    return Behaviour(made, idle, made.length, made.noise, None, default_kind(name), digest, **own)


def record_block(behaviour: Behaviour, seed: int, index: int) -> list[Recorded]:
    """Block ``index`` of the data set with this seed: one episode after the other until there are enough steps."""
    if behaviour.record is not None:
        return [behaviour.record(seed, index)]
    rng = seeding.generator(seed, "dataset", index)
    episodes: list[Recorded] = []
    while sum(len(episode.action) for episode in episodes) < behaviour.length:
        if behaviour.ends is None:
            start = behaviour.env.reset(seeding.derive(seed, "dataset", index + len(episodes)))
        else:
            first, last, anywhere = behaviour.ends(rng)
            start = behaviour.env.begin(rng, first, last, anywhere=anywhere)
        episodes.append(_record_episode(behaviour, start, rng))
        if behaviour.ends is None:
            break
    return episodes


def _record_episode(behaviour: Behaviour, start: Start, rng: np.random.Generator) -> Recorded:
    env, steering = behaviour.env, behaviour.steering
    observation, goal = start.observation, start.goal
    steering.begin(observation, goal)
    states, achieved, desired = [observation], [start.achieved], [goal]
    actions, successes = [], []
    arrived, fallen = behaviour.length, 0
    for time in range(behaviour.length):
        wanted = np.asarray(steering.act(observation, goal, rng), np.float64)
        noisy = wanted + behaviour.noise * rng.standard_normal(wanted.shape)
        action = np.clip(noisy, -1, 1).astype(np.float32)
        step = env.step(action)
        observation = step.observation
        if behaviour.kind == "navigate" and step.success and time + 1 < behaviour.length:
            here = env.grid.cell(observation[:2])
            goal = env.aim(rng, _one_of([cell for cell in env.grid.cells if cell != here], rng))
            steering.begin(observation, goal)
        states.append(observation)
        achieved.append(step.achieved)
        desired.append(goal)
        actions.append(action)
        successes.append(step.success)
        arrived = min(arrived, time) if step.success else arrived
        fallen = fallen + 1 if behaviour.end_falls and upside_down(observation) else 0
        if step.done or fallen > ON_THE_BACK or (behaviour.kind == "reach" and time >= arrived + LINGER):
            break
    return Recorded(np.stack(states), np.stack(achieved), np.stack(desired), np.stack(actions), np.array(successes))


def _ends(grid: Any, name: str, kind: str) -> Ends:
    """Between which cells the episodes of a set run."""
    maze, _, flavour = name.partition("-")[2].partition("-")
    if name == "antmaze-umaze":
        start, goal = grid.cell((0, 0)), grid.cell((0, 8))
        return lambda rng: (start, goal, False)
    cells: Sequence[Any] = [grid.cell(xy) for xy in HAND_PICKED[maze]] if flavour == "play" else grid.cells
    most = STITCH_CELLS if kind == "stitch" else len(grid.cells)
    pairs = {a: [b for b in cells if b != a and grid.steps(a, b) <= most] for a in cells}

    def ends(rng: np.random.Generator) -> tuple[Any, Any, bool]:
        start = _one_of(cells, rng)
        return start, _one_of(pairs[start], rng), True

    return ends


def _one_of(cells: Sequence[Any], rng: np.random.Generator) -> Any:
    return cells[int(rng.integers(len(cells)))]


def _digest(policy: Path) -> str:
    """SHA-256 of a policy file, or of the agent in a run's newest checkpoint."""
    if policy.is_dir():
        from tdinfonce.runs import checkpoint

        policy = checkpoint.load(policy, "agent").path / "agent.safetensors"
    try:
        return hashlib.sha256(policy.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read the policy {policy}: {error.strerror}") from error
