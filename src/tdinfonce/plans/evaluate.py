"""How well a policy reaches goals, with figures, films and pictures."""

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import envs, seeding
from tdinfonce.errors import UserError
from tdinfonce.plans.plan import check_sizes
from tdinfonce.plans.policy import TrainedPolicy, load
from tdinfonce.plans.run import Run
from tdinfonce.training.collect import collect
from tdinfonce.training.evaluate import evaluate as run_episodes
from tdinfonce.types import GoalEnv

__all__ = ["evaluate"]

MOST_EPISODES = 10**6
MOST_FILMED = 1000
FRAME_MILLISECONDS = 40
Act = Callable[[Any, Any, int], np.ndarray]


def evaluate(
    policy: Any,
    env: Any = None,
    episodes: int = 100,
    *,
    best: bool = False,
    video: str | Path | None = None,
    picture: str | Path | None = None,
    video_episodes: int = 4,
) -> dict[str, Any]:
    """Evaluate a policy on the fixed evaluation episodes: the same seeds for everybody, never used in training.

    Args:
        policy: a `TrainedPolicy`, a `Run`, a run folder, or any function of observation and goal that returns an action
            in the environment's units.
        env: where; anything that `tdinfonce.plan` takes. Default: the run's own environment.
        episodes: how many.
        best: of a run: the policy that did best during training instead of the newest one.
        video: also write the first episodes as a film, .mp4 or .gif.
        picture: also write an episode as a picture, .png: rendered if that works, else the path to the goal.
        video_episodes: episodes in the film.

    Returns:
        Means over the episodes: ``success_any`` (the goal was reached at some step, the paper's measure),
        ``success_final`` (at the last step), ``min_distance``, ``final_distance``, ``length``; ``success_task_1`` and
        so on where the environment has fixed tasks, which then take turns; and what was evaluated.

    >>> import numpy as np, tdinfonce as td
    >>> straight = lambda observation, goal: np.clip(10 * (goal - observation), -1, 1)
    >>> td.evaluate(straight, "point", episodes=10)["success_any"]
    1.0
    """
    _check(episodes, video_episodes, video, picture)
    policy = policy.policy(best=best) if isinstance(policy, Run) else policy
    policy = load(policy, best=best) if isinstance(policy, str | Path) else policy
    render = video is not None or picture is not None
    if isinstance(policy, TrainedPolicy):
        plan = policy.plan.at(env)
        world = plan.make_env(render=render)
        about = {"env": plan.env, "agent": plan.agent, "seed": plan.seed}
        about |= {"env_steps": policy.env_steps, "updates": policy.updates}
    elif callable(policy) and env is not None:
        world = envs.make(env, render=render)
        about = {"env": world.spec.name}
    else:
        raise UserError("policy must be a trained policy, a run, or a function; a function needs an environment (env)")
    with contextlib.closing(world):
        if isinstance(policy, TrainedPolicy):
            check_sizes(policy.spec, world.spec)
        act = _acting(policy, world)
        result = run_episodes(world, act(), episodes)
        if video is not None:
            _try(_film, Path(video), world, act, video_episodes)
        if picture is not None:
            _try(_picture, Path(picture), world, act)
    return result | about


def _check(episodes: int, video_episodes: int, video: str | Path | None, picture: str | Path | None) -> None:
    if episodes < 1 or video_episodes < 1:
        raise UserError("at least one episode is needed")
    if episodes > MOST_EPISODES or video_episodes > MOST_FILMED:
        raise UserError(f"at most {MOST_EPISODES:,} episodes can be asked for, and {MOST_FILMED:,} for a film")
    if video is not None and Path(video).suffix not in (".mp4", ".gif"):
        raise UserError(f"a video ends in .mp4 or .gif; got {video}")
    if picture is not None and Path(picture).suffix != ".png":
        raise UserError(f"a picture ends in .png; got {picture}")


def _acting(policy: Any, env: GoalEnv) -> Callable[[], Act]:
    """Makes, for an episode or several, a policy as our environments take it."""
    if isinstance(policy, TrainedPolicy):
        return policy.for_episodes
    return lambda: lambda observation, goal, time: env.spec.own_action(policy(observation, goal))


def _try(draw: Callable[..., None], *args: Any) -> None:
    """An evaluation is not lost because nothing can be drawn."""
    try:
        draw(*args)
    except UserError as error:
        warnings.warn(f"{args[0]} was not written: {error}", RuntimeWarning, stacklevel=3)


def _frames(env: GoalEnv, act: Act, seed: int) -> list[np.ndarray]:
    """The images of one episode."""
    start = env.reset(seed)
    observation, done = start.observation, False
    frames = [env.render()]
    while not done:
        step = env.step(act(observation, start.goal, len(frames) - 1))
        observation, done = step.observation, step.done
        frames.append(env.render())
    return frames


def _picture(path: Path, env: GoalEnv, act: Callable[[], Act]) -> None:
    """Draw one of the first eight evaluation episodes, the one that starts farthest from its goal; or the paths
    of four where nothing can be rendered.
    """
    from tdinfonce.analysis.training import draw_frames, draw_paths

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        farthest = max(seeding.evaluation_seeds(8, env.spec.tasks), key=lambda seed: env.reset(seed).distance)
        draw_frames(path, _frames(env, act(), farthest))
        return
    except UserError:
        pass  # no graphics library: the paths need none
    deciding, episodes = env.spec.deciding, []
    for seed in seeding.evaluation_seeds(4, env.spec.tasks):
        goal = env.reset(seed).goal[deciding]
        states = collect(env, act(), seed, np.random.default_rng(0))[0].achieved[:, deciding]
        episodes.append((states, goal))
    draw_paths(path, episodes)


def _film(path: Path, env: GoalEnv, act: Callable[[], Act], episodes: int) -> None:
    """Render the first evaluation episodes."""
    try:
        import imageio.v3 as imageio
    except ModuleNotFoundError as error:
        raise UserError("videos need imageio: pip install 'tdinfonce[video]'") from error
    seeds = seeding.evaluation_seeds(episodes, env.spec.tasks)
    frames = [frame for seed in seeds for frame in _frames(env, act(), seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")  # it would fork, of which JAX warns
    gif = {"duration": FRAME_MILLISECONDS, "loop": 0}
    options: dict[str, Any] = gif if path.suffix == ".gif" else {"fps": 1000 // FRAME_MILLISECONDS}
    try:
        imageio.imwrite(path, frames, **options)
    except (OSError, ImportError) as error:
        raise UserError(f"cannot write the video {path}: {error}") from error
