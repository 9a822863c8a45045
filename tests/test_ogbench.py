"""OGBench's own environments: five tasks in turn, episodes by seed, data by its recipe, and one command for it all."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ogbench")

import tdinfonce as td
from tdinfonce import envs
from tdinfonce.cli import main
from tdinfonce.data import open_dataset, read_record
from tdinfonce.envs.check import examine
from tdinfonce.envs.ogbench import NAMES, environment_of, open_ogbench
from tdinfonce.envs.worker import WorkerEnv
from tdinfonce.errors import UserError
from tdinfonce.recording import generate
from tdinfonce.recording.behaviour import behaviour_for, record_block
from tdinfonce.seeding import evaluation_seeds
from tdinfonce.training.evaluate import evaluate
from tdinfonce.types import GoalEnv

MAZE, CUBE, PUZZLE = (f"ogbench:{n}-v0" for n in ("pointmaze-medium-navigate", "cube-single-play", "puzzle-3x3-play"))
STATES = [MAZE, "ogbench:pointmaze-teleport-v0", "ogbench:antmaze-medium-navigate-v0", CUBE, PUZZLE, "ogbench:scene-v0"]
LONG = {"pointmaze": 1000, "antmaze": 1000, "cube": 200, "puzzle": 500, "scene": 750}


def played(env: GoalEnv, seed: int, steps: int = 8) -> np.ndarray:
    """All that an episode says, in one row."""
    rng = np.random.default_rng(seed)
    start = env.reset(seed)
    said = [start.observation, start.goal, [start.distance]]
    for _ in range(steps):
        step = env.step(env.spec.random_action(rng))
        said += [step.observation, step.achieved, [step.distance]]
    return np.concatenate([np.ravel(part) for part in said])


@pytest.mark.parametrize("name", STATES)
def test_an_episode_belongs_to_its_seed(name: str) -> None:
    """OGBench draws from NumPy's global chance, and from spaces that no seed reaches: neither may be seen here."""
    env = envs.make(name)
    outside = np.random.get_state()[1].copy()  # noqa: NPY002
    one = [played(env, seed) for seed in (7, 8, 9)]
    np.testing.assert_array_equal(np.random.get_state()[1], outside)  # noqa: NPY002
    np.random.random(5)  # noqa: NPY002
    two = [played(env, seed) for seed in (9, 8, 7)][::-1]
    env.close()
    fresh = envs.make(name)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one[1], played(fresh, 8))
    assert not np.array_equal(one[0], played(fresh, 12)), "another seed of the same task is another episode"
    fresh.close()


@pytest.mark.parametrize("name", STATES)
def test_the_goal_is_a_whole_observation_or_what_success_looks_at(name: str) -> None:
    whole, part = (envs.make(name, goal_space=space) for space in envs.goal_spaces(name))
    assert envs.make(name).spec == whole.spec, "OGBench's own is the default"
    assert (whole.spec.tasks, whole.spec.data_goal) == (5, "all")
    assert whole.spec.goal_size == whole.spec.observation_size
    assert whole.spec.episode_length == LONG[environment_of(name).partition("-")[0]]
    assert examine(name) == ([], [])
    raw = open_ogbench(name, use_oracle_rep=True).unwrapped
    for seed in range(5):
        start, short = whole.reset(seed), part.reset(seed)
        picked = [int(i) for i in part.spec.data_goal.split(",")]
        np.testing.assert_array_equal(start.observation, short.observation)
        np.testing.assert_array_equal(start.observation[picked], short.achieved)
        np.testing.assert_array_equal(start.goal[picked], short.goal)
        if whole.spec.success_coordinates:
            assert list(whole.spec.success_coordinates) == picked
        np.random.seed(0)  # noqa: NPY002
        oracle = raw.reset(seed=seed, options={"task_id": seed + 1})[1]["goal"]
        assert oracle.shape == short.goal.shape
        if "maze" not in name:  # there the places are drawn: only the shape can be compared
            moved = np.abs(oracle - short.goal)
            assert moved.max() < 0.05, "the scene may settle a little"
    for env in (whole, part):
        env.close()


def test_success_and_distance_are_ogbenchs() -> None:
    """Walk to the goal by the wheel's own waypoints: success comes when it is within 1, and ends the episode."""
    env: Any = envs.make(MAZE)
    start = env.reset(1)
    assert start.distance == pytest.approx(float(np.linalg.norm(start.goal - start.achieved)), abs=1e-5)
    place, steps = start.observation, []
    while not steps or not steps[-1].done:
        target, _ = env._inner.get_oracle_subgoal(place, start.goal)
        way = np.asarray(target) - place
        steps.append(env.step(way / np.linalg.norm(way)))
        place = steps[-1].observation
    assert [step.success for step in steps] == [step.distance <= 1.0 for step in steps]
    assert steps[-1].success
    assert not any(step.success for step in steps[:-1])
    assert len(steps) < 1000
    env.close()


def test_the_distance_of_an_arms_task_counts_what_is_not_yet_right() -> None:
    env: Any = envs.make(PUZZLE)
    for seed in range(5):
        start = env.reset(seed)
        wrong = env._inner.task_infos[seed]["init_button_states"] != env._inner.task_infos[seed]["goal_button_states"]
        assert start.distance == wrong.sum() > 0
    env.close()


def test_the_five_tasks_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = evaluation_seeds(12, 5)
    assert [seed % 5 for seed in seeds] == [0, 1, 2, 3, 4] * 2 + [0, 1]
    assert np.abs(np.array(seeds) - evaluation_seeds(12)).max() < 5, "nearly those of everybody else"
    env: Any = envs.make(MAZE)
    asked = []
    policy = lambda observation, goal, time: (asked.append(env._inner.cur_task_id), np.zeros(2, np.float32))[1]  # noqa: E731
    monkeypatch.setattr(env._env.spec, "max_episode_steps", 1)
    object.__setattr__(env.spec, "episode_length", 1)
    found = evaluate(env, policy, 7)
    assert asked == [1, 2, 3, 4, 5, 1, 2]
    assert [found[f"success_task_{task}"] for task in range(1, 6)] == [0.0] * 5
    assert "success_task_3" not in evaluate(env, policy, 2)
    assert not [name for name in evaluate(envs.make("point"), lambda o, g, t: np.zeros(2), 3) if "task" in name]
    env.close()


def test_success_of_each_task_is_its_own() -> None:
    """A policy that only ever solves the second task."""
    env: Any = envs.make(MAZE)

    def act(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        if env._inner.cur_task_id != 2:
            return np.zeros(2, np.float32)
        way = np.asarray(env._inner.get_oracle_subgoal(observation, goal)[0]) - observation
        return (way / np.linalg.norm(way)).astype(np.float32)

    found = evaluate(env, act, 10)
    assert [found[f"success_task_{task}"] for task in range(1, 6)] == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert found["success_any"] == pytest.approx(0.2)
    env.close()


@pytest.mark.parametrize(
    "name",
    [
        "visual-antmaze-medium-navigate-v0",
        pytest.param("visual-cube-single-play-v0", marks=pytest.mark.slow),
        pytest.param("visual-scene-play-v0", marks=pytest.mark.slow),
    ],
)
def test_images_are_seen_as_ogbench_draws_them(name: str) -> None:
    env: Any = envs.make(f"ogbench:{name}")
    assert env.spec.image == (64, 64, 3)
    assert examine(f"ogbench:{name}") == ([], [])
    one = played(env, 3, steps=3)
    played(env, 4, steps=2)
    np.testing.assert_array_equal(one, played(env, 3, steps=3))
    start = env.reset(3)
    assert start.position is not None
    assert start.distance > 0
    assert start.observation.std() > 10, "there is something to see"
    assert np.abs(start.observation.astype(int) - start.goal).mean() > 1
    assert env.render().shape == (256, 512, 3)
    env.close()


def test_pictures_of_what_the_arm_does() -> None:
    env = envs.make(CUBE, render=True)
    env.reset(0)
    image = env.render()
    assert image.shape == (400, 400, 3)
    assert image.std() > 10
    env.close()


def test_names() -> None:
    assert environment_of("ogbench:antmaze-medium-navigate-v0") == "antmaze-medium-v0"
    assert environment_of("ogbench:scene-play-v0") == "scene-v0"
    assert environment_of("ogbench:visual-puzzle-3x3-noisy-v0") == "visual-puzzle-3x3-v0"
    gymnasium = pytest.importorskip("gymnasium")
    assert {environment_of(name) for name in NAMES} <= set(gymnasium.registry)
    with pytest.raises(UserError, match="Did you mean 'ogbench:antmaze-medium-navigate-v0'"):
        envs.make("ogbench:antmaze-medium-navigat-v0")
    with pytest.raises(UserError, match="choose one of: observation, achieved"):
        envs.make(MAZE, goal_space="xy")


def test_in_a_process_of_its_own() -> None:
    here, there = envs.make(MAZE), WorkerEnv({"env": MAZE})
    assert there.spec == here.spec
    np.testing.assert_array_equal(played(here, 3), played(there, 3))
    there.close()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "ogbench.locomaze", raising=False)
    monkeypatch.setitem(sys.modules, "ogbench", None)
    with pytest.raises(UserError, match=r"OGBench is not installed: pip install 'tdinfonce\[ogbench\]'"):
        envs.make(MAZE)


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "data" / "main_data.hdf5").read_bytes()).hexdigest()


def make(name: str, folder: Path, *words: str) -> int:
    return main(["data", "make", name, "--out", str(folder), "--transitions", "600", *words])


@pytest.mark.parametrize("name", ["ogbench:pointmaze-large-stitch-v0", "ogbench:pointmaze-teleport-stitch-v0"])
def test_one_seed_one_file_however_often_it_was_stopped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make(name, tmp_path / "a-v0") == 0
    assert make(name, tmp_path / "other-v0", "--seed", "1") == 0
    monkeypatch.setattr(generate, "SHARD", 200)
    left = [2]

    def stops(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return record_block(*arguments)

    monkeypatch.setattr(generate, "record_block", stops)
    assert make(name, tmp_path / "b-v0") == 130
    left[0] = 1
    assert make(name, tmp_path / "b-v0") == 0
    assert digest(tmp_path / "a-v0") == digest(tmp_path / "b-v0") != digest(tmp_path / "other-v0")


@pytest.mark.parametrize("name", [CUBE, PUZZLE])
def test_an_oracle_plays_the_same_whatever_was_played_before(name: str) -> None:
    behaviour = behaviour_for(name, None, None)
    behaviour.env.length = 60
    second = record_block(behaviour, 3, 1)[0]
    first = record_block(behaviour, 3, 0)[0]
    np.testing.assert_array_equal(second.observation, record_block(behaviour, 3, 1)[0].observation)
    np.testing.assert_array_equal(second.action, record_block(behaviour, 3, 1)[0].action)
    assert not np.array_equal(first.observation, second.observation)
    assert len(first.observation) == 61
    assert np.abs(first.action).max() <= 1
    behaviour.env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [CUBE, PUZZLE])
def test_an_oracle_does_what_it_is_asked(name: str) -> None:
    """A whole episode: several targets are met one after the other."""
    behaviour = behaviour_for(name, None, None)
    episode = record_block(behaviour, 100, 0)[0]
    begun = np.flatnonzero(episode.success[1:] & ~episode.success[:-1])
    assert len(episode.action) == 1000
    assert len(begun) >= 5, begun
    behaviour.env.close()


def test_navigate_goes_from_goal_to_goal_and_stitch_four_cells_far(monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour: Any = behaviour_for(MAZE, None, None)
    inner, asked = behaviour.env._inner, []
    monkeypatch.setattr(
        inner, "set_goal", lambda goal_xy: (asked.append(goal_xy), type(inner).set_goal(inner, goal_xy=goal_xy))
    )
    episode = record_block(behaviour, 100, 0)[0]
    assert len(episode.action) == 1000
    assert len(asked) - 2 == episode.success.sum() > 5, "a reached goal is followed by another"
    for row, column in map(inner.xy_to_ij, asked):
        up, down, left, right = inner.maze_map[[row - 1, row + 1, row, row], [column, column, column - 1, column + 1]]
        assert up != down or left != right or up == left, "a straight passage is no goal"
    grid = behaviour.env.grid
    assert all(not grid.walls[grid.cell(place)[0]][grid.cell(place)[1]] for place in episode.observation)
    crossed = {grid.cell(place) for place in episode.observation}
    assert len(crossed) > 12
    stitch = behaviour_for("ogbench:pointmaze-medium-stitch-v0", None, None)
    for index in range(4):
        short = record_block(stitch, 100, index)[0]
        ends = [grid.cell(short.observation[row]) for row in (0, -1)]
        assert len(short.action) == 200
        assert grid.steps(*ends) == 4
        assert short.success.any()


def test_the_record_says_how_it_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "set-v0"
    assert make("ogbench:pointmaze-medium-stitch-v0", folder) == 0
    record = read_record(folder)
    assert (record["env"], record["kind"], record["noise"], record["blocks"], record["goal"]) == (
        "ogbench:pointmaze-medium-stitch-v0",
        "stitch",
        0.5,
        3,
        "all",
    )
    found = open_dataset(folder)
    assert found.achieved is found.observation
    assert not found.commanded
    assert main(["data", "inspect", str(folder), "--out", str(tmp_path)]) == 0
    assert "goal reached" not in capsys.readouterr().out, "none was commanded"
    assert main(["data", "list"]) == 0
    assert "ogbench:cube-single-play-v0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (MAZE, ["--kind", "stitch"], "says what kind of data it is"),
        (MAZE, ["--policy", "{weights}"], "OGBench's own oracle; leave out policy"),
        ("ogbench:antmaze-medium-navigate-v0", [], "needs a policy that walks"),
        ("ogbench:antmaze-medium-navigate-v0", ["--policy", "nowhere.npz"], "there is no policy"),
        ("ogbench:antmaze-medium-navigate-v0", ["--policy", "{weights}"], "fc0.weight: is missing"),
        ("ogbench:scene-play-v0", [], "need a trained run as policy"),
        ("ogbench:cube-singel-play-v0", [], "Did you mean 'ogbench:cube-single-play-v0'"),
    ],
)
def test_what_cannot_be_made_gets_one_line(
    name: str, words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "weights.npz", x=np.zeros(3))
    given = [word.format(weights=tmp_path / "weights.npz") for word in words]
    assert make(name, tmp_path / "out-v0", *given) == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1, error
    assert message in error


def by_hand(path: Path) -> Path:
    """An OGBench file of random walks in its medium maze, made without our code."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (30, 101, 2)).astype(np.float32)
    starts = np.array([[0, 0], [20, 20], [8, 8]], np.float32)[rng.integers(3, size=30)]
    walked = starts[:, None] + np.cumsum(0.2 * np.concatenate([np.zeros((30, 1, 2)), actions[:, :-1]], axis=1), axis=1)
    terminals = np.zeros((30, 101), bool)
    terminals[:, -1] = True
    np.savez_compressed(
        path,
        observations=walked.reshape(-1, 2).astype(np.float32),
        actions=actions.reshape(-1, 2),
        terminals=terminals.ravel(),
        qpos=walked.reshape(-1, 2),
        qvel=np.zeros((3030, 2)),
    )
    return path


def test_a_file_of_ogbench_trains_and_evaluates_in_ogbench_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = by_hand(tmp_path / "pointmaze-medium-navigate-v0.npz"), tmp_path / "run"
    small = ["hidden=16,16", "goal_hidden=16", "batch_size=32", "eval_every=200", "eval_episodes=5", "final_episodes=5"]
    words = ["train", "--dataset", str(data), "--env", MAZE, "--updates", "200", "--out", str(run), "--set", *small]
    assert main(words) == 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["updates"] == 200
    assert {f"success_task_{task}" for task in range(1, 6)} <= set(summary)
    rows = td.Run(run).metrics()
    assert [row["updates"] for row in rows if "eval/success_task_5" in row] == [200]
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "5"]) == 0
    assert "success_task_5" in capsys.readouterr().out
    with pytest.raises(
        UserError, match=r"its goals have length 2, not 1; choose the goal's coordinates \(goal\), or a"
    ):
        td.train(MAZE, data=data, goal="0", updates=2, out=tmp_path / "other", loggers=())
