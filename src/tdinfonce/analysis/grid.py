"""The figure of several training runs, and what experiments add to their table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from tdinfonce.analysis.curves import deviation, over_runs
from tdinfonce.analysis.groups import Group, Task, read_tasks
from tdinfonce.analysis.style import Drawing, label, line_styles, new_figure, series_style
from tdinfonce.system.files import write_text_atomic

__all__ = ["LOSS", "SUCCESS", "draw_tasks", "write_beside", "write_drops"]

SUCCESS = {"success_any": "success, any step", "success_final": "success, last step"}
DISTANCE = {"min_distance": "smallest distance to the goal"}
LOSS = {"critic_loss": "critic loss", "actor_loss": "actor loss"}
WIDE = 3
"""Legend entries in a row."""


def draw_tasks(tasks: Sequence[Task], title: str) -> Drawing:
    """Learning curves and final success, or losses where there is no environment; one column for each task.

    Lines are means over finished runs, bands one standard deviation; an unfinished run is a thin dotted line.
    """
    figure, axes = new_figure(4, len(tasks), width=5.4) if len(tasks) > 1 else new_figure(2, 2)
    axes = axes.reshape(4, len(tasks))
    looks = _looks(tasks)
    for column, task in enumerate(tasks):
        metrics = SUCCESS | DISTANCE if task.evaluated else LOSS
        for axis, (metric, name) in zip(axes[:, column], metrics.items(), strict=False):
            for group in task.groups:
                _curve(axis, group, metric, looks[group.label])
            axis.set(xlabel=task.unit, ylabel=name)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            if metric in SUCCESS:
                axis.set_ylim(-0.03, 1.03)
            elif metric in DISTANCE:
                axis.set_ylim(bottom=0)
        if task.evaluated:
            _bars(axes[3][column], task, looks)
        for axis in axes[len(metrics) + task.evaluated :, column]:
            axis.set_axis_off()
        axes[0][column].set_title(task.name if len(tasks) > 1 else "")
    _legend(figure, tasks, looks)
    figure.suptitle(title)
    return figure


def _looks(tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
    """How each label's line looks, the same in every panel."""
    methods = {group.label: group.method for task in tasks for group in task.groups}
    looks = {name: series_style(method) | {"marker": None, "label": name} for name, method in methods.items()}
    for look, dash in zip(looks.values(), line_styles(list(methods.values())), strict=True):
        look["linestyle"] = dash
    return looks


def _curve(axis: Any, group: Group, metric: str, look: dict[str, Any]) -> None:
    """The mean of the finished runs with its band, and each unfinished run by itself."""
    steps, values = group.mean_curve(metric)
    if len(values):
        axis.plot(steps, values.mean(axis=0), **look)
    if len(values) > 1:
        mean, spread = values.mean(axis=0), deviation(values)
        low, high = mean - spread, mean + spread
        if metric not in LOSS:
            low, high = np.maximum(low, 0), np.minimum(high, 1) if metric in SUCCESS else high
        axis.fill_between(steps, low, high, color=look["color"], alpha=0.15, linewidth=0)
    for run in group.unfinished:
        rows = [row for row in run.curve if metric in row]
        thin = look | {"linewidth": 0.8, "linestyle": ":", "label": None}
        axis.plot([row["step"] for row in rows], [row[metric] for row in rows], **thin)


def _bars(axis: Any, task: Task, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The final success of each group, any step in front of the last step; a dot for each seed."""
    for place, group in enumerate(task.groups):
        for name, shift, strength in (("success_any", -0.2, 1.0), ("success_final", 0.2, 0.45)):
            values = group.values(name) or [np.nan]
            axis.bar(place + shift, np.mean(values), width=0.38, color=looks[group.label]["color"], alpha=strength)
            axis.plot([place + shift] * len(values), values, ".", color="#333333", markersize=4)
    names = [group.label for group in task.groups]
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axis.set(ylabel="final success\n(dark: any step, light: last)", ylim=(0, 1.03))


def _legend(figure: Drawing, tasks: Sequence[Task], looks: Mapping[str, dict[str, Any]]) -> None:
    """Every line with the number of its runs, and what a band is."""
    handles = []
    for name, look in looks.items():
        groups = [group for task in tasks for group in task.groups if group.label == name]
        handles.append(Line2D([], [], **look | {"label": f"{name} ({_count(groups)})"}))
    several = any(len(group.finished) > 1 for task in tasks for group in task.groups)
    meaning = ["lines: mean of n runs", "bands: ± 1 standard deviation"] if several else ["one run: no band"]
    if any(group.unfinished for task in tasks for group in task.groups):
        meaning.append("thin dotted: a run that is not finished")
    look = {"ncols": WIDE, "frameon": False, "fontsize": 8, "title_fontsize": 8}
    figure.legend(handles=handles, loc="outside lower center", title="; ".join(meaning), **look)


def _count(groups: Sequence[Group]) -> str:
    """How many runs a line stands for, over tasks; those that are not finished beside it."""
    counts = sorted({len(group.finished) for group in groups})
    unfinished = sum(len(group.unfinished) for group in groups)
    text = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    return f"{text}, {unfinished} unfinished" if unfinished else text


def write_drops(root: Path, methods: Sequence[str], suffix: str) -> None:
    """Add to the table what each method loses when it becomes the one of the same name with ``suffix``.

    Seeds are paired; the interval is one standard error of the mean drop.
    """
    lines = ["", f"## Drop of success: {suffix.strip('-')} against clean, mean ± standard error over paired seeds", ""]
    lines += ["| task | | n | any step | last step |", "|---|---|---:|---:|---:|"]
    for task in read_tasks(root):
        for method in methods:
            found = task.group(method), task.group(method + suffix)
            clean, changed = ({run["seed"]: run for run in group.finals} if group else {} for group in found)
            pairs = [(clean[seed], changed[seed]) for seed in sorted(clean.keys() & changed.keys())]
            cells = [_drop([a[name] - b[name] for a, b in pairs]) for name in SUCCESS]
            lines.append(f"| {task.name} | {label(method)} | {len(pairs)} | {' | '.join(cells)} |")
    _append(root, lines)


def write_beside(root: Path, methods: Sequence[str], paper: Mapping[str, Mapping[str, str]], note: str) -> None:
    """Add to the table our success at any step beside the paper's, in per cent: a line for each method of each task.

    Args:
        root: the grid's folder.
        methods: those of the paper's table and ours.
        paper: task → method → what the paper's table says.
        note: what to keep in mind.
    """
    lines = ["", "## Ours beside the paper's: success in per cent", "", note, ""]
    lines += ["| task | method | ours, any step | seeds | paper |", "|---|---|---:|---:|---:|"]
    for task in read_tasks(root):
        for group in (group for group in task.groups if group.method in methods):
            ours = [100 * value for value in group.values("success_any")]
            theirs = paper.get(task.name, {}).get(group.method, "not in the paper")
            lines.append(f"| {task.name} | {group.label} | {over_runs(ours, 1)} | {len(ours)} | {theirs} |")
    _append(root, lines)


def _append(root: Path, lines: list[str]) -> None:
    """Add lines to the table, which is written anew: nothing is ever written through a link."""
    table = root / "table.md"
    write_text_atomic(table, table.read_text(encoding="utf-8") + "\n".join([*lines, ""]))


def _drop(differences: Sequence[float]) -> str:
    if not differences:
        return "not finished"
    count = len(differences)
    error = f" ± {deviation(differences) / count**0.5:.3f}" if count > 1 else ""
    return f"{np.mean(differences):.3f}{error}"
