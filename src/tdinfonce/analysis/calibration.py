"""Predicted against rolled-out probabilities: reliability by bins, expected calibration error, and its figure."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.analysis.compare import Table
from tdinfonce.analysis.style import Drawing, label, new_figure, save_as
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_object, write_text_atomic

__all__ = ["FILE", "Bin", "Calibration", "read"]

FILE = "calibration"
"""The name of the two files, without their ending."""
PAIRS = ("predicted", "observed", "standard_error", "start", "distance")
"""What there is of each pair of a start and a place."""
COLOURS = {"near": "#c0392b", "far": "#2471a3"}
FEW = 10
"""Pairs below which a bin tells nothing."""


class Bin(NamedTuple):
    """The pairs whose predictions lie between two numbers."""

    low: float
    high: float
    pairs: int
    predicted: float
    """The mean prediction."""
    observed: float
    """The mean rolled-out probability."""
    standard_error: float | None
    """Of the gap between the two means, with starts as independent draws; None if there is one start."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far predicted probabilities can be trusted: each pair is a start and a place, with its prediction and what
    rollouts say. `tdinfonce.calibrate` makes one.
    """

    predicted: np.ndarray
    """``[pairs]``, the predicted chance of being within the radius of the place in the discounted future."""
    observed: np.ndarray
    """``[pairs]``, the same from rollouts."""
    standard_error: np.ndarray
    """``[pairs]``, of `observed`."""
    start: np.ndarray
    """``[pairs]``, the number of the start."""
    distance: np.ndarray
    """``[pairs]``, from the start to the place."""
    radius: float
    discount: float
    about: dict[str, Any] = field(default_factory=dict)
    """What was calibrated, and how."""
    bins: int = 10
    """Bins of equal width between 0 and 1."""

    @property
    def error(self) -> float:
        """The expected calibration error: the mean gap of the bins between prediction and rollouts, by their pairs."""
        return sum(b.pairs * abs(b.predicted - b.observed) for b in self.reliability()) / len(self.predicted)

    @property
    def mean_absolute_error(self) -> float:
        """Of single pairs. Unlike in `error` nothing cancels, and the rollouts' own noise is in it."""
        return float(np.abs(self.predicted - self.observed).mean())

    @property
    def near(self) -> "Calibration":
        """The half of the pairs whose places are nearer to their starts."""
        return self._chosen(self.distance <= np.median(self.distance))

    @property
    def far(self) -> "Calibration":
        """The other half."""
        return self._chosen(self.distance > np.median(self.distance))

    def reliability(self) -> list[Bin]:
        """The bins that hold predictions."""
        edges = np.linspace(0, 1, self.bins + 1)
        which = np.minimum((self.predicted * self.bins).astype(int), self.bins - 1)
        return [
            Bin(float(edges[b]), float(edges[b + 1]), int(inside.sum()), *self._means(inside))
            for b in range(self.bins)
            if (inside := which == b).any()
        ]

    def table(self) -> Table:
        """A row for all places, the near ones and the far ones."""
        rows = [{"places": name} | part.summary() for name, part in self._parts().items()]
        numbers = {"ECE": "error", "mean error": "mean_absolute_error", "predicted": "predicted"}
        numbers |= {"rolled out": "observed", "its standard error": "standard_error"}
        columns: dict[str, Any] = {"places": lambda row: row["places"], "pairs": lambda row: str(row["pairs"])}
        columns |= {name: lambda row, key=key: f"{row[key]:.3f}" for name, key in numbers.items()}
        return Table(rows, columns)

    def figure(self, path: Path | None = None) -> Drawing:
        """Reliability with standard errors, and how predictions are spread; also written to ``path`` if given."""
        figure, axes = new_figure(1, 2, width=4.6, height=4.0)
        reliability, spread = axes[0]
        reliability.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1)
        edges = np.linspace(0, 1, self.bins + 1)
        for name, part in (("near", self.near), ("far", self.far)):
            if not len(part.predicted):
                continue
            bins, colour = part.reliability(), COLOURS[name]
            firm = [b for b in bins if b.pairs >= FEW]
            x, y = [b.predicted for b in firm], [b.observed for b in firm]
            error = [b.standard_error or 0.0 for b in firm]
            style: Any = {"color": colour, "label": f"{name}, ECE {part.error:.3f}"}
            reliability.errorbar(x, y, yerr=error, marker="o", markersize=4, linewidth=1.4, capsize=2, **style)
            loose = [b for b in bins if b.pairs < FEW]
            x, y = [b.predicted for b in loose], [b.observed for b in loose]
            reliability.plot(x, y, "o", color=colour, markersize=4, markerfacecolor="none", alpha=0.5)
            spread.hist(part.predicted, edges, histtype="step", color=COLOURS[name], linewidth=1.6, label=name)
        limits: Any = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02)}
        reliability.set(xlabel="predicted probability", ylabel="rolled-out probability", aspect="equal", **limits)
        note = f"bars: ± 1 standard error over starts\nhollow: fewer than {FEW} pairs, without a bar"
        reliability.legend(frameon=False, loc="lower right", title=note, title_fontsize=8, fontsize=9)
        spread.set(xlabel="predicted probability", ylabel="pairs of start and place", yscale="log", xlim=(-0.02, 1.02))
        spread.legend(frameon=False)
        figure.suptitle(self._title())
        if path is not None:
            save_as(figure, path)
        return figure

    def save(self, folder: str | Path) -> None:
        """Write ``calibration.json`` and ``calibration.png``."""
        pairs = {name: np.round(getattr(self, name), 5).tolist() for name in PAIRS}
        stored = self.about | {"radius": self.radius, "discount": self.discount, "bins": self.bins}
        stored |= {name: part.summary() for name, part in self._parts().items()}
        stored["reliability"] = [bin._asdict() for bin in self.reliability()]
        text = json.dumps(stored, indent=1)[:-2] + ',\n "pairs": ' + json.dumps(pairs) + "\n}\n"
        self.figure(Path(folder) / f"{FILE}.png")
        write_text_atomic(Path(folder) / f"{FILE}.json", text)

    def summary(self) -> dict[str, Any]:
        """The numbers of the table's row."""
        return {
            "pairs": len(self.predicted),
            "error": self.error,
            "mean_absolute_error": self.mean_absolute_error,
            "predicted": float(self.predicted.mean()),
            "observed": float(self.observed.mean()),
            "standard_error": float(np.mean(self.standard_error)),
        }

    def _parts(self) -> dict[str, "Calibration"]:
        parts = {"all": self, "near": self.near, "far": self.far}
        return {name: part for name, part in parts.items() if len(part.predicted)}

    def _chosen(self, mask: np.ndarray) -> "Calibration":
        return replace(self, **{name: getattr(self, name)[mask] for name in PAIRS})

    def _means(self, inside: np.ndarray) -> tuple[float, float, float | None]:
        gap = (self.observed - self.predicted)[inside]
        starts, which = np.unique(self.start[inside], return_inverse=True)
        # Pairs of one start share its rollouts: only starts are independent.
        sums = np.bincount(which, gap - gap.mean())
        number = len(starts)
        error = float(np.sqrt(np.square(sums).sum() * number / (number - 1))) / len(gap) if number > 1 else None
        return float(self.predicted[inside].mean()), float(self.observed[inside].mean()), error

    def _title(self) -> str:
        who = f"{label(self.about['agent'])} on {self.about['env']}: " if {"agent", "env"} <= set(self.about) else ""
        how = [f"preset {self.about['preset']}"] if "preset" in self.about else []
        how += [f"seed {self.about['trained_with_seed']}"] if "trained_with_seed" in self.about else []
        trained = f"{', '.join(how)}; " if how else ""
        return f"{who}{trained}within {self.radius:g} of a place, discount {self.discount:g}"

    def __repr__(self) -> str:
        """The error, in one line."""
        parts = ", ".join(f"{name} {part.error:.3f}" for name, part in self._parts().items() if name != "all")
        pairs, starts = len(self.predicted), len(np.unique(self.start))
        return f"<Calibration: error {self.error:.3f} ({parts}) over {pairs:,} places from {starts} starts>"


def read(folder: str | Path) -> Calibration:
    """What `Calibration.save` wrote into a folder."""
    path = Path(folder) / f"{FILE}.json"
    stored = read_object(path)
    try:
        pairs = {name: np.array(stored["pairs"][name], np.float64) for name in PAIRS}
        about = {name: value for name, value in stored.items() if not isinstance(value, dict | list)}
        numbers = {name: about.pop(name) for name in ("radius", "discount", "bins")}
        return Calibration(**pairs | {"start": pairs["start"].astype(int)}, **numbers, about=about)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is malformed or of another version: {error}") from error
