"""Figures and tables of policy evaluation from logs: errors against exact values, by method and amount of data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import COLOURS, new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["LOOK", "METHODS", "plot_errors", "spearman", "tables"]

METHODS = {
    "td": "TD InfoNCE",
    "mc": "Monte Carlo InfoNCE",
    "fqe": "FQE, refitted for each reward",
    "importance": "importance sampling",
    "counting": "certainty equivalence",
}
LOOK = {
    "td": (COLOURS["td-infonce"], "-"),
    "mc": (COLOURS["contrastive-rl"], "-"),
    "fqe": (COLOURS["c-learning"], "-"),
    "importance": (COLOURS["successor"], ":"),
    "counting": ("#222222", "--"),
}


class Evaluated:
    """The rows of the experiment, with the exact values."""

    def __init__(self, results: Results) -> None:
        """Take them from a run folder."""
        self.rows = results.evaluated
        self.sizes, self.seeds = results.values("size"), results.values("seed")
        self.truth = {row["policy"]: np.array(row["values"]) for row in results.rows if row["phase"] == "truth"}
        self.policies = [name for name in self.truth if name != "behaviour"]

    def errors(self, **where: Any) -> list[float]:
        """For each seed the median over rewards of the relative error."""
        rows = select(self.rows, **where)
        return [float(np.median(relative(row["values"], self.truth[row["policy"]]))) for row in rows]

    def order(self, method: str, size: int) -> float:
        """The share of pairs of policies, over rewards and seeds, that stand in the right order."""
        right = []
        for seed in self.seeds:
            rows = select(self.rows, method=method, size=size, seed=seed)
            found = {row["policy"]: np.array(row["values"]) for row in rows}
            for index, one in enumerate(self.policies):
                for other in self.policies[index + 1 :]:
                    true = np.sign(self.truth[one] - self.truth[other])
                    right.append(np.mean(np.sign(found[one] - found[other]) == true))
        return float(np.mean(right))

    def correlation(self, method: str, size: int) -> float:
        """Spearman's, over rewards; mean over policies and seeds."""
        rows = select(self.rows, method=method, size=size)
        return float(np.mean([spearman(row["values"], self.truth[row["policy"]]) for row in rows]))


def relative(values: Any, truth: np.ndarray) -> np.ndarray:
    """|estimate - truth| / |truth| of each reward."""
    return np.abs(np.asarray(values) - truth) / np.abs(truth)


def spearman(one: Any, other: Any) -> float:
    """Rank correlation; equal numbers share a rank. NaN if all numbers of one are equal."""
    first, second = (_ranks(np.asarray(x)) for x in (one, other))
    if min(np.ptp(first), np.ptp(second)) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.asarray((values[:, None] > values).sum(axis=1) + (values[:, None] == values).sum(axis=1) / 2)


def plot_errors(results: Results, folder: Path, title: str) -> None:
    """A panel for each policy: the median relative error against the amount of data."""
    found = Evaluated(results)
    figure, axes = new_figure(1, len(found.policies), width=3.7, height=3.4)
    for axis, policy in zip(axes[0], found.policies, strict=True):
        for method, (colour, dash) in LOOK.items():
            values = [found.errors(policy=policy, method=method, size=size) for size in found.sizes]
            axis.plot(found.sizes, [np.mean(v) for v in values], dash, color=colour, marker="o", markersize=3.5)
            low, high = [min(v) for v in values], [max(v) for v in values]
            axis.fill_between(found.sizes, low, high, color=colour, alpha=0.12, linewidth=0)
        own = float(np.median(relative(found.truth["behaviour"], found.truth[policy])))
        axis.axhline(own, color="#999999", linewidth=1)
        axis.set(xscale="log", yscale="log", xlabel="transitions", title=policy)
    axes[0, 0].set_ylabel("median relative error, 20 rewards")
    figure.legend(
        axes[0, 0].lines,
        [*METHODS.values(), "the behaviour's value"],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    figure.suptitle(title)
    save(figure, folder)


def tables(results: Results) -> list[str]:
    """Errors by policy and size, then order, rank correlation and seconds."""
    found = Evaluated(results)
    parts = []
    for policy in found.policies:
        header = [f"policy: {policy}", *(f"{size:,}" for size in found.sizes)]
        parts.append(markdown_table(header, [_line(found, method, policy) for method in METHODS]))
    for words, measure in (
        ("pairs of policies in the right order", found.order),
        ("rank correlation over rewards", found.correlation),
        ("seconds for all rewards of a policy, median", lambda method, size: _seconds(found, method, size)),
    ):
        rows = [[METHODS[m], *(f"{measure(m, size):.2f}" for size in found.sizes)] for m in METHODS]
        parts.append(markdown_table([words, *(f"{size:,}" for size in found.sizes)], rows))
    if any("seconds_each" in row for row in found.rows):
        cells = [f"{_seconds(found, 'fqe', size, 'seconds_each'):.2f}" for size in found.sizes]
        last = " | ".join(["FQE, if rewards are fitted one after the other", *cells])
        parts[-1] = parts[-1].rstrip("\n") + f"\n| {last} |\n"
    return parts


def _line(found: Evaluated, method: str, policy: str) -> Sequence[str]:
    cells = []
    for size in found.sizes:
        errors = found.errors(policy=policy, method=method, size=size)
        cells.append(f"{np.mean(errors):.3f}" + (f" [{min(errors):.3f}, {max(errors):.3f}]" if len(errors) > 1 else ""))
    return [METHODS[method], *cells]


def _seconds(found: Evaluated, method: str, size: int, name: str = "seconds") -> float:
    return float(np.median([row[name] for row in select(found.rows, method=method, size=size)]))
