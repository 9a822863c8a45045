"""Fetch through a camera: what the images show, and that the true state decides."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tdinfonce import envs
from tdinfonce.cli import main
from tdinfonce.envs import check, offscreen
from tdinfonce.envs.fetch_pixels import NAMES, TASKS, FetchImageEnv
from tdinfonce.envs.fetch_pixels import SIZE as PIXELS
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_object
from tdinfonce.training.collect import collect, uniform_policy

REACH, PUSH, PICK, SLIDE = (f"fetch-{task}-image" for task in ("reach", "push", "pick-and-place", "slide"))
SEED = 3


@pytest.fixture(scope="module", params=list(NAMES))
def env(request: pytest.FixtureRequest) -> Iterator[FetchImageEnv]:
    # Without a graphics library this raises, naming the package: these tests must not be skipped in silence.
    made = envs.make(request.param)
    assert isinstance(made, FetchImageEnv)
    yield made
    made.close()


def at_goal(env: FetchImageEnv, seed: int) -> np.ndarray:
    """Bring the simulator to the goal of ``seed`` once more and return the goal's position."""
    env.robot.restart(seed)
    while (goal := env.task.seek(env.robot)) is None:
        env.robot.restart()
    return goal


def pixel(env: FetchImageEnv, point: np.ndarray) -> np.ndarray:
    """Row and column where a point of the world must appear, by the pose alone (45 degrees field of view)."""
    pose = env.task.pose
    azimuth, elevation = np.radians([pose.azimuth, pose.elevation])
    forward = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0])
    up = np.cross(right, forward)
    ray = point - (np.array(pose.lookat) - pose.distance * forward)
    scale = PIXELS / 2 / np.tan(np.radians(45 / 2)) / (ray @ forward)
    return np.array([PIXELS / 2 - scale * (ray @ up), PIXELS / 2 + scale * (ray @ right)])


def pixels_of(env: FetchImageEnv, geometry: str) -> np.ndarray:
    """Rows and columns of the pixels that change when one geometry is taken away."""
    model = env.robot.model
    index = model.geom(geometry).id
    before, colour = env.camera.image().astype(int), model.geom_rgba[index].copy()
    material = int(model.geom_matid[index])
    model.geom_rgba[index], model.geom_matid[index] = 0, -1
    after = env.camera.image()
    model.geom_rgba[index], model.geom_matid[index] = colour, material
    return np.argwhere(np.abs(before - after).max(axis=-1) > 20)


def test_images_and_spec(env: FetchImageEnv) -> None:
    start = env.reset(SEED)
    step = env.step(np.ones(4))
    shape = (64, 64, 3)
    assert env.spec.image == env.spec.observation_shape == env.spec.goal_shape == shape
    assert (env.spec.observation_size, env.spec.action_size, env.spec.episode_length) == (12288, 4, 50)
    for image in (start.observation, start.goal, step.observation):
        assert image.shape == shape
        assert image.dtype == np.uint8
        assert image.std() > 20
    assert start.achieved is start.observation
    assert step.achieved is step.observation
    assert not np.array_equal(start.observation, start.goal)
    assert env.render().shape == (256, 512, 3)


def test_one_seed_one_episode(env: FetchImageEnv) -> None:
    def walk(seed: int) -> list[Any]:
        start = env.reset(seed)
        rng = np.random.default_rng(0)
        steps = [env.step(rng.uniform(-1, 1, 4)) for _ in range(4)]
        return [start.goal, start.observation, start.distance] + [x for s in steps for x in (s.observation, s.distance)]

    first, other, again = walk(SEED), walk(SEED + 1), walk(SEED)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_the_goal_image_shows_the_goal(env: FetchImageEnv) -> None:
    start = env.reset(SEED)
    commanded = env.goal_position
    goal = at_goal(env, SEED)
    np.testing.assert_array_equal(env.camera.image(), start.goal)
    np.testing.assert_array_equal(goal[: env.task.coordinates], commanded)
    thing = env.robot.thing
    assert np.linalg.norm((thing - goal)[: env.task.coordinates]) < 0.05
    if env.spec.name == REACH:
        seen = np.concatenate([pixels_of(env, f"robot0:{side}_gripper_finger_link") for side in "lr"])
    else:
        seen = pixels_of(env, "object0")
    assert len(seen) >= 4
    # What is hidden behind the hand does not count: a few pixels of the middle.
    assert np.linalg.norm(seen.mean(axis=0) + 0.5 - pixel(env, thing)) < 4


def test_target_and_markers_are_invisible(env: FetchImageEnv) -> None:
    import mujoco

    env.reset(SEED)
    model, data = env.robot.model, env.robot.data
    np.testing.assert_array_equal(np.flatnonzero(model.geom_rgba[:, 3] == 0), [1, 2, 3, 4])
    without = env.camera.image()
    target = model.site("target0").id
    place, colour = model.site_pos[target].copy(), model.site_rgba[target].copy()
    model.site_pos[target] += np.array(env.task.pose.lookat) - data.site_xpos[target]
    mujoco.mj_kinematics(model, data)
    np.testing.assert_array_equal(env.camera.image(), without)
    model.site_rgba[target] = 1, 0, 0, 1
    assert np.abs(env.camera.image().astype(int) - without).max() > 50
    model.site_pos[target], model.site_rgba[target] = place, colour


def test_leaving_out_what_is_out_of_view_changes_no_pixel(env: FetchImageEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(SEED)
    rng = np.random.default_rng(0)
    drawn, left_out = [], 0
    for _ in range(5):
        drawn.append(env.step(rng.uniform(-1, 1, 4)).observation)
        left_out += int((~env.camera._in_view()).sum())
    assert left_out >= 5
    monkeypatch.setattr(env.camera, "_in_view", lambda: np.ones(env.robot.model.ngeom, bool))
    env.reset(SEED)
    rng = np.random.default_rng(0)
    for image in drawn:
        np.testing.assert_array_equal(env.step(rng.uniform(-1, 1, 4)).observation, image)


def test_the_true_state_decides(env: FetchImageEnv) -> None:
    start = env.reset(SEED)
    goal = env.goal_position
    assert start.distance == pytest.approx(np.linalg.norm(start.position - goal))
    if env.spec.name == REACH:
        steps = [env.step(np.append(10 * (goal - env.robot.hand), 0)) for _ in range(10)]
        assert not steps[0].success
        # The same drive from the same start as when the picture of the goal was taken.
        np.testing.assert_array_equal(steps[-1].observation, start.goal)
        assert steps[-1].success
        assert steps[-1].distance < 0.05
        return
    env.robot.put(goal)
    near = env.step(np.zeros(4))
    assert near.success
    assert near.distance < 0.05
    env.robot.put(goal + 0.06)
    far = env.step(np.zeros(4))
    assert not far.success
    assert far.distance > 0.05
    np.testing.assert_array_equal(far.position, env.robot.thing[: len(goal)])


def test_starts_of_the_fact_sheet(env: FetchImageEnv) -> None:
    starts, goals = [], []
    for seed in range(3):
        env.reset(seed)
        starts.append((env.robot.hand, env.robot.thing))
        goals.append(env.goal_position)
    hands, things = (np.array(column) for column in zip(*starts, strict=True))
    behind = np.linalg.norm(things - hands - np.array([0.02, 0, 0]), axis=1)
    if env.spec.name == REACH:
        np.testing.assert_allclose(hands, [[1.34, 0.75, 0.53]] * 3, atol=0.03)
        assert len(goals[0]) == 3
    elif env.spec.name == PUSH:
        np.testing.assert_allclose(things[:, :2], [[1.15, 0.75]] * 3, atol=0.02)
        np.testing.assert_allclose([goal[1] for goal in goals], 0.75, atol=0.02)
        assert np.ptp([goal[0] for goal in goals]) > 0.01
    if env.spec.name in (PUSH, SLIDE):
        assert np.all(behind < 0.06)
        assert all(goal.shape == (2,) for goal in goals)
    if env.spec.name == SLIDE:
        assert all(goal[0] > 1.3 for goal in goals)
    if env.spec.name == PICK:
        assert len(goals[0]) == 3
        assert np.all(np.linalg.norm((things - hands)[:, :2], axis=1) >= 0.1 - 0.01)


def test_a_whole_episode_is_collected(env: FetchImageEnv) -> None:
    rng = np.random.default_rng(0)
    episode, outcome = collect(env, uniform_policy(env.spec, rng), SEED, rng)
    assert episode.observation.shape == (51, 64, 64, 3)
    assert episode.achieved is episode.observation
    assert outcome.length == 50
    assert 0 <= outcome.moved < 2
    if env.spec.name == REACH:
        assert outcome.moved > 0


def test_names_are_listed_and_checked() -> None:
    assert set(NAMES) == set(TASKS) <= set(envs.names())
    assert envs.goal_spaces(REACH) == ("image",)
    assert check.examine(REACH) == ([], [])


def test_noise_on_images_repeats_or_blackens_them() -> None:
    with pytest.raises(UserError, match="previous or zeros"):
        envs.make(REACH, noise=0.5)
    noisy = envs.make(REACH, noise=1.0, noise_kind="zeros")
    noisy.reset(0)
    step = noisy.step(np.zeros(4))
    assert step.observation.dtype == np.uint8
    assert not step.observation.any()
    noisy.close()


def test_osmesa_follows_egl_and_a_machine_without_both_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import mujoco

    tried, works = [], {"osmesa"}

    class Context:
        def __init__(self, width: int, height: int) -> None:
            tried.append(self.backend)
            if self.backend not in works:
                raise ImportError("no such library")

        def make_current(self) -> None: ...

    def load(name: str) -> Any:
        backend = name.removeprefix("mujoco.")
        return SimpleNamespace(GLContext=type("GLContext", (Context,), {"backend": backend}))

    monkeypatch.setattr(offscreen, "importlib", SimpleNamespace(import_module=load))
    monkeypatch.setattr(offscreen, "_forget", lambda *_: None)
    monkeypatch.setattr(offscreen, "_ask_egl", lambda: None)
    monkeypatch.setattr(mujoco, "MjrContext", lambda *_: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    assert offscreen.open_graphics(model, 64).backend == "osmesa"
    assert tried == ["egl", "osmesa"]
    works.clear()
    with pytest.raises(
        UserError, match="install the Debian packages libegl1 libgl1 libgl1-mesa-dri, or libosmesa6"
    ) as caught:
        offscreen.open_graphics(model, 64)
    assert "\n" not in str(caught.value)
    make = (Path(__file__).parents[1] / "Makefile").read_text()
    assert f"GRAPHICS := {offscreen.PACKAGES}\n" in make
    assert offscreen.main() == 2
    assert "libegl1" in capsys.readouterr().err
    works.update(("egl", "osmesa"))
    assert offscreen.open_graphics(model, 64).backend == "egl"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert offscreen.open_graphics(model, 64).backend == "osmesa"


@pytest.mark.parametrize("words", [("tdinfonce", "train", "--env", "fetch-reach"), ("tdinfonce.envs.offscreen",)])
def test_a_graphics_library_that_cannot_be_loaded_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    """In a process of its own: MuJoCo looks at the variable when it is imported."""
    asked = os.environ | {"MUJOCO_GL": "nonsense"}
    call = [sys.executable, "-m", *words]
    done = subprocess.run(call, capture_output=True, text=True, env=asked, cwd=tmp_path, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "cannot load the simulator with MUJOCO_GL=nonsense" in line
    assert "unset it" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_image_task_trains(name: str, tmp_path: Path) -> None:
    settings = ["env_steps=200", "warmup_steps=150", "eval_every=100", "eval_episodes=1", "final_episodes=1"]
    assert main(["train", "--env", name, "--seed", "100", "--out", str(tmp_path / "run"), "--set", *settings]) == 0
    assert read_object(tmp_path / "run" / "summary.json")["updates"] == 25
