"""One declarative file for each table and figure of the paper. The folder is the registry.

A module ``tabular_occupancy.py`` holds ``EXPERIMENT`` and is run as ``tdinfonce reproduce tabular-occupancy``.
"""

import importlib
import json
import pkgutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tdinfonce import analysis
from tdinfonce.errors import UserError, nearest
from tdinfonce.experiments._grid import GridRun
from tdinfonce.runs.folder import CONFIG, RunFolder
from tdinfonce.scale.grid import run_grid
from tdinfonce.seeding import seed_list
from tdinfonce.system.files import read_json
from tdinfonce.system.progress import Progress

__all__ = ["Experiment", "load", "names", "report", "reproduce"]

Log = Callable[[Mapping[str, Any]], None]
DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError, zipfile.BadZipFile)
"""What a file that is not what we wrote leads to."""


@dataclass(frozen=True)
class Experiment:
    """What an experiment shows, and how to run and draw it."""

    shows: str
    """One line for the list."""
    paper: str
    """Where it stands in the paper."""
    duration: Mapping[str, str]
    """For each budget, about how long it takes on 2 cores."""
    budgets: Mapping[str, Any]
    """For each budget, the config (a frozen dataclass)."""
    report: Callable[[Path], None]
    """Draw ``figure.png``, ``figure.svg`` and ``table.md`` from the folder's metrics."""
    seeds: Mapping[str, int]
    """For each budget, how many seeds unless the user says otherwise."""
    run: Callable[[Any, Sequence[int], Log, Callable[[int], None]], None] | None = None
    """(config, seeds, log, advance): do the work, hand out rows, tell the progress."""
    work: Callable[[Any, Sequence[int]], int] | None = None
    """(config, seeds): how many units of progress `run` will tell."""
    grid: Callable[[Any, Sequence[int]], Sequence[GridRun]] | None = None
    """(config, seeds): instead of `run`, the training runs this experiment consists of."""
    check: Callable[[Any], None] | None = None
    """(config): raise UserError if something is missing that cannot be made, before anything is written."""
    prepare: Callable[[Any, Path], None] | None = None
    """(config, folder): make what a grid needs, such as data; called again on what is there, it does nothing."""
    measure: Callable[[Any, Path], None] | None = None
    """(config, folder): what the report needs from the trained runs of a grid beyond their metrics."""


def names() -> dict[str, str]:
    """Map each experiment's name to its module."""
    modules = (m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name.replace("_", "-"): name for name in sorted(modules)}


def load(name: str) -> Experiment:
    """Import an experiment by its name."""
    known = names()
    if name not in known:
        raise nearest("experiment", name, known)
    experiment = importlib.import_module(f"{__name__}.{known[name]}").EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment


def reproduce(
    name: str,
    budget: str = "default",
    seeds: int | str | Sequence[int] | None = None,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Run an experiment into a run folder; return the folder.

    Args:
        name: one of `names`.
        budget: smoke, default or paper.
        seeds: how many, counted from 0, or a list of them; None: as many as the budget has.
        out: the folder; None: ``runs/NAME-BUDGET``.
        overwrite: whether to replace an earlier run in that folder.
    """
    experiment = load(name)
    if budget not in experiment.budgets:
        raise nearest("budget", budget, experiment.budgets)
    out = Path("runs") / f"{name}-{budget}" if out is None else Path(out)
    config = experiment.budgets[budget]
    chosen = seed_list(experiment.seeds[budget] if seeds is None else seeds)
    counted: int | tuple[int, ...] = len(chosen) if chosen == tuple(range(len(chosen))) else chosen
    described = {"experiment": name, "budget": budget, "seeds": counted, "config": asdict(config)}
    if experiment.check is not None:
        experiment.check(config)
    if experiment.grid is not None:
        return _train_grid(experiment, config, described, out, overwrite=overwrite)
    if experiment.run is None or experiment.work is None:
        raise TypeError(f"the experiment {name} has neither a grid nor a run and its work")
    folder = RunFolder.create(out, described, overwrite=overwrite)
    with folder.locked():
        with Progress(name, experiment.work(config, chosen)) as bar:
            experiment.run(config, chosen, folder.log, bar.advance)
        experiment.report(folder.path)
        folder.finish()
    return folder.path


def report(folder: Path) -> None:
    """Draw the figure and the table of a folder again, from its files alone.

    Args:
        folder: an experiment's, a training run's, or one that holds several training runs, however deep they lie.
    """
    name = analysis.experiment_of(folder)
    draw: Callable[[Path], None] = analysis.report
    if name is not None:
        experiment = load(name)
        if experiment.grid is None and not RunFolder(folder).complete:
            raise UserError(f"{folder} is not finished: reproduce {name} again, with overwrite")
        draw = experiment.report
    try:
        draw(folder)
    except DAMAGE as error:
        raise UserError(f"{folder} is damaged or of another version: {error!r}") from error


def _train_grid(experiment: Experiment, config: Any, described: dict[str, Any], out: Path, *, overwrite: bool) -> Path:
    """Run a grid of training runs, or what is left of it: the same command continues a stopped grid."""
    folder = RunFolder(out)
    try:
        same = read_json(out / CONFIG) == json.loads(json.dumps(described))
    except (OSError, ValueError):
        same = False
    if overwrite or not same:
        folder = RunFolder.create(out, described, overwrite=overwrite)
    assert experiment.grid is not None
    runs = experiment.grid(config, seed_list(described["seeds"]))
    with folder.locked():
        if experiment.prepare is not None:
            experiment.prepare(config, folder.path)
        with Progress(str(described["experiment"]), len(runs), unit="runs", every=60.0) as bar:
            plans = {run.name: run.plan(folder.path) for run in runs}
            run_grid(folder.path, plans, advance=bar.advance)
        if experiment.measure is not None:
            experiment.measure(config, folder.path)
        experiment.report(folder.path)
        folder.finish()
    return folder.path
