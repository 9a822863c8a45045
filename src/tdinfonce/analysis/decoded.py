"""Figure and table of positions that are decoded from representations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.rats import TITLES
from tdinfonce.analysis.series import COLOUR, mean_and_range
from tdinfonce.analysis.style import new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["decoded_tables", "plot_decoded"]

NAMES = {"td": "TD InfoNCE", "cebra": "CEBRA", "untrained": "untrained network", "raw": "raw state"}
COLOURS = {"td": COLOUR["td"], "cebra": "#117864", "untrained": "#b0b0b0", "raw": "#666666"}


def plot_decoded(results: Results, folder: Path, title: str, config: Mapping[str, Any]) -> None:
    """For each rat and time ahead, R² of each representation; a dot for each seed, a diamond with the state beside."""
    rats, times = results.values("rat"), config["seconds"]
    figure, axes = new_figure(1, len(rats), width=5.6, height=3.8)
    for rat, axis in zip(rats, axes[0], strict=True):
        for place, (method, name) in enumerate(NAMES.items()):
            x = np.arange(len(times)) + 0.2 * (place - 1.5)
            alone, beside = (
                np.array([r["r2"] for r in select(results.evaluated, rat=rat, method=method, beside_state=with_state)])
                for with_state in (False, True)
            )
            axis.bar(x, alone.mean(axis=0), width=0.18, color=COLOURS[method], alpha=0.75, label=name)
            for seed in alone:
                axis.scatter(x, seed, s=8, color="#222222", zorder=3)
            if len(beside):
                look = {"marker": "D", "s": 26, "facecolor": "white", "edgecolor": "#222222", "zorder": 4}
                mark = "together with the raw state (mean over seeds)" if method == "td" else None
                axis.scatter(x, beside.mean(axis=0), label=mark, **look)
        axis.set(title=TITLES[rat], xticks=range(len(times)), xticklabels=[f"{t:g} s ahead" for t in times])
        axis.axhline(0, color="#999999", linewidth=1)
    axes[0, 0].set_ylabel("R² of the decoded position")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def decoded_tables(results: Results, config: Mapping[str, Any]) -> list[str]:
    """R² of each representation alone, with what was chosen; then with the raw state beside it."""
    heads = [f"{t:g} s ahead" for t in config["seconds"]]
    tables: dict[bool, list[list[str]]] = {False: [], True: []}
    for rat in results.values("rat"):
        for method, name in NAMES.items():
            for beside, lines in tables.items():
                rows = select(results.evaluated, rat=rat, method=method, beside_state=beside)
                if rows:
                    r2 = [mean_and_range([row["r2"][i] for row in rows]) for i in range(len(heads))]
                    setting = f"{rows[0]['horizon'] / config['rate']:g} s, {rows[0]['amount']:,}"
                    lines.append([TITLES[rat], name, *r2, setting if method in ("td", "cebra") else "–"])
    return [
        markdown_table(["rat", "representation", *heads, "chosen: horizon, updates"], tables[False]),
        "With the raw state beside the representation:",
        markdown_table(["rat", "representation", *heads], [line[:-1] for line in tables[True]]),
    ]
