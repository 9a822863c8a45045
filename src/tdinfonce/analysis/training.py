"""Figures of training runs: the learning curve of one run, and pictures of episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.style import label, new_figure, plt, save, save_as
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_metrics, read_object, write_text_atomic

__all__ = ["draw_frames", "draw_paths", "evaluations", "noise_of", "report"]


def report(folder: Path) -> None:
    """Write ``figure.png``, ``figure.svg`` and ``table.md`` of a training run from its metrics."""
    config = read_object(folder / "config.json")
    rows = evaluations(folder)
    if config["kind"] == "offline":
        _losses(folder, config, draw=not rows)
        if not rows:
            return
    if not rows:
        raise UserError(f"{folder} has no evaluations yet")
    steps = [row["step"] for row in rows]
    figure, axes = new_figure(1, 2)
    success, distance = axes[0]
    unit = _unit(config)
    success.plot(steps, [r["success_any"] for r in rows], marker="o", label="at any step (the paper's)")
    success.plot(steps, [r["success_final"] for r in rows], marker="s", label="at the last step")
    success.set(xlabel=unit, ylabel="success rate", ylim=(-0.03, 1.03))
    success.legend(frameon=False)
    distance.plot(steps, [r["min_distance"] for r in rows], marker="o", color="#555555")
    distance.set(xlabel=unit, ylabel="smallest distance to the goal")
    distance.set_ylim(bottom=0)
    figure.suptitle(_title(config))
    save(figure, folder)
    _table(folder, config, rows)


def _title(config: dict[str, Any]) -> str:
    where = config["env"] if config["kind"] == "online" else Path(config["dataset"]).name
    return f"{label(config['agent'])} on {where}{noise_of(config)}, seed {config['seed']}"


def noise_of(config: dict[str, Any]) -> str:
    """What a run's title says of the noise in its observations."""
    return f" with {config['noise']:g} noise ({config['noise_kind']})" if config.get("noise") else ""


def _unit(config: dict[str, Any]) -> str:
    return "environment steps" if config["kind"] == "online" else "updates"


def _losses(folder: Path, config: dict[str, Any], *, draw: bool) -> None:
    """The losses of an offline run, on the data it learns from and on those held out: ``losses.svg``.

    With ``draw`` they are all there is: they are also the run's figure, and the last ones its table.
    """
    rows = [row for row in read_metrics(folder) if "actor/loss" in row] if (folder / "metrics.jsonl").is_file() else []
    if not rows:
        raise UserError(f"{folder} has no losses yet")
    names = [name for name in ("critic/loss", "actor/loss") if name in rows[0]]
    figure, axes = new_figure(1, len(names))
    for axis, name in zip(axes[0], names, strict=True):
        held_out = f"heldout/{name.replace('/', '_')}"
        for key, text in ((name, "trained on"), (held_out, "held out")):
            if key in rows[0]:
                axis.plot([row["updates"] for row in rows], [row[key] for row in rows], marker=".", label=text)
        axis.set(xlabel="updates", ylabel=name.replace("/", " "))
        axis.legend(frameon=False)
    figure.suptitle(_title(config))
    save_as(figure, folder / "losses.svg")
    if not draw:
        plt.close(figure)
        return
    save(figure, folder)
    lines = [f"# {_title(config)}", "", "| metric | last value |", "|---|---:|"]
    lines += [f"| {name} | {value:.4g} |" for name, value in rows[-1].items()]
    write_text_atomic(folder / "table.md", "\n".join(lines) + "\n")


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """Every evaluation of a run in its order, also the one at its end."""
    found: list[dict[str, Any]] = []
    if not (folder / "metrics.jsonl").is_file():
        return found
    for row in read_metrics(folder):
        kind = next((kind for kind in ("eval", "final") if f"{kind}/success_any" in row), None)
        if kind is not None:
            values = {name.removeprefix(f"{kind}/"): value for name, value in row.items()}
            step = row["env_step"] if "env_step" in row else row["updates"]
            found.append(values | {"final": kind == "final", "step": step})
    return found


def _table(folder: Path, config: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    lines = [
        f"# {_title(config)}",
        "",
        f"| {_unit(config)} | success, any step | success, last step | smallest distance | seconds of training |",
        "|---:|---:|---:|---:|---:|",
    ]
    summary = folder / "summary.json"
    end = read_object(summary)["training_seconds"] if summary.is_file() else 0.0
    for row in rows:
        values = [f"{row[name]:.3f}" for name in ("success_any", "success_final", "min_distance")]
        if row["final"]:
            values, when = [f"**{value}**" for value in values], f"final, {row['episodes']} episodes"
        else:
            when = f"{row['step']:,}"
        seconds = end if row["final"] else row["time/total"] - row["time/evaluate"]
        lines.append(f"| {when} | {' | '.join(values)} | {seconds:.0f} |")
    write_text_atomic(folder / "table.md", "\n".join(lines) + "\n")


def draw_frames(path: Path, frames: Sequence[np.ndarray], count: int = 6) -> None:
    """An episode as a strip of ``count`` frames."""
    chosen = [frames[i] for i in np.linspace(0, len(frames) - 1, count).astype(int)]
    figure, axes = plt.subplots(1, count, figsize=(2.2 * count, 2.4), layout="constrained", squeeze=False)
    for axis, image, index in zip(axes[0], chosen, np.linspace(0, len(frames) - 1, count).astype(int), strict=True):
        axis.imshow(image)
        axis.set_title(f"step {index}", fontsize=9)
        axis.axis("off")
    figure.savefig(path, dpi=110)
    plt.close(figure)


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
    plt.close(figure)
