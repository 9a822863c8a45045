"""Goal reaching online on the Fetch robot from states: learning curves and final success of seven agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import compare
from tdinfonce.experiments import Experiment
from tdinfonce.experiments._grid import GridRun

AGENTS = ("td-infonce", "contrastive-rl", "contrastive-nce", "c-learning", "gcbc", "ddpg-her", "qrl")
TITLE = "Reaching goals with the Fetch robot, state observations"


@dataclass(frozen=True)
class Task:
    """One environment at one budget, equal for all agents."""

    env: str
    """Environment."""
    settings: tuple[str, ...]
    """Settings of every agent."""
    seeds_of_all: int
    """Seeds of every agent that is not in `more`."""
    more: tuple[str, ...] = ()
    """Agents that get all seeds of the experiment."""


@dataclass(frozen=True)
class Grid:
    """Tasks and preset."""

    tasks: tuple[Task, ...]
    """What is trained."""
    preset: str = "fast"
    """Where settings start from."""
    goal_space: str | None = None
    """Goal space; None: the position that decides success."""


PUSH = ("env_steps=300_000", "eval_every=10_000")
PAPER_TASKS = ("fetch-reach", "fetch-push", "fetch-pick-and-place", "fetch-slide")
BUDGETS = {
    "smoke": Grid((Task("fetch-reach", ("env_steps=1_200", "eval_every=600", "eval_episodes=5", "hidden=32,32"), 1),)),
    "default": Grid(
        (
            Task("fetch-reach", ("env_steps=3_000", "eval_every=250"), 3),
            Task("fetch-push", PUSH, 1, more=("td-infonce", "contrastive-rl")),
        )
    ),
    "paper": Grid(tuple(Task(name, (), 5) for name in PAPER_TASKS), preset="paper", goal_space="full"),
}


def runs(config: Grid, seeds: Sequence[int]) -> list[GridRun]:
    """Every cell: each task with its settings, each agent with its seeds."""
    cells = []
    for task in config.tasks:
        for agent in AGENTS:
            for seed in seeds if agent in task.more else seeds[: task.seeds_of_all]:
                name = f"{task.env}--{agent}--{seed}"
                cell = GridRun(name, task.env, agent, seed, config.preset, task.settings, goal_space=config.goal_space)
                cells.append(cell)
    return cells


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table."""
    compare.report(folder, TITLE)


EXPERIMENT = Experiment(
    shows="how fast seven agents learn to reach goals on Fetch, at one equal budget",
    paper="Sec. 4.1, state tasks",
    duration={"smoke": "2 min", "default": "6 h", "paper": "weeks"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
    grid=runs,
)
