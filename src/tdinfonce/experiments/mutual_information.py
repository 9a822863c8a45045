"""The InfoNCE bound on mutual information, with its ceiling log N, against exact values."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import series as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate.information import Information, compare, fits
from tdinfonce.experiments import Experiment

TITLE = "How much a state tells of its future: the InfoNCE bound against exact mutual information"
DEFAULT = Information()
BUDGETS = {
    "smoke": replace(DEFAULT, memories=(0.5, 0.9), discounts=(0.5,), rows=2_000, pairs=300, updates=100),
    "default": DEFAULT,
    "paper": replace(DEFAULT, rows=200_000, updates=20_000),
}


def report(folder: Path) -> None:
    """Draw the bound against the exact value."""
    results = Results(folder)
    draw.plot_information(results, folder, TITLE)
    parts = [
        "In nats, between a state and its discounted future; mean [smallest, largest] over seeds. A critic's bound is "
        "at most log N in the mean, however much there is to know. It is measured on pairs that were not learned from, "
        "and drawn from 1,000 pairs, so it scatters about its mean. The paper has the bound in App. B, and no numbers.",
        *draw.information_tables(results),
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="how close the InfoNCE bound comes to the exact mutual information, on a Gaussian chain and on the grid",
    paper="App. B has the bound, without numbers",
    duration={"smoke": "20 s", "default": "4 min", "paper": "20 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
)
