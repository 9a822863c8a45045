"""Real rats' positions, cut into pieces of two seconds: TD and successor features stitch them, Monte Carlo cannot."""

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
    "smoke": replace(
        DEFAULT,
        rats=("sargolini",),
        networks=((16, 4),),
        updates=(20, 40),
        cells=(16,),
        visits=(500, 1_000),
        candidates=500,
        starts=100,
    ),
    "default": DEFAULT,
    "paper": replace(
        DEFAULT,
        networks=((32, 8), (128, 32), (256, 64)),
        updates=(*DEFAULT.updates, 32_000),
        cells=(16, 64, 256),
        visits=(*DEFAULT.visits, 192_000),
    ),
}


def check(config: Rats) -> None:
    """Install RatInABox and its recordings, before anything is written."""
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
        f"Tuning: each method on each track chose among as many settings, {tried}: network and number of updates; of "
        "successor features place cells and number of visited rows. It chose by the score on the last "
        f"{1 - config['fitted']:.0%} of the training half, uncut. The half that is scored was never chosen by.",
        f"Successor features: `SuccessorFeatures` of {tracks.PACKAGE}, linear, rate {config['learning_rate']:g}, with "
        f"its own trace and regularisation, weights from 0. They sum up to {config['bins']} bins of position, one-hot, "
        "and are linear in place cells times velocity cells, made of the same state. A bin that comes out below "
        f"{config['chance']:.0%} of its share by chance, or negative, is set to that, and the answer normalised. Their "
        "seeds differ by the positions that normalise and, of cut tracks, by the order of the pieces.",
        f"Data: {tracks.PACKAGE}. The paper has no such experiment.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="where real rats go, foreseen from pieces of tracks by TD, Monte Carlo and RatInABox's successor features",
    paper="not in the paper; its conclusion names time series",
    duration={"smoke": "30 s", "default": "5 min", "paper": "1 h"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    check=check,
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
