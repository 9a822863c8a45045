"""Goal reaching online on the Fetch robot from 64x64 images: learning curves and final success of the agents."""

from pathlib import Path

from tdinfonce.analysis import compare
from tdinfonce.experiments import Experiment
from tdinfonce.experiments.fetch_state import Grid, Task, runs

TITLE = "Reaching goals with the Fetch robot, image observations"
REACH = "fetch-reach-image"
OTHERS = ("fetch-push-image", "fetch-pick-and-place-image", "fetch-slide-image")
SMOKE = (
    *("env_steps=300", "warmup_steps=200", "eval_every=300", "eval_episodes=1", "final_episodes=2"),
    *("batch_size=32", "hidden=32,32", "replay_capacity=1_000"),
)
BUDGETS = {
    # Every agent once on reach, and TD InfoNCE once on each of the other tasks.
    "smoke": Grid((Task(REACH, SMOKE, 1), *(Task(name, SMOKE, 0, more=("td-infonce",)) for name in OTHERS))),
    "default": Grid((Task(REACH, (), 1, more=("td-infonce", "contrastive-rl")),)),
    "paper": Grid(tuple(Task(name, (), 5) for name in (REACH, *OTHERS)), preset="paper"),
}


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table."""
    compare.report(folder, TITLE)


EXPERIMENT = Experiment(
    shows="how fast the agents learn to reach goals on Fetch from images, at one equal budget",
    paper="Sec. 4.1, image tasks",
    duration={"smoke": "5 min", "default": "3 h", "paper": "months"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 3, "paper": 5},
    grid=runs,
)
