"""`tdinfonce eval`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from tdinfonce.errors import UserError

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Evaluate a trained policy on the fixed evaluation episodes."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run", metavar="RUN")]
    """The run folder that `tdinfonce train` made."""
    episodes: int = 100
    """How many evaluation episodes."""
    env: str | None = None
    """Evaluate here instead of in the run's own environment; needed for a run on data without one."""
    best: bool = False
    """Take the policy that did best in the evaluations during training instead of the newest one."""
    json: bool = False
    """Print the metrics as one JSON object instead of a table."""
    video: Path | None = None
    """Also write the first episodes as a film: a name ending in .mp4 or .gif."""
    picture: Path | None = None
    """Also write an episode as a picture (.png): rendered if the machine can, else the path to the goal."""
    video_episodes: int = 4
    """Episodes in the film."""

    def run(self) -> int:
        """Evaluate and print."""
        if self.episodes < 1 or self.video_episodes < 1:
            raise UserError("at least one episode is needed")
        if self.episodes > 10**6 or self.video_episodes > 1000:
            raise UserError("at most 1,000,000 episodes can be asked for, and 1,000 for a film")
        if self.video is not None and self.video.suffix not in (".mp4", ".gif"):
            raise UserError(f"a video ends in .mp4 or .gif; got {self.video}")
        if self.picture is not None and self.picture.suffix != ".png":
            raise UserError(f"a picture ends in .png; got {self.picture}")
        import tdinfonce
        from tdinfonce.plans import plan as recipe
        from tdinfonce.training.evaluate import evaluate

        policy = tdinfonce.load(str(self.run_folder), best=self.best)
        plan = recipe.at(recipe.read(self.run_folder)[0], self.env)
        env = plan.make_env(render=self.video is not None or self.picture is not None)
        try:
            recipe.check_sizes(policy.spec, env.spec)
            result = evaluate(env, policy.for_episodes(), self.episodes)
            if self.video is not None:
                _film(self.video, env, policy, self.video_episodes)
            if self.picture is not None:
                _picture(self.picture, env, policy)
        finally:
            env.close()
        result |= {"env": plan.env, "agent": plan.agent, "seed": plan.seed}
        result |= {"env_steps": policy.env_steps, "updates": policy.updates}
        if self.json:
            print(json.dumps(result))
        else:
            _table(self.run_folder, result)
            for name, path in (("video", self.video), ("picture", self.picture)):
                if path is not None:
                    print(f"{name}: {path}")
        return 0


def _table(folder: Path, result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    trained = f"{result['env_steps']:,} steps" if result["env_steps"] else f"{result['updates']:,} updates offline"
    table = Table(title=f"{folder}: {result['agent']} on {result['env']}, {trained}")
    table.add_column("metric")
    table.add_column(f"mean over {result['episodes']} episodes", justify="right")
    for name in ("success_any", "success_final", "min_distance", "final_distance", "length"):
        table.add_row(name, f"{result[name]:.3f}")
    Console().print(table)


def _frames(env: Any, policy: Any, seed: int) -> list[Any]:
    """The images of one episode."""
    start = env.reset(seed)
    observation, done = start.observation, False
    frames, act = [env.render()], policy.for_episodes()
    while not done:
        step = env.step(act(observation, start.goal, len(frames) - 1))
        observation, done = step.observation, step.done
        frames.append(env.render())
    return frames


def _picture(path: Path, env: Any, policy: Any) -> None:
    """Draw one of the first eight evaluation episodes, the one that starts farthest from its goal; or the paths
    of four where nothing can be rendered.
    """
    import numpy as np

    from tdinfonce.analysis.training import draw_frames, draw_paths
    from tdinfonce.seeding import evaluation_seeds
    from tdinfonce.training.collect import collect

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        farthest = max(evaluation_seeds(8), key=lambda seed: env.reset(seed).distance)
        draw_frames(path, _frames(env, policy, farthest))
        return
    except UserError:
        pass  # no graphics library: the paths need none
    deciding, episodes = env.spec.deciding, []
    for seed in evaluation_seeds(4):
        goal = env.reset(seed).goal[deciding]
        states = collect(env, policy.for_episodes(), seed, np.random.default_rng(0))[0].achieved[:, deciding]
        episodes.append((states, goal))
    draw_paths(path, episodes)


def _film(path: Path, env: Any, policy: Any, episodes: int) -> None:
    """Render the first evaluation episodes."""
    try:
        import imageio.v3 as imageio
    except ModuleNotFoundError as error:
        raise UserError("videos need imageio: pip install 'tdinfonce[video]'") from error
    from tdinfonce.seeding import evaluation_seeds

    frames = [frame for seed in evaluation_seeds(episodes) for frame in _frames(env, policy, seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"duration": 40, "loop": 0} if path.suffix == ".gif" else {"fps": 25}
    try:
        imageio.imwrite(path, frames, **options)
    except (OSError, ImportError) as error:
        raise UserError(f"cannot write the video {path}: {error}") from error
