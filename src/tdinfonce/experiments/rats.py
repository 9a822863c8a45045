"""Real rats' positions, cut into pieces of two seconds: TD stitches them, Monte Carlo cannot see past the cut."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import rats as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate import tracks
from tdinfonce.estimate.rats import Rats, compare, fits
from tdinfonce.experiments import Experiment
from tdinfonce.system.files import read_json

TITLE = "Where will the rat be? Likelihood of real later positions"
DEFAULT = Rats()
BUDGETS = {
    "smoke": replace(DEFAULT, rats=("sargolini",), networks=((16, 4),), updates=(20, 40), cells=(16,), rates=(0.005,), visits=(500, 1_000), candidates=500, starts=100),
    "default": DEFAULT,
    "paper": replace(DEFAULT, networks=((32, 8), (128, 32), (256, 64)), updates=(*DEFAULT.updates, 16_000, 32_000)),
}


def check(config: Rats) -> None:
    """Install the recordings, before anything is written."""
    tracks.data_folder()


def report(folder: Path) -> None:
    """Draw the likelihoods of held-out positions."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_rats(results, folder, TITLE, config)
    rate, tried = config["rate"], len(config["networks"]) * len(config["updates"])
    parts = [
        f"Log of how much likelier than by chance the rat's later positions were held to be, in nats, discounted by "
        f"{config['discount']:g} at {rate:g} rows a second ({1 / (1 - config['discount']) / rate:.0f} s ahead in the "
        "mean); 0 is chance, more is better. Learned on the first half of a recording, uncut or in pieces of "
        f"{config['piece'] / rate:g} s without a word on which follows which; scored on the second half, uncut. A "
        "state is a position and how far the rat came in the last 0.1 and 0.5 s; what is predicted is the position. "
        "Mean [smallest, largest] over seeds.",
        *draw.rats_tables(results, config),
        f"Tuning: each method on each track chose among the same {tried} settings (network and number of updates), by "
        f"the score on the last {1 - config['fitted']:.0%} of the training half, uncut. The half that is scored was "
        f"never chosen by. Data: {tracks.PACKAGE}. The paper has no such experiment.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="how well positions of real rats are foreseen from two-second pieces of their tracks, by TD and Monte Carlo",
    paper="not in the paper; its conclusion names time series",
    duration={"smoke": "30 s", "default": "5 min", "paper": "40 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    check=check,
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
