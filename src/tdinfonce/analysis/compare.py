"""Runs beside each other: one figure and one table of everything that a folder holds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.curves import over_runs
from tdinfonce.analysis.grid import LOSS, SUCCESS, draw_tasks
from tdinfonce.analysis.groups import Group, Task, read_tasks
from tdinfonce.analysis.statistics import Estimate, interquartile_mean, probability_of_improvement
from tdinfonce.analysis.style import Drawing, save, save_as
from tdinfonce.system.files import write_text_atomic

__all__ = ["Comparison", "Table", "read", "report"]

SAYS = (
    "Final evaluation, mean ± standard deviation over seeds (of a sample: n - 1); n is the number of seeds. In the "
    "figure lines are means of the evaluations during training, and shades their standard deviation."
)
INTERVALS = (
    "Interquartile means (IQM; of fewer than four runs it is the mean){improvement}. In brackets 95 % intervals "
    "(percentile bootstrap over runs): one run gives none, and those of few runs are too narrow."
)
IMPROVEMENT = (
    ", and the probability that a run of {best} has more success at any step than one of the method in the row, a tie "
    "counting half"
)
COMPARED = SUCCESS | {"min_distance": "smallest distance"}
NOT_EVALUATED = (
    "These runs have no environment: losses at the end, on held-out data where there are some. Losses of different "
    "methods are not on one scale."
)
OURS = "td-infonce"


@dataclass(frozen=True)
class Table:
    """Rows of numbers, and how they are written."""

    rows: list[dict[str, Any]]
    """A dict of plain values for each row: what to compute with."""
    columns: Mapping[str, Callable[[dict[str, Any]], str]] = field(repr=False)
    """For each heading, what stands under it in a row."""

    def markdown(self) -> str:
        """As a table in Markdown."""
        lines = [f"| {' | '.join(self.columns)} |", "|---|" + "---:|" * (len(self.columns) - 1)]
        lines += [f"| {' | '.join(write(row) for write in self.columns.values())} |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.markdown()

    def _repr_markdown_(self) -> str:
        return self.markdown()


@dataclass(frozen=True)
class Comparison:
    """Everything that was found in a folder, grouped: runs in one group differ in their seed alone."""

    tasks: list[Task]
    """Places with their groups, in the order of figure and table."""
    title: str
    """What is compared."""
    root: Path = Path()
    """The folder of the runs."""

    def figure(self, path: Path | None = None) -> Drawing:
        """Learning curves and final success, a column for each task; also written to ``path`` if one is given."""
        figure = draw_tasks(self.tasks, self.title)
        if path is not None:
            save_as(figure, path)
        return figure

    def table(self, tuning: Mapping[str, int] | None = None) -> Table:
        """A row for each group of each task, with intervals.

        Args:
            tuning: how many trials each method was tuned with, by its name; adds a column.
        """
        rows = [row for task in self.tasks for row in _rows(task)]
        columns: dict[str, Callable[[dict[str, Any]], str]] = {"method": lambda row: row["method"]}
        if len(self.tasks) > 1:
            columns = {"task": lambda row: row["task"]} | columns
        columns |= {"n": lambda row: str(row["n"])} | _columns(self.tasks)
        if tuning is not None:
            rows = [row | {"tuning": tuning.get(row["name"])} for row in rows]
            columns["tuning trials"] = lambda row: "unknown" if row["tuning"] is None else str(row["tuning"])
        return Table(rows, columns)


def read(root: Path, title: str | None = None, order: Sequence[str] = ()) -> Comparison:
    """Read and group the runs in a folder, however deep they lie.

    Args:
        root: the folder.
        title: of figure and table; by default the methods and tasks.
        order: variants that are no known methods, in order.
    """
    tasks = read_tasks(root, tuple(order))
    labels = list(dict.fromkeys(group.label for task in tasks for group in task.groups))
    who = ", ".join(labels) if len(labels) <= 3 else f"{len(labels)} methods"
    return Comparison(tasks, title or f"{who} on {', '.join(task.name for task in tasks)}", root)


def report(root: Path, title: str | None = None, order: Sequence[str] = ()) -> Comparison:
    """Write ``figure.png``, ``figure.svg`` and ``table.md`` of the runs in a folder."""
    found = read(root, title, order)
    save(found.figure(), root)
    lines = [f"# {found.title}", "", *([SAYS, ""] if any(task.evaluated for task in found.tasks) else [])]
    for task in found.tasks:
        lines += [
            f"## {task.name}",
            "",
            *_summary(task),
            *_every_run(task),
            *_intervals(task),
            *_unfinished(task, root),
        ]
    write_text_atomic(root / "table.md", "\n".join(lines))
    return found


def _rows(task: Task) -> Iterator[dict[str, Any]]:
    best = _reference(task)
    for group in task.groups:
        row: dict[str, Any] = {"task": task.name, "method": group.label, "name": group.method, "n": len(group.finished)}
        row["unfinished"] = len(group.unfinished)
        for metric in COMPARED if task.evaluated else LOSS:
            values = group.values(metric)
            row |= _flat(metric, interquartile_mean([values]) if values else None)
            row[f"{metric}_mean"] = float(np.mean(values)) if values else None
        minutes = [seconds / 60 for seconds in group.values("training_seconds")]
        row["minutes"] = float(np.mean(minutes)) if minutes else None
        if task.evaluated:
            ours, theirs = best.values("success_any"), group.values("success_any")
            known = bool(ours and theirs) and group is not best
            row |= _flat("better", probability_of_improvement([ours], [theirs]) if known else None)
        yield row


def _reference(task: Task) -> Group:
    """What the others are held against: ours if it is there, else the first."""
    return next((group for group in task.groups if group.settings["agent"] == OURS), task.groups[0])


def _flat(name: str, found: Estimate | None) -> dict[str, float | None]:
    value = (None, None, None) if found is None else (found.value, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), value, strict=True))


def _columns(tasks: Sequence[Task]) -> dict[str, Callable[[dict[str, Any]], str]]:
    """Headings and cells of what is compared in these tasks."""

    def estimate(metric: str, otherwise: str = "not finished") -> Callable[[dict[str, Any]], str]:
        def write(row: dict[str, Any]) -> str:
            if row.get(metric) is None:
                return otherwise
            return Estimate(*(row[f"{metric}{end}"] for end in ("", "_low", "_high"))).text()

        return write

    def mean(metric: str, digits: int) -> Callable[[dict[str, Any]], str]:
        return lambda row: "not finished" if row.get(metric) is None else f"{row[metric]:.{digits}f}"

    columns: dict[str, Callable[[dict[str, Any]], str]] = {}
    for metric, heading in (COMPARED if any(task.evaluated for task in tasks) else {}).items():
        columns[f"{heading}: IQM"] = estimate(metric)
        if metric == "success_any":
            columns[f"{heading}: mean"] = mean("success_any_mean", 3)
    for metric, heading in ({} if all(task.evaluated for task in tasks) else LOSS).items():
        columns[f"{heading}: IQM"] = estimate(metric, "none")
    columns["minutes"] = mean("minutes", 1)
    if any(task.evaluated and len(task.groups) > 1 for task in tasks):
        names = list(dict.fromkeys(_reference(task).label for task in tasks if task.evaluated))
        columns[f"P({names[0] if len(names) == 1 else 'the first'} is better)"] = estimate("better", "")
    return columns


def _summary(task: Task) -> list[str]:
    """The mean ± standard deviation over seeds of the final evaluation."""
    metrics = COMPARED if task.evaluated else LOSS
    lines = [] if task.evaluated else [NOT_EVALUATED, ""]
    lines += [f"| | n | {' | '.join(metrics.values())} | minutes |", "|---|" + "---:|" * (len(metrics) + 2)]
    for group in task.groups:
        cells = [over_runs(group.values(name)) for name in metrics]
        minutes = over_runs([seconds / 60 for seconds in group.values("training_seconds")], digits=1)
        lines.append(f"| {group.label} | {len(group.finished)} | {' | '.join(cells)} | {minutes} |")
    return [*lines, ""]


def _every_run(task: Task) -> list[str]:
    metrics = COMPARED if task.evaluated else LOSS
    lines = [f"| every run | seed | {' | '.join(metrics.values())} | steps | updates | minutes |"]
    lines += ["|---|" + "---:|" * (len(metrics) + 4)]
    for group in task.groups:
        for run in group.finals:
            values = [f"{run[name]:.{2 if name in SUCCESS else 3}f}" if name in run else "none" for name in metrics]
            counts = f"{run.get('env_steps', 0):,} | {run['updates']:,} | {run['training_seconds'] / 60:.1f}"
            lines.append(f"| {group.label} | {run['seed']} | {' | '.join(values)} | {counts} |")
    return [*lines, ""]


def _intervals(task: Task) -> list[str]:
    """What is only worth saying of more than one run."""
    if not task.evaluated or all(len(group.finished) < 2 for group in task.groups):
        return []
    text = Comparison([task], "").table().markdown()
    improvement = IMPROVEMENT.format(best=_reference(task).label) if len(task.groups) > 1 else ""
    return [INTERVALS.format(improvement=improvement), "", text]


def _unfinished(task: Task, root: Path) -> list[str]:
    names = [str(run.folder.relative_to(root)) for group in task.groups for run in group.unfinished]
    return [f"Not finished, and in no number above: {', '.join(names)}.", ""] if names else []
