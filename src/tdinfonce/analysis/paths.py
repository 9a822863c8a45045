"""Pictures of journeys through the gridworld, and the tables that go with them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import COLOURS, label, new_figure, save
from tdinfonce.analysis.tabular import markdown_table, select
from tdinfonce.system.files import read_metrics

__all__ = ["Journeys", "draw_data", "draw_journey"]

METHODS = ("td-infonce", "contrastive-rl")
SIZE = 5
ACTION_NAMES = ("up", "down", "left", "right", "stay")


class Journeys:
    """The rows of an off-policy experiment."""

    def __init__(self, folder: Path) -> None:
        """Read a run folder."""
        rows = list(read_metrics(folder))
        self.tried = [row for row in rows if row["phase"] == "evaluate"]
        self.tuned = [row for row in rows if row["phase"] == "tune"]
        self.data = [row for row in rows if row["phase"] == "data"]

    def tasks(self) -> list[str]:
        """The data sets, in order."""
        return list(dict.fromkeys(row["task"] for row in self.tried))

    def pairs(self, task: str) -> list[tuple[int, int]]:
        """The (start, goal) pairs of a data set, in order."""
        return list(dict.fromkeys((row["start"], row["goal"]) for row in select(self.tried, task=task)))

    def of(self, task: str, method: str, pair: tuple[int, int]) -> list[dict[str, Any]]:
        """One row for each seed."""
        rows = select(self.tried, task=task, method=method, start=pair[0], goal=pair[1])
        return sorted(rows, key=lambda row: row["seed"])

    def summary(self, task: str, claim: str) -> str:
        """A line for each pair: the paper's claim, how often it was reached and in how many steps, the shortest way."""
        rows = []
        for pair in self.pairs(task):
            entries = []
            for method in METHODS:
                found = self.of(task, method, pair)
                lengths = [row["length"] for row in found if row["success"]]
                entries.append(f"{len(lengths)} of {len(found)} seeds{_span(lengths)}")
            rows.append([_cells(pair), claim, *entries, self.of(task, METHODS[0], pair)[0]["shortest"]])
        ours = (f"ours: {label(m)}" for m in METHODS)
        return markdown_table(["start → goal", "paper", *ours, "shortest in the data"], rows)

    def behaviour(self, task: str) -> str:
        """What the data say at the start: the goal's share of the behaviour's future after each action."""
        rows = []
        for pair in self.pairs(task):
            for row in select(self.data, task=task, start=pair[0], goal=pair[1]):
                entry = [ACTION_NAMES[row["action"]], f"{100 * row['share']:.1f} %", f"{row['future']:.4f}"]
                rows.append([_cells(pair), *entry])
        return markdown_table(["start → goal", "action at the start", "share of the data", "goal in its future"], rows)

    def step_sizes(self) -> str:
        """Journeys that succeeded, and steps in all, for each step size on the tuning seed."""
        rows = []
        for task in self.tasks():
            for method in METHODS:
                for rate in sorted({row["learning_rate"] for row in self.tuned}):
                    found = select(self.tuned, task=task, method=method, learning_rate=rate)
                    wins = [row for row in found if row["success"]]
                    excess = sum(row["length"] - row["shortest"] for row in wins)
                    rows.append([task, label(method), f"{rate:g}", f"{len(wins)} of {len(found)}", excess])
        return markdown_table(["data", "method", "step size", "reached", "steps above the shortest"], rows)


def _span(lengths: list[int]) -> str:
    if not lengths:
        return ""
    low, high = min(lengths), max(lengths)
    return f", {low} steps" if low == high else f", {low} to {high} steps"


def _cells(pair: Sequence[int]) -> str:
    return " → ".join(str(divmod(s, SIZE)) for s in pair)


def draw_journey(axis: Any, path: Sequence[int], pair: tuple[int, int], colour: str, title: str) -> None:
    """A path with its start (cross) and goal (star)."""
    _board(axis, title)
    rows, columns = np.divmod(np.asarray(path), SIZE)
    axis.plot(columns, rows, color=colour, linewidth=3, solid_capstyle="round", solid_joinstyle="round", zorder=3)
    if path[-1] != pair[1]:
        axis.plot(columns[-1], rows[-1], marker="o", color=colour, markersize=7, zorder=4)
    _ends(axis, pair)


def draw_data(
    axis: Any, paths: Iterable[tuple[Sequence[int], float]], pair: tuple[int, int] | None, title: str
) -> None:
    """Every path of the data, the more frequent the darker; paths are set apart a little where they overlap."""
    _board(axis, title)
    drawn = list(paths)
    for number, (path, share) in enumerate(drawn):
        rows, columns = np.divmod(np.asarray(path), SIZE)
        shift = 0.16 * (number - (len(drawn) - 1) / 2) / max(1, (len(drawn) - 1) / 2)
        axis.plot(columns + shift, rows + shift, color="#34495e", alpha=0.35 if share < 0.1 else 0.95, linewidth=1.6)
    if pair is not None:
        _ends(axis, pair)


def _board(axis: Any, title: str) -> None:
    axis.set(xlim=(-0.5, SIZE - 0.5), ylim=(SIZE - 0.5, -0.5), xticks=[], yticks=[], aspect="equal")
    axis.set_title(title, fontsize=9)
    axis.grid(False)
    axis.spines[:].set_visible(True)
    for k in range(SIZE - 1):
        axis.axhline(k + 0.5, color="#d5d8dc", linewidth=0.8, zorder=1)
        axis.axvline(k + 0.5, color="#d5d8dc", linewidth=0.8, zorder=1)


def _ends(axis: Any, pair: tuple[int, int]) -> None:
    for number, marker, colour in ((pair[0], "X", "#c0392b"), (pair[1], "*", "#27ae60")):
        row, column = divmod(number, SIZE)
        size = 15 if marker == "*" else 11
        axis.plot(column, row, marker=marker, color=colour, markersize=size, markeredgecolor="white", zorder=5)


def plot_stitching(journeys: Journeys, folder: Path, paths: Sequence[tuple[Sequence[int], float]], title: str) -> None:
    """The data, then each journey of the first seed: a row for each method."""
    task = journeys.tasks()[0]
    pairs = journeys.pairs(task)
    figure, axes = new_figure(len(METHODS), 1 + len(pairs), width=1.65, height=1.9)
    half = len(paths) // 2
    draw_data(axes[0, 0], paths[:half], None, "data: downwards")
    draw_data(axes[1, 0], paths[half:], None, "data: upwards")
    for row, method in enumerate(METHODS):
        for column, pair in enumerate(pairs, start=1):
            first = journeys.of(task, method, pair)[0]
            verdict = f"{first['length']} steps" if first["success"] else "not reached"
            draw_journey(axes[row, column], first["path"], pair, COLOURS[method], verdict)
        axes[row, 1].set_ylabel(label(method).replace(" (", "\n("), fontsize=9)
    figure.suptitle(title)
    save(figure, folder)


def plot_shortcuts(
    journeys: Journeys, folder: Path, paths: Mapping[str, Sequence[tuple[Sequence[int], float]]], title: str
) -> None:
    """A column for each data set: the data, then the journey of each method."""
    tasks = journeys.tasks()
    figure, axes = new_figure(1 + len(METHODS), len(tasks), width=2.3, height=2.4)
    for column, task in enumerate(tasks):
        pair = journeys.pairs(task)[0]
        draw_data(axes[0, column], paths[task], pair, f"data: {task}")
        for row, method in enumerate(METHODS, start=1):
            first = journeys.of(task, method, pair)[0]
            verdict = f"{first['length']} steps (shortest {first['shortest']})" if first["success"] else "not reached"
            draw_journey(axes[row, column], first["path"], pair, COLOURS[method], verdict)
            axes[row, 0].set_ylabel(label(method).replace(" (", "\n("), fontsize=9)
    figure.suptitle(title)
    save(figure, folder)
