"""Stitching and shortcuts: the data are what they claim to be, and TD InfoNCE finds the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce.tabular.control import GoalBatch, GoalMcInfonce, GoalTdInfonce, follow, greedy
from tdinfonce.tabular.fit import fit
from tdinfonce.tabular.gridworld import follow_words, gridworld, sample_paths, shortest_path, state
from tdinfonce.tabular.off_policy import OffPolicy, compare_policies, policy_lane_steps, shortcut_tasks, stitching_tasks
from tdinfonce.tabular.statistics import Draws, stack_draws, summarise


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


def test_the_loss_of_goal_conditioned_td_infonce_by_hand():
    """The next action is the best for the row's own goal, under the target, of those that the data hold."""
    rng = np.random.default_rng(0)
    estimator = GoalTdInfonce(0.8, n_states=3, n_actions=2, batch_size=6)
    table, target = rng.normal(size=(2, 6, 3, 3))
    marginal, seen = np.array([0.5, 0.2, 0.3]), np.array([[True, False], [True, True], [False, True]])
    batch = GoalBatch(
        *(np.array(x) for x in ([0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 1, 2], [2, 0, 1, 1, 2, 0], [1, 1, 2, 0, 0, 1]))
    )
    nothing = jnp.zeros(1)
    draws = Draws(*[nothing] * 6, jnp.asarray(marginal), nothing, jnp.asarray(seen))
    following, random = (np.bincount(x, minlength=3) for x in (batch.next_state, batch.random_state))
    rows, unseen = [], 0
    for pair, after, goal in zip(batch.pair, batch.next_state, batch.goal, strict=True):
        ahead = target.reshape(3, 2, 3, 3)[after, :, goal]
        chance = np.exp(ahead) * marginal / (np.exp(ahead) * marginal).sum(1, keepdims=True)
        best = max(np.nonzero(seen[after])[0], key=lambda action: chance[action, goal])
        unseen += best != np.argmax(chance[:, goal])
        weight = np.exp(ahead[best]) * random / (np.exp(ahead[best]) * random).sum()
        logits = table[pair, goal]
        near = np.log((np.exp(logits) * following).sum()) - logits[after]
        rows.append(0.2 * near + 0.8 * (np.log((np.exp(logits) * random).sum()) - (weight * logits).sum()))
    assert 0 < unseen < 6, "an action that the data do not hold looks best somewhere"
    np.testing.assert_allclose(
        estimator.loss(*map(jnp.asarray, (table, target)), batch, draws), np.mean(rows), rtol=1e-5
    )


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
