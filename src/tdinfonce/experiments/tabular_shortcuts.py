"""Data that go the long way 95 times in 100: who finds the short one?"""

from dataclasses import replace
from pathlib import Path

from tdinfonce.analysis import paths as draw
from tdinfonce.analysis.tabular import write_table
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.gridworld import follow_words
from tdinfonce.tabular.off_policy import OffPolicy, compare_policies, policy_lane_steps, shortcut_tasks

TITLE = "Shortcuts: 95 % long paths, 5 % short ones"
PAPER = OffPolicy(shortcut_tasks())
BUDGETS = {
    "smoke": replace(PAPER, transitions=2_000, steps=1_000, learning_rates=(1e-2,)),
    "default": replace(PAPER, steps=10_000),
    "paper": PAPER,
}


def report(folder: Path) -> None:
    """Draw the journeys and count their steps."""
    journeys = draw.Journeys(folder)
    paths = {
        task.name: [(follow_words(*path)[0], share) for path, share in zip(task.paths, task.share, strict=True)]
        for task in shortcut_tasks()
    }
    draw.plot_shortcuts(journeys, folder, paths, TITLE)
    parts = [
        "The paper shows that TD InfoNCE takes the short path where contrastive RL takes the long one; it gives no "
        "rates. Here, for each data set:",
    ]
    for task in journeys.tasks():
        parts += [f"## {task}", journeys.summary(task), journeys.behaviour(task)]
    parts += [
        "In `across`, `down` and `corner` the short path begins like the longer of two long paths, so the behaviour's "
        "future after its first step holds the goal *less* than after the other long path's, and Monte Carlo, which "
        "estimates just that, turns the wrong way. In `control` each action has an outcome of its own: the rare short "
        "path shows a better future, and Monte Carlo finds it as well.",
        "## Step sizes",
        "Tuned for each method on a seed of its own.",
        journeys.step_sizes(),
    ]
    write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="whether a short path is found in data that mostly take a long one",
    paper="Sec. 4.4 and App. D.4, the shortcut figure",
    duration={"smoke": "30 s", "default": "4 min", "paper": "15 min"},
    budgets=BUDGETS,
    run=compare_policies,
    work=policy_lane_steps,
    report=report,
    seeds={"smoke": 1, "default": 5, "paper": 5},
)
