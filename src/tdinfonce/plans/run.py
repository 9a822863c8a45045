"""A run that was trained, or began to be: what its folder tells."""

from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.plans.plan import Plan, read_plan
from tdinfonce.plans.policy import TrainedPolicy, load
from tdinfonce.runs.folder import CONFIG, RunFolder
from tdinfonce.system.files import read_object

__all__ = ["Run"]


class Run:
    """A run folder. `tdinfonce.train` returns one; ``Run(folder)`` opens one.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
    >>> sorted(run.metrics()[-1])[:2]
    ['env_steps', 'final/episodes']
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the folder of a training run."""
        self.folder = Path(folder)
        if not (self.folder / CONFIG).is_file():
            raise UserError(f"{self.folder} is not a run folder: it has no {CONFIG}")

    @property
    def plan(self) -> Plan:
        """What was trained."""
        return read_plan(self.folder)[0]

    @property
    def complete(self) -> bool:
        """Whether it reached its end; otherwise ``tdinfonce.train(out=run.folder)`` continues it."""
        return RunFolder(self.folder).complete

    @property
    def summary(self) -> dict[str, Any]:
        """The final evaluation, and how long it took to get there."""
        if not self.complete:
            raise UserError(f"{self.folder} is not complete and has no summary; continue it with train(out=…)")
        return read_object(self.folder / "summary.json")

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics, oldest first."""
        return RunFolder(self.folder).metrics()

    def to_pandas(self) -> Any:
        """The rows of metrics as a data frame; needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise UserError("data frames need pandas: pip install pandas; metrics() needs nothing") from error
        return pandas.DataFrame(self.metrics())

    def policy(self, *, best: bool = False) -> TrainedPolicy:
        """The newest policy, or the one that did best in the evaluations during training."""
        return load(self.folder, best=best)

    def figure(self) -> Any:
        """The learning curve as a matplotlib figure; notebooks show it, ``savefig`` writes it."""
        from tdinfonce.analysis.training import draw

        return draw(self.folder)

    def report(self) -> None:
        """Write ``figure.png``, ``figure.svg`` and ``table.md`` into the folder."""
        from tdinfonce.analysis.training import report

        report(self.folder)

    def __str__(self) -> str:
        """The outcome as one line."""
        if not self.complete:
            return f"{self.folder}: not complete"
        result = self.summary
        cost = f"{result['updates']:,} updates, {result['training_seconds']:.0f} s"
        if "env_steps" in result:
            cost = f"{result['env_steps']:,} environment steps, {cost}"
        if "stopped" in result:
            cost += f", ended early: {result['stopped']}"
        if "success_any" not in result:
            return f"{self.folder}: {cost}; not evaluated, for it has no environment"
        return (
            f"{self.folder}: success_any {result['success_any']:.2f}, success_final {result['success_final']:.2f}, "
            f"min_distance {result['min_distance']:.3f} over {result['episodes']} episodes; {cost}"
        )

    def __repr__(self) -> str:
        """What it is."""
        plan = self.plan
        state = "complete" if self.complete else "not complete"
        return f"<Run {self.folder}: {plan.agent} on {plan.dataset or plan.env}, seed {plan.seed}, {state}>"
