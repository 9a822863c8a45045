"""What is in a data set: counts, lengths, ranges, reached goals, and a picture of where it has been."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tdinfonce.analysis.style import new_figure, save

if TYPE_CHECKING:
    from tdinfonce.data.episodes import Episodes

__all__ = ["draw", "draw_walls", "flipped_share", "goal_share", "reach_rate", "report", "upside_down"]

ANT_OBSERVATION = 29
QUATERNION = slice(3, 7)
DRAWN, PICTURED = 60, 8
"""Episodes whose paths are drawn, and of images, whose ends are."""


def report(source: str, episodes: "Episodes", record: dict[str, Any]) -> str:
    """Lines of text."""
    length = episodes.length
    made = [f"{k} {record[k]}" for k in ("env", "kind", "seed", "noise") if record.get(k) is not None]
    size = sum(array.nbytes for array in (episodes.observation, episodes.achieved, episodes.action))
    lines = [
        f"{source} ({', '.join([record['format'], *made])})",
        f"  episodes      {len(episodes):,}",
        f"  transitions   {episodes.transitions:,} ({size / 1e6:.0f} MB)",
        f"  steps         shortest {length.min()}, median {np.median(length):g}, longest {length.max()}",
        f"  observation   {_ranges(episodes.observation)}",
        f"  goal space    {_ranges(episodes.achieved)}",
        f"  action        {_ranges(episodes.action)}",
    ]
    if not episodes.commanded:
        lines.append("  goals         none was commanded: the last state of each episode stands for its goal")
    tolerance = record.get("tolerance")
    if tolerance and episodes.commanded:
        lines.append(f"  goal reached  {reach_rate(episodes, tolerance):.1%} of episodes (within {tolerance:g})")
        lines.append(f"  at the goal   {goal_share(episodes, tolerance):.1%} of steps are that near to their goal")
        if len(episodes.renewed_row):
            lines.append(f"  goals         {len(episodes.renewed_row):,} new ones in the midst of episodes")
    if (
        str(record.get("env", "")).removeprefix("ogbench:").startswith("antmaze-")
        and episodes.observation.shape[1] == ANT_OBSERVATION
    ):
        lines.append(f"  flipped       {flipped_share(episodes):.1%} of episodes end on the back")
    return "\n".join(lines)


def reach_rate(episodes: "Episodes", tolerance: float) -> float:
    """Share of episodes that came within the tolerance of the goal they were first sent to."""
    reached = 0
    for index in range(len(episodes)):
        episode = episodes.episode(index)
        reached += bool(np.linalg.norm(episode.achieved[1:] - episode.goal, axis=1).min() < tolerance)
    return reached / len(episodes)


def goal_share(episodes: "Episodes", tolerance: float) -> float:
    """Share of all steps that end within the tolerance of the goal that was commanded when they were taken.

    The public counts of D4RL's antmaze-umaze leave 0.9 %; see docs/data.md.
    """
    near = 0
    renewed = dict(zip(episodes.renewed_row.tolist(), episodes.renewed_goal, strict=True))
    breaks = np.sort(episodes.renewed_row)
    for first, steps, goal in zip(episodes.start, episodes.length, episodes.goal, strict=True):
        inside = breaks[np.searchsorted(breaks, first, "right") : np.searchsorted(breaks, first + steps)].tolist()
        for begin, end in zip([first, *inside], [*inside, first + steps], strict=True):
            goal = renewed.get(int(begin), goal) if begin != first else goal
            away = np.linalg.norm(episodes.achieved[begin + 1 : end + 1] - goal, axis=-1)
            near += int(np.sum(away < tolerance))
    return near / episodes.transitions


def flipped_share(episodes: "Episodes") -> float:
    """Share of episodes at whose end the ant lies on its back: the body's own "up" points down."""
    return float(np.mean(upside_down(episodes.observation[episodes.start + episodes.length])))


def upside_down(observation: np.ndarray) -> np.ndarray:
    """Whether an ant lies on its back, of one observation or of many: its body's own "up" points down."""
    _, x, y, _ = np.moveaxis(observation[..., QUATERNION], -1, 0)
    return np.asarray(1 - 2 * (x**2 + y**2) < 0)


def _ranges(array: np.ndarray) -> str:
    if array.ndim > 2:
        return f"images, {' x '.join(map(str, array.shape[1:]))}"
    low, high = array.min(axis=0), array.max(axis=0)
    shown = ", ".join(f"[{a:.3g}, {b:.3g}]" for a, b in list(zip(low, high, strict=True))[:4])
    rest = f", … ({len(low)} in all, {low.min():.3g} to {high.max():.3g})" if len(low) > 4 else ""
    return shown + rest


def draw(folder: Path, episodes: "Episodes", record: dict[str, Any]) -> None:
    """Visits and a few paths, in the first two coordinates of the goal space; of images, the ends of some episodes."""
    if episodes.observation.ndim > 2:
        _draw_images(folder, episodes)
        return
    figure, axes = new_figure(1, 2, width=4.0, height=4.0)
    places = episodes.achieved
    second = 1 if places.shape[1] > 1 else 0
    visits, paths = axes[0]
    rows = np.concatenate([np.arange(s, s + n + 1) for s, n in zip(episodes.start, episodes.length, strict=True)])
    visits.hist2d(places[rows, 0], places[rows, second], bins=120, cmap="Blues", norm="log", rasterized=True)
    visits.set_title(f"visits, {episodes.transitions:,} transitions", fontsize=9)
    for index in np.linspace(0, len(episodes) - 1, min(DRAWN, len(episodes))).astype(int):
        path = episodes.episode(int(index)).achieved
        paths.plot(path[:, 0], path[:, second], linewidth=0.8, alpha=0.7)
        paths.plot(path[0, 0], path[0, second], marker="o", color="#222222", markersize=2)
    paths.set_title(f"{min(DRAWN, len(episodes))} of {len(episodes):,} episodes, starts as dots", fontsize=9)
    for axis in (visits, paths):
        draw_walls(axis, record.get("maze"))
        axis.set(aspect="equal", xlabel="x", ylabel="y")
        axis.grid(False)
    title = " ".join(str(record[k]) for k in ("env", "kind") if record.get(k))
    figure.suptitle(title or "coverage")
    save(figure, folder, "coverage")


def _draw_images(folder: Path, episodes: "Episodes") -> None:
    """The first and the last state of a few episodes."""
    chosen = np.linspace(0, len(episodes) - 1, min(PICTURED, len(episodes))).astype(int)
    figure, axes = new_figure(2, max(len(chosen), 2), width=1.2, height=1.3)
    for column in range(axes.shape[1]):
        for row in range(2):
            axes[row, column].axis("off")
        if column < len(chosen):
            states = episodes.episode(int(chosen[column])).observation
            axes[0, column].set_title(f"episode {chosen[column]}", fontsize=7)
            for row, state in enumerate((states[0], states[-1])):
                axes[row, column].imshow(state[..., :3], interpolation="nearest")
    figure.suptitle("first and last states")
    save(figure, folder, "coverage")


def draw_walls(axis: Any, maze: dict[str, Any] | None) -> None:
    """The maze, if the data say which."""
    if not maze:
        return
    from matplotlib.patches import Rectangle

    scale, (x, y) = maze["scale"], maze["first"]
    for row, line in enumerate(maze["walls"]):
        for column, wall in enumerate(line):
            if wall:
                corner = (x + (column - 0.5) * scale, y - (row + 0.5) * scale)
                axis.add_patch(Rectangle(corner, scale, scale, color="#d5d8dc", zorder=0))
    rows, columns = len(maze["walls"]), len(maze["walls"][0])
    axis.set_xlim(x - scale / 2, x + (columns - 0.5) * scale)
    axis.set_ylim(y - (rows - 0.5) * scale, y + scale / 2)
