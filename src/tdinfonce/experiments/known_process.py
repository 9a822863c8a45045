"""Processes whose future is known: error against data, TD against Monte Carlo, on whole and on cut series."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import series as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate.known import KnownProcess, compare, fits
from tdinfonce.experiments import Experiment
from tdinfonce.system.files import read_json

TITLE = "Where will it go? Estimates against exact answers"
DEFAULT = KnownProcess()
BUDGETS = {
    "smoke": replace(DEFAULT, processes=("ornstein-uhlenbeck", "ring"), sizes=(500, 1_000), updates=100),
    "default": DEFAULT,
    "paper": replace(DEFAULT, sizes=(1_000, 5_000, 20_000, 100_000), updates=10_000, hidden=(128, 128), dim=32),
}


def report(folder: Path) -> None:
    """Draw errors against data."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_known_process(results, folder, TITLE)
    discount, piece = config["discount"], config["piece"]
    parts = [
        f"Discount {discount:g}: {1 / (1 - discount):.0f} rows ahead in the mean. A cut series is the same rows in "
        f"pieces of {piece}, without a word on which follows which. Five starts and five places for each process; mean "
        "over them, then [smallest, largest] over seeds. The paper has none of these processes.",
        *draw.known_process_tables(results),
        "Truth: sums of normal distributions (Ornstein–Uhlenbeck), a transition matrix on a fine grid (double well), a "
        "Fourier series (ring), 8,000 simulations of each start (pendulum).",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="how far estimated futures of known processes are from the exact ones, on whole and on cut series",
    paper="not in the paper; its conclusion names time series",
    duration={"smoke": "20 s", "default": "5 min", "paper": "40 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
)
