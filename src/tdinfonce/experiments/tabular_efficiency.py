"""Error against the amount of data (the right half of the paper's tabular figure), and how much less data we need."""

from pathlib import Path

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.style import label
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.comparison import Comparison, compare, lane_steps

METHODS = ("td-infonce", "c-learning", "contrastive-rl", "successor")
BASELINES = ("contrastive-rl", "c-learning", "successor")
PAPER_FACTORS = {"contrastive-rl": "1500×", "c-learning": "130×", "successor": "20×"}
TITLE = "Error against the amount of data, 5×5 gridworld"

DECADES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
HALF_DECADES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
ENDS = (1_000, 100_000, 10_000_000)

BUDGETS = {
    "smoke": Comparison(METHODS, ((0.95, (1_000, 10_000)),), (10_000,), steps=500, learning_rates=(2e-3, 1e-2)),
    "default": Comparison(METHODS, ((0.95, DECADES),), ENDS),
    "paper": Comparison(METHODS, ((0.95, HALF_DECADES), (0.9, ENDS), (0.99, ENDS)), DECADES),
}


def report(folder: Path) -> None:
    """Draw the curves, the factors and the errors at each size."""
    results = draw.Results(folder)
    draw.plot_headline_and_all(draw.plot_against_size, results, folder, METHODS, TITLE)
    parts = [
        "Data-efficiency factor: the largest data set divided by the size at which TD InfoNCE already has the error "
        "that the baseline has on the largest one (log-log interpolation of means over seeds). "
        "'never' means that TD InfoNCE's error does not come down to the baseline's.",
    ]
    for discount in results.discounts():
        largest = results.values("size", discount=discount)[-1]
        parts += [f"## Discount {discount:g}"]
        factors = {r: draw.efficiency_factors(results, discount, r, BASELINES) for r in draw.REGIME_TITLES}
        rows = [
            [f"less data than {label(b)}", PAPER_FACTORS[b], *(draw.factor(factors[r][b]) for r in draw.REGIME_TITLES)]
            for b in BASELINES
        ]
        rows += [[f"error at {largest:,} against the best baseline", "25 % lower", *_against_best(results, discount)]]
        parts += [draw.markdown_table(["claim", "paper", *draw.REGIME_TITLES.values()], rows)]
        parts += [
            "The same factors if all methods had used one and the same constant step size (tuning seeds):",
            draw.factors_at_one_step_size(results, discount, "constant", BASELINES),
        ]
        for regime in draw.REGIME_TITLES:
            parts += [f"Errors, {draw.REGIME_TITLES[regime]}:", _errors(results, discount, regime)]
    parts += ["## Step sizes", "Tuned for each method, size and regime on seeds of their own."]
    draw.write_table(folder, TITLE, [*parts, draw.step_size_tables(results, METHODS)])


def _against_best(results: draw.Results, discount: float) -> list[str]:
    largest = results.values("size", discount=discount)[-1]
    entries = []
    for regime in draw.REGIME_TITLES:
        error = {m: results.by_seed(method=m, discount=discount, regime=regime, size=largest).mean() for m in METHODS}
        best = min(BASELINES, key=lambda m: error[m])
        change = 100 * (error["td-infonce"] / error[best] - 1)
        entries.append(f"{abs(change):.0f} % {'lower' if change < 0 else 'higher'} ({label(best)})")
    return entries


def _errors(results: draw.Results, discount: float, regime: str) -> str:
    sizes = results.values("size", discount=discount)
    rows = []
    for method in (*METHODS, *draw.FLOORS):
        kind = "floor" if method in draw.FLOORS else regime
        mean, _ = results.curve("size", sizes, method=method, discount=discount, regime=kind)
        rows.append([label(method), *(f"{m:.5f}" for m in mean)])
    return draw.markdown_table(["transitions", *(f"{size:,}" for size in sizes)], rows)


EXPERIMENT = Experiment(
    shows="how much data each method needs: 1K to 10M transitions, and the data-efficiency factors",
    paper="Sec. 4.3, right half of the tabular figure (1500×, 130×, 20×)",
    duration={"smoke": "30 s", "default": "8 min", "paper": "25 min"},
    budgets=BUDGETS,
    run=compare,
    work=lane_steps,
    report=report,
    seeds={"smoke": 2, "default": 5, "paper": 5},
)
