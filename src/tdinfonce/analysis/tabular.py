"""Figures and tables of the tabular experiments, drawn from the rows of a run's metrics."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdinfonce.analysis.curves import deviation, size_to_reach
from tdinfonce.analysis.style import Drawing, label, new_figure, panels, save, series_style
from tdinfonce.system.files import read_metrics, write_text_atomic

__all__ = ["Results", "markdown_table", "plot_against_size", "plot_against_steps", "write_table"]

Row = dict[str, Any]
FLOORS = ("certainty-equivalence", "monte-carlo-frequencies")
REGIME_TITLES = {"constant": "last iterate, constant step", "averaged": "averaged iterates"}


class Results:
    """The evaluation rows of a comparison, with the questions that figures and tables ask of them."""

    def __init__(self, folder: Path) -> None:
        """Read a run folder."""
        self.rows = list(read_metrics(folder))
        self.evaluated = [row for row in self.rows if row["phase"] == "evaluate"]

    def values(self, key: str, **where: Any) -> list[Any]:
        """The distinct values of a field, in order of first appearance unless they are numbers."""
        found = list(dict.fromkeys(row[key] for row in select(self.evaluated, **where) if key in row))
        return sorted(found) if found and not isinstance(found[0], str) else found

    def discounts(self) -> list[float]:
        """The discounts in the order of the experiment: the headline first."""
        return list(dict.fromkeys(row["discount"] for row in self.rows))

    def methods(self, order: Sequence[str]) -> list[str]:
        """The methods present, in the given order, floors left out."""
        present = {row["method"] for row in self.evaluated} - set(FLOORS)
        return [m for m in order if m in present] + sorted(present - set(order))

    def by_seed(self, **where: Any) -> NDArray[np.float64]:
        """Errors of one curve's point, one for each seed, at the last step measured unless ``step`` is given."""
        return _errors(select(self.evaluated, **where), last="step" not in where)

    def curve(self, along: str, points: Iterable[Any], **where: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and standard deviation over seeds at each point."""
        rows: dict[Any, list[Row]] = {point: [] for point in points}
        for row in select(self.evaluated, **where):
            if row.get(along) in rows:
                rows[row[along]].append(row)
        samples = [_errors(found, last=along != "step") for found in rows.values()]
        return np.array([s.mean() for s in samples]), np.array([deviation(s) for s in samples])


def _errors(rows: list[Row], last: bool) -> NDArray[np.float64]:
    """Errors in the order of their seeds; of the last step measured, or of all."""
    if last and rows and "step" in rows[0]:
        end = max(row["step"] for row in rows)
        rows = [row for row in rows if row["step"] == end]
    return np.array([row["error"] for row in sorted(rows, key=lambda row: row["seed"])])


def select(rows: Iterable[Row], **where: Any) -> list[Row]:
    """The rows whose fields equal the given values."""
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def plot_against_steps(
    results: Results, folder: Path, order: Sequence[str], title: str, discounts: Sequence[float], name: str = "figure"
) -> None:
    """What was estimated, then its error against gradient steps: a row for each discount, a column for each regime."""
    figure = Drawing(figsize=(10.8, 2.9 + 3.2 * len(discounts) + 0.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[2.7, 3.2 * len(discounts) + 0.6])[:, 0]
    _maps(top, results, [m for m in results.methods(order) if not m.endswith("-normalised")], title)
    axes = panels(bottom, len(discounts), 2)
    for axis, discount, regime in _panels(axes, discounts):
        for method in results.methods(order):
            where = {"method": method, "discount": discount, "regime": regime}
            steps = results.values("step", **where)
            style = series_style(method) | {"marker": None}
            _band(axis, np.array(steps), *results.curve("step", steps, **where), style)
        for floor, dash in zip(FLOORS, ("--", ":"), strict=True):
            level = results.by_seed(method=floor, discount=discount).mean()
            axis.axhline(level, linestyle=dash, color=series_style(floor)["color"], label=label(floor))
        axis.set(yscale="log", xlabel="gradient steps")
    _legend(bottom, axes)
    save(figure, folder, name)


def _maps(figure: Any, results: Results, methods: Sequence[str], title: str) -> None:
    """One row of the occupancy as a map of the grid: the exact one, then each method's (first seed)."""
    rows = [row for row in results.rows if row["phase"] == "picture"]
    discount = results.discounts()[0]
    found = {row["method"]: np.array(row["occupancy"]) for row in select(rows, discount=discount)}
    size = round(len(found["exact"]) ** 0.5)
    axes = figure.subplots(1, 1 + len(methods))
    for axis, method in zip(axes, ("exact", *methods), strict=True):
        image = axis.imshow(found[method].reshape(size, size), cmap="magma_r", vmin=0, vmax=found["exact"].max())
        axis.set_title("exact" if method == "exact" else label(method).partition(" (")[0], fontsize=9)
        axis.set(xticks=[], yticks=[])
    figure.colorbar(image, ax=axes, shrink=0.75, label="chance")
    figure.suptitle(
        f"{title}\nFrom the top left corner, after a step to the right, discount {discount:g}: where will a random "
        "walk be?",
        fontsize=11,
    )


def plot_against_size(
    results: Results, folder: Path, order: Sequence[str], title: str, discounts: Sequence[float], name: str = "figure"
) -> None:
    """Error against the number of transitions: a row for each discount, a column for each regime."""
    figure, axes = new_figure(len(discounts), 2, width=5.4, height=3.8)
    for axis, discount, regime in _panels(axes, discounts):
        sizes = results.values("size", discount=discount)
        for method in results.methods(order):
            where = {"method": method, "discount": discount, "regime": regime}
            _band(axis, np.array(sizes), *results.curve("size", sizes, **where), series_style(method))
        for floor, dash in zip(FLOORS, ("--", ":"), strict=True):
            mean, _ = results.curve("size", sizes, method=floor, discount=discount)
            axis.plot(sizes, mean, linestyle=dash, color=series_style(floor)["color"], label=label(floor))
        axis.set(xscale="log", yscale="log", xlabel="transitions in the data")
    _legend(figure, axes)
    figure.suptitle(title)
    save(figure, folder, name)


def plot_headline_and_all(plot: Callable[..., None], results: Results, folder: Path, *arguments: Any) -> None:
    """``figure`` for the first discount; ``figure-discounts`` for all of them where there are more."""
    discounts = results.discounts()
    plot(results, folder, *arguments, discounts[:1])
    if len(discounts) > 1:
        plot(results, folder, *arguments, discounts, "figure-discounts")


def _panels(axes: Any, discounts: Sequence[float]) -> Iterator[tuple[Any, float, str]]:
    for row, discount in enumerate(discounts):
        for column, regime in enumerate(REGIME_TITLES):
            axis = axes[row, column]
            axis.set_title(f"discount {discount:g}, {REGIME_TITLES[regime]}")
            axis.set_ylabel("mean absolute error" if column == 0 else "")
            yield axis, discount, regime


def _band(axis: Any, x: NDArray[Any], mean: NDArray[Any], deviation: NDArray[Any], style: dict[str, Any]) -> None:
    axis.plot(x, mean, **style)
    low = np.maximum(mean - deviation, mean * 0.2)
    axis.fill_between(x, low, mean + deviation, color=style["color"], alpha=0.15, linewidth=0)


def _legend(figure: Any, axes: Any) -> None:
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False)


def efficiency_factors(
    results: Results, discount: float, regime: str, baselines: Iterable[str], ours: str = "td-infonce"
) -> dict[str, float]:
    """For each baseline at its largest size: how many times less data our method needs for the same error.

    0 means that ours never gets there; infinity, that ours is there before its smallest size.
    """
    sizes = results.values("size", method=ours, discount=discount, regime=regime)
    mean, _ = results.curve("size", sizes, method=ours, discount=discount, regime=regime)
    factors = {}
    for baseline in baselines:
        level = results.by_seed(method=baseline, discount=discount, regime=regime, size=sizes[-1]).mean()
        needed = size_to_reach(sizes, mean, level)
        factors[baseline] = float("inf") if needed == 0 else sizes[-1] / needed
    return factors


def factor(value: float) -> str:
    """A data-efficiency factor in words."""
    if value == 0:
        return "never"
    if value == float("inf"):
        return "from the smallest size on"
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×"


def factors_at_one_step_size(results: Results, discount: float, regime: str, baselines: Sequence[str]) -> str:
    """The factors if every method had used the same step size: from the tuning seeds, one row for each step size."""
    tuned = [row for row in results.rows if row["phase"] == "tune" and row["discount"] == discount]
    sizes = sorted({row["size"] for row in tuned})

    def errors(method: str, rate: float) -> list[float]:
        rows = [select(tuned, method=method, learning_rate=rate, size=size) for size in sizes]
        return [float(np.exp(np.mean([np.log(row[regime]) for row in found]))) for found in rows]

    lines = []
    for rate in sorted({row["learning_rate"] for row in tuned}):
        ours = errors("td-infonce", rate)
        needed = [size_to_reach(sizes, ours, errors(baseline, rate)[-1]) for baseline in baselines]
        lines.append([f"{rate:g}", *(factor(sizes[-1] / n if n else float("inf")) for n in needed)])
    return markdown_table(["step size of all methods", *(label(b) for b in baselines)], lines)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(entry) for entry in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def step_size_tables(results: Results, order: Sequence[str]) -> str:
    """The tuning grid: the error of each method at each step size on the tuning seeds, the chosen one in bold."""
    tuned = [row for row in results.rows if row["phase"] == "tune"]
    chosen = [row for row in results.rows if row["phase"] == "choice"]
    rates = sorted({row["learning_rate"] for row in tuned})
    text = ""
    for discount in results.discounts():
        for size in sorted({row["size"] for row in select(tuned, discount=discount)}):
            for regime in REGIME_TITLES:
                where = {"discount": discount, "size": size}
                rows = [
                    [label(method), *_grid_row(tuned, chosen, rates, regime, where | {"method": method})]
                    for method in results.methods(order)
                ]
                text += f"\nDiscount {discount:g}, {size:,} transitions, {REGIME_TITLES[regime]}:\n\n"
                text += markdown_table(["step size", *(f"{rate:g}" for rate in rates)], rows)
    return text


def _grid_row(tuned: list[Row], chosen: list[Row], rates: list[float], regime: str, where: Row) -> list[str]:
    picked = {row["learning_rate"] for row in select(chosen, regime=regime, **where)}
    entries = []
    for rate in rates:
        error = float(np.exp(np.mean([np.log(row[regime]) for row in select(tuned, learning_rate=rate, **where)])))
        entries.append(f"**{error:.5f}**" if rate in picked else f"{error:.5f}")
    return entries


def write_table(folder: Path, title: str, parts: Iterable[str]) -> None:
    """Write ``table.md``."""
    text = f"# {title}\n\n" + "\n".join(part.strip("\n") + "\n" for part in parts)
    write_text_atomic(folder / "table.md", text)


def mean_and_deviation(values: NDArray[np.float64], form: Callable[[float], str] = "{:.5f}".format) -> str:
    """``mean ± standard deviation``."""
    return f"{form(float(values.mean()))} ± {form(float(deviation(values)))}"
