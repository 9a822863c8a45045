"""Mazes: D4RL's ant and places, gymnasium-robotics' ball, shortest ways, and a policy that walks."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdinfonce import envs
from tdinfonce.cli import main
from tdinfonce.envs._maze import Grid
from tdinfonce.errors import UserError
from tdinfonce.recording.waypoints import Waypoints

WALLS = [[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]]
POLICY = os.environ.get("TDINFONCE_ANT_POLICY", "")


def test_shortest_ways() -> None:
    grid = Grid(WALLS, 2.0, (-4, 4))
    assert grid.steps((1, 1), (3, 1)) == 6
    way = [(1, 1)]
    while way[-1] != (3, 1):
        way.append(grid.towards(way[-1], (3, 1)))
    assert way == [(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1)]
    assert all(grid.cell(grid.centre(cell) + np.array([0.9, -0.9])) == cell for cell in grid.cells)
    assert grid.cell(grid.centre((2, 2)) + np.array([0.5, 0.0])) == (2, 3), (
        "a point in a wall belongs to the nearest free cell"
    )


def test_waypoints_lead_to_the_goal() -> None:
    grid = Grid(WALLS, 1.0, (-2, 2))
    guide, place, goal = Waypoints(grid), grid.centre((1, 1)) + 0.2, grid.centre((3, 1)) - 0.1
    guide.begin(place, goal)
    for _ in range(400):
        way = guide.towards(place) - place
        place = place + 0.05 * way / max(float(np.hypot(*way)), 0.05)
        assert grid.walls[round(2 - place[1])][round(place[0] + 2)] == 0, "walked into a wall"
    np.testing.assert_allclose(place, goal, atol=0.06)


def test_waypoints_find_back_after_a_push() -> None:
    grid = Grid(WALLS, 1.0, (-2, 2))
    guide = Waypoints(grid)
    guide.begin(grid.centre((1, 1)), grid.centre((3, 1)))
    far = grid.centre((3, 3)) + 0.1
    np.testing.assert_array_equal(guide.towards(far), grid.centre((3, 2)))


pytest.importorskip("gymnasium_robotics")
mujoco = pytest.importorskip("mujoco")

MAZES = [name for name in envs.names() if name.startswith(("pointmaze-", "antmaze-"))]


def test_there_are_nine_and_three_far_ones() -> None:
    assert len([name for name in MAZES if not name.endswith("-far")]) == 9
    assert len(MAZES) == 12


@pytest.mark.parametrize("name", MAZES)
def test_contract(name: str) -> None:
    env: Any = envs.make(name)
    spec, start = env.spec, env.reset(5)
    assert start.observation.shape == (spec.observation_size,)
    assert start.observation.dtype == start.goal.dtype == np.float32
    assert start.goal.shape == start.achieved.shape == (2,) == (spec.goal_size,)
    assert spec.tolerance == 0.5
    assert spec.episode_length == (
        700 if "ant" in name and "umaze" in name else 1000 if "ant" in name else spec.episode_length
    )
    np.testing.assert_array_equal(start.achieved, start.observation[:2])
    assert start.distance == pytest.approx(np.linalg.norm(start.achieved - start.goal), abs=1e-4)
    action = np.linspace(-2, 2, spec.action_size)
    first = [env.step(action) for _ in range(3)]
    env.reset(6)
    env.step(-action)
    again = env.reset(5)
    np.testing.assert_array_equal(again.observation, start.observation)
    np.testing.assert_array_equal(again.goal, start.goal)
    for step in first:
        repeated = env.step(np.clip(action, -1, 1))
        np.testing.assert_array_equal(repeated.observation, step.observation)
        assert not repeated.done
    env.close()


def test_an_episode_ends_at_its_time_limit_and_nowhere_else() -> None:
    env: Any = envs.make("pointmaze-umaze")
    start = env.reset(0)
    env.begin(np.random.default_rng(0), (1, 1), (1, 1))
    steps = [env.step(np.zeros(2)) for _ in range(300)]
    assert [step.done for step in steps] == [False] * 299 + [True]
    assert start.distance > 0
    assert any(step.success for step in steps)


@pytest.mark.parametrize("name", ["umaze", "medium", "large"])
def test_the_ball_moves_as_in_gymnasium_robotics(name: str) -> None:
    ours: Any = envs.make(f"pointmaze-{name}")
    theirs: Any = envs.gymnasium.open_gymnasium(f"PointMaze_{ {'umaze': 'UMaze'}.get(name, name.capitalize()) }-v3")
    start = ours.reset(3)
    theirs.reset(seed=0)
    body = theirs.unwrapped.point_env
    body.set_state(ours._data.qpos.copy(), np.zeros(2))
    assert ours.spec.episode_length == theirs.spec.max_episode_steps
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        state = theirs.step(action)[0]["observation"]
        np.testing.assert_allclose(ours.step(action).observation, state, atol=1e-4)
    assert not np.allclose(state[:2], start.observation[:2])


def test_far_goals_are_far() -> None:
    env: Any = envs.make("pointmaze-medium-far")
    for seed in range(20):
        start = env.reset(seed)
        assert env.grid.steps(env.grid.cell(start.achieved), env.grid.cell(start.goal)) >= 6


def test_the_ant_is_d4rls() -> None:
    env: Any = envs.make("antmaze-umaze")
    model = env._model
    assert (model.opt.timestep, model.opt.integrator) == (0.02, mujoco.mjtIntegrator.mjINT_RK4)
    assert env._body.frame_skip == 5
    np.testing.assert_array_equal(model.actuator_gear[:, 0], 30)
    np.testing.assert_array_equal(model.actuator_ctrlrange, [[-1, 1]] * 8)
    torso = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, "torso_geom")
    np.testing.assert_allclose(model.geom_solimp[torso][:3], [0.8, 0.8, 0.01])
    assert (model.nq, model.nv, model.nu) == (15, 14, 8)
    env.reset(0)
    assert abs(env._data.qpos[2] - 0.75) <= 0.1


@pytest.mark.parametrize(
    ("name", "goal", "walls"),
    [
        ("antmaze-umaze", (0, 8), [(0, 4), (4, 4), (-4, 0), (0, -4)]),
        (
            "antmaze-medium-play",
            (20, 20),
            [(8, 0), (12, 0), (8, 4), (0, 8), (16, 8), (8, 12), (4, 16), (16, 16), (12, 20)],
        ),
        ("antmaze-large-diverse", (32, 24), [(16, 0), (4, 4), (8, 4), (16, 4), (24, 4), (32, 4), (0, 20), (36, 20)]),
    ],
)
def test_starts_goals_and_walls_are_where_d4rl_has_them(
    name: str, goal: tuple[int, int], walls: list[tuple[int, int]]
) -> None:
    env: Any = envs.make(name)
    starts = [env.reset(seed) for seed in range(20)]
    assert all(np.all(np.abs(start.achieved) <= 0.1) for start in starts)
    offsets = np.stack([start.goal for start in starts]) - np.array(goal)
    assert offsets.min() >= 0
    assert 1.0 < offsets.max() <= 1.5
    blocks = env._model.geom_pos[env._model.geom_type == mujoco.mjtGeom.mjGEOM_BOX][:, :2]
    for place in walls:
        assert np.abs(blocks - place).max(axis=1).min() < 1e-6, place
    assert np.abs(blocks - goal).max(axis=1).min() > 2
    assert len(blocks) == sum(map(sum, env.grid.walls))


def test_list_and_check_env_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in MAZES)
    assert main(["check-env", "antmaze-large-play"]) == 0


def test_pictures_from_above() -> None:
    env = envs.make("pointmaze-medium", render=True)
    env.reset(0)
    image = env.render()  # without a graphics library this fails, and names the package
    assert image.shape == (400, 400, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 10
    env.close()
    with pytest.raises(UserError, match="without rendering"):
        envs.make("pointmaze-medium").render()


@pytest.mark.skipif(not Path(POLICY).is_file(), reason="no ant policy: set TDINFONCE_ANT_POLICY to the file of weights")
def test_the_policy_reaches_the_goal_of_umaze() -> None:
    """D4RL's recipe with its own policy: sampled action, noise of 0.2, waypoints; at least 85 % of episodes."""
    from tdinfonce.recording.behaviour import behaviour_for

    behaviour = behaviour_for("antmaze-umaze", "navigate", Path(POLICY))
    env, reached = behaviour.env, 0
    for seed in range(20):
        rng, start = np.random.default_rng(seed), env.reset(seed)
        observation = start.observation
        behaviour.steering.begin(observation, start.goal)
        for _ in range(env.spec.episode_length):
            action = behaviour.steering.act(observation, start.goal, rng) + behaviour.noise * rng.standard_normal(8)
            step = env.step(action)
            observation = step.observation
            if step.success:
                reached += 1
                break
    assert reached >= 17


@pytest.mark.skipif(not Path(POLICY).is_file(), reason="no ant policy: set TDINFONCE_ANT_POLICY to the file of weights")
def test_ants_do_not_stay_at_their_goals_as_in_d4rl(tmp_path: Path) -> None:
    """D4RL's public counts leave 0.9 % of all steps at the goal; ants that stay there spend two fifths."""
    from tdinfonce.analysis.datasets import flipped_share, goal_share
    from tdinfonce.data import open_dataset
    from tdinfonce.recording.generate import make_data

    share = {}
    for kind in ("reach", "navigate", "stay"):
        out = tmp_path / f"{kind}-v0"
        make_data("antmaze-medium-diverse", out, kind=kind, transitions=8_000, policy=Path(POLICY))
        found = open_dataset(out)
        share[kind] = goal_share(found, 0.5)
        if kind == "reach":
            assert 80 < np.median(found.length) < 250
            assert flipped_share(found) < 0.2
    assert share["reach"] <= 0.05
    assert share["navigate"] <= 0.05
    assert share["stay"] > 0.2
