"""AntMaze from stored walks: six data sets, the paper's seven methods and one of ours, beside the paper's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import compare, grid
from tdinfonce.experiments import Experiment, _data
from tdinfonce.experiments._antmaze_paper import COLUMNS, NOTE, PAPER
from tdinfonce.experiments._grid import GridRun

TITLE = "AntMaze, offline"
AGENTS = (*COLUMNS, "gc-iql")


@dataclass(frozen=True)
class Grid:
    """Tasks, seeds and budget, equal for all agents."""

    tasks: tuple[str, ...]
    """Environments; each has the data set of its name."""
    settings: tuple[str, ...] = ()
    """Settings of every agent."""
    settings_of: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further settings of some agents."""
    once: tuple[str, ...] = ()
    """Agents that get one seed, whatever the others get."""
    preset: str = "fast"
    """Where settings start from."""
    aimless: bool = False
    """Whether a few random steps, made on the spot, take the place of the data sets."""


DEFAULT = ("updates=40_000", "eval_every=10_000", "eval_episodes=10")
BUDGETS = {
    # The radius is wide, so that the agents of one task find a reward in data that reach nothing.
    "smoke": Grid(("antmaze-umaze",), (*_data.SMOKE, "reward_radius=20"), aimless=True),
    # DT: 24 pieces of 10 states are about as many states as the others' 256.
    "default": Grid(
        ("antmaze-umaze", "antmaze-medium-diverse"),
        DEFAULT,
        settings_of=(("dt", ("batch_size=24",)),),
        once=("qrl", "dt", "iql", "td3-bc", "gc-iql"),
    ),
    "paper": Grid(tuple(PAPER), preset="paper"),
}


def runs(config: Grid, seeds: Sequence[int]) -> list[GridRun]:
    """Every task, agent and seed."""
    cells = []
    for task in config.tasks:
        source = _data.AIMLESS if config.aimless else _data.dataset_id(task)
        for agent in AGENTS:
            settings = (*config.settings, *dict(config.settings_of).get(agent, ()))
            for seed in seeds[:1] if agent in config.once else seeds:
                cells.append(
                    GridRun(f"{task}--{agent}--{seed}", task, agent, seed, config.preset, settings, dataset=source)
                )
    return cells


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table with the paper's beside ours."""
    compare.report(folder, TITLE)
    grid.write_beside(folder, AGENTS, PAPER, NOTE)


EXPERIMENT = Experiment(
    shows="which methods learn to walk an ant through mazes from stored walks, beside the paper's table",
    paper="Sec. 4.2, Table 1",
    duration={"smoke": "3 min", "default": "2 h", "paper": "months"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 2, "paper": 5},
    grid=runs,
    check=lambda config: None if config.aimless else _data.require(config.tasks),
    prepare=lambda config, folder: _data.make_aimless(folder, config.tasks[0]) if config.aimless else None,
)
