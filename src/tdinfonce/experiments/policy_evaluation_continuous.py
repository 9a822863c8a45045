"""Checkpoints of a run evaluated from the log of an early one, in `point` and on a robot, against rollouts."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import policy_checkpoints as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate.checkpoints import POINT, Checkpoints, compare, fits
from tdinfonce.experiments import Experiment
from tdinfonce.system.files import read_json

TITLE = "Values of checkpoints from the log of an early one"
DEFAULT = Checkpoints()
TINY = replace(POINT, settings=(("env_steps", 600), ("warmup_steps", 200), ("eval_every", 200)))
BUDGETS = {
    "smoke": replace(DEFAULT, tasks=(TINY,), kept=2, episodes=30, starts=5, updates=50),
    "default": DEFAULT,
    "paper": replace(DEFAULT, kept=4, episodes=500, updates=5_000),
}


def report(folder: Path) -> None:
    """Draw estimates against rollouts."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_estimates(results, folder, TITLE, config["discount"])
    parts = [
        f"Discount {config['discount']:g}. Policies: the last {config['kept']} checkpoints of a short run of TD "
        f"InfoNCE, each told each of two goals. Data: {config['episodes']} episodes of the first, told goals of "
        f"the environment's own choice, with noise of {config['noise']:g} and {config['uniform']:.0%} uniform actions. "
        "Rewards, all of place: for each goal the distance to it and whether it is near, then which half of the data "
        f"it is, along two axes. Truth: rollouts from the first states of {config['starts']} of the episodes. Values "
        "are per step, in standard deviations of the reward over the data; of several seeds the mean, then the range.",
        *draw.tables(results, config["discount"]),
        f"All networks have two hidden layers of 128 and make {config['updates']:,} updates in batches of 256, target "
        f"rate {config['target_rate']:g}, decay and average likewise; learning rate {config['rate']:g} for all, not "
        "tuned for any. FQE has a network for each reward, side by side in one program. The paper has no such "
        "experiment.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="values of checkpoints from logged data of another policy, in point and fetch-reach, against rollouts",
    paper="not in the paper; its conclusion names off-policy evaluation",
    duration={"smoke": "1 min", "default": "5 min", "paper": "40 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    report=report,
    seeds={"smoke": 1, "default": 2, "paper": 5},
)
