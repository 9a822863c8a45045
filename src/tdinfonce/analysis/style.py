"""One look for all figures: a colour, a marker and a name for each method."""

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from tdinfonce.system.files import write_atomic

__all__ = [
    "COLOURS",
    "LABELS",
    "Drawing",
    "colour",
    "label",
    "line_styles",
    "new_figure",
    "panels",
    "place",
    "save",
    "save_as",
    "series_style",
]

COLOURS = {
    "td-infonce": "#c0392b",
    "contrastive-rl": "#2471a3",
    "contrastive-nce": "#5dade2",
    "c-learning": "#1e8449",
    "c-learning-normalised": "#82c99d",
    "successor": "#8e44ad",
    "gcbc": "#e0a800",
    "ddpg-her": "#6e2c91",
    "qrl": "#d35400",
    "gc-iql": "#117864",
    "hiql": "#b03a7e",
    "iql": "#45b39d",
    "td3-bc": "#a04000",
    "dt": "#566573",
    "certainty-equivalence": "#222222",
    "monte-carlo-frequencies": "#7f8c8d",
}
"""In the order of every legend and table."""
OTHERS = ("#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#cc6677", "#882255", "#aa4499")
"""For methods without a colour of their own: Paul Tol's muted scheme, which the colour-blind can tell apart."""
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)), (0, (3, 1, 3, 4)))
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
    "hiql": "HIQL",
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


def place(method: str) -> tuple[int, str]:
    """Where a method stands in every legend and table: known ones in our order, then others by name.

    One that sees noisy observations follows the same without.
    """
    base = method.removesuffix(NOISY)
    known = list(COLOURS)
    return known.index(base) if base in known else len(known), method


def colour(method: str) -> str:
    """The colour of a method: its own, or one that follows from its name alone."""
    base = method.removesuffix(NOISY)
    return COLOURS.get(base) or OTHERS[zlib.crc32(base.encode()) % len(OTHERS)]


def series_style(method: str) -> dict[str, Any]:
    """Colour, marker and width of a method's line."""
    base, main = method.removesuffix(NOISY), method == "td-infonce"
    return {
        "color": colour(method),
        "marker": MARKERS.get(base),
        "linestyle": "-" if base == method else "--",
        "linewidth": 2.4 if main else 1.6,
        "zorder": 4 if main else 3,
        "markersize": 4,
        "label": label(method),
    }


def line_styles(methods: Sequence[str]) -> list[Any]:
    """A dash pattern for each line of a figure, so that no two lines of one colour look the same."""
    taken: set[tuple[str, Any]] = set()
    found = []
    for method in methods:
        first = series_style(method)["linestyle"]
        choices = [first, *(dash for dash in DASHES if dash != first)]
        dash = next((dash for dash in choices if (colour(method), dash) not in taken), first)
        taken.add((colour(method), dash))
        found.append(dash)
    return found


class Drawing(Figure):
    """A figure of no window system: it is nobody's current figure, and shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")


def new_figure(rows: int, columns: int, *, width: float = 4.2, height: float = 3.2) -> tuple[Drawing, Any]:
    """A figure with a grid of panels, always as a two-dimensional array."""
    figure = Drawing(figsize=(width * columns, height * rows), layout="constrained")
    return figure, panels(figure, rows, columns)


def panels(figure: Any, rows: int, columns: int) -> Any:
    """A grid of panels in our look."""
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, which="major", alpha=0.25)
    return axes


def save(figure: Figure, folder: Path, name: str = "figure") -> None:
    """Write NAME.png and NAME.svg."""
    for kind in ("png", "svg"):
        save_as(figure, folder / f"{name}.{kind}")


def save_as(figure: Figure, path: Path) -> None:
    """Write one picture whole or not at all, of the kind that its name says."""
    write_atomic(path, rendered(figure, path.suffix.removeprefix(".")))


def rendered(figure: Figure, kind: str) -> bytes:
    """A picture as the bytes of a file; fixed metadata keep it reproducible."""
    data = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "tdinfonce"}):
        figure.savefig(data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return data.getvalue()
