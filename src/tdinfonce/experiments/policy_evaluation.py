"""Policies evaluated from the log of another: one fit for all rewards, against the usual ways and exact values."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import policy_evaluation as draw
from tdinfonce.analysis.tabular import Results, write_table
from tdinfonce.estimate.evaluations import Evaluations, check, compare, fits
from tdinfonce.experiments import Experiment
from tdinfonce.system.files import read_json

TITLE = "ICU-Sepsis: values of three policies from the clinicians' data"
DEFAULT = Evaluations()
BUDGETS = {
    "smoke": replace(DEFAULT, model="small", sizes=(300, 1_000), updates=100),
    "default": DEFAULT,
    "paper": replace(DEFAULT, sizes=(1_000, 3_000, 10_000, 30_000, 100_000), updates=20_000),
}


def report(folder: Path) -> None:
    """Draw errors against data."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_errors(results, folder, TITLE)
    parts = [
        f"Discount {config['discount']:g}. Every network makes {config['updates']:,} updates in batches of 256 with a "
        "target rate of 0.05. Of six settings (2,000 or 6,000 updates, learning rate 0.001, 0.003 or 0.01; seed 1000, "
        "the optimal policy from 1,000 and 100,000 transitions, the worst one from 100,000) each has the best by the "
        f"geometric mean of the error: 6,000 updates, TD InfoNCE {config['td_rate']:g}, Monte Carlo "
        f"{config['mc_rate']:g}, FQE {config['fqe_rate']:g}. 20 rewards: "
        "survival, the SOFA score, 8 random sets of states, 10 sets whose cluster centre lies above the median. Cells: "
        "median over rewards of |estimate - truth| / truth; of several seeds the mean, then [smallest, largest]. The "
        "paper has no such experiment.",
        *draw.tables(results),
        "Policies: optimal and worst for survival, each with a fifth of uniform actions, and half clinicians, half "
        "optimal. (Uniform actions are worth what the clinicians' are, within 1% for all but a few rewards: a method "
        "that ignores the policy is right then, and nothing is told.) Both InfoNCE critics are fitted once for all "
        "rewards of a policy, FQE once for each reward, all side by side in one program, which favours its time. FQE "
        f"has the same table, batches, target rate, decay and average, and a hidden layer of {config['fqe_hidden']} "
        "(ours has 256). Importance sampling knows the clinicians' probabilities. Certainty equivalence counts "
        "transitions and solves. For all but importance sampling, where an action was never taken in a state, what was "
        "done there stands for it.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="values of other policies on ICU-Sepsis from logged data, one fit for 20 rewards, against FQE and others",
    paper="not in the paper; its conclusion names off-policy evaluation",
    duration={"smoke": "1 min", "default": "20 min", "paper": "3 h"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    check=check,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
)
