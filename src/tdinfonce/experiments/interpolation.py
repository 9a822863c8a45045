"""Between two representations of TD InfoNCE lie the states of the way: parametric and non-parametric interpolation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import interpolation as draw
from tdinfonce.estimate.represent import represent
from tdinfonce.experiments import Experiment, _data, antmaze
from tdinfonce.experiments._grid import GridRun
from tdinfonce.runs.folder import CONFIG
from tdinfonce.seeding import seed_list
from tdinfonce.system.files import read_json

TITLE = "States between the representations of start and goal"


@dataclass(frozen=True)
class Study:
    """One run, and what is asked of it."""

    env: str
    """Environment; the data set has its name."""
    settings: tuple[str, ...] = ()
    """Settings of the run."""
    preset: str = "fast"
    """Where settings start from."""
    pairs: int = 3
    """Pairs of start and goal; the first is the environment's own."""
    states: int = 5_000
    """States of the data to find neighbours among."""
    anchors: int = 1_000
    """Other states, that softmax features compare with."""
    aimless: bool = False
    """Whether a few random steps, made on the spot, take the place of the data set."""


AS_THE_PAPER = ("temperature=1", "learn_temperature=false")
"""With the small temperature that `fast` learns, angles tell less of the way; see docs/offline-findings.md."""
BUDGETS = {
    "smoke": Study("pointmaze-umaze", _data.SMOKE, pairs=2, states=50, anchors=20, aimless=True),
    "default": Study("antmaze-medium-play", (*AS_THE_PAPER, *antmaze.DEFAULT)),
    "paper": Study("antmaze-medium-play", preset="paper"),
}


def runs(config: Study, seeds: Sequence[int]) -> list[GridRun]:
    """One run for each seed; the first is drawn."""
    source = _data.AIMLESS if config.aimless else _data.dataset_id(config.env)
    common = {"env": config.env, "agent": "td-infonce", "preset": config.preset, "settings": config.settings}
    return [
        GridRun(f"{config.env}--td-infonce--{seed}", seed=seed, dataset=source, **common)  # type: ignore[arg-type]
        for seed in seeds
    ]


def measure(config: Study, folder: Path) -> None:
    """Compute the representations from the first run."""
    seeds = seed_list(read_json(folder / CONFIG)["seeds"])
    run = folder / runs(config, seeds)[0].name
    represent(run, folder, pairs=config.pairs, states=config.states, anchors=config.anchors)


def report(folder: Path) -> None:
    """Draw the maze from above."""
    draw.report(folder, TITLE)


EXPERIMENT = Experiment(
    shows="which states lie between the representations of a start and a goal, drawn from above",
    paper="App., representation interpolation on AntMaze medium-play",
    duration={"smoke": "1 min", "default": "15 min", "paper": "days"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 1, "paper": 1},
    grid=runs,
    check=lambda config: None if config.aimless else _data.require([config.env]),
    prepare=lambda config, folder: _data.make_aimless(folder, config.env) if config.aimless else None,
    measure=measure,
)
