"""Temporal-difference InfoNCE, its baselines, and the experiments of its paper.

Importing this package is cheap: JAX is imported only with the part that needs it,
for example ``from tdinfonce import losses``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tdinfonce.plans.policy import TrainedPolicy

__version__ = "0.1.0.dev0"


def load(run: str, *, best: bool = False) -> "TrainedPolicy":
    """Load the newest (or best) policy of a run folder; its ``act(observation, goal)`` needs no environment."""
    # By name: every module imports this one, so a plain import would tie all of them to the trainer.
    loaded: TrainedPolicy = importlib.import_module("tdinfonce.plans.policy").load(run, best=best)
    return loaded
