"""Error of the estimated occupancy against gradient steps (the left half of the paper's tabular figure)."""

from pathlib import Path

import numpy as np

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.style import label
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.comparison import Comparison, compare, lane_steps

METHODS = ("td-infonce", "c-learning", "contrastive-rl", "successor")
TITLE = "Estimating the discounted occupancy of a 5×5 gridworld"

BUDGETS = {
    "smoke": Comparison(METHODS, ((0.95, (10_000,)),), (10_000,), steps=500, points=2, learning_rates=(2e-3, 1e-2)),
    "default": Comparison(METHODS, ((0.95, (100_000,)),), (100_000,), points=50),
    "paper": Comparison(
        (*METHODS, "c-learning-normalised"),
        ((0.95, (100_000,)), (0.9, (100_000,)), (0.99, (100_000,))),
        (100_000,),
        points=50,
        tuning_seeds=2,
    ),
}


def report(folder: Path) -> None:
    """Draw the curves and the table of final errors."""
    results = draw.Results(folder)
    order = (*METHODS, "c-learning-normalised")
    draw.plot_headline_and_all(draw.plot_against_steps, results, folder, order, TITLE)
    parts = [
        "Mean absolute error over all (s, a, s⁺) after the last gradient step, mean ± standard deviation over seeds; "
        "in brackets: times the floor.",
        "The floor solves the empirical chain exactly: it has no step size and no minibatches, only the data.",
    ]
    for discount in results.discounts():
        floor = results.by_seed(method="certainty-equivalence", discount=discount)
        rows = [[label("certainty-equivalence"), *[draw.mean_and_deviation(floor)] * 2]]
        monte_carlo = results.by_seed(method="monte-carlo-frequencies", discount=discount)
        rows.append([label("monte-carlo-frequencies"), *[_entry(monte_carlo, floor)] * 2])
        for method in results.methods(order):
            errors = [results.by_seed(method=method, discount=discount, regime=r) for r in draw.REGIME_TITLES]
            rows.append([label(method), *(_entry(e, floor) for e in errors)])
        parts += [f"## Discount {discount:g}", draw.markdown_table(["method", *draw.REGIME_TITLES.values()], rows)]
        parts += [_claims(results, discount)]
    parts += [
        "## Step sizes",
        "Tuned for each method and regime on seeds of their own.",
        draw.step_size_tables(results, order),
    ]
    draw.write_table(folder, TITLE, parts)


def _entry(errors: np.ndarray, floor: np.ndarray) -> str:
    return f"{draw.mean_and_deviation(errors)} ({(errors / floor).mean():.2f}×)"


def _claims(results: draw.Results, discount: float) -> str:
    error = {m: results.by_seed(method=m, discount=discount, regime="constant") for m in METHODS}
    n = len(error["td-infonce"])

    def wins(better: str, worse: str) -> str:
        return f"{int((error[better] < error[worse]).sum())} of {n} seeds"

    rows = [
        ["TD InfoNCE below C-learning at the end", "yes", wins("td-infonce", "c-learning")],
        ["TD InfoNCE below contrastive RL (Monte Carlo)", "yes", wins("td-infonce", "contrastive-rl")],
        ["C-learning below contrastive RL", "yes", wins("c-learning", "contrastive-rl")],
        ["SR below contrastive RL", "yes", wins("successor", "contrastive-rl")],
        ["TD InfoNCE at or below SR at the end", "as fast as SR", wins("td-infonce", "successor")],
    ]
    return draw.markdown_table(["claim (constant step)", "paper", "ours"], rows)


EXPERIMENT = Experiment(
    shows="how fast and how closely each method finds the exact occupancy of a gridworld",
    paper="Sec. 4.3, left half of the tabular figure",
    duration={"smoke": "30 s", "default": "2 min", "paper": "10 min"},
    budgets=BUDGETS,
    run=compare,
    work=lane_steps,
    report=report,
    seeds={"smoke": 2, "default": 5, "paper": 5},
)
