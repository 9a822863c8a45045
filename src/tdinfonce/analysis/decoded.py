"""Figure and table of positions that are decoded from representations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.rats import TITLES
from tdinfonce.analysis.series import COLOUR, mean_and_range
from tdinfonce.analysis.style import new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["decoded_table", "plot_decoded"]

NAMES = {"td": "TD InfoNCE", "cebra": "CEBRA", "untrained": "untrained network", "raw": "raw state"}
COLOURS = {"td": COLOUR["td"], "cebra": "#117864", "untrained": "#b0b0b0", "raw": "#666666"}


def plot_decoded(results: Results, folder: Path, title: str, config: Mapping[str, Any]) -> None:
    """For each rat and time ahead, R² of each representation; a dot for each seed."""
    rats, times = results.values("rat"), config["seconds"]
    figure, axes = new_figure(1, len(rats), width=5.2, height=3.6)
    for rat, axis in zip(rats, axes[0], strict=True):
        for place, (method, name) in enumerate(NAMES.items()):
            r2 = np.array([row["r2"] for row in select(results.evaluated, rat=rat, method=method)])
            x = np.arange(len(times)) + 0.2 * (place - 1.5)
            axis.bar(x, r2.mean(axis=0), width=0.18, color=COLOURS[method], alpha=0.75, label=name)
            for seed in r2:
                axis.scatter(x, seed, s=10, color="#222222", zorder=3)
        axis.set(title=TITLES[rat], xticks=range(len(times)), xticklabels=[f"{t:g} s ahead" for t in times])
        axis.axhline(0, color="#999999", linewidth=1)
    axes[0, 0].set_ylabel("R² of the decoded position")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(rats), frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def decoded_table(results: Results, config: Mapping[str, Any]) -> str:
    """R², with the horizons that were chosen."""
    lines = []
    for rat in results.values("rat"):
        for method, name in NAMES.items():
            rows = select(results.evaluated, rat=rat, method=method)
            r2 = [mean_and_range([row["r2"][i] for row in rows]) for i in range(len(config["seconds"]))]
            horizon = f"{rows[0]['horizon'] / config['rate']:g} s" if method in ("td", "cebra") else "–"
            lines.append([TITLES[rat], name, *r2, horizon])
    heads = [f"{t:g} s ahead" for t in config["seconds"]]
    return markdown_table(["rat", "representation", *heads, "horizon chosen"], lines)
