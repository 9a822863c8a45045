"""`tdinfonce eval`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

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
        from tdinfonce.plans.evaluate import evaluate

        drawn = {"video": self.video, "picture": self.picture, "video_episodes": self.video_episodes}
        result = evaluate(self.run_folder, self.env, self.episodes, best=self.best, **drawn)  # type: ignore[arg-type]
        if self.json:
            print(json.dumps(result))
            return 0
        _table(self.run_folder, result)
        for name, path in (("video", self.video), ("picture", self.picture)):
            if path is not None and path.is_file():
                print(f"{name}: {path}")
        return 0


def _table(folder: Path, result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    trained = f"{result['env_steps']:,} steps" if result["env_steps"] else f"{result['updates']:,} updates offline"
    table = Table(title=f"{folder}: {result['agent']} on {result['env']}, {trained}")
    table.add_column("metric")
    table.add_column(f"mean over {result['episodes']} episodes", justify="right")
    tasks = [name for name in result if name.startswith("success_task_")]
    for name in ("success_any", *tasks, "success_final", "min_distance", "final_distance", "length"):
        table.add_row(name, f"{result[name]:.3f}")
    Console().print(table)
