"""Figures and tables of several training runs: those of a grid, or one agent's seeds."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter

from tdinfonce.analysis.curves import deviation
from tdinfonce.analysis.style import label, new_figure, save, series_style
from tdinfonce.analysis.training import evaluations, noise_of
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_object, write_text_atomic

__all__ = ["Series", "draw_grid", "read_grid", "report", "write_beside", "write_drops", "write_grid_table"]

SAYS = (
    "Final evaluation, mean ± standard deviation over seeds (of a sample: n - 1); n is the number of seeds. In the "
    "figure lines are means of the evaluations during training, and shades their standard deviation."
)
CURVES = {
    "success_any": "success, any step",
    "success_final": "success, last step",
    "min_distance": "smallest distance to the goal",
}


@dataclass
class Series:
    """The runs of one variant on one task, over seeds."""

    curves: list[dict[int, dict[str, float]]] = field(default_factory=list)
    """For each seed: environment steps, or updates offline → the metrics of the evaluation there."""
    finals: list[dict[str, Any]] = field(default_factory=list)
    """The summary of each complete seed, with the seed."""
    unit: str = "environment steps"
    """What the curves count."""

    def mean_curve(self, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps that all seeds have, and mean and standard deviation of the metric there."""
        shared = sorted(set.intersection(*(set(curve) for curve in self.curves)))
        values = np.array([[curve[step][metric] for step in shared] for curve in self.curves])
        return np.array(shared), values.mean(axis=0), deviation(values)


def read_grid(root: Path) -> dict[str, dict[str, Series]]:
    """Task → variant → runs, from the run folders in ``root``.

    A folder named TASK--VARIANT--SEED says so itself; of any other the config tells environment and agent.
    """
    found: dict[str, dict[str, Series]] = defaultdict(lambda: defaultdict(Series))
    for path in sorted(root.glob("*/config.json")):
        folder, config = path.parent, read_object(path)
        if config.get("kind") not in ("online", "offline"):
            continue
        task, variant = (config["env"] or Path(config["dataset"]).name) + noise_of(config), config["agent"]
        if folder.name.count("--") == 2:
            task, variant, _ = folder.name.split("--")
        curve = {row["step"]: row for row in evaluations(folder) if not row["final"]}
        if curve:
            found[task][variant].curves.append(curve)
        if config["kind"] == "offline":
            found[task][variant].unit = "updates"
        if (folder / "summary.json").is_file():
            summary = read_object(folder / "summary.json")
            if "success_any" not in summary:
                continue  # offline and never evaluated
            found[task][variant].finals.append(summary | {"seed": config["seed"]})
    if not found:
        raise UserError(f"{root} holds no training runs yet")
    return found


def report(root: Path, title: str | None = None, variants: Sequence[str] = ()) -> None:
    """Draw curves and bars and write the table; ``variants`` is their order, by default alphabetical."""
    grid = read_grid(root)
    order = variants or sorted({variant for task in grid.values() for variant in task})
    who = ", ".join(label(variant) for variant in order) if len(order) <= 3 else f"{len(order)} methods"
    title = title or f"{who} on {', '.join(grid)}"
    draw_grid(root, grid, order, title)
    write_grid_table(root, grid, order, title)


def draw_grid(root: Path, grid: dict[str, dict[str, Series]], variants: Sequence[str], title: str) -> None:
    """Learning curves of success and of distance, and the final success; one column for each task.

    Lines are means over seeds, shades one standard deviation.
    """
    tasks = list(grid)
    figure, axes = new_figure(4, len(tasks), width=5.4) if len(tasks) > 1 else new_figure(2, 2)
    axes = axes.reshape(4, len(tasks))
    for column, task in enumerate(tasks):
        present = [v for v in variants if v in grid[task]]
        for axis, (metric, name) in zip(axes[:3, column], CURVES.items(), strict=True):
            for variant in present:
                series = grid[task][variant]
                if series.curves:
                    steps, mean, deviation = series.mean_curve(metric)
                    line = axis.plot(steps, mean, **series_style(variant) | {"marker": None})[0]
                    axis.fill_between(steps, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.15)
            axis.set(xlabel=grid[task][present[0]].unit if present else "", ylabel=name)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes[0][column].set(title=task if len(tasks) > 1 else "", ylim=(-0.03, 1.03))
        axes[1][column].set_ylim(-0.03, 1.03)
        axes[2][column].set_ylim(bottom=0)
        _bars(axes[3][column], [grid[task][v].finals for v in present], present)
    lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines()}
    if lines:
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(title)
    save(figure, root)


def _bars(axis: Any, finals: Sequence[Sequence[dict[str, Any]]], variants: Sequence[str]) -> None:
    """The final success of each variant, any step in front of the last step; a dot for each seed."""
    for place, (variant, runs) in enumerate(zip(variants, finals, strict=True)):
        for name, shift, strength in (("success_any", -0.2, 1.0), ("success_final", 0.2, 0.45)):
            values = [run[name] for run in runs] or [np.nan]
            colour = series_style(variant)["color"] or f"C{place}"
            axis.bar(place + shift, np.mean(values), width=0.38, color=colour, alpha=strength)
            axis.plot([place + shift] * len(values), values, ".", color="#333333", markersize=4)
    axis.set_xticks(range(len(variants)), [label(v) for v in variants], rotation=30, ha="right", fontsize=8)
    axis.set(ylabel="final success\n(dark: any step, light: last)", ylim=(0, 1.03))


def write_grid_table(root: Path, grid: dict[str, dict[str, Series]], variants: Sequence[str], title: str) -> None:
    """For each task the mean ± standard deviation over seeds of the final evaluation, then every run."""
    lines = [f"# {title}", "", SAYS, ""]
    head = "success, any step | success, last step | smallest distance"
    for task, by_variant in grid.items():
        lines += [f"## {task}", "", f"| | n | {head} | minutes |", "|---|---:|---:|---:|---:|---:|"]
        for variant in (v for v in variants if v in by_variant):
            finals = by_variant[variant].finals
            cells = [_cell([f[name] for f in finals]) for name in ("success_any", "success_final", "min_distance")]
            minutes = _cell([f["training_seconds"] / 60 for f in finals], digits=1)
            lines.append(f"| {label(variant)} | {len(finals)} | {' | '.join(cells)} | {minutes} |")
        lines += ["", f"| every run | seed | {head} | steps | updates | minutes |", "|---|" + "---:|" * 7]
        for variant in (v for v in variants if v in by_variant):
            for run in sorted(by_variant[variant].finals, key=lambda run: run["seed"]):
                values = f"{run['success_any']:.2f} | {run['success_final']:.2f} | {run['min_distance']:.3f}"
                counts = f"{run.get('env_steps', 0):,} | {run['updates']:,} | {run['training_seconds'] / 60:.1f}"
                lines.append(f"| {label(variant)} | {run['seed']} | {values} | {counts} |")
        lines.append("")
    write_text_atomic(root / "table.md", "\n".join(lines))


def write_drops(root: Path, variants: Sequence[str], suffix: str) -> None:
    """Add to the table what each variant loses when it becomes the one of the same name with ``suffix``.

    Seeds are paired; the interval is one standard error of the mean drop.
    """
    lines = ["", f"## Drop of success: {suffix.strip('-')} against clean, mean ± standard error over paired seeds", ""]
    lines += ["| task | | n | any step | last step |", "|---|---|---:|---:|---:|"]
    for task, by_variant in read_grid(root).items():
        for variant in variants:
            clean, changed = ({run["seed"]: run for run in by_variant[v].finals} for v in (variant, variant + suffix))
            pairs = [(clean[seed], changed[seed]) for seed in sorted(clean.keys() & changed.keys())]
            cells = [_drop([a[name] - b[name] for a, b in pairs]) for name in ("success_any", "success_final")]
            lines.append(f"| {task} | {label(variant)} | {len(pairs)} | {' | '.join(cells)} |")
    _append(root, lines)


def write_beside(root: Path, variants: Sequence[str], paper: Mapping[str, Mapping[str, str]], note: str) -> None:
    """Add to the table our success at any step beside the paper's, in per cent: a line for each method of each task.

    Args:
        root: the grid's folder.
        variants: methods, in order.
        paper: task → method → what the paper's table says.
        note: what to keep in mind.
    """
    lines = ["", "## Ours beside the paper's: success in per cent", "", note, ""]
    lines += ["| task | method | ours, any step | seeds | paper |", "|---|---|---:|---:|---:|"]
    for task, by_variant in read_grid(root).items():
        for variant in (v for v in variants if v in by_variant):
            ours = [100 * run["success_any"] for run in by_variant[variant].finals]
            theirs = paper.get(task, {}).get(variant, "not in the paper")
            lines.append(f"| {task} | {label(variant)} | {_cell(ours, digits=1)} | {len(ours)} | {theirs} |")
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


def _cell(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation; of one value there is none."""
    spread = f" ± {deviation(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}" if values else "not finished"
