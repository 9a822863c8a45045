"""Figure and tables of checkpoints evaluated from the log of another: estimates against rollouts."""

from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.policy_evaluation import LOOK, METHODS, spearman
from tdinfonce.analysis.style import new_figure, save
from tdinfonce.analysis.tabular import Results, markdown_table, select

__all__ = ["plot_estimates", "tables"]

MARKERS = {"td": "o", "mc": "s", "fqe": "^"}
POLICY = ("env", "seed", "env_steps", "goal")


class Evaluated:
    """The rows of the experiment, values per step and in deviations of the rewards over the data."""

    def __init__(self, results: Results, discount: float) -> None:
        """Take them from a run folder."""
        self.rows, self._left = results.evaluated, 1 - discount
        self._truth = {tuple(r[k] for k in POLICY): r for r in results.rows if r["phase"] == "truth"}
        self.envs, self.seeds = results.values("env"), results.values("seed")
        self.methods = [method for method in METHODS if method in results.values("method")]

    def pairs(self, **where: Any) -> tuple[np.ndarray, np.ndarray]:
        """Truth and estimate, ``[policies, rewards]``."""
        rows = select(self.rows, **where)
        known = [self._truth[tuple(row[k] for k in POLICY)] for row in rows]
        spread = np.array([row["spread"] for row in known]) / self._left
        return np.array([row["values"] for row in known]) / spread, np.array([row["values"] for row in rows]) / spread

    def median(self, **where: Any) -> float:
        """Of the errors over policies and rewards."""
        truth, found = self.pairs(**where)
        return float(np.median(np.abs(found - truth)))

    def mean(self, **where: Any) -> float:
        """Likewise."""
        truth, found = self.pairs(**where)
        return float(np.mean(np.abs(found - truth)))

    def order(self, **where: Any) -> float:
        """Spearman's correlation over policies, mean over the rewards that tell some of them apart."""
        truth, found = self.pairs(**where)
        return float(np.nanmean([spearman(a, b) for a, b in zip(truth.T, found.T, strict=True)]))

    def seconds(self, **where: Any) -> float:
        """Of a policy with all its rewards, median."""
        return float(np.median([row["seconds"] for row in select(self.rows, **where)]))


def plot_estimates(results: Results, folder: Path, title: str, discount: float) -> None:
    """A panel for each environment: what each method says of each policy and reward, against what rollouts say."""
    found = Evaluated(results, discount)
    figure, axes = new_figure(1, len(found.envs), width=4.6, height=4.2)
    for axis, env in zip(axes[0], found.envs, strict=True):
        ends = []
        for method in reversed(found.methods):
            truth, estimate = (x.reshape(-1) for x in found.pairs(env=env, method=method))
            style = {"marker": MARKERS[method], "color": LOOK[method][0], "s": 22, "alpha": 0.6, "linewidths": 0}
            axis.scatter(truth, estimate, **style, label=METHODS[method])
            ends += [truth.min(), truth.max(), estimate.min(), estimate.max()]
        axis.plot([min(ends), max(ends)], [min(ends), max(ends)], color="#999999", linewidth=1, zorder=0)
        axis.set(title=env, xlabel="value by rollouts")
    axes[0, 0].set_ylabel("estimate")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    save(figure, folder)


def tables(results: Results, discount: float) -> list[str]:
    """Errors, order and seconds, for each environment."""
    found = Evaluated(results, discount)
    parts = []
    for env in found.envs:
        lines = []
        for method in found.methods:
            cells = [METHODS[method]]
            for measure in (found.median, found.mean, found.order):
                values = [measure(env=env, method=method, seed=seed) for seed in found.seeds]
                ends = f" [{min(values):.2f}, {max(values):.2f}]" if len(values) > 1 else ""
                cells.append(f"{np.mean(values):.2f}{ends}")
            lines.append([*cells, f"{found.seconds(env=env, method=method):.1f}"])
        header = [env, "median error", "mean error", "rank correlation over policies", "seconds, all rewards"]
        parts.append(markdown_table(header, lines))
    return parts
