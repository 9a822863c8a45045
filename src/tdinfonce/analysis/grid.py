"""Figures and tables of a grid of training runs, from their folders."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import label, new_figure, save, series_style
from tdinfonce.errors import UserError
from tdinfonce.training.run_folder import read_metrics

__all__ = ["Series", "draw_grid", "read_grid", "write_grid_table"]


@dataclass
class Series:
    """The runs of one variant on one task, over seeds."""

    curves: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Environment steps and success at any step, for each seed."""
    finals: list[dict[str, Any]] = field(default_factory=list)
    """The summary of each complete seed."""

    def mean_curve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps that all seeds have, and mean and standard deviation there."""
        shared = sorted(set.intersection(*({int(s) for s in steps} for steps, _ in self.curves)))
        values = np.array([[y[list(steps).index(s)] for s in shared] for steps, y in self.curves])
        return np.array(shared), values.mean(axis=0), values.std(axis=0)


def read_grid(root: Path) -> dict[str, dict[str, Series]]:
    """Task → variant → runs. A run's folder is named TASK--VARIANT--SEED."""
    found: dict[str, dict[str, Series]] = defaultdict(lambda: defaultdict(Series))
    for config in sorted(root.glob("*--*--*/config.json")):
        folder = config.parent
        task, variant, _ = folder.name.split("--")
        rows = (
            [r for r in read_metrics(folder) if "eval/success_any" in r] if (folder / "metrics.jsonl").exists() else []
        )
        if rows:
            curve = np.array([r["env_step"] for r in rows]), np.array([r["eval/success_any"] for r in rows])
            found[task][variant].curves.append(curve)
        if (folder / "summary.json").is_file():
            found[task][variant].finals.append(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
    if not found:
        raise UserError(f"{root} holds no runs of a grid yet")
    return found


def draw_grid(root: Path, grid: dict[str, dict[str, Series]], variants: Sequence[str], title: str) -> None:
    """Learning curves above, final success below; one column for each task."""
    tasks = list(grid)
    figure, axes = new_figure(2, len(tasks))
    for column, task in enumerate(tasks):
        curves, bars = axes[0][column], axes[1][column]
        present = [v for v in variants if v in grid[task]]
        for variant in present:
            series = grid[task][variant]
            if series.curves:
                steps, mean, deviation = series.mean_curve()
                line = curves.plot(steps, mean, **series_style(variant))[0]
                curves.fill_between(steps, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.15)
        finals = [[f["success_any"] for f in grid[task][v].finals] or [np.nan] for v in present]
        colours = [series_style(v)["color"] for v in present]
        means, spread = [np.mean(f) for f in finals], [np.std(f) for f in finals]
        bars.bar(range(len(present)), means, yerr=spread, color=colours if all(colours) else None)
        bars.set_xticks(range(len(present)), [label(v) for v in present], rotation=40, ha="right", fontsize=7)
        curves.set(title=task, xlabel="environment steps", ylabel="success, any step", ylim=(-0.03, 1.03))
        bars.set(ylabel="final success, any step", ylim=(0, 1.03))
    axes[0][0].legend(frameon=False, fontsize=7)
    figure.suptitle(title)
    save(figure, root)


def write_grid_table(root: Path, grid: dict[str, dict[str, Series]], variants: Sequence[str], title: str) -> None:
    """One table for each task: mean ± standard deviation over seeds of the final evaluation."""
    lines = [f"# {title}", "", "Final evaluation, mean ± standard deviation over seeds; n is the number of seeds.", ""]
    for task, by_variant in grid.items():
        lines += [f"## {task}", "", "| | n | success, any step | success, last step | smallest distance | minutes |"]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        for variant in (v for v in variants if v in by_variant):
            finals = by_variant[variant].finals
            cells = [_cell([f[name] for f in finals]) for name in ("success_any", "success_final", "min_distance")]
            minutes = _cell([f["training_seconds"] / 60 for f in finals], digits=1)
            lines.append(f"| {label(variant)} | {len(finals)} | {' | '.join(cells)} | {minutes} |")
        lines.append("")
    (root / "table.md").write_text("\n".join(lines), encoding="utf-8")


def _cell(values: Sequence[float], digits: int = 3) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}" if values else "not finished"
