"""One training run: its metrics, whichever version wrote them, its learning curve, and pictures of episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import Drawing, label, new_figure, save, save_as
from tdinfonce.errors import UserError
from tdinfonce.system.files import METRICS, read_metrics, read_object, write_text_atomic

__all__ = [
    "UNITS",
    "draw",
    "draw_frames",
    "draw_losses",
    "draw_paths",
    "evaluations",
    "losses",
    "metrics",
    "noise_of",
    "report",
    "where_of",
]

UNITS = {"online": "environment steps", "offline": "updates"}
"""What a run of each kind counts."""


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Every row of a run's metrics in one schema, whichever version wrote it.

    Returns:
        Rows that all have ``env_steps`` (0 offline), ``updates``, and ``step``, which is the one of the two that the
        run counts: environment steps online, updates offline, as the config says. Everything else is ``group/name``:
        ``eval/…``, ``final/…``, ``critic/…``, ``actor/…``, ``collect/…``, ``heldout/…``, ``time/…``.
    """
    kind = read_object(folder / "config.json")["kind"]
    found: list[dict[str, Any]] = []
    if not (folder / METRICS).is_file():
        return found
    updates = 0
    for row in read_metrics(folder):
        # Before format 3 rows of online runs said `env_step`, and those of their ends no updates.
        env_steps = row.pop("env_steps" if "env_steps" in row else "env_step", 0)
        updates = row.pop("updates", updates)
        found.append(
            {"step": env_steps if kind == "online" else updates, "env_steps": env_steps, "updates": updates} | row
        )
    return found


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """Every evaluation of a run in its order, also the one at its end.

    Returns:
        For each its metrics by their names alone, ``step``, ``final`` and, but for the last, the ``seconds`` of
        training before it.
    """
    found = []
    for row in metrics(folder):
        kind = next((kind for kind in ("eval", "final") if f"{kind}/success_any" in row), None)
        if kind is not None:
            values = {name.removeprefix(f"{kind}/"): v for name, v in row.items() if name.startswith(f"{kind}/")}
            if "time/total" in row:
                values["seconds"] = row["time/total"] - row["time/evaluate"]
            found.append(values | {"final": kind == "final", "step": row["step"]})
    return found


def losses(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics that tell losses."""
    return [row for row in metrics(folder) if "actor/loss" in row]


def report(folder: Path) -> None:
    """Write ``figure.png``, ``figure.svg`` and ``table.md`` of a training run; offline ``losses.svg`` too."""
    config = read_object(folder / "config.json")
    save(draw(folder), folder)
    if config["kind"] == "offline":
        save_as(draw_losses(folder), folder / "losses.svg")
    rows = evaluations(folder)
    lines = _evaluation_table(folder, config, rows) if rows else _loss_table(folder)
    write_text_atomic(folder / "table.md", "\n".join([f"# {_title(config)}", "", *lines, ""]))


def draw(folder: Path) -> Drawing:
    """The learning curve of a run as a figure, not saved: success and distance, or losses if it was never evaluated."""
    config, rows = read_object(folder / "config.json"), evaluations(folder)
    if not rows and config["kind"] == "offline":
        return draw_losses(folder)
    if not rows:
        raise UserError(f"{folder} has no evaluations yet")
    steps = [row["step"] for row in rows]
    figure, axes = new_figure(1, 2)
    success, distance = axes[0]
    unit = UNITS[config["kind"]]
    success.plot(steps, [r["success_any"] for r in rows], marker="o", label="at any step (the paper's)")
    success.plot(steps, [r["success_final"] for r in rows], marker="s", label="at the last step")
    success.set(xlabel=unit, ylabel="success rate", ylim=(-0.03, 1.03))
    success.legend(frameon=False)
    distance.plot(steps, [r["min_distance"] for r in rows], marker="o", color="#555555")
    distance.set(xlabel=unit, ylabel="smallest distance to the goal")
    distance.set_ylim(bottom=0)
    figure.suptitle(_title(config))
    return figure


def draw_losses(folder: Path) -> Drawing:
    """The losses of a run, on the data it learns from and on those held out, as a figure, not saved."""
    config, rows = read_object(folder / "config.json"), losses(folder)
    if not rows:
        raise UserError(f"{folder} has no losses yet")
    names = [name for name in ("critic/loss", "actor/loss") if name in rows[0]]
    figure, axes = new_figure(1, len(names))
    for axis, name in zip(axes[0], names, strict=True):
        held_out = f"heldout/{name.replace('/', '_')}"
        for key, text in ((name, "trained on"), (held_out, "held out")):
            if key in rows[0]:
                axis.plot([row["step"] for row in rows], [row[key] for row in rows], marker=".", label=text)
        axis.set(xlabel=UNITS[config["kind"]], ylabel=name.replace("/", " "))
        axis.legend(frameon=False)
    figure.suptitle(_title(config))
    return figure


def _title(config: dict[str, Any]) -> str:
    where = config["env"] if config["kind"] == "online" else Path(config.get("dataset") or where_of(config)).name
    return f"{label(config['agent'])} on {where}{noise_of(config)}, seed {config['seed']}"


def where_of(config: dict[str, Any]) -> str:
    """Where a run is evaluated, or what it learns from if it is not."""
    return str(config.get("env") or Path(config.get("dataset") or "data").name)


def noise_of(config: dict[str, Any]) -> str:
    """What a run's title says of the noise in its observations."""
    return f" with {config['noise']:g} noise ({config['noise_kind']})" if config.get("noise") else ""


def _loss_table(folder: Path) -> list[str]:
    last = {name: value for name, value in losses(folder)[-1].items() if name not in ("step", "env_steps")}
    return ["| metric | last value |", "|---|---:|", *(f"| {name} | {value:.4g} |" for name, value in last.items())]


def _evaluation_table(folder: Path, config: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    unit = UNITS[config["kind"]]
    lines = [f"| {unit} | success, any step | success, last step | smallest distance | seconds of training |"]
    lines += ["|---:|---:|---:|---:|---:|"]
    summary = folder / "summary.json"
    end = read_object(summary)["training_seconds"] if summary.is_file() else 0.0
    for row in rows:
        values = [f"{row[name]:.3f}" for name in ("success_any", "success_final", "min_distance")]
        if row["final"]:
            values, when = [f"**{value}**" for value in values], f"final, {row['episodes']} episodes"
        else:
            when = f"{row['step']:,}"
        lines.append(f"| {when} | {' | '.join(values)} | {end if row['final'] else row['seconds']:.0f} |")
    return lines


def draw_frames(path: Path, frames: Sequence[np.ndarray], count: int = 6) -> None:
    """An episode as a strip of ``count`` frames."""
    chosen = np.linspace(0, len(frames) - 1, count).astype(int)
    figure, axes = new_figure(1, count, width=2.2, height=2.4)
    for axis, index in zip(axes[0], chosen, strict=True):
        axis.imshow(frames[index])
        axis.set_title(f"step {index}", fontsize=9)
        axis.axis("off")
    figure.savefig(path, dpi=110)


def draw_paths(path: Path, episodes: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Episodes without a renderer: the path of the deciding coordinates (first two of them) and the goal."""
    figure, axes = new_figure(1, len(episodes), width=2.6, height=2.6)
    for axis, (states, goal) in zip(axes[0], episodes, strict=True):
        x, y = (states[:, 0], states[:, 1]) if states.shape[1] > 1 else (np.arange(len(states)), states[:, 0])
        axis.plot(x, y, marker=".", color="#555555", linewidth=1)
        axis.plot(x[0], y[0], marker="s", color="#2471a3")
        goal_x, goal_y = (goal[0], goal[1]) if len(goal) > 1 else (x[-1], goal[0])
        axis.plot(goal_x, goal_y, marker="*", markersize=14, color="#1e8449")
    figure.suptitle("start (square), path, goal (star)")
    figure.savefig(path, dpi=110)
