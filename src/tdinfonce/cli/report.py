"""``tdinfonce report``: draw the figure and the table of a run again."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tdinfonce.errors import UserError
from tdinfonce.system.files import read_json

__all__ = ["Command"]

DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError, zipfile.BadZipFile)
"""What a file that is not what we wrote leads to."""


@dataclass(frozen=True)
class Command:
    """Draw the figure and table of a run folder again, from its metrics."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A folder that `tdinfonce reproduce` or `tdinfonce train` wrote, or one that holds several training runs, finished
    or not."""

    def run(self) -> int:
        """Draw."""
        draw = self._drawing()
        try:
            draw(self.run_folder)
        except DAMAGE as error:
            raise UserError(f"{self.run_folder} is damaged or of another version: {error!r}") from error
        print(f"Figure: {self.run_folder / 'figure.png'}\nTable:  {self.run_folder / 'table.md'}")
        return 0

    def _drawing(self) -> Callable[[Path], None]:
        """What draws this folder."""
        if not (self.run_folder / "config.json").exists() and any(self.run_folder.glob("*/config.json")):
            from tdinfonce.analysis import grid

            return grid.report
        try:
            config = read_json(self.run_folder / "config.json")
        except OSError as error:
            raise UserError(f"{self.run_folder} holds no run: config.json: {error.strerror}") from error
        except ValueError as error:
            raise UserError(f"{self.run_folder / 'config.json'} is not JSON: {error}") from error
        if isinstance(config, dict) and config.get("kind") in ("online", "offline"):
            from tdinfonce.analysis import training

            return training.report
        if not isinstance(config, dict) or "experiment" not in config:
            raise UserError(f"{self.run_folder} is not the run of an experiment; see: tdinfonce reproduce --list")
        from tdinfonce import experiments

        experiment = experiments.load(str(config["experiment"]))
        if experiment.grid is None and not (self.run_folder / "COMPLETE").is_file():
            raise UserError(f"{self.run_folder} is not finished: run the experiment again with --overwrite")
        return experiment.report
