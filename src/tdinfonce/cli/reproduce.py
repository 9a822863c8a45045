"""``tdinfonce reproduce``: the paper's experiments by name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tdinfonce.errors import UserError
from tdinfonce.system.signals import sigterm_as_ctrl_c

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Run an experiment of the paper; write config, metrics, figure and table into a folder."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """Which experiment; --list shows them."""
    list: bool = False
    """Say what each experiment shows, where it stands in the paper, and how long it takes."""
    budget: Literal["smoke", "default", "paper"] = "default"
    """smoke: does it run at all. default: the finding, in minutes. paper: the full size."""
    seeds: str | None = None
    """A number N for 0 to N - 1, or a list such as 3,7; each budget has its own default."""
    out: Path | None = None
    """The folder to write; default runs/NAME-BUDGET."""
    overwrite: bool = False
    """Replace an earlier run in that folder."""

    def run(self) -> int:
        """List, or run and print the table."""
        from tdinfonce import experiments

        if self.list:
            return self._list()
        if not self.name:
            raise UserError(f"name an experiment: {', '.join(experiments.names())} (see: tdinfonce reproduce --list)")
        with sigterm_as_ctrl_c():
            folder = experiments.reproduce(self.name, self.budget, self.seeds, self.out, overwrite=self.overwrite)
        text = (folder / "table.md").read_text(encoding="utf-8")
        print(text.split("\n## Step sizes")[0].rstrip())
        print(f"\nFigure: {folder / 'figure.png'}\nTable:  {folder / 'table.md'}")
        return 0

    def _list(self) -> int:
        from tdinfonce import experiments

        for name in experiments.names():
            experiment = experiments.load(name)
            times = ", ".join(f"{budget} {time}" for budget, time in experiment.duration.items())
            print(f"{name}\n    {experiment.shows}\n    paper: {experiment.paper}\n    takes about: {times}")
        return 0
