"""`tdinfonce train`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tdinfonce.cli._parse import given
from tdinfonce.errors import Stopped, UserError

__all__ = ["Command"]

ALONE = {"resume": {"logger"}, "plan": {"out", "overwrite", "logger"}}
APART = {"env", "dataset", "set", "seeds", "out", "logger", "plan", "resume", "overwrite"}


@dataclass(frozen=True)
class Command:
    """Train an agent to reach goals: online in an environment, or offline on stored data.

    With `--dataset` nothing is collected; an environment, if named, only serves to evaluate. Ctrl-C and SIGTERM save
    first (exit code 75); the same command, or `--resume`, continues exactly, however the run ended.
    """

    env: str | None = None
    """Name (see `tdinfonce list`), Gymnasium id or module:function; default: fetch-reach, or none with --dataset."""
    dataset: str | None = None
    """Learn offline from these data."""
    goal: str | None = None
    """Of the data: the coordinates of an observation that are a goal, such as 0:2."""
    action_bounds: tuple[float, float] | None = None
    """Of the data: the smallest and the largest action, where neither they nor the environment say it."""
    test_goal: tuple[float, ...] = ()
    """For agents that learn one task offline: its goal; default: the environment's, if it has only one."""
    agent: str = "td-infonce"
    """Which algorithm."""
    preset: str = "fast"
    """Where the settings start from: fast, paper, or of td-infonce estimate (right probabilities) and release."""
    seed: int = 0
    """Decides everything random."""
    seeds: str | None = None
    """Train several seeds in parallel, into OUT/seed-N: a number N for 0 to N - 1, or a list such as 3,7."""
    env_steps: int | None = None
    """Environment steps of an online run; default: the preset's."""
    updates: int | None = None
    """Gradient updates of an offline run; default: the preset's."""
    out: Path | None = None
    """The run folder; default: runs/ENV-AGENT-SEED, or runs/DATASET-AGENT-SEED."""
    goal_space: str | None = None
    """How a state becomes a goal; default: the environment's first."""
    noise: float = 0.0
    """Chance at each step that the observation is replaced; the true state still decides success."""
    noise_kind: str = "resampled"
    """What replaces it: resampled (from the statistics of random actions), previous or zeros."""
    set: tuple[str, ...] = ()
    """Change settings of agent or training: --set discount=0.99 hidden=512,512 (see `tdinfonce list --settings`)."""
    threads: int | None = None
    """Threads that JAX works with: as many give the same numbers on any machine. Default: one for each core."""
    logger: tuple[str, ...] = ("tensorboard",)
    """Where metrics go beside metrics.jsonl: tensorboard, wandb, mlflow."""
    plan: Path | None = None
    """Train what this file says, which `Plan.save` wrote; goes with --out, --overwrite and --logger."""
    resume: Path | None = None
    """Continue the run in this folder; the other options are then read from it."""
    overwrite: bool = False
    """Replace an earlier run in the folder."""

    def run(self) -> int:
        """Train, then print one line for each run."""
        from tdinfonce.plans.train import default_folder, train
        from tdinfonce.scale.grid import train_seeds

        plan = self._plan()
        folder, many = self.resume or self.out or default_folder(plan), self.seeds is not None
        how: Any = {"loggers": self.logger, "overwrite": self.overwrite}
        try:
            runs = train_seeds(plan, self.seeds or "", self.out) if many else [train(plan, out=folder, **how)]
        except Stopped as stop:
            again = "the same command" if many else f"tdinfonce train --resume {folder}"
            raise Stopped(f"{str(stop).partition(';')[0]}; continue with: {again}") from None
        for run in runs:
            print(f"{run}\nlearning curve: {run.folder / 'figure.png'}, table: {run.folder / 'table.md'}")
        return 0

    def _plan(self) -> Any:
        """What the options ask for, unless a run or a plan says everything itself."""
        from tdinfonce.plans.plan import plan, read_plan
        from tdinfonce.settings import words

        chosen = {f.name for f in fields(self) if getattr(self, f.name) != f.default}
        for name, allowed in ALONE.items():
            if name in chosen and chosen - allowed - {name}:
                other = sorted(chosen - allowed - {name})[0].replace("_", "-")
                raise UserError(f"--{name} says everything itself; leave out --{other}")
        if stored := self.plan or self.resume:
            return read_plan(stored)[0]
        if self.seeds is not None and chosen & {"seed", "overwrite"}:
            raise UserError("--seeds goes without --seed and --overwrite")
        env = self.env if self.env is not None or self.dataset is not None else "fetch-reach"
        names = [field.name for field in fields(self) if field.name not in APART]
        return plan(env, self.dataset, **(given(self, *names) | words(self.set)))
