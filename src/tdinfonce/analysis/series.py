"""Figures and tables of the estimator for plain series, against exact answers."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import COLOURS, new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = [
    "METHODS",
    "information_tables",
    "known_process_tables",
    "mean_and_range",
    "plot_information",
    "plot_known_process",
]

METHODS = {"td": "TD InfoNCE", "mc": "Monte Carlo InfoNCE"}
TITLES = {
    "ornstein-uhlenbeck": "Ornstein–Uhlenbeck",
    "double-well": "double well",
    "ring": "walk on a ring",
    "pendulum": "noisy pendulum",
}
COLOUR = {"td": COLOURS["td-infonce"], "mc": COLOURS["contrastive-rl"]}
SERIES = {"whole": "-", "cut": "--"}
WORLDS = {"chain": "Gaussian chain, by its memory", "grid": "random walk on the grid, by the discount"}
CRITICS = {"exact": "exact critic"} | METHODS


def mean_and_range(values: Sequence[float], digits: int = 3) -> str:
    """``mean [smallest, largest]`` over seeds."""
    return f"{np.mean(values):z.{digits}f} [{min(values):z.{digits}f}, {max(values):z.{digits}f}]"


def lines() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each method on each kind of series, with the look of its line."""
    for method, name in METHODS.items():
        for series, dash in SERIES.items():
            style = {"color": COLOUR[method], "linestyle": dash, "label": f"{name}, {series} series"}
            yield method, series, style


def plot_known_process(results: Results, folder: Path, title: str) -> None:
    """What is believed of one start at the largest size, above; errors against data, below."""
    names, sizes = results.values("process"), results.values("size")
    figure, axes = new_figure(2, len(names), width=3.7, height=3.1)
    truth = {row["process"]: np.array(row["bins"])[1] for row in results.rows if row["phase"] == "truth"}
    for name, (above, below) in zip(names, axes.T, strict=True):
        exact = truth[name]
        above.bar(np.arange(len(exact)), exact, width=1.0, color="#cccccc", label="exact")
        for method, series, style in lines():
            rows = select(results.evaluated, process=name, method=method, series=series)
            last = select(rows, size=sizes[-1])
            if series == "cut":
                above.step(np.arange(len(exact)), np.mean([r["bins"] for r in last], axis=0), where="mid", **style)
            values = [[r["error"] for r in select(rows, size=size)] for size in sizes]
            below.plot(sizes, [np.mean(v) for v in values], marker="o", markersize=4, **style)
            low, high = [min(v) for v in values], [max(v) for v in values]
            below.fill_between(sizes, low, high, color=style["color"], alpha=0.15, linewidth=0)
        above.set(title=TITLES[name], xlabel="bin of the later state")
        below.set(xscale="log", yscale="log", xlabel="rows of data", ylim=(2e-3, 0.3))
    axes[0, 0].set_ylabel(f"chance, from {sizes[-1]:,} rows")
    axes[1, 0].set_ylabel("mean error of a probability")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    bar, name = axes[0, 0].get_legend_handles_labels()
    figure.legend([bar[-1], *handles], [name[-1], *labels], loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def known_process_tables(results: Results) -> list[str]:
    """Errors of probabilities, then total variation: a row for each process and size."""
    parts: list[str] = []
    measures: tuple[tuple[str, str, Callable[[Sequence[float]], str]], ...] = (
        ("error", "Mean error of the probability of being near a place:", mean_and_range),
        ("total_variation", "Total variation over bins:", mean_and_range),
    )
    for key, sentence, form in measures:
        rows = []
        for name in results.values("process"):
            for size in results.values("size"):
                here = select(results.evaluated, process=name, size=size)
                cells = (select(here, method=m, series=s) for s in SERIES for m in METHODS)
                rows.append([TITLES[name], f"{size:,}", *(form([r[key] for r in cell]) for cell in cells)])
        heads = [f"{METHODS[m]}, {s}" for s in SERIES for m in METHODS]
        parts += [sentence, markdown_table(["process", "rows", *heads], rows)]
    return parts


def plot_information(results: Results, folder: Path, title: str) -> None:
    """Bound against exact value: a panel for each world, a line for each critic and N."""
    worlds, counts = results.values("world"), results.values("count")
    figure, axes = new_figure(1, len(worlds), width=5.4, height=4.2)
    for world, axis in zip(worlds, axes[0], strict=True):
        rows = select(results.evaluated, world=world)
        exact = sorted({row["exact"] for row in rows})
        axis.plot([0, exact[-1]], [0, exact[-1]], color="#999999", linewidth=1, label="bound = exact")
        for count, dash in zip(counts, ("--", "-", ":", "-."), strict=False):
            if np.log(count) < 1.6 * exact[-1]:  # a ceiling far above would press the lines together
                axis.axhline(np.log(count), color="#555555", linewidth=0.8, linestyle=":")
                axis.annotate(f"log {count}", (0, np.log(count)), xytext=(2, 2), textcoords="offset points", fontsize=8)
            for critic, name in CRITICS.items():
                here = [[r["bound"] for r in select(rows, exact=x, count=count, method=critic)] for x in exact]
                look = {"color": COLOUR.get(critic, "#222222"), "linestyle": dash, "marker": "o", "markersize": 4}
                axis.plot(exact, [np.mean(v) for v in here], label=f"{name}, N = {count}", **look)
        axis.set(
            title=WORLDS[world].partition(",")[0],
            xlabel="exact mutual information (nats)",
            ylim=(-0.05 * exact[-1], None),
        )
    axes[0, 0].set_ylabel("InfoNCE bound (nats)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def information_tables(results: Results) -> list[str]:
    """A table for each world: exact value, then the bound of each critic for each N."""
    parts, counts = [], results.values("count")
    for world in results.values("world"):
        lines = []
        for strength in results.values("strength", world=world):
            rows = select(results.evaluated, world=world, strength=strength)
            cells = ([r["bound"] for r in select(rows, count=n, method=critic)] for n in counts for critic in CRITICS)
            lines.append([f"{strength:g}", f"{rows[0]['exact']:z.3f}", *(mean_and_range(v, 2) for v in cells)])
        heads = [f"{name}, N = {n}" for n in counts for name in CRITICS.values()]
        parts += [f"{WORLDS[world]}:".capitalize(), markdown_table(["", "exact", *heads], lines)]
        parts.append(f"Ceilings: {', '.join(f'log {n} = {np.log(n):.2f}' for n in counts)}.")
    return parts
