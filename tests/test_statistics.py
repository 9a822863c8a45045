"""Counting trajectories: nothing crosses an episode, futures follow the truncated geometric distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdinfonce.tabular.estimators._base import counts, draw
from tdinfonce.tabular.mdp import Trajectories
from tdinfonce.tabular.statistics import stack_draws, summarise

S, A = 3, 2


@st.composite
def trajectories(draw_from):
    episodes = draw_from(st.integers(1, 4))
    steps = draw_from(st.integers(2, 6))
    seed = draw_from(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, steps + 1, size=episodes)
    return Trajectories(rng.integers(0, S, (episodes, steps + 1)), rng.integers(0, A, (episodes, steps)), lengths)


def by_hand(data: Trajectories, discount: float, sarsa: bool):
    moves, chain, futures = np.zeros((S * A, S)), np.zeros((S * A, S * A)), np.zeros((S * A, S))
    for states, actions, length in zip(data.states, data.actions, data.lengths, strict=True):
        for t in range(length - sarsa):
            x = states[t] * A + actions[t]
            moves[x, states[t + 1]] += 1
            if sarsa:
                chain[x, states[t + 1] * A + actions[t + 1]] += 1
            weights = discount ** np.arange(length - t)
            for k, weight in enumerate(weights / weights.sum()):
                futures[x, states[t + 1 + k]] += weight
    return moves, chain, futures / moves.sum()


@given(trajectories(), st.sampled_from([0.0, 0.5, 0.95]), st.booleans())
def test_counts_agree_with_counting_one_by_one(data, discount, sarsa):
    moves, chain, futures = by_hand(data, discount, sarsa)
    found = summarise(data, S, A, discount, sarsa=sarsa)
    np.testing.assert_array_equal(found.moves, moves)
    np.testing.assert_array_equal(found.sarsa, chain)
    np.testing.assert_allclose(found.futures, futures, atol=1e-12)
    np.testing.assert_allclose(found.futures.sum(), 1, atol=1e-12)


@given(trajectories())
def test_padding_is_never_read(data):
    garbled = Trajectories(data.states.copy(), data.actions.copy(), data.lengths)
    for episode, length in enumerate(data.lengths):
        garbled.states[episode, length + 1 :] = (garbled.states[episode, length + 1 :] + 1) % S
        garbled.actions[episode, length:] = 1 - garbled.actions[episode, length:]
    one, other = (summarise(d, S, A, 0.9) for d in (data, garbled))
    np.testing.assert_array_equal(one.sarsa, other.sarsa)
    np.testing.assert_array_equal(one.futures, other.futures)


def test_too_short_episodes_are_named():
    data = Trajectories(np.zeros((2, 2), int), np.zeros((2, 1), int), np.ones(2, int))
    with pytest.raises(ValueError, match="every episode is too short"):
        summarise(data, S, A, 0.9)


def test_draws_follow_the_counts():
    rng = np.random.default_rng(1)
    data = Trajectories(rng.integers(0, S, (5, 30)), rng.integers(0, A, (5, 29)), np.full(5, 29))
    other = Trajectories(data.states[:1], data.actions[:1], data.lengths[:1])
    statistics = [summarise(d, S, A, 0.9) for d in (data, other)]
    stacked = stack_draws(statistics)
    uniform = jax.random.uniform(jax.random.key(0), (200_000,))
    for lane, wanted in enumerate(statistics):
        one = jax.tree.map(lambda x, lane=lane: x[lane], stacked)
        index = draw(one.sarsa_cdf, uniform)
        found = np.zeros_like(wanted.sarsa)
        np.add.at(found, (one.sarsa_pair[index], one.sarsa_next[index]), 1)
        np.testing.assert_allclose(found / len(uniform), wanted.sarsa / wanted.sarsa.sum(), atol=0.005)
        assert not np.any(found[wanted.sarsa == 0])
        future = np.bincount(draw(one.future_cdf, uniform), minlength=S * A * S)
        np.testing.assert_allclose(future / len(uniform), wanted.futures.ravel(), atol=0.005)


def test_draws_at_the_edges_hit_only_what_exists():
    cdf = jnp.array([0.0, 0.5, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(draw(cdf, jnp.array([0.0, 0.4999, 0.5, 0.9999])), [1, 1, 3, 3])


def test_counts_of_indices():
    np.testing.assert_array_equal(counts(jnp.array([2, 0, 2]), 4), [1, 0, 2, 0])
