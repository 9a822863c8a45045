"""``tdinfonce report``: draw the figure and the table of a run again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Draw the figure and table of a run folder again, from its metrics.

    Of a folder with several training runs, however deep they lie: those that differ in their seed alone become one line
    with its spread, and every other difference is named.
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A folder that `tdinfonce reproduce` or `tdinfonce train` wrote, or one that holds several training runs, finished
    or not."""

    def run(self) -> int:
        """Draw."""
        from tdinfonce import experiments

        experiments.report(self.run_folder)
        print(f"Figure: {self.run_folder / 'figure.png'}\nTable:  {self.run_folder / 'table.md'}")
        return 0
