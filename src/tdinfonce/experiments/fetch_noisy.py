"""Noise in what the robot sees: TD InfoNCE against QRL, with and without it, and the drop of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import compare, grid
from tdinfonce.analysis.style import NOISY
from tdinfonce.experiments import Experiment
from tdinfonce.experiments._grid import GridRun

AGENTS = ("td-infonce", "qrl")
TITLE = "Fetch with noisy observations"


@dataclass(frozen=True)
class Task:
    """One environment at one budget, equal for both agents, with and without noise."""

    env: str
    """Environment."""
    settings: tuple[str, ...] = ()
    """Settings of every run."""


@dataclass(frozen=True)
class Grid:
    """Tasks, noise and preset."""

    tasks: tuple[Task, ...]
    """What is trained."""
    noise: float = 0.1
    """Chance that a step's observation is replaced by one drawn from the statistics of the warm-up."""
    preset: str = "fast"
    """Where settings start from."""
    goal_space: str | None = None
    """Goal space; None: the position that decides success."""


SMOKE = ("env_steps=1_200", "eval_every=600", "eval_episodes=5", "hidden=32,32")
PAPER_TASKS = ("fetch-reach", "fetch-push", "fetch-pick-and-place", "fetch-slide")
BUDGETS = {
    "smoke": Grid((Task("fetch-reach", SMOKE),)),
    "default": Grid(
        (
            Task("fetch-reach", ("env_steps=3_000", "eval_every=250")),
            Task("fetch-push", ("env_steps=150_000", "eval_every=10_000")),
        )
    ),
    "paper": Grid(tuple(Task(name) for name in PAPER_TASKS), preset="paper", goal_space="full"),
}


def runs(config: Grid, seeds: Sequence[int]) -> list[GridRun]:
    """Every task, agent and seed, without and with noise."""
    return [
        GridRun(
            f"{task.env}--{agent}{end}--{seed}",
            task.env,
            agent,
            seed,
            preset=config.preset,
            settings=task.settings,
            noise=noise,
            goal_space=config.goal_space,
        )
        for task in config.tasks
        for agent in AGENTS
        for end, noise in (("", 0.0), (NOISY, config.noise))
        for seed in seeds
    ]


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table with the drops."""
    compare.report(folder, TITLE)
    grid.write_drops(folder, AGENTS, NOISY)


EXPERIMENT = Experiment(
    shows="what one wrong observation in ten does to TD InfoNCE and to QRL",
    paper="Sec. 4.1 and App., noisy Fetch tasks",
    duration={"smoke": "5 min", "default": "3 h", "paper": "weeks"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
    grid=runs,
)
