"""Environments: names, goal spaces, and plain words about what is wrong with a custom one."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tdinfonce import envs
from tdinfonce.envs import fetch
from tdinfonce.envs._noisy import NoisyEnv
from tdinfonce.envs.grid import ROOMS, GridEnv
from tdinfonce.errors import UserError
from tdinfonce.seeding import derive, evaluation_seeds, generator
from tdinfonce.types import EnvSpec, Start, Step


def test_point_world_reaches_its_goal_when_told_the_way() -> None:
    env = envs.make("point")
    start = env.reset(5)
    state, steps = start.observation, 0
    done = success = False
    while not done:
        step = env.step(np.clip((start.goal - state) / 0.2, -1, 1))
        state, done, success, steps = step.observation, step.done, step.success, steps + 1
    assert success
    assert steps == env.spec.episode_length
    assert env.render().shape == (96, 96, 3)


def test_one_seed_one_episode() -> None:
    env = envs.make("point")
    first = env.reset(1)
    moved = env.step(np.ones(2)).observation
    env.reset(2)
    env.step(np.ones(2))
    np.testing.assert_array_equal(env.reset(1).observation, first.observation)
    np.testing.assert_array_equal(env.step(np.ones(2)).observation, moved)


def test_the_grid_is_four_rooms_whose_walls_stop() -> None:
    env = GridEnv()
    assert (env.spec.discrete, env.spec.action_size) == (True, 4)
    starts = [env.reset(seed) for seed in range(500)]
    cells = {tuple(start.observation.tolist()) for start in starts}
    assert len(cells) == sum(row.count(".") for row in ROOMS) == 40
    assert cells == {tuple(start.goal.tolist()) for start in starts}
    assert all(start.distance > env.spec.tolerance for start in starts), "start and goal are never the same"
    for seed, start in enumerate(starts):
        row, column = np.flatnonzero(start.observation) - (0, 7)
        for action, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1)]):
            env.reset(seed)
            step = env.step(np.eye(4)[action])
            there = row + down, column + right
            free = all(0 <= x < 7 for x in there) and ROOMS[there[0]][there[1]] == "."
            wanted = there if free else (row, column)
            assert tuple(np.flatnonzero(step.observation) - (0, 7)) == wanted
            assert step.observation.sum() == 2
            assert step.success == np.array_equal(step.observation, start.goal)
    assert env.render().shape == (98, 98, 3)


def test_the_grid_can_be_solved_by_the_shortest_way() -> None:
    """Breadth first over what the environment itself does: every goal within an episode, and not along a line."""
    env = GridEnv()
    ways = {}
    for seed in range(300):
        start = env.reset(seed)
        frontier, seen = [((), tuple(start.observation))], {tuple(start.observation)}
        while tuple(start.goal) != frontier[0][1]:
            way, _ = frontier.pop(0)
            for action in range(4):
                env.reset(seed)
                for past in (*way, action):
                    place = tuple(env.step(np.eye(4)[past]).observation)
                if place not in seen:
                    seen.add(place)
                    frontier.append(((*way, action), place))
        ways[seed] = len(frontier[0][0]), start.distance
    assert max(length for length, _ in ways.values()) < env.spec.episode_length / 2
    assert np.mean([length > line + 0.5 for length, line in ways.values()]) > 0.1


def test_streams_are_independent_and_evaluation_is_fixed() -> None:
    assert derive(0, "episode", 1) != derive(0, "episode", 2) != derive(1, "episode", 1)
    assert generator(0, "a").random() != generator(0, "b").random()
    assert evaluation_seeds(5) == evaluation_seeds(9)[:5]
    assert not set(evaluation_seeds(200)) & {derive(s, "episode", i) for s in range(5) for i in range(1000)}


class Staircase:
    """Counts its steps: observation (t, t), goal (t,)."""

    spec = EnvSpec("staircase", observation_size=2, action_size=1, goal_size=1, episode_length=2000)

    def reset(self, seed: int) -> Start:
        self.time = 0
        return Start(np.zeros(2, np.float32), np.zeros(1, np.float32), np.ones(1, np.float32), 1.0)

    def step(self, action: np.ndarray) -> Step:
        self.time += 1
        now = np.full(2, self.time, np.float32)
        return Step(now, now[:1], self.time == 7, abs(self.time - 7.0), self.time >= 2000)

    def render(self) -> np.ndarray:
        return np.zeros((1, 1, 3), np.uint8)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("kind", ["resampled", "previous", "zeros"])
def test_noise_replaces_what_is_seen_and_not_what_is_true(kind: str) -> None:
    env = NoisyEnv(Staircase(), 0.25, kind)

    def walk(seed: int) -> list[Step]:
        env.reset(seed)
        return [env.step(np.zeros(1)) for _ in range(2000)]

    steps = walk(1)
    truth = np.arange(1, 2001)
    seen = np.array([step.observation[0] for step in steps])
    wrong = seen != truth
    assert abs(wrong.mean() - 0.25) < 0.04
    assert all((step.achieved[0] == t) == (not w) for step, t, w in zip(steps, truth, wrong, strict=True))
    assert [step.success for step in steps] == [t == 7 for t in truth]
    assert [step.distance for step in steps] == [abs(t - 7.0) for t in truth]
    assert [float(step.position[0]) for step in steps] == truth.tolist(), "how far it moved is no matter of noise"
    if kind == "zeros":
        assert np.all(seen[wrong] == 0)
    elif kind == "previous":
        assert np.all(seen[1:][wrong[1:]] == seen[:-1][wrong[1:]])
    else:
        assert abs(seen[wrong].mean() - 1000) < 150
        assert 400 < seen[wrong].std() < 750
    assert all(step.achieved[0] == step.observation[0] for step in steps), "one sensor, one reading"
    again, other = walk(1), walk(2)
    assert all(np.array_equal(a.observation, b.observation) for a, b in zip(steps, again, strict=True))
    assert not all(np.array_equal(a.observation, b.observation) for a, b in zip(steps, other, strict=True))


def test_noise_is_checked_at_the_border() -> None:
    assert isinstance(envs.make("point", noise=0.1), NoisyEnv)
    assert not isinstance(envs.make("point", noise=0.0), NoisyEnv)
    with pytest.raises(UserError, match="between 0 and 1"):
        envs.make("point", noise=1.5)
    with pytest.raises(UserError, match="Did you mean 'zeros'"):
        envs.make("point", noise=0.1, noise_kind="zero")


def test_unknown_names_are_explained() -> None:
    with pytest.raises(UserError, match="Did you mean 'fetch-push'"):
        envs.make("fetch-pusch")
    with pytest.raises(UserError, match="choose one of: achieved"):
        envs.make("point", goal_space="full")


gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("gymnasium_robotics")


@pytest.mark.parametrize(
    ("name", "space", "size"),
    [
        ("fetch-reach", "achieved", 3),
        ("fetch-reach", "full", 10),
        ("fetch-push", "achieved", 3),
        ("fetch-push", "gripper+object", 6),
        ("fetch-slide", "full", 25),
        ("fetch-pick-and-place", "achieved", 3),
    ],
)
def test_fetch_goal_spaces(name: str, space: str, size: int) -> None:
    env = envs.make(name, goal_space=space)
    start = env.reset(0)
    assert start.goal.shape == start.achieved.shape == (size,) == (env.spec.goal_size,)
    desired = start.goal[env.spec.deciding]
    gap = np.linalg.norm(start.achieved[env.spec.deciding] - desired)
    assert gap == pytest.approx(start.distance, abs=1e-5)
    if space == "full":
        np.testing.assert_array_equal(start.achieved, start.observation)
        assert np.all(start.goal[6:] == 0)
    if space == "gripper+object":
        np.testing.assert_array_equal(start.achieved, start.observation[:6])
        np.testing.assert_array_equal(start.goal[:3], start.goal[3:])
    env.close()


@pytest.mark.parametrize(("name", "id"), sorted(fetch.IDS.items()))
def test_fetch_sees_to_the_last_bit_what_the_library_says(name: str, id: str) -> None:
    ours, theirs = envs.make(name), envs.make(id)
    np.testing.assert_array_equal(ours.reset(5).observation, theirs.reset(5).observation)
    for action in np.random.default_rng(0).uniform(-1, 1, (10, 4)):
        np.testing.assert_array_equal(ours.step(action).observation, theirs.step(action).observation)
    ours.close()
    theirs.close()


def test_fetch_reach_by_its_gymnasium_id_and_seeded() -> None:
    env = envs.make("FetchReach-v4")
    assert (env.spec.observation_size, env.spec.action_size, env.spec.episode_length) == (10, 4, 50)
    assert env.spec.tolerance == pytest.approx(0.05)
    one = env.reset(3)
    env.step(np.ones(4))
    np.testing.assert_array_equal(env.reset(3).observation, one.observation)
    env.close()


def test_importing_the_robots_prints_no_notice() -> None:
    code = "from tdinfonce import envs; envs.make('fetch-reach').close()"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Adroit" not in answer.stderr


class Custom(gymnasium.Env):
    """A line to walk on; arguments break one thing each."""

    distance_threshold = 0.1

    def __init__(self, flaw: str = "", render_mode: str | None = None) -> None:
        box = gymnasium.spaces.Box
        goal = box(-1, 1, (1,))
        self.observation_space = gymnasium.spaces.Dict(observation=goal, achieved_goal=goal, desired_goal=goal)
        self.action_space = box(-2, 2, (1,))
        self.flaw = flaw
        if flaw == "dict":
            self.observation_space = goal
        if flaw == "choices":
            self.action_space = gymnasium.spaces.MultiDiscrete([3, 2])
        if flaw == "unbounded":
            self.action_space = box(-np.inf, np.inf, (1,))
        if flaw == "threshold":
            self.distance_threshold = self.compute_reward = None  # type: ignore[assignment]

    def _state(self) -> dict[str, np.ndarray]:
        x = np.array([self.x], np.float32)
        if self.flaw == "nan":
            x = x * np.nan
        if self.flaw == "shape":
            x = np.zeros(2, np.float32)
        return {"observation": x, "achieved_goal": x, "desired_goal": np.array([self.goal], np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        chance = np.random.default_rng() if self.flaw == "seed" else self.np_random
        self.x, self.goal = chance.uniform(-1, 1, 2)
        return self._state(), {}

    def step(self, action: Any) -> Any:
        self.x = float(np.clip(self.x + 0.1 * action[0], -1, 1))
        return self._state(), 0.0, False, False, {}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        reward = -(np.abs(achieved - desired) > 0.1).astype(float)
        return reward if self.flaw == "reward" else reward[..., 0]


def register(flaw: str, steps: int | None = 10) -> str:
    name = f"Custom{flaw.capitalize()}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, Custom, kwargs={"flaw": flaw}, max_episode_steps=steps, disable_env_checker=True)
    return name


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ("dict", "must be a dict with observation"),
        ("choices", "number their combinations"),
        ("unbounded", "finite bounds"),
        ("threshold", "nothing says when a goal is reached"),
        ("nan", "not finite"),
        ("shape", "its space says"),
        ("seed", "differ"),
        ("reward", "one reward for each goal"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_check_env_names_each_flaw(flaw: str, words: str) -> None:
    from tdinfonce.envs.check import examine

    problems, _ = examine(register(flaw))
    assert any(words in problem for problem in problems), problems


def test_check_env_finds_nothing_in_a_good_one_and_actions_are_rescaled() -> None:
    from tdinfonce.envs.check import examine

    name = register("")
    assert examine(name)[0] == []
    env = envs.make(name)
    start = env.reset(0)
    step = env.step(np.array([0.5]))  # half of the bound 2, times 0.1
    assert step.observation[0] - start.observation[0] == pytest.approx(0.1, abs=1e-5)
    with pytest.raises(UserError, match="is not a goal environment"):
        envs.make(register("dict"))


def test_an_environment_without_a_time_limit_is_refused() -> None:
    gymnasium.register("CustomEndless-v0", Custom, disable_env_checker=True)
    with pytest.raises(UserError, match="time limit"):
        envs.make("CustomEndless-v0")
