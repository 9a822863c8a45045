"""Stitching in a continuous world: short walks through a maze in, far goals out. Can Monte Carlo do it?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import compare
from tdinfonce.experiments import Experiment, _data
from tdinfonce.experiments._grid import GridRun

TITLE = "Far goals from short walks (point maze, stitch)"
AGENTS = ("td-infonce", "contrastive-rl", "qrl", "gcbc", "gc-iql")


@dataclass(frozen=True)
class Grid:
    """One maze at one budget, equal for all agents."""

    maze: str
    """The maze of the data; evaluation asks for its far goals."""
    settings: tuple[str, ...]
    """Settings of every agent."""
    transitions: int = 1_000_000
    """Size of the data set, if it has to be made."""
    aimless: bool = False
    """Whether a few random steps, made on the spot, take its place."""


BUDGETS = {
    "smoke": Grid("pointmaze-umaze", _data.SMOKE, aimless=True),
    "default": Grid("pointmaze-medium", ("updates=30_000", "eval_every=5_000", "final_episodes=200")),
    "paper": Grid("pointmaze-medium", ("updates=500_000", "eval_every=25_000", "final_episodes=200")),
}


def runs(config: Grid, seeds: Sequence[int]) -> list[GridRun]:
    """Every agent and seed."""
    task = f"{config.maze}-far"
    source = _data.AIMLESS if config.aimless else _data.dataset_id(f"{config.maze}-stitch")
    return [
        GridRun(f"{task}--{agent}--{seed}", task, agent, seed, settings=config.settings, dataset=source)
        for agent in AGENTS
        for seed in seeds
    ]


def prepare(config: Grid, folder: Path) -> None:
    """Make the data unless they are here: the ball needs no policy file."""
    if config.aimless:
        _data.make_aimless(folder, config.maze)
    else:
        _data.make_missing(config.maze, "stitch", config.transitions)


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table."""
    compare.report(folder, TITLE)


EXPERIMENT = Experiment(
    shows="which methods reach far goals in a maze when every stored walk is short",
    paper="not in the paper; Sec. 4.4 asks it of a gridworld",
    duration={"smoke": "2 min", "default": "1 h", "paper": "2 days"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
    grid=runs,
    prepare=prepare,
)
