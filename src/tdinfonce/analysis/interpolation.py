"""Between the representations of a start and of a goal: which states lie there? Drawn from above."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis.datasets import draw_walls
from tdinfonce.analysis.style import COLOURS, new_figure, save
from tdinfonce.system.files import write_text_atomic

__all__ = ["along", "largest_jump", "nonparametric", "parametric", "report", "slerp", "visited", "way_share"]

POINTS = 12
"""Points between start and goal, the two included."""
FILE = "representations.npz"
MEANING = (
    "The paper claims, by eye, that the states between are those of the best way to the goal. Here: the share of "
    "points whose cell lies on a shortest way, beside that of all states; the share of the cells between the first and "
    "the last, along the way, that a point lies in, and the most cells from one point to the next, since points at "
    "both ends and none between would be on the way too; and the rank correlation of their order with the steps left, "
    "-1 if each point is nearer to the goal than the one before. Last, of all states: the rank correlation of how far "
    "along the straight line from start to goal their representations lie with the steps left, -1 if farther along "
    "always means nearer to the goal."
)


def slerp(start: np.ndarray, goal: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Points ``[S, d]`` on the arc between two unit vectors, each at its share of the way."""
    angle = np.arccos(np.clip(start @ goal, -1, 1))
    if np.sin(angle) < 1e-6:
        return np.tile(start, (len(share), 1))
    weights = np.stack([np.sin((1 - share) * angle), np.sin(share * angle)], axis=1) / np.sin(angle)
    return np.asarray(weights @ np.stack([start, goal]))


def parametric(start: np.ndarray, goal: np.ndarray, states: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The state nearest in angle to each point on the arc, as an index."""
    return np.argmax(slerp(start, goal, share) @ states.T, axis=1)


def nonparametric(
    start: np.ndarray, goal: np.ndarray, states: np.ndarray, anchors: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """The state nearest to each mixture of two features, as an index; a feature is a softmax over anchors."""
    first, last = _features(start[None], anchors), _features(goal[None], anchors)
    mixed = (1 - share)[:, None] * first + share[:, None] * last
    found = _features(states, anchors)
    gaps = np.sum(found**2, axis=1)[None] - 2 * mixed @ found.T  # squared distances, less a constant of each row
    return np.argmin(gaps, axis=1)


def along(start: np.ndarray, goal: np.ndarray, states: np.ndarray) -> np.ndarray:
    """How far along the line from start to goal each representation lies, at right angles to it: 0 at the start, 1 at
    the goal.
    """
    line = goal - start
    return np.asarray((states - start) @ line / max(float(line @ line), 1e-12))


def _features(x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    logits = x @ anchors.T
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def report(folder: Path, title: str) -> None:
    """Draw ``figure.png`` and write ``table.md`` from the folder's representations."""
    with np.load(folder / FILE) as file:
        arrays = {name: file[name] for name in file.files}
    maze, places = json.loads(str(arrays["maze"])), arrays["place"]
    share = np.linspace(0, 1, POINTS)
    pairs = len(arrays["start"])
    figure, axes = new_figure(2, pairs, width=3.4, height=3.3)
    lines = [f"# {title}", "", f"{arrays['task']}, {len(places):,} states, {POINTS} points from start to goal.", ""]
    lines += [
        MEANING,
        "",
        "| pair | interpolation | on a shortest way | all states | cells between | largest jump | order | line, all |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for pair in range(pairs):
        start, goal, states = (arrays[name][pair] for name in ("start", "goal", "states"))
        found = {
            "parametric": parametric(start[0], goal[0], states, share),
            "non-parametric": nonparametric(start[0], goal[0], states, arrays["anchors"][pair], share),
        }
        ends = arrays["start_place"][pair], arrays["goal_place"][pair]
        for row, (name, index) in enumerate(found.items()):
            _draw(axes[row][pair], places, places[index], ends, maze, share, name)
            points = places[index]
            numbers = [way_share(maze, points, *ends), way_share(maze, places, *ends), visited(maze, points, *ends)]
            numbers += [largest_jump(maze, points), _rank_correlation(_steps_left(maze, points, ends[1]), share)]
            numbers += [_rank_correlation(_steps_left(maze, places, ends[1]), along(start[0], goal[0], states))]
            cells = " | ".join("unknown" if value is None else f"{value:.2f}" for value in numbers)
            lines.append(f"| {pair + 1} | {name} | {cells} |")
    figure.suptitle(title)
    save(figure, folder)
    write_text_atomic(folder / "table.md", "\n".join([*lines, ""]))


def _draw(
    axis: Any,
    places: np.ndarray,
    points: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    maze: Any,
    share: np.ndarray,
    name: str,
) -> None:
    """All states in grey, the points between by their share of the way, start and goal as cross and star."""
    draw_walls(axis, maze)
    axis.plot(places[:, 0], places[:, 1], ".", color="#d0d3d4", markersize=1, zorder=1, rasterized=True)
    axis.plot(points[:, 0], points[:, 1], "-", color=COLOURS["td-infonce"], linewidth=0.8, alpha=0.5, zorder=3)
    axis.scatter(points[:, 0], points[:, 1], c=share, cmap="viridis", s=28, zorder=4)
    for place, marker, colour in zip(ends, "X*", ("#c0392b", "#27ae60"), strict=True):
        axis.plot(*place[:2], marker=marker, color=colour, markersize=13, markeredgecolor="white", zorder=5)
    axis.set(aspect="equal", xticks=[], yticks=[])
    axis.set_title(name, fontsize=9)
    axis.grid(False)


def way_share(maze: Any, points: np.ndarray, start: np.ndarray, goal: np.ndarray) -> float | None:
    """Share of the points whose cell lies on a shortest way from start to goal; None without a maze."""
    before, left = _steps_left(maze, points, start), _steps_left(maze, points, goal)
    whole = _steps_left(maze, start[None], goal)
    if before is None or left is None or whole is None:
        return None
    return float(np.mean(before + left == whole[0]))


def visited(maze: Any, points: np.ndarray, start: np.ndarray, goal: np.ndarray) -> float | None:
    """Share of the cells between start and goal, on a shortest way, that a point lies in; None if there are none."""
    before, left = _steps_left(maze, points, start), _steps_left(maze, points, goal)
    whole = _steps_left(maze, start[None], goal)
    if before is None or left is None or whole is None or whole[0] < 2:
        return None
    on_the_way = left[(before + left == whole[0]) & (before > 0) & (left > 0)]
    return len(set(on_the_way.tolist())) / (int(whole[0]) - 1)


def largest_jump(maze: Any, points: np.ndarray) -> float | None:
    """The most cells to cross from one point to the next; None without a maze."""
    steps = [_steps_left(maze, points[i : i + 1], points[i + 1]) for i in range(len(points) - 1)]
    return None if not maze else float(max(int(step[0]) for step in steps if step is not None))


def _steps_left(maze: Any, points: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
    """Cells to cross from each point to the goal; a point in a wall counts as in the nearest free cell."""
    if not maze:
        return None
    free = np.argwhere(np.asarray(maze["walls"]) == 0)
    centres = np.array(maze["first"]) + maze["scale"] * np.stack([free[:, 1], -free[:, 0]], axis=1)

    def cells(xy: np.ndarray) -> list[tuple[int, int]]:
        nearest = np.argmin(np.linalg.norm(xy[:, None, :2] - centres[None], axis=2), axis=1)
        return [(int(r), int(c)) for r, c in free[nearest]]

    away, queue, known = {cells(goal[None])[0]: 0}, deque(cells(goal[None])), {(int(r), int(c)) for r, c in free}
    while queue:
        row, column = queue.popleft()
        for near in ((row, column - 1), (row, column + 1), (row + 1, column), (row - 1, column)):
            if near in known and near not in away:
                away[near] = away[row, column] + 1
                queue.append(near)
    return np.array([away[cell] for cell in cells(points)])


def _rank_correlation(values: np.ndarray | None, others: np.ndarray) -> float | None:
    """Spearman's; 0 if all values are equal."""
    if values is None or len(set(values.tolist())) < 2 or len(set(others.tolist())) < 2:
        return None if values is None else 0.0
    return float(np.corrcoef(_ranks(values), _ranks(others))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each value in their order; equal ones share the mean of theirs."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count + 1) / 2)[group])
