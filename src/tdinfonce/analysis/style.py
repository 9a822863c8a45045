"""One look for all figures: a colour, a marker and a name for each method."""

import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from tdinfonce.system.files import write_atomic

__all__ = ["COLOURS", "LABELS", "label", "new_figure", "panels", "plt", "save", "save_as", "series_style"]

COLOURS = {
    "td-infonce": "#c0392b",
    "contrastive-rl": "#2471a3",
    "c-learning": "#1e8449",
    "c-learning-normalised": "#82c99d",
    "successor": "#8e44ad",
    "contrastive-nce": "#5dade2",
    "gcbc": "#e0a800",
    "ddpg-her": "#6e2c91",
    "qrl": "#d35400",
    "gc-iql": "#117864",
    "iql": "#45b39d",
    "td3-bc": "#a04000",
    "dt": "#566573",
    "certainty-equivalence": "#222222",
    "monte-carlo-frequencies": "#7f8c8d",
}
MARKERS = {"td-infonce": "o", "contrastive-rl": "s", "c-learning": "^", "c-learning-normalised": "v", "successor": "D"}
LABELS = {
    "td-infonce": "TD InfoNCE",
    "contrastive-rl": "contrastive RL (MC InfoNCE)",
    "c-learning": "C-learning",
    "c-learning-normalised": "C-learning, normalised",
    "contrastive-nce": "contrastive RL (NCE)",
    "gcbc": "GCBC",
    "ddpg-her": "DDPG + HER",
    "qrl": "QRL",
    "gc-iql": "goal-conditioned IQL",
    "iql": "IQL",
    "td3-bc": "TD3 + BC",
    "dt": "DT",
    "successor": "successor representation",
    "certainty-equivalence": "floor: certainty equivalence",
    "monte-carlo-frequencies": "floor: Monte Carlo frequencies",
    "known-model": "SR with the known model",
    "ablation-none": "C-learning",
    "ablation-abc": "TD InfoNCE (a+b+c)",
}
NOISY = "-noisy"
"""Ends the name of a method that sees noisy observations: its colour, dashed."""


def label(method: str) -> str:
    """How a method is called in figures and tables."""
    if method in LABELS:
        return LABELS[method]
    if method.startswith("ablation-"):
        return "C-learning + " + "+".join(method.removeprefix("ablation-"))
    if method.endswith(NOISY):
        return f"{label(method.removesuffix(NOISY))}, noisy"
    return method


def series_style(method: str) -> dict[str, Any]:
    """Colour, marker and width of a method's line."""
    base, main = method.removesuffix(NOISY), method == "td-infonce"
    return {
        "color": COLOURS.get(base),
        "marker": MARKERS.get(base),
        "linestyle": "-" if base == method else "--",
        "linewidth": 2.4 if main else 1.6,
        "zorder": 4 if main else 3,
        "markersize": 4,
        "label": label(method),
    }


def new_figure(rows: int, columns: int, *, width: float = 4.2, height: float = 3.2) -> tuple[Figure, Any]:
    """A figure with a grid of panels, always as a two-dimensional array."""
    figure = plt.figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, panels(figure, rows, columns)


def panels(figure: Any, rows: int, columns: int) -> Any:
    """A grid of panels in our look."""
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, which="major", alpha=0.25)
    return axes


def save(figure: Figure, folder: Path, name: str = "figure") -> None:
    """Write NAME.png and NAME.svg whole or not at all; fixed metadata keep the files reproducible."""
    matplotlib.rcParams["svg.hashsalt"] = "tdinfonce"
    for kind in ("png", "svg"):
        save_as(figure, folder / f"{name}.{kind}")
    plt.close(figure)


def save_as(figure: Figure, path: Path) -> None:
    """Write one picture whole or not at all, of the kind that its name says."""
    data = io.BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_atomic(path, data.getvalue())
