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
    "paper": replace(DEFAULT, updates=5_000),
}


def report(folder: Path) -> None:
    """Draw errors against data."""
    results, config = Results(folder), read_json(folder / "config.json")["config"]
    draw.plot_errors(results, folder, TITLE)
    parts = [
        f"Discount {config['discount']:g}. Every network makes {config['updates']:,} updates with a learning rate of "
        f"{config['learning_rate']:g}, batches of 256 and a target rate of 0.05, which were set on small processes and "
        "seed 1 for TD InfoNCE and tuned for no method beside it. 20 rewards: survival, the SOFA "
        "score, 8 random sets of states, 10 sets whose cluster centre lies above the median. Cells: median over "
        "rewards of |estimate - truth| / truth; mean, then [smallest, largest] over seeds. The paper has no such "
        "experiment.",
        *draw.tables(results),
        "Both InfoNCE critics are fitted once for all rewards of a policy, FQE once for each reward (side by side in "
        "one program, which favours its time). FQE has the same table, hidden layer, batches, target rate, decay and "
        "average. Importance sampling knows the clinicians' probabilities. Certainty equivalence counts transitions "
        "and solves; where an action was never taken in a state, what was done there stands for it.",
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="values of other policies on ICU-Sepsis from logged data, one fit for 20 rewards, against FQE and others",
    paper="not in the paper; its conclusion names off-policy evaluation",
    duration={"smoke": "1 min", "default": "20 min", "paper": "80 min"},
    budgets=BUDGETS,
    run=compare,
    work=fits,
    check=check,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
)
