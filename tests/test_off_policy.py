"""Stitching and shortcuts: the data are what they claim to be, and TD InfoNCE finds the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce.tabular.control import GoalMcInfonce, GoalTdInfonce, follow, greedy
from tdinfonce.tabular.fit import fit
from tdinfonce.tabular.gridworld import follow_words, gridworld, sample_paths, shortest_path, state
from tdinfonce.tabular.off_policy import OffPolicy, compare_policies, policy_lane_steps, shortcut_tasks, stitching_tasks
from tdinfonce.tabular.statistics import stack_draws, summarise


def make(task, transitions=4_000, seed=0):
    rng = np.random.default_rng(seed)
    return sample_paths(task.paths, task.share, rng, transitions=transitions, steps=task.steps)


def test_words_spell_paths():
    states, actions = follow_words(state(2, 0), "RUS", steps=5)
    assert states == [10, 11, 6, 6, 6, 6]
    assert actions == [3, 0, 4, 4, 4]
    with pytest.raises(ValueError, match="runs into the wall"):
        follow_words(0, "U")


def test_stitching_journeys_are_in_no_trajectory():
    (task,) = stitching_tasks()
    data = make(task)
    assert len(task.journeys) == 8
    for start, goal in task.journeys:
        together = np.any(data.states == start, axis=1) & np.any(data.states == goal, axis=1)
        assert not together.any()
        assert shortest_path(data, start, goal) == 6


def test_shortcuts_are_rare_and_shortest():
    for task in shortcut_tasks():
        data = make(task, transitions=60_000)
        (start, goal), short = task.journeys[0], task.paths[0][1]
        assert shortest_path(data, start, goal) == len(short)
        arrival = np.argmax(data.states == goal, axis=1)
        assert np.mean(arrival == len(short)) == pytest.approx(0.05, abs=0.01)


def test_shortcuts_look_worse_on_average_except_in_the_control():
    """The goal's share of the behaviour's future after the short path's first action, against the best other action."""
    for task in shortcut_tasks():
        data = summarise(make(task, transitions=60_000), 25, 5, 0.95, sarsa=False)
        (start, goal) = task.journeys[0]
        first = follow_words(*task.paths[0])[1][0]
        chance = data.futures.reshape(25, 5, 25)[start]
        seen = chance.sum(axis=1) > 0
        goal_share = np.where(seen, chance[:, goal] / np.maximum(chance.sum(axis=1), 1e-12), -1)
        assert (np.argmax(goal_share) == first) == (task.name == "control")


def policy_of(estimator, task, steps, rate=1e-2):
    draws = stack_draws([summarise(make(task), 25, 5, 0.95, sarsa=False)])
    result = fit(estimator, draws, jax.random.split(jax.random.key(0), 1), jnp.array([rate]), steps=steps)
    one = jax.tree.map(lambda x: x[0], draws)
    return np.asarray(greedy(estimator.scores(result.table[0], one), one.seen)), np.asarray(one.seen)


def test_td_infonce_stitches():
    (task,) = stitching_tasks()
    policy, seen = policy_of(GoalTdInfonce(0.95), task, steps=2_000)
    for start, goal in task.journeys:
        assert follow(gridworld(), policy, start, goal, 50)[-1] == goal
    for s in range(25):
        if seen[s].any():
            assert seen[s, policy[s]].all(), "the policy took an action that the data do not hold"


def test_td_infonce_takes_the_shortcut_and_monte_carlo_does_not():
    task = shortcut_tasks()[0]
    (start, goal) = task.journeys[0]
    td, _ = policy_of(GoalTdInfonce(0.95), task, steps=2_000)
    mc, _ = policy_of(GoalMcInfonce(0.95), task, steps=2_000)
    assert len(follow(gridworld(), td, start, goal, 50)) - 1 == 4
    assert len(follow(gridworld(), mc, start, goal, 50)) - 1 == 6


def test_following_stops_at_the_goal_and_at_the_limit():
    stay = np.full((25, 25), 4)
    assert follow(gridworld(), stay, 3, 3, 10) == [3]
    assert follow(gridworld(), stay, 3, 4, 10) == [3] * 11
    with pytest.raises(ValueError, match="every move is certain"):
        follow(gridworld(slip=0.1), stay, 0, 1, 10)


def test_comparison_logs_every_journey_and_all_its_progress():
    config = OffPolicy(stitching_tasks(), transitions=800, steps=20, learning_rates=(1e-2, 1e-3))
    rows, done = [], []
    compare_policies(config, (0, 1), rows.append, done.append)
    tried = [row for row in rows if row["phase"] == "evaluate"]
    assert len(tried) == 2 * 2 * 8
    assert sum(done) == policy_lane_steps(config, (0, 1))
    assert all(row["path"][0] == row["start"] for row in tried)
    assert {row["seed"] for row in tried} == {0, 1}
    assert {row["seed"] for row in rows if row["phase"] == "tune"} == {1000}
