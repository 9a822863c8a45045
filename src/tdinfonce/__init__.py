"""Temporal-difference InfoNCE: learn where an agent will go, and how to make it get there, from transitions alone.

>>> import tdinfonce as td
>>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
>>> policy = td.load("runs/first")
>>> policy.act([0.0, 0.0], goal=[0.5, 0.5]).shape
(2,)

Importing this package is cheap: every name is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdinfonce import agents, losses, tabular
    from tdinfonce.analysis.calibration import Calibration
    from tdinfonce.analysis.compare import Comparison
    from tdinfonce.data import Episodes, open_dataset
    from tdinfonce.envs import make as make_env
    from tdinfonce.errors import Stopped, UserError
    from tdinfonce.estimate.calibrate import calibrate
    from tdinfonce.estimate.off_policy import PolicyEstimate, estimate
    from tdinfonce.estimate.series import TDInfoNCE
    from tdinfonce.plans.callbacks import Callback, progress_to, stop_at_success, stop_at_wall_time, stop_when_stuck
    from tdinfonce.plans.evaluate import evaluate
    from tdinfonce.plans.plan import Plan, plan
    from tdinfonce.plans.policy import TrainedPolicy, load
    from tdinfonce.plans.run import Run
    from tdinfonce.plans.train import train
    from tdinfonce.runs.loggers import Logger, mlflow_logger, tensorboard_logger, wandb_logger
    from tdinfonce.scale.compare import compare

__version__ = "0.1.0.dev0"

__all__ = [
    "Calibration",
    "Callback",
    "Comparison",
    "Episodes",
    "Logger",
    "Plan",
    "PolicyEstimate",
    "Run",
    "Stopped",
    "TDInfoNCE",
    "TrainedPolicy",
    "UserError",
    "agents",
    "calibrate",
    "compare",
    "estimate",
    "evaluate",
    "load",
    "losses",
    "make_env",
    "mlflow_logger",
    "open_dataset",
    "plan",
    "progress_to",
    "stop_at_success",
    "stop_at_wall_time",
    "stop_when_stuck",
    "tabular",
    "tensorboard_logger",
    "train",
    "wandb_logger",
]

_ROOMS = ("agents", "estimate", "losses", "tabular")
_PLACES = {
    "analysis.calibration": ("Calibration",),
    "analysis.compare": ("Comparison",),
    "data": ("Episodes", "open_dataset"),
    "errors": ("Stopped", "UserError"),
    "estimate.calibrate": ("calibrate",),
    "estimate.off_policy": ("PolicyEstimate",),
    "estimate.series": ("TDInfoNCE",),
    "plans.callbacks": ("Callback", "progress_to", "stop_at_success", "stop_at_wall_time", "stop_when_stuck"),
    "plans.evaluate": ("evaluate",),
    "plans.plan": ("Plan", "plan"),
    "plans.policy": ("TrainedPolicy", "load"),
    "plans.run": ("Run",),
    "plans.train": ("train",),
    "runs.loggers": ("Logger", "mlflow_logger", "tensorboard_logger", "wandb_logger"),
    "scale.compare": ("compare",),
}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first asked for."""
    if name in _ROOMS:
        return importlib.import_module(f"tdinfonce.{name}")
    if name == "make_env":
        return importlib.import_module("tdinfonce.envs").make
    for place, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"tdinfonce.{place}"), name)
    raise AttributeError(f"module 'tdinfonce' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What is public, whether it was used yet or not."""
    return [*__all__, "__version__"]
