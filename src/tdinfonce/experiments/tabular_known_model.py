"""The paper's check of its baseline: with the true model the successor representation has no error left."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.style import COLOURS, label, new_figure, save
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.comparison import Comparison, compare, lane_steps
from tdinfonce.tabular.estimators import known_model
from tdinfonce.tabular.gridworld import gridworld
from tdinfonce.tabular.mdp import exact_occupancy, uniform_policy

TITLE = "The successor representation, with the known model and from samples"


@dataclass(frozen=True)
class KnownModel:
    """How many sweeps with the model, and the sampled run beside it."""

    sampled: Comparison
    """The run from samples beside it."""
    sweeps: int = 500
    """Sweeps with the model."""
    log_every: int = 2
    """Sweeps between two rows of the log."""


def _sampled(discounts: tuple[float, ...], **kwargs: Any) -> Comparison:
    return Comparison(("successor",), tuple((d, (100_000,)) for d in discounts), (100_000,), **kwargs)


BUDGETS = {
    "smoke": KnownModel(_sampled((0.95,), steps=1_000, learning_rates=(1e-3,))),
    "default": KnownModel(_sampled((0.95,))),
    "paper": KnownModel(_sampled((0.9, 0.95, 0.99))),
}


def run(
    config: KnownModel, seeds: Sequence[int], log: Callable[[dict[str, Any]], None], advance: Callable[[int], None]
) -> None:
    """Iterate with the model; train from samples."""
    mdp = gridworld()
    policy = uniform_policy(mdp)
    for discount, _ in config.sampled.sizes:
        exact = exact_occupancy(mdp, policy, discount)
        base = {"phase": "evaluate", "method": "known-model", "discount": discount, "regime": "model", "seed": 0}
        for sweep, table in enumerate(itertools.islice(known_model(mdp, policy, discount), config.sweeps + 1)):
            if sweep % config.log_every == 0:
                log(base | {"step": sweep, "error": float(np.mean(np.abs(table - exact)))})
    compare(config.sampled, seeds, log, advance)


def report(folder: Path) -> None:
    """Draw the error against sweeps, and the plateau of the sampled run."""
    results = draw.Results(folder)
    discounts = results.discounts()
    figure, axes = new_figure(1, len(discounts), width=4.6)
    rows = []
    for axis, discount in zip(axes[0], discounts, strict=True):
        sweeps = results.values("step", method="known-model", discount=discount)
        mean, _ = results.curve("step", sweeps, method="known-model", discount=discount)
        sampled = results.by_seed(method="successor", discount=discount, regime="constant")
        floor = results.by_seed(method="certainty-equivalence", discount=discount)
        axis.plot(sweeps, np.maximum(mean, 1e-17), color=COLOURS["successor"], label=label("known-model"))
        axis.axhline(
            sampled.mean(),
            color=COLOURS["successor"],
            linestyle=":",
            linewidth=2.5,
            label="SR from samples, at the end",
        )
        axis.axhline(floor.mean(), color="#222222", linestyle="--", label=label("certainty-equivalence"))
        axis.set(yscale="log", title=f"discount {discount:g}", xlabel="sweeps", ylabel="mean absolute error")
        entries = [f"{mean[-1]:.1e}", draw.mean_and_deviation(sampled), draw.mean_and_deviation(floor)]
        rows.append([f"{discount:g}", "goes to zero", *entries])
    axes[0, 0].legend(fontsize=8)
    figure.suptitle(TITLE)
    save(figure, folder)
    header = [
        "discount",
        "paper",
        "known model, last sweep",
        "from 100K samples, constant step",
        "floor of the samples",
    ]
    parts = ["What is left with samples is the samples' error and the step size's, not the method's."]
    draw.write_table(folder, TITLE, [*parts, draw.markdown_table(header, rows)])


EXPERIMENT = Experiment(
    shows="that the successor representation with the known model reaches the exact occupancy",
    paper="App. E.2, the figure of errors with a known model",
    duration={"smoke": "10 s", "default": "30 s", "paper": "1 min"},
    budgets=BUDGETS,
    run=run,
    work=lambda config, seeds: lane_steps(config.sampled, seeds),
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
