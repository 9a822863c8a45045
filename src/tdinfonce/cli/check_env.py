"""`tdinfonce check-env`."""

from dataclasses import dataclass
from typing import Annotated

import tyro

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Say in plain words what is wrong with a goal environment."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Short name, Gymnasium id (module:Env-v0), or module:function."""

    def run(self) -> int:
        """Check and print; the exit code is 1 if something is wrong."""
        from tdinfonce.envs import check

        problems, notes = check.examine(self.env)
        for problem in problems:
            print(f"wrong: {problem}")
        for note in notes:
            print(f"note: {note}")
        if not problems:
            print(f"{self.env} is ready: tdinfonce train --env {self.env}")
        return 1 if problems else 0
