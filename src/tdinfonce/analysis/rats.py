"""Figure and tables of the experiment on real rats."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.series import COLOUR, METHODS, mean_and_range
from tdinfonce.analysis.style import new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["plot_rats", "rats_tables"]

TITLES = {"sargolini": "Sargolini (1 × 1 m, 10 min)", "tanni": "Tanni (3.5 × 2.5 m, 2 h)"}
NAMES = {"td": "TD", "mc": "Monte Carlo"}
SERIES = {"cut": "--", "uncut": "-"}
CELLS = [(series, method) for series in SERIES for method in METHODS]


def plot_rats(results: Results, folder: Path, title: str, config: Mapping[str, Any]) -> None:
    """For each rat: the likelihood by time ahead, and the score of each seed."""
    rats = results.values("rat")
    figure, axes = new_figure(2, len(rats), width=5.2, height=3.4)
    for rat, (above, below) in zip(rats, axes.T, strict=True):
        for place, (series, method) in enumerate(CELLS):
            rows = select(results.evaluated, rat=rat, series=series, method=method)
            by_time = np.array([row["by_time"] for row in rows])
            seconds = np.arange(1, by_time.shape[1] + 1) / config["rate"]
            look = {"color": COLOUR[method], "linestyle": SERIES[series]}
            above.plot(seconds, by_time.mean(axis=0), label=f"{METHODS[method]}, {series}", **look)
            above.fill_between(
                seconds, by_time.min(axis=0), by_time.max(axis=0), color=COLOUR[method], alpha=0.12, lw=0
            )
            shift = np.linspace(-0.15, 0.15, len(rows)) if len(rows) > 1 else [0.0]
            filled = COLOUR[method] if series == "uncut" else "white"
            below.scatter(
                place + np.array(shift), [r["score"] for r in rows], s=28, color=filled, edgecolors=COLOUR[method]
            )
        above.axvline(config["piece"] / config["rate"], color="#777777", linewidth=0.8, linestyle=":")
        above.set(title=TITLES[rat], xlabel="seconds ahead", xscale="log")
        above.xaxis.set_major_formatter("{x:g}")
        below.set(xticks=range(len(CELLS)), xticklabels=[f"{NAMES[m]}\n{s}" for s, m in CELLS], xlim=(-0.5, 3.5))
        for axis in (above, below):
            axis.axhline(0, color="#999999", linewidth=1)
    above_left, below_left = axes[:, 0]
    above_left.annotate(
        "length of\na piece", (config["piece"] / config["rate"], 0.02), xycoords=("data", "axes fraction"),
        xytext=(3, 3), textcoords="offset points", fontsize=8, color="#555555",
    )  # fmt: skip
    above_left.set_ylabel(f"log-likelihood ratio (nats),\n{config['chance']:.0%} chance mixed in")
    below_left.set_ylabel("discounted log-likelihood\nratio (nats), each seed")
    handles, labels = above_left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(rats), frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def rats_tables(results: Results, config: Mapping[str, Any]) -> list[str]:
    """Scores, then in how many seeds TD is above Monte Carlo, then what was chosen."""
    lines, wins, chosen = [], [], []
    for rat in results.values("rat"):
        for series in SERIES:
            cells = {m: select(results.evaluated, rat=rat, series=series, method=m) for m in METHODS}
            scores = [mean_and_range([r[key] for r in cells[m]], 2) for key in ("score", "mixed") for m in METHODS]
            lines.append([TITLES[rat], series, *scores])
            better = sum(td["score"] > mc["score"] for td, mc in zip(cells["td"], cells["mc"], strict=True))
            wins.append(f"{TITLES[rat].split(' ')[0]}, {series}: {better} of {len(cells['td'])}")
            for method, rows in cells.items():
                width, dim = rows[0]["network"]
                chosen.append([TITLES[rat], series, METHODS[method], f"{width} × 2, {dim}", f"{rows[0]['updates']:,}"])
    heads = [f"{name}{more}" for more in ("", f", {config['chance']:.0%} chance mixed in") for name in METHODS.values()]
    return [
        markdown_table(["rat", "track", *heads], lines),
        f"Seeds in which TD is above Monte Carlo (first pair of columns): {'; '.join(wins)}.",
        "Chosen:",
        markdown_table(["rat", "track", "method", "hidden layers, representation", "updates"], chosen),
    ]
