"""`tdinfonce calibrate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Hold a critic's probabilities against rollouts: reliability figure and expected calibration error.

    Of a run whose critic is a model of the occupancy: how much of its discounted future the policy spends near a place.
    """

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run", metavar="RUN")]
    """The run folder that `tdinfonce train` made."""
    env: str | None = None
    """Roll out here instead of in the run's own environment; needed for a run on data without one."""
    starts: int = 100
    """How many starts, each with its goal."""
    rollouts: int = 5
    """Rollouts from each start."""
    places: int = 20
    """Places for each start: half from the policy's future, half from stored states."""
    radius: float | None = None
    """How near is near; default: the environment's tolerance."""
    bins: int = 10
    """Bins of the predictions."""
    seed: int = 0
    """Of starts, samples and places."""
    best: bool = False
    """Take the policy that did best in the evaluations during training instead of the newest one."""
    json: bool = False
    """Print the numbers as one JSON object instead of a table."""
    out: Path | None = None
    """The folder for calibration.json and calibration.png; default: the run folder."""

    def run(self) -> int:
        """Measure, write and print."""
        import json

        from tdinfonce.estimate.calibrate import calibrate

        names = ("starts", "rollouts", "places", "radius", "bins", "seed", "best")
        how = {name: getattr(self, name) for name in names}
        folder = self.run_folder if self.out is None else self.out
        found = calibrate(self.run_folder, self.env, out=folder, **how)
        if self.json:
            parts = {"all": found, "near": found.near, "far": found.far}
            print(json.dumps(found.about | {name: part.summary() for name, part in parts.items()}))
            return 0
        print(found.table())
        print(f"within {found.radius:g} of a place, discount {found.discount:g}; figure: {folder / 'calibration.png'}")
        return 0
