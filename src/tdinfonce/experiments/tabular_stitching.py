"""Journeys between corners that no trajectory joins: pieces of two trajectories must be put together."""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import paths as draw
from tdinfonce.analysis.tabular import write_table
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.gridworld import follow_words
from tdinfonce.tabular.off_policy import OffPolicy, compare_policies, policy_lane_steps, stitching_tasks

TITLE = "Stitching: from corner to corner along an edge, from data that only cross the grid"
PAPER = OffPolicy(stitching_tasks())
BUDGETS = {
    "smoke": replace(PAPER, transitions=2_000, steps=1_000, learning_rates=(1e-2,)),
    "default": replace(PAPER, steps=10_000),
    "paper": PAPER,
}


def report(folder: Path) -> None:
    """Draw the journeys and count them."""
    journeys = draw.Journeys(folder)
    (task,) = stitching_tasks()
    paths = [(follow_words(*path)[0], share) for path, share in zip(task.paths, task.share, strict=True)]
    draw.plot_stitching(journeys, folder, paths, TITLE)
    parts = [
        "The paper shows that TD InfoNCE reaches the goal along C-shaped paths where contrastive RL fails; it gives "
        "no rates. Here, for each pair of corners that share an edge (never seen in one trajectory):",
        journeys.summary("z"),
        "Both methods may take only actions that the data hold at a state.",
        "## What the data say",
        "The goal never follows the start, so to Monte Carlo every action there is as good as any other:",
        journeys.behaviour("z"),
        "## Step sizes",
        "Tuned for each method on a seed of its own.",
        journeys.step_sizes(),
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="whether pieces of different trajectories are put together into a path that none of them holds",
    paper="Sec. 4.4 and App. D.4, the stitching figure",
    duration={"smoke": "20 s", "default": "1 min", "paper": "4 min"},
    budgets=BUDGETS,
    run=compare_policies,
    work=policy_lane_steps,
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
