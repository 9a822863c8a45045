"""The gap of nested sampling: how far off the estimators are when each row is compared with N candidates."""

from pathlib import Path

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.statistics import Estimate, interquartile_mean
from tdinfonce.analysis.style import label, new_figure, save, series_style
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.candidates import Candidates, lane_steps, vary_candidates

TITLE = "Total variation to the exact occupancy against the number of candidates, 5×5 gridworld"
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
BUDGETS = {
    "smoke": Candidates(numbers=(8, 64), rows=64, steps=500, learning_rate=1e-2),
    "default": Candidates(),
    "paper": Candidates(),
}


def report(folder: Path) -> None:
    """Draw the error against the number of candidates, with an interval over seeds."""
    results = draw.Results(folder)
    methods, numbers = results.values("method"), results.values("candidates")

    def error(method: str, regime: str, number: int) -> Estimate:
        return interquartile_mean([results.by_seed(method=method, regime=regime, candidates=number)])

    figure, axes = new_figure(1, 2, width=4.8, height=3.6)
    for axis, regime in zip(axes[0], draw.REGIME_TITLES, strict=True):
        for method in methods:
            found = [error(method, regime, n) for n in numbers]
            ends = [[e.value - (e.low or e.value) for e in found], [(e.high or e.value) - e.value for e in found]]
            axis.errorbar(numbers, [e.value for e in found], yerr=ends, capsize=3, **series_style(method))
        axis.set(xscale="log", yscale="log", title=draw.REGIME_TITLES[regime], xlabel="candidates N")
        axis.set_xticks(numbers, [str(n) for n in numbers])
        axis.xaxis.minorticks_off()
    axes[0, 1].sharey(axes[0, 0])
    axes[0, 0].set_yticks(TICKS, [str(tick) for tick in TICKS])
    axes[0, 0].set_ylabel("total variation")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(TITLE, fontsize=11)
    save(figure, folder)
    header = ["N", *(f"{label(m)}, {title}" for title in draw.REGIME_TITLES.values() for m in methods)]
    rows = [[str(n), *(error(m, regime, n).text(4) for regime in draw.REGIME_TITLES for m in methods)] for n in numbers]
    parts = [
        "Not in the paper, which names the gap between the sampled loss and its expectation as a limitation. Half the "
        "summed absolute difference between estimate and exact occupancy, the mean over state-actions; interquartile "
        "mean over seeds, in brackets its 95 % bootstrap interval.",
        "Held fixed: endless data (minibatches come from the exact law of the grid, so that no error is the data's), "
        "the transitions and random states of each gradient step (1,024 but in the smoke budget), the number of steps "
        "and their size. Only the groups differ into which each step's draws are split: a row sees the candidates of "
        "its own group of N.",
        draw.markdown_table(header, rows),
    ]
    draw.write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="how the error of TD InfoNCE falls with the number of candidates, and that of Monte Carlo does not",
    paper="not in the paper; Limitations, the gap between the sampled loss and its expectation",
    duration={"smoke": "15 s", "default": "3 min", "paper": "3 min"},
    budgets=BUDGETS,
    run=vary_candidates,
    work=lane_steps,
    report=report,
    seeds={"smoke": 2, "default": 5, "paper": 5},
)
