"""What a representation holds of a rat's future: ours, CEBRA's, an untrained one, the raw state."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import decoded as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate import cebra, probe, tracks
from tdinfonce.estimate.probe import Probe, compare, fits
from tdinfonce.experiments import Experiment
from tdinfonce.system.files import read_json

TITLE = "Where will the rat be? Decoded linearly from representations"
DEFAULT = Probe()
BUDGETS = {
    "smoke": replace(
        DEFAULT, rats=("sargolini",), horizons=(10,), dim=4, hidden=16, updates=(10, 20), iterations=(5, 10)
    ),
    "default": DEFAULT,
    "paper": replace(DEFAULT, updates=(500, 2_000, 8_000, 32_000), iterations=(100, 500, 2_000, 8_000)),
}


def check(config: Probe) -> None:
    """Install the recordings and CEBRA, before anything is written."""
    tracks.data_folder()
    probe.cebra_python()


def report(folder: Path) -> None:
    """Draw how well positions ahead are decoded."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_decoded(results, folder, TITLE, config)
    horizons = " and ".join(f"{rows / config['rate']:g} s" for rows in config["horizons"])
    updates, iterations = (", ".join(f"{n:,}" for n in config[name]) for name in ("updates", "iterations"))
    parts = [
        "R² of a linear map from the representation to the rat's position some seconds ahead. Representation and map "
        "are learned on the first half of a recording, uncut, and scored on the second. Mean [smallest, largest] over "
        "seeds.",
        *draw.decoded_tables(results, config),
        f"Ours and CEBRA ({cebra.REQUIREMENTS[1][0]}, offset1-model, by time alone, its own temperature) have "
        f"{config['dim']} numbers, hidden layers of {config['hidden']}, batches of {config['batch_size']}, and are "
        "learned from the same states: a position and how far the rat came in the last 0.1 and 0.5 s. That is the raw "
        "state, which holds the present position as it is; the representations have length 1. Each of the two chose "
        f"among {len(config['horizons']) * len(config['updates'])} settings: horizon of {horizons} (ours: 1 / (1 - "
        f"discount), CEBRA: time offset), and {updates} updates of ours, {iterations} of CEBRA; and every linear map "
        f"its penalty, with or without the state, on the last {1 - config['fitted']:.0%} of the training half, by the "
        "mean R² of all times ahead. The penalty is the same for all columns of a map, so the state beside a "
        "representation may be decoded worse than alone. Untrained: our network after one update. The paper has no "
        "such experiment.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="how well positions of real rats are decoded ahead from our representation and from CEBRA's",
    paper="not in the paper; its conclusion names time series",
    duration={"smoke": "1 min", "default": "5 min", "paper": "20 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    check=check,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
)
