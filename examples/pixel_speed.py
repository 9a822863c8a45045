"""What an image of the Fetch robot costs, in process time, and what each measure against it brings:

    python examples/pixel_speed.py [ROUNDS]

All variants take turns in one process, so that the ratios mean something also on a machine that has other work. The
table of docs/pixels.md is its output.
"""

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("LP_NUM_THREADS", "1")

import mujoco
import numpy as np

from tdinfonce import envs
from tdinfonce.envs.fetch_pixels import NAMES, TASKS, Robot
from tdinfonce.envs.gymnasium import open_gymnasium
from tdinfonce.envs.offscreen import Camera

POSE = TASKS["fetch-push-image"].pose
FLAG = mujoco.mjtRndFlag


def native(size: int) -> Callable[[], object]:
    """Gymnasium's way, with the same camera: its own renderer, and a forward pass for each picture."""
    camera = {"lookat": np.array(POSE.lookat)} | {name: getattr(POSE, name) for name in POSE._fields[1:]}
    options = {"width": size, "height": size, "default_camera_config": camera}
    env = open_gymnasium("FetchPush-v4", render=True, **options)
    env.reset(seed=0)
    assert env.render().shape == (size, size, 3)

    def draw() -> object:
        env.unwrapped.mujoco_renderer.viewer.make_context_current()  # it draws into another one's context otherwise
        return env.unwrapped.render()

    return draw


def mujoco_renderer(robot: Robot) -> Callable[[], object]:
    """MuJoCo's own renderer class with the same camera."""
    renderer = mujoco.Renderer(robot.model, 64, 64)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = POSE.lookat
    camera.distance, camera.azimuth, camera.elevation = POSE[1:]

    def draw() -> object:
        renderer.update_scene(robot.data, camera)
        return renderer.render()

    return draw


def ours(*, off: tuple = (), on: tuple = (), all_geometry: bool = False, samples: int = 4) -> Callable[[], object]:
    """Our camera with some of its measures undone or further ones added."""
    robot = Robot("fetch-push")
    robot.restart(0)
    robot.model.vis.quality.offsamples = samples
    camera = Camera(robot.model, robot.data, POSE)
    for flags, value in ((off, False), (on, True)):
        for flag in flags:
            camera._scene.flags[flag] = value
    if all_geometry:
        camera._in_view = lambda: np.ones(robot.model.ngeom, bool)
    return camera.image


def measure(what: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median process seconds of a call; the calls take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in what}
    for turn in range(rounds + 1):
        for name, call in what.items():
            begin = time.process_time()
            call()
            if turn:  # the first call compiles shaders
                seconds[name].append(time.process_time() - begin)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def table(title: str, seconds: dict[str, float], base: str) -> None:
    print(f"\n| {title} | ms | ratio |\n|---|---:|---:|")
    for name, value in seconds.items():
        print(f"| {name} | {1000 * value:.2f} | {value / seconds[base]:.2f} |")


def main(rounds: int) -> None:
    robot = Robot("fetch-push")
    robot.restart(0)
    state = open_gymnasium("FetchPush-v4")
    state.reset(seed=0)
    rng = np.random.default_rng(0)
    extra = (FLAG.mjRND_SKYBOX, FLAG.mjRND_HAZE)
    both = (FLAG.mjRND_SHADOW, FLAG.mjRND_REFLECTION)
    one = "our camera"
    pictures = {
        "Gymnasium's renderer, 480x480": native(480),
        "Gymnasium's renderer, 64x64": native(64),
        "mujoco.Renderer, 64x64": mujoco_renderer(robot),
        "our camera, all geometry, shadows and reflections on": ours(all_geometry=True, on=both),
        "our camera, all geometry": ours(all_geometry=True),
        one: ours(),
        "our camera, no sky, no haze": ours(off=extra),
        "our camera, no antialiasing": ours(samples=0),
        "our camera, no sky, no haze, no antialiasing": ours(off=extra, samples=0),
    }
    moves = {
        "a step of the state task": lambda: state.unwrapped.step(rng.uniform(-1, 1, 4)),
        "the same motion without observations": lambda: robot.move(rng.uniform(-1, 1, 3)),
    }
    seconds = measure(pictures | moves, rounds)
    table("one picture of fetch-push", {name: seconds[name] for name in pictures}, one)
    table("one motion", {name: seconds[name] for name in moves}, "a step of the state task")
    naive = seconds["a step of the state task"] + seconds["Gymnasium's renderer, 64x64"]
    print("\n| task | step, ms | steps/s | reset, ms | steps/s with resets |\n|---|---:|---:|---:|---:|")
    print(f"| push by Gymnasium, 64x64 | {1000 * naive:.2f} | {1 / naive:.0f} | | |")
    for name in NAMES:
        env = envs.make(name)
        seeds = iter(range(10_000))
        calls = {"reset": lambda env=env, seeds=seeds: env.reset(next(seeds))}
        reset = measure(calls, max(4, rounds // 5))["reset"]
        step = measure({"step": lambda env=env: env.step(rng.uniform(-1, 1, 4))}, rounds)["step"]
        whole = 50 / (reset + 50 * step)
        print(f"| {name} | {1000 * step:.2f} | {1 / step:.0f} | {1000 * reset:.0f} | {whole:.0f} |", flush=True)
        env.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
