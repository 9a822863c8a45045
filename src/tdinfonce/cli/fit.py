"""`tdinfonce fit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from tdinfonce.cli._parse import given
from tdinfonce.errors import UserError

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Learn from a plain time series where it goes next, and score that on its last part."""

    series: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A .csv, .parquet, .npy, .npz or HDF5 file with a row for each moment, in the order of time."""
    columns: tuple[str, ...] = ()
    """What a state consists of; default: all columns but --group and --time."""
    discount: float = 0.9
    """Later rows count by its powers: 1 / (1 - discount) rows is how far ahead it looks in the mean."""
    group: str | None = None
    """A column that tells sessions apart; nothing is learned across two of them."""
    time: str | None = None
    """A column of time stamps; they must be equally spaced within each session."""
    method: str = "td"
    """td, or mc: Monte Carlo, which needs sessions longer than the horizon."""
    n_step: int | None = None
    """Of td: real rows before the bootstrap; default: about half the horizon."""
    dim: int | None = None
    """Length of the representations."""
    updates: int | None = None
    """Gradient steps."""
    held_out: float = 0.2
    """The share of rows, or of sessions, to score on: the last ones."""
    seed: int = 0
    """Of all that is random."""
    out: Path | None = None
    """Where the model goes; default: FILE's name with .safetensors, here."""
    overwrite: bool = False
    """Replace a model that is there."""

    def run(self) -> int:
        """Fit, score, save, and say how to go on."""
        out = self.out or Path(f"{self.series.stem}.safetensors")
        if out.exists() and not self.overwrite:
            raise UserError(f"{out} is there already; name another with --out, or say --overwrite")
        from tdinfonce.estimate.series_file import fit_series

        fitted = fit_series(
            self.series,
            list(self.columns) or None,
            group=self.group,
            time=self.time,
            held_out=self.held_out,
            out=out,
            random_state=self.seed,
            verbose=True,
            **given(self, "discount", "method", "n_step", "dim", "updates"),
        )
        print(f"learned from {fitted.rows:,} rows of {', '.join(fitted.columns)}")
        if fitted.score is not None:
            print(f"held-out score: {fitted.score:.3f} nats above chance, on the last {fitted.held_out:,} rows")
        print(f"model: {out}\n")
        print(f"In Python:\n  model = tdinfonce.TDInfoNCE.load({str(out)!r})")
        print("  model.occupancy([row]).probability(near=place, radius=0.1)  # and model.value, model.transform")
        return 0
