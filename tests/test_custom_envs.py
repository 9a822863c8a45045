"""Environments that users bring: every kind of action and observation, every way to name one, every kind of mistake."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce import envs
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.replay import Replay
from tdinfonce.envs.check import examine
from tdinfonce.envs.point import PointEnv
from tdinfonce.envs.worker import WorkerEnv
from tdinfonce.errors import UserError
from tdinfonce.seeding import evaluation_seeds
from tdinfonce.training.collect import Exploration, collect, uniform_policy
from tdinfonce.training.evaluate import evaluate
from tdinfonce.types import EnvSpec, flatten

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces
Box, Dict, Discrete = spaces.Box, spaces.Dict, spaces.Discrete


class Line(gymnasium.Env):
    """A walk on the line from -1 to 1. What comes in and out can be of many kinds."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    max_episode_steps = 12

    def __init__(
        self,
        actions: Any = None,
        observations: Any = None,
        see: Callable[[float, float], Any] | None = None,
        goals: tuple[int, ...] = (1,),
        says: str = "is_success",
        early: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.action_space = Box(-1, 1, (1,)) if actions is None else actions
        goal = Box(-1, 1, goals)
        self.observation_space = Dict(
            observation=Box(-1, 1, (2,)) if observations is None else observations,
            achieved_goal=goal,
            desired_goal=goal,
        )
        self.see = see or (lambda x, goal: np.array([x, goal]))
        self.goals, self.says, self.early, self.render_mode = goals, says, early, render_mode
        self.taken: list[Any] = []
        self.closed = False
        if says == "compute_reward":
            self.compute_reward = self._reward
        if says == "dense":
            self.compute_reward = lambda achieved, desired, info: -np.abs(achieved - desired).max()
        if says == "distance_threshold":
            self.distance_threshold = 0.1

    def _reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (np.abs(achieved - desired).max(axis=-1) < 0.1).astype(float) - 1

    def _state(self) -> dict[str, Any]:
        x, goal = (np.full(self.goals, value, np.float32) for value in (self.x, self.goal))
        return {"observation": self.see(self.x, self.goal), "achieved_goal": x, "desired_goal": goal}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.goal = self.np_random.uniform(-1, 1, 2)
        return self._state(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.x = float(np.clip(self.x + 0.2 * self._move(action), -1, 1))
        near = abs(self.x - self.goal) < 0.1
        info = {self.says: near} if self.says in ("is_success", "success") else {}
        return self._state(), 0.0, self.early and near, False, info

    def _move(self, action: Any) -> float:
        if isinstance(self.action_space, Discrete):
            return float(action - self.action_space.start) / (self.action_space.n - 1) * 2 - 1
        low, high = self.action_space.low.ravel()[0], self.action_space.high.ravel()[0]
        return float((np.ravel(action)[0] - low) / (high - low) * 2 - 1)

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.closed = True


def make_line(render_mode: str | None = None) -> Line:
    """An importable function."""
    return Line(render_mode=render_mode)


def towards(spec: EnvSpec) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """A policy for every kind of action: the first number of an observation is the position."""

    def policy(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        move = np.clip((goal[0] - observation[0]) / 0.2, -1, 1)
        if spec.discrete:
            return np.eye(spec.action_size)[round((move + 1) / 2 * (spec.action_size - 1))]
        return np.full(spec.action_size, move)

    return policy


NESTED = Dict(body=Dict(b=Box(-9, 9, (2, 2)), a=Discrete(5)), a=spaces.Tuple((Box(-1, 1, (1,)), Box(-1, 1, ()))))


def nested(x: float, goal: float) -> Any:
    return {"body": {"b": np.array([[x, 5], [6, 7]]), "a": 3}, "a": (np.array([x], np.float64), goal)}


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as agents act": ({}, {"action_size": 1}),
    "bounds": (
        {"actions": Box(0, 5, (1,))},
        {"action_low": (0.0,), "action_high": (5.0,), "action_size": 1},
    ),
    "float64 bounds": (
        {"actions": Box(np.array([-0.1]), np.array([0.3]), dtype=np.float64)},
        {"action_low": (-0.1,), "action_high": (0.3,)},
    ),
    "shape": ({"actions": Box(-1, 1, (2, 2))}, {"action_size": 4, "action_shape": (2, 2), "action_low": ()}),
    "discrete": ({"actions": Discrete(4)}, {"action_size": 4, "discrete": True, "action_low": ()}),
    "discrete from 1": ({"actions": Discrete(3, start=1)}, {"action_size": 3, "discrete": True, "action_low": (1.0,)}),
    "nested": ({"observations": NESTED, "see": nested}, {"observation_size": 7}),
    "matrix": (
        {"observations": Box(-1, 1, (2, 3)), "see": lambda x, goal: np.full((2, 3), x)},
        {"observation_size": 6},
    ),
    "matrix goals": ({"goals": (2, 2)}, {"goal_size": 4}),
    "success": ({"says": "success"}, {"tolerance": None}),
    "compute_reward": ({"says": "compute_reward"}, {"tolerance": None}),
    "distance_threshold": ({"says": "distance_threshold"}, {"tolerance": 0.1}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_collected_stored_and_evaluated(kind: str) -> None:
    options, wanted = KINDS[kind]
    line = Line(**options)
    env = envs.make(line)
    spec = env.spec
    assert {name: getattr(spec, name) for name in wanted} == wanted
    assert spec.episode_length == 12
    replay, rng = Replay(spec, 100), np.random.default_rng(0)
    for seed in range(3):
        episode, outcome = collect(env, uniform_policy(spec, rng), seed, rng, Exploration(0.1, 0.5))
        assert episode.observation.dtype == episode.action.dtype == np.float32
        assert episode.observation.shape == (13, spec.observation_size)
        assert episode.action.shape == (12, spec.action_size)
        np.testing.assert_allclose(spec.own_action(line.taken[-12:]), episode.action, atol=2e-7, strict=True)
        replay.append(episode)
        assert outcome.length == 12
    assert isinstance(replay.view(), Episodes)
    reached = evaluate(env, towards(spec), 20)
    assert reached["success_any"] > 0.9 if not spec.discrete else reached["success_any"] > 0.3
    noisy = envs.make(line, noise=0.5)
    noisy.reset(0)
    assert noisy.step(spec.random_action(rng)).observation.shape == spec.observation_shape
    env.close()
    assert not line.closed, "what the user made is not ours to close"
    problems, _ = examine(line)
    assert problems == []


@pytest.mark.parametrize("kind", ["bounds", "discrete", "nested", "matrix", "early", "success"])
def test_every_kind_from_nothing_to_a_policy_that_was_loaded_again(kind: str, tmp_path: Path) -> None:
    """Trained, evaluated, loaded, and fed back by hand: the same success on the same episodes, however it is asked."""
    options = {"early": True} if kind == "early" else KINDS[kind][0]
    run = td.train(env=Line(**options), agent="gcbc", env_steps=4_000, eval_every=2_000, out=tmp_path / "run")
    result = td.evaluate(tmp_path / "run", Line(**options), episodes=40)
    policy, env, won = td.load(run.folder), Line(**options), []
    for seed in evaluation_seeds(40):
        (state, _), success = env.reset(seed=seed), False
        for _ in range(env.max_episode_steps):
            state, _, terminated, _, info = env.step(policy.act(state))
            success = success or info[env.says]
            if terminated:
                break
        won.append(success)
    assert np.mean(won) == result["success_any"]
    assert result["success_any"] >= 0.85
    assert (result["length"] < 12) == (kind == "early")


def test_native_actions_are_the_environments() -> None:
    line = Line(actions=Box(0, 5, (1,)))
    env = envs.make(line)
    env.reset(0)
    for action in (-1.0, 0.2, 1.0, 7.0):
        env.step(np.array([action]))
    np.testing.assert_allclose(np.ravel(line.taken), [0, 3, 5, 5], rtol=1e-6)
    rows = Line(actions=Box(np.array([[-1, 0], [2, -4]]), np.array([[1, 1], [6, 4]]), dtype=np.float32))
    spec = envs.make(rows).spec
    batch = np.array([[-1, -1, -1, -1], [0, 0, 0, 0], [1, 1, 1, 0.5]], np.float32)
    native = spec.native_action(batch)
    np.testing.assert_allclose(native, [[[-1, 0], [2, -4]], [[0, 0.5], [4, 0]], [[1, 1], [6, 2]]])
    np.testing.assert_allclose(spec.own_action(native), batch)
    spec = envs.make(Line(actions=Discrete(3, start=1))).spec
    assert spec.native_action([0.2, 0.3, 0.1]) == 2, "any vector: its largest"
    np.testing.assert_array_equal(spec.own_action(np.array([3, 1])), [[0, 0, 1], [1, 0, 0]])


def test_discrete_exploration_is_one_hot_and_has_no_gaussian_noise() -> None:
    env = envs.make(Line(actions=Discrete(4)))
    rng = np.random.default_rng(0)
    first = np.eye(4, dtype=np.float32)[0]
    episode, _ = collect(env, lambda *_: first, 0, rng, Exploration(noise=5.0))
    np.testing.assert_array_equal(episode.action, np.tile(first, (12, 1)))
    drawn = np.concatenate([collect(env, lambda *_: first, s, rng, Exploration(0, 0.5))[0].action for s in range(100)])
    assert set(drawn.sum(axis=1)) == {1.0}
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5 + 0.125, 0.125, 0.125, 0.125], atol=0.05)
    drawn = np.concatenate([collect(env, uniform_policy(env.spec, rng), s, rng)[0].action for s in range(100)])
    np.testing.assert_allclose(drawn.mean(axis=0), 0.25, atol=0.05)


def test_continuous_exploration_draws_what_it_always_drew() -> None:
    env = envs.make(Line(actions=Box(-1, 1, (2,))))
    episode, _ = collect(env, lambda *_: np.zeros(2), 0, np.random.default_rng(3), Exploration(0.2, 0.3))
    rng = np.random.default_rng(3)
    for action in episode.action:
        wanted = rng.normal(0, 0.2, 2).astype(np.float32)
        if rng.random() < 0.3:
            wanted = rng.uniform(-1, 1, 2).astype(np.float32)
        np.testing.assert_array_equal(action, np.clip(wanted, -1, 1))


def test_nested_observations_are_flattened_by_value() -> None:
    start = envs.make(Line(observations=NESTED, see=lambda x, goal: nested(0.5, -0.5))).reset(0)
    assert start.observation.tolist() == [0.5, -0.5, 3, 0.5, 5, 6, 7]
    assert start.observation.dtype == np.float32
    assert flatten(2.5).tolist() == [2.5]
    assert flatten({}).size == 0
    assert flatten({"z": 1, "a": {"y": [2, (3,)], "b": np.arange(4).reshape(2, 2)}}).tolist() == [0, 1, 2, 3, 2, 3, 1]


def test_episodes_that_end_early_have_their_own_length() -> None:
    env = envs.make(Line(early=True))
    rng = np.random.default_rng(0)
    episodes = [collect(env, towards(env.spec), seed, rng) for seed in range(20)]
    lengths = [outcome.length for _, outcome in episodes]
    assert len(set(lengths)) > 3
    assert max(lengths) < 12
    replay = Replay(env.spec, 10 * 12)
    for episode, outcome in episodes:
        assert outcome.success_any
        assert outcome.success_final, "the last step of an episode that ended early"
        assert len(episode.action) == outcome.length == len(episode.observation) - 1
        replay.append(episode)
    np.testing.assert_array_equal(sorted(replay.view().length), sorted(lengths[-10:]))
    assert evaluate(env, towards(env.spec), 10)["length"] < 12
    noisy = envs.make(Line(early=True), noise=0.5)
    assert collect(noisy, uniform_policy(env.spec, rng), 1, rng)[1].length <= 12
    assert any("terminated before its time limit" in note for note in examine(near_start)[1])


def near_start() -> Line:
    """Ends within a few steps, whatever is done."""
    line = Line(early=True)
    line.goals = (1,)
    line.reset = lambda **options: (Line.reset(line, **options), setattr(line, "goal", line.x), (line._state(), {}))[2]
    return line


def test_time_limits_are_found_and_kept() -> None:
    wrapped = gymnasium.wrappers.TimeLimit(Line(), 5)
    wrapped.env.max_episode_steps = None  # type: ignore[attr-defined]
    env = envs.make(wrapped)
    assert env.spec.episode_length == 5
    endless = Line()  # says 12, and never truncates
    assert collect(envs.make(endless), lambda *_: np.zeros(1), 0, np.random.default_rng(0))[1].length == 12


# How an environment may be named.


def test_objects_functions_and_classes() -> None:
    line = Line()
    found = envs.resolve(line)
    assert (found.name, found.path, found.goal_spaces) == ("in-memory:Line", "", ("achieved",))
    assert found.in_memory
    assert found.make().spec.name == "in-memory:Line"
    here = str(Path(__file__).parent)
    for given, name in ((make_line, "make_line"), (Line, "Line")):
        found = envs.resolve(given)
        assert (found.name, found.path) == (f"{__name__}:{name}", here)
        assert not found.in_memory
        assert found.make().reset(3).goal == envs.make(found.name).reset(3).goal
    assert envs.resolve(found) is found
    found = envs.resolve(lambda: Line(actions=Discrete(4)))
    assert (found.name, found.path) == ("in-memory:<lambda>", "")
    assert found.make().spec.discrete
    own = envs.resolve(PointEnv)
    assert own.name == "tdinfonce.envs.point:PointEnv"
    assert own.make().reset(1).goal.tolist() == envs.make("point").reset(1).goal.tolist()
    assert envs.resolve("grid").path == ""


def test_what_a_function_made_is_closed_and_an_object_stays_open() -> None:
    made: list[Line] = []
    env = envs.make(lambda: made.append(Line()) or made[-1])
    env.close()
    assert made[0].closed
    line = Line()
    for _ in range(2):
        env = envs.make(line)
        env.reset(0)
        env.close()
    assert not line.closed
    point = PointEnv()
    point.close = lambda: pytest.fail("not ours to close")  # type: ignore[method-assign]
    envs.make(point).close()


def test_our_own_environments_as_objects_are_known_by_name() -> None:
    assert envs.resolve(envs.make("point-one-goal")).name == "point-one-goal"
    assert envs.resolve(envs.make(f"{__name__}:make_line")).name == f"{__name__}:make_line"
    assert envs.resolve(envs.make("point", noise=0.1)).name == "in-memory:NoisyEnv"

    class Mine(PointEnv):
        pass

    assert envs.resolve(Mine()).name == "in-memory:Mine"


def test_a_label_cannot_be_made_again() -> None:
    with pytest.raises(UserError, match=r"trained in an environment object \(Line\).*give the environment again"):
        envs.make("in-memory:Line")


def test_registered_objects_are_known_by_their_id() -> None:
    name = "RegisteredLine-v0"
    gymnasium.register(name, Line, max_episode_steps=7, disable_env_checker=True)
    found = envs.resolve(gymnasium.make(name))
    assert (found.name, found.path) == (f"{__name__}:{name}", str(Path(__file__).parent))
    assert envs.make(found.name).spec.episode_length == found.make().spec.episode_length == 7
    assert envs.resolve(gymnasium.make(name, render_mode="rgb_array")).name == found.name
    for other in (
        gymnasium.make(name, early=True),
        gymnasium.make(name, max_episode_steps=3),
        gymnasium.wrappers.RescaleAction(gymnasium.make(name), -1, 1),
        gymnasium.make(name).unwrapped,
    ):
        assert envs.resolve(other).in_memory, "it is not as it was registered"
    unknown = "".join(["Hidden", "Line"]) + "-v0"  # this source does not name it
    gymnasium.register(unknown, Line, max_episode_steps=7, disable_env_checker=True)
    assert envs.resolve(gymnasium.make(unknown)).in_memory


MODULE = """
import gymnasium
import numpy as np

class Arm(gymnasium.Env):
    max_episode_steps = 4

    def __init__(self):
        box = gymnasium.spaces.Box
        self.action_space = box(0, 5, (1,))
        self.observation_space = gymnasium.spaces.Dict(
            observation=box(-1, 1, (1,)), achieved_goal=box(-1, 1, (1,)), desired_goal=box(-1, 1, (1,)))

    def _state(self):
        return {name: np.zeros(1, np.float32) for name in self.observation_space.spaces}

    def reset(self, *, seed=None, options=None):
        return self._state(), {}

    def step(self, action):
        return self._state(), 0.0, False, False, {"success": action[0] > 4}

class Shop:
    @staticmethod
    def make_arm():
        return Arm()

def make_arm():
    return Arm()

def make_nothing():
    return 3

def make_with(size):
    return Arm()

def make_trouble():
    raise RuntimeError("no arm\\nleft")

number = 4
gymnasium.register("OwnArm-v0", Arm, max_episode_steps=4)
"""


def run(code: str, *, cwd: Path, path: Path | None = None, fails: bool = False) -> str:
    """What a fresh Python prints; on failure its last line of errors."""
    places = [str(path)] if path else []
    places += [p for p in sys.path if p.endswith("src")] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    setting = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    call = [sys.executable, "-W", "error::UserWarning", "-c", textwrap.dedent(code)]
    done = subprocess.run(call, capture_output=True, text=True, cwd=cwd, env=setting, check=False)
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr.strip().splitlines()[-1] if fails else done.stdout.strip()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a module and a package."""
    (tmp_path / "own_arm.py").write_text(MODULE)
    (tmp_path / "own_shop").mkdir()
    (tmp_path / "own_shop" / "__init__.py").write_text("")
    (tmp_path / "own_shop" / "arms.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["own_arm:make_arm", "own_arm:Arm", "own_arm:Shop.make_arm", "own_shop.arms:make_arm", "own_arm:OwnArm-v0"],
)
def test_a_module_is_found_where_it_was_recorded(
    name: str, shop: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    code = f"""
        import json, sys, warnings
        from tdinfonce import envs
        sys.path[:] = [p for p in sys.path if p]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = envs.resolve({name!r}, path=PATH)
            env = found.make()
        env.reset(0)
        done = [env.step([0.9]).success for _ in range(4)]
        print(json.dumps([found.name, found.path, env.spec.action_high, done, [str(w.message) for w in seen
              if w.category is RuntimeWarning]]))
    """
    wanted = [name, str(shop), [5.0], [True] * 4, []]
    assert json.loads(run(code.replace("PATH", "''"), cwd=shop)) == wanted, "the working directory is searched"
    assert json.loads(run(code.replace("PATH", repr(str(shop))), cwd=elsewhere, path=shop)) == wanted, "not needed"
    wanted[-1] = [f"{name.partition(':')[0]} is imported from {shop}, which runs the code there"]
    assert json.loads(run(code.replace("PATH", repr(str(shop))), cwd=elsewhere)) == wanted
    message = run(code.replace("PATH", "''"), cwd=elsewhere, fails=True)
    assert f"cannot import {name.partition(':')[0]}, which {name} names" in message


@pytest.mark.parametrize("name", ["custom_env:Cart-v0", "custom_env:Cart"])
def test_the_example_is_sound(name: str) -> None:
    code = f"from tdinfonce.envs.check import examine; print(examine({name!r})[0])"
    assert run(code, cwd=Path(__file__).parents[1] / "examples") == "[]"


def test_a_worker_makes_a_users_environment(shop: Path) -> None:
    env = WorkerEnv({"env": "own_arm:make_arm", "path": str(shop)})
    try:
        episode, outcome = collect(env, lambda *_: np.ones(1), 0, np.random.default_rng(0))
    finally:
        env.close()
    assert outcome.success_final
    assert len(episode.action) == 4
    env = WorkerEnv({"env": "grid"})
    try:
        _, outcome = collect(env, uniform_policy(env.spec, np.random.default_rng(0)), 0, np.random.default_rng(0))
        assert outcome.length == 30
        assert env.spec == envs.make("grid").spec
    finally:
        env.close()
    with pytest.raises(UserError, match="give the environment again"):
        WorkerEnv({"env": "in-memory:Line"})


# What is wrong is said in one line.


class NoSeed(Line):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset(seed=0)


class OldReset(Line):
    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0]


class OldStep(Line):
    def step(self, action: Any) -> Any:
        state, reward, terminated, _, info = super().step(action)
        return state, reward, terminated, info


class Forgetful(Line):
    def _state(self) -> dict[str, Any]:
        state = super()._state()
        del state["desired_goal"]
        return state


class Endless(Line):
    max_episode_steps = None  # type: ignore[assignment]


class Uneven(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space["desired_goal"] = Box(-1, 1, (2,))


class Plain(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-1, 1, (2,))


class NoActions(Line):
    def __init__(self) -> None:
        super().__init__()
        del self.action_space


def broken_robot() -> Any:
    raise RuntimeError("the arm\nis lost")


WRONG: dict[str, tuple[Any, str]] = {
    "number": (3, "env must be a name, a Gymnasium id, an environment, or a function that makes one; got int"),
    "function of nothing": (lambda: None, "must return an environment; it returned NoneType"),
    "function that fails": (broken_robot, "RuntimeError: the arm is lost"),
    "function with arguments": (lambda size: Line(), "missing 1 required positional argument: 'size'"),
    "no goal dict": (Plain, "must be a dict with observation, achieved_goal, desired_goal"),
    "no seed": (NoSeed, "its reset must take a seed"),
    "old reset": (OldReset, "reset must return two things"),
    "old step": (OldStep, "step must return five things"),
    "missing goal": (Forgetful, "gave an observation without desired_goal"),
    "no time limit": (Endless, "wrap it in gymnasium.wrappers.TimeLimit"),
    "uneven goals": (Uneven, "must have the same shape"),
    "no action space": (NoActions, "the action space is None"),
    "infinite bounds": (lambda: Line(actions=Box(-np.inf, np.inf, (1,))), "needs finite bounds"),
    "whole numbers": (lambda: Line(actions=Box(0, 5, (1,), np.int64)), "must be continuous"),
    "no numbers": (lambda: Line(actions=Box(0, 5, ())), "at least one number"),
    "several choices": (lambda: Line(actions=spaces.MultiDiscrete([2, 3])), "number their combinations, Discrete(n)"),
    "switches": (lambda: Line(actions=spaces.MultiBinary(3)), "number their combinations"),
    "text": (lambda: Line(observations=spaces.Text(5)), "must have a fixed number of values"),
    "sequence": (lambda: Line(observations=spaces.Sequence(Box(-1, 1))), "must have a fixed number of values"),
    "another size": (lambda: Line(see=lambda x, goal: np.zeros(3)), "observation of 3 numbers, but its space has 2"),
    "silent": (lambda: Line(says="nothing"), "nothing says when a goal is reached"),
    "dense reward": (lambda: Line(says="dense"), "compute_reward is not sparse"),
    "vector": (lambda: gymnasium.vector.SyncVectorEnv([Line, Line]), "a vector of environments; give one of them"),
    "no gymnasium": (type("Robot", (), {"reset": None, "step": None}), "it is Robot, no gymnasium.Env"),
    "no such module": ("no_such_module:make", "cannot import no_such_module"),
    "no such function": (f"{__name__}:make_lime", "has no 'make_lime'"),
    "no function": (f"{__name__}:KINDS", "must be a function or class that makes an environment"),
    "no such id": ("NoSuchEnv-v0", "cannot make the environment 'NoSuchEnv-v0'"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.filterwarnings("ignore:.*NoSuchEnv")
def test_wrong_environments_are_refused_in_one_line(kind: str) -> None:
    env, words = WRONG[kind]
    with pytest.raises(UserError) as caught:
        collect(envs.make(env), lambda *_: np.full(1, 0.1), 0, np.random.default_rng(0))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["no goal dict", "no seed", "no time limit", "infinite bounds", "silent", "dense reward"]
)
def test_the_check_says_it_too(kind: str) -> None:
    env, words = WRONG[kind]
    problems, _ = examine(env)
    assert any(words in problem for problem in problems), problems


def test_images_are_noted_by_the_check() -> None:
    images = Box(0, 255, (4, 4, 3), np.uint8)
    line = Line(observations=images, see=lambda x, goal: np.full((4, 4, 3), int(100 + 100 * x), np.uint8))
    problems, notes = examine(line)
    assert problems == []
    assert any("seen as 48 numbers" in note for note in notes)


def test_rendering_is_refused_in_one_line_where_there_is_none() -> None:
    env = envs.make(make_line, render=True)
    env.reset(0)
    assert env.render().shape == (4, 4, 3)

    class Dark(Line):
        render = gymnasium.Env.render

    def dark() -> Line:  # takes no render_mode
        return Dark()

    for blind in (envs.make(make_line), envs.make(Line()), envs.make(Dark, render=True), envs.make(Dark())):
        blind.reset(0)
        with pytest.raises(UserError, match="does not render: it needs a method render") as caught:
            blind.render()
        assert "\n" not in str(caught.value)
    gymnasium.register("DarkLine-v0", dark, max_episode_steps=7, disable_env_checker=True)
    env = envs.make("DarkLine-v0", render=True)
    env.reset(0)
    with pytest.raises(UserError, match="does not render"):
        env.render()


# A simulator that is broken.


@pytest.mark.parametrize(
    ("package", "trouble"),
    [
        ("mujoco", "raise AttributeError('module has no attribute mjtObj')"),
        ("mujoco", "assert False"),
        ("mujoco", "raise OSError('libmujoco.so:\\n cannot open')"),
        ("gymnasium_robotics", "raise ImportError('wrong numpy')"),
        ("gymnasium_robotics", "raise RuntimeError"),
    ],
)
def test_a_broken_simulator_stops_only_what_needs_it(package: str, trouble: str, shop: Path) -> None:
    (shop / f"{package}.py").write_text(trouble)
    code = """
        import json, sys
        from tdinfonce import envs
        from tdinfonce.cli import main
        from tdinfonce.errors import UserError
        assert main(["list"]) == 0
        assert not {"mujoco", "gymnasium", "gymnasium_robotics"} & set(sys.modules), "list needs no simulator"
        for name in ("point", "grid", "own_arm:make_arm", "own_arm:OwnArm-v0", "OwnArm-v0"):
            env = envs.make(name)
            env.reset(0)
            env.step(env.spec.random_action(__import__("numpy").random.default_rng(0)))
        said = []
        for name in ("fetch-reach", "FetchReach-v4", "pointmaze-umaze", "antmaze-umaze"):
            try:
                envs.make(name)
            except UserError as error:
                said.append(str(error))
        print(json.dumps([said, envs.problems()]))
    """
    said, problems = json.loads(run(code, cwd=shop, path=shop).splitlines()[-1])
    assert len(said) == 4
    assert problems
    for line in said + problems:
        assert "\n" not in line
        assert "cannot import" in line
        assert "pip install 'mujoco>=3.1,<3.12' 'gymnasium-robotics==1.4.2'" in line
    assert any(f"cannot import {package}" in line for line in problems)


def test_no_problems_where_all_is_well(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium_robotics")
    assert run("from tdinfonce import envs; print(envs.problems())", cwd=tmp_path) == "[]"


def test_a_mujoco_that_is_too_new_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    known = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "3.12.0" if name == "mujoco" else known(name))
    assert "mujoco 3.12.0 does not work with Gymnasium's robots: pip install 'mujoco>=3.1,<3.12'" in envs.problems()[0]
