"""Stored walks as journeys: cut where a new goal was commanded, trimmed soon after arrival."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce.analysis.datasets import goal_share
from tdinfonce.data import Episodes, cut_at_goals, trim_after_arrival
from tdinfonce.errors import UserError


def line(*walks: tuple[list[float], list[tuple[int, float]]], **more: Any) -> Episodes:
    """Walks along a line: places, and goals with the time from which each was commanded."""
    places = [np.array(walk, np.float32)[:, None] for walk, _ in walks]
    length = np.array([len(place) - 1 for place in places])
    start = np.cumsum(length + 1) - length - 1
    later = [(first + time, goal) for first, (_, goals) in zip(start, walks, strict=True) for time, goal in goals[1:]]
    rows = np.concatenate(places)
    goal = np.array([[goals[0][1]] for _, goals in walks], np.float32)
    renewed = {
        "renewed_row": np.array([row for row, _ in later], np.int64),
        "renewed_goal": np.array([[goal] for _, goal in later], np.float32).reshape(-1, 1),
    }
    return Episodes(rows, rows, np.zeros_like(rows), start, length, goal, **renewed, **more)


def found(episodes: Episodes) -> list[tuple[list[float], float]]:
    parts = (episodes.episode(index) for index in range(len(episodes)))
    return [(part.achieved.ravel().tolist(), float(part.goal[0])) for part in parts]


def test_walks_are_cut_where_a_new_goal_was_commanded() -> None:
    walks = line(([0, 1, 2, 3, 2, 1, 0], [(0, 3), (3, 0)]), ([5, 6, 7], [(0, 9)]))
    pieces = [([0, 1, 2, 3], 3), ([3, 2, 1, 0], 0), ([5, 6, 7], 9)]
    assert found(cut_at_goals(walks)) == pieces
    assert found(cut_at_goals(cut_at_goals(walks))) == pieces


def test_pieces_of_one_step_are_left_out() -> None:
    walks = line(([0, 1, 2, 3, 4, 5], [(0, 2), (2, 3), (3, 5)]), ([7, 8, 9], [(0, 8), (1, 9)]))
    assert found(cut_at_goals(walks)) == [([0, 1, 2], 2), ([3, 4, 5], 5)]


def test_only_the_last_piece_ends_as_its_walk_did() -> None:
    walks = line(([0, 1, 2, 3, 4], [(0, 2), (2, 4)]), ([5, 6, 7], [(0, 7)]), terminal=np.array([True, False]))
    assert cut_at_goals(walks).terminal.tolist() == [False, True, False]  # type: ignore[union-attr]


def test_a_part_of_the_walks_can_be_cut() -> None:
    walks = line(([0, 1, 2, 3, 4], [(0, 2), (2, 4)]), ([5, 6, 7, 8, 9], [(0, 7), (2, 9)]))
    assert found(cut_at_goals(walks.chosen(np.array([1])))) == [([5, 6, 7], 7), ([7, 8, 9], 9)]


def test_walks_are_trimmed_after_their_first_arrival() -> None:
    walks = line(([0, 1, 2, 3, 3, 3, 2], [(0, 3)]), ([0, 1, 0, 1], [(0, 9)]), ([3, 3, 3, 3], [(0, 3)]))
    trimmed = trim_after_arrival(walks, 1, 0.5)
    assert found(trimmed) == [([0, 1, 2, 3, 3], 3), ([0, 1, 0, 1], 9), ([3, 3, 3], 3)]
    assert found(trim_after_arrival(walks, 1, 1.5))[0] == ([0, 1, 2, 3], 3)


def test_the_share_of_steps_at_the_goal_follows_the_goal_of_each_step() -> None:
    walks = line(([0, 1, 2, 3, 2, 1, 0], [(0, 3), (3, 0)]), ([9, 9, 9], [(0, 9)]))
    assert goal_share(walks, 0.5) == pytest.approx((1 + 1 + 2) / 8)
    assert goal_share(cut_at_goals(walks), 0.5) == pytest.approx((1 + 1 + 2) / 8)


@pytest.mark.parametrize("change", [cut_at_goals, lambda e: trim_after_arrival(e, 5, 0.5)])
def test_walks_without_commanded_goals_are_refused(change: Any) -> None:
    with pytest.raises(UserError, match="no commanded goals"):
        change(line(([0, 1, 2], [(0, 2)]), commanded=False))


def test_a_run_cuts_and_trims_by_its_settings(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("gymnasium_robotics")
    from tdinfonce.recording.generate import make_data

    source = make_data("pointmaze-umaze", tmp_path / "set-v0", kind="navigate", transitions=3_000).source
    options: Any = {"agent": "gcbc", "hidden": 8, "updates": 10, "batch_size": 16}
    sizes = {}
    for name, more in {"whole": {}, "cut": {"cut_at_goals": True}, "trimmed": {"trim_after_arrival": 3}}.items():
        plan = td.plan(data=source, **options, **more)
        run = td.train(plan, out=tmp_path / name)
        assert run.complete
        sizes[name] = run.plan.data
    assert sizes["cut"]["episodes"] > 3 * sizes["whole"]["episodes"]
    assert sizes["cut"]["transitions"] > 0.95 * sizes["whole"]["transitions"]
    assert sizes["trimmed"]["episodes"] == sizes["whole"]["episodes"]
    assert sizes["trimmed"]["transitions"] < 0.5 * sizes["whole"]["transitions"]
    with pytest.raises(UserError, match="cut_at_goals"):
        td.train(td.plan(data=source, **options), out=tmp_path / "cut")
    with pytest.raises(UserError, match="how near is near enough"):
        td.train(data=[(np.zeros((5, 2)), np.zeros((4, 1)))], goal="0:2", trim_after_arrival=3, out=tmp_path / "no")
