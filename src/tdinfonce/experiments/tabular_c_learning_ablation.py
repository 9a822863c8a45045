"""From C-learning to TD InfoNCE: which of the three differences matters?"""

from pathlib import Path

import numpy as np

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.style import label, new_figure, save
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.comparison import Comparison, compare, lane_steps

TITLE = "From C-learning to TD InfoNCE, one difference at a time"
VARIANTS = tuple(f"ablation-{switches}" for switches in ("none", "a", "b", "c", "ab", "ac", "bc", "abc"))
SIZES = ((0.95, (100_000,)),)
BUDGETS = {
    "smoke": Comparison(VARIANTS, ((0.95, (10_000,)),), (10_000,), steps=500, learning_rates=(1e-2,)),
    "default": Comparison(VARIANTS, SIZES, (100_000,), steps=20_000, points=20, learning_rates=(5e-4, 2e-3, 5e-3)),
    "paper": Comparison(VARIANTS, SIZES, (100_000,), points=10),
}


def report(folder: Path) -> None:
    """Draw final errors of all eight combinations, and the effect of each switch."""
    results = draw.Results(folder)
    figure, axes = new_figure(1, 2, width=5.6, height=3.6)
    floor = results.by_seed(method="certainty-equivalence")
    errors = {r: {v: results.by_seed(method=v, regime=r) for v in VARIANTS} for r in draw.REGIME_TITLES}
    for axis, regime in zip(axes[0], draw.REGIME_TITLES, strict=True):
        for place, variant in enumerate(VARIANTS):
            values = errors[regime][variant]
            colour = "#c0392b" if "a" in variant.removeprefix("ablation-") else "#1e8449"
            axis.barh(place, values.mean(), color=colour, alpha=0.6)
            axis.plot(values, np.full(len(values), place), ".", color="#222222", markersize=4)
        axis.axvline(floor.mean(), linestyle="--", color="#222222")
        axis.set(yticks=range(len(VARIANTS)), title=draw.REGIME_TITLES[regime], xlabel="mean absolute error")
        axis.set_yticklabels([label(v) for v in VARIANTS] if axis is axes[0, 0] else [])
        axis.invert_yaxis()
    figure.suptitle(TITLE + "\n(a) softmax cross entropy, (b) self-normalised weights, (c) N² pairs; dashed: the floor")
    save(figure, folder)
    rows = [[label(v), *(draw.mean_and_deviation(errors[r][v]) for r in draw.REGIME_TITLES)] for v in VARIANTS]
    effects = [_effect(switch, errors) for switch in "abc"]
    parts = [
        "(a) categorical instead of binary cross entropy; (b) self-normalised importance weights; (c) every random "
        "state of the batch serves every transition. All step sizes tuned alike, on seeds of their own.",
        draw.markdown_table(["variant", *draw.REGIME_TITLES.values()], rows),
        "What each switch does to the error: alone, on C-learning; and as the last step to TD InfoNCE. The switches "
        "are not independent: (a) brings every random state of the batch in as a negative whatever (c) says, and (a) "
        "without (b) weighs by a constant that the softmax leaves free, which makes it ill-posed, so that its effect "
        "'alone' says little.",
        draw.markdown_table(
            ["difference", "paper", "alone", "as the last step", "alone, averaged", "last, averaged"], effects
        ),
        "## Step sizes",
        draw.step_size_tables(results, VARIANTS),
    ]
    draw.write_table(folder, TITLE, parts)


def _effect(switch: str, errors: dict[str, dict[str, np.ndarray]]) -> list[str]:
    without = "abc".replace(switch, "")
    entries = []
    for regime in draw.REGIME_TITLES:
        mean = {variant: values.mean() for variant, values in errors[regime].items()}
        alone = mean[f"ablation-{switch}"] / mean["ablation-none"] - 1
        last = mean["ablation-abc"] / mean[f"ablation-{without}"] - 1
        entries += [f"{100 * alone:+.0f} %", f"{100 * last:+.0f} %"]
    return [f"({switch})", "explains the gap" if switch == "a" else "little effect", *entries]


EXPERIMENT = Experiment(
    shows="which of the three differences between C-learning and TD InfoNCE makes the difference",
    paper="App. E.3, the figure of TD InfoNCE against C-learning",
    duration={"smoke": "40 s", "default": "2 min", "paper": "6 min"},
    budgets=BUDGETS,
    run=compare,
    work=lane_steps,
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
