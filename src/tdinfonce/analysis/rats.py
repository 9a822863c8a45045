"""Figure and tables of the experiment on real rats."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis import series as common
from tdinfonce.analysis.series import mean_and_range
from tdinfonce.analysis.style import COLOURS, new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["plot_rats", "rats_tables"]

TITLES = {"sargolini": "Sargolini (1 × 1 m, 10 min)", "tanni": "Tanni (3.5 × 2.5 m, 2 h)"}
METHODS = common.METHODS | {"sf": "successor features"}
COLOUR = common.COLOUR | {"sf": COLOURS["successor"]}
NAMES = {"td": "TD", "mc": "Monte\nCarlo", "sf": "successor\nfeatures"}
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
        below.tick_params(axis="x", labelsize=8)
        below.set(
            xticks=range(len(CELLS)), xticklabels=[f"{NAMES[m]},\n{s}" for s, m in CELLS], xlim=(-0.5, len(CELLS) - 0.5)
        )
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
    columns = np.arange(len(CELLS)).reshape(len(SERIES), -1).T.ravel()  # one for each method
    handles, labels = [handles[i] for i in columns], [labels[i] for i in columns]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def rats_tables(results: Results, config: Mapping[str, Any]) -> list[str]:
    """Scores, then in how many seeds TD is above each of the others, then what was chosen."""
    scores: dict[str, list[list[str]]] = {"score": [], "mixed": []}
    wins, chosen = [], []
    for rat in results.values("rat"):
        for series in SERIES:
            cells = {m: select(results.evaluated, rat=rat, series=series, method=m) for m in METHODS}
            for key, lines in scores.items():
                lines.append(
                    [TITLES[rat], series, *(mean_and_range([r[key] for r in rows], 2) for rows in cells.values())]
                )
            for other in ("mc", "sf"):
                better = sum(td["score"] > row["score"] for td, row in zip(cells["td"], cells[other], strict=True))
                wins.append([TITLES[rat], series, METHODS[other], f"{better} of {len(cells['td'])}"])
            chosen += [[TITLES[rat], series, METHODS[method], _setting(rows[0])] for method, rows in cells.items()]
    heads = ["rat", "track", *METHODS.values()]
    return [
        markdown_table(heads, scores["score"]),
        f"The same with {config['chance']:.0%} chance mixed in, which forgives certainty that is wrong:",
        markdown_table(heads, scores["mixed"]),
        "Seeds in which TD is above another method (first table):",
        markdown_table(["rat", "track", "other method", "TD is above"], wins),
        "Chosen:",
        markdown_table(["rat", "track", "method", "setting"], chosen),
    ]


def _setting(row: Mapping[str, Any]) -> str:
    if row["method"] == "sf":
        return f"{row['cells']} place cells, {row['visits']:,} rows visited"
    width, dim = row["network"]
    return f"hidden layers {width} × 2, representation {dim}, {row['updates']:,} updates"
