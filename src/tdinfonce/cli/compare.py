"""`tdinfonce compare`."""

from dataclasses import dataclass
from pathlib import Path

from tdinfonce.cli._parse import given
from tdinfonce.errors import UserError

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Train several agents with several seeds, in parallel, and draw one figure and one table with intervals.

    The same command continues what was stopped; more agents or seeds join what is there.
    """

    env: str | None = None
    """Environment, as for `tdinfonce train`."""
    dataset: str | None = None
    """Learn offline from these data."""
    goal: str | None = None
    """Of the data: the coordinates of an observation that are a goal, such as 0:2."""
    agents: tuple[str, ...] = ("td-infonce", "contrastive-rl", "gcbc")
    """Which algorithms."""
    seeds: str = "3"
    """A number N for 0 to N - 1, or a list such as 3,7."""
    preset: str = "fast"
    """Where the settings start from."""
    env_steps: int | None = None
    """Environment steps of each online run; default: the preset's."""
    updates: int | None = None
    """Gradient updates of each offline run; default: the preset's."""
    set: tuple[str, ...] = ()
    """Change settings of all agents: --set discount=0.99."""
    out: Path | None = None
    """The folder for the runs, figure and table; default: runs/compare-ENV."""

    def run(self) -> int:
        """Train what is not trained yet, and print the table."""
        from tdinfonce.scale.compare import compare
        from tdinfonce.settings import words

        if self.env is None and self.dataset is None:
            raise UserError("name an environment with --env, or data with --dataset")
        settings = given(self, "goal", "env_steps", "updates")
        how = {"preset": self.preset, "out": self.out}
        found = compare(self.env, self.dataset, self.agents, self.seeds, **how, **settings, **words(self.set))
        print(found.table())
        print(f"\nFigure: {found.root / 'figure.png'}\nTable:  {found.root / 'table.md'}")
        return 0
