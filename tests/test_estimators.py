"""Every estimator against the exact occupancy of the paper's grid, and the ablation against both its ends."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce.tabular.candidates import Grouped
from tdinfonce.tabular.estimators import (
    CLearning,
    McInfonce,
    Successor,
    TdInfonce,
    certainty_equivalence,
    known_model,
)
from tdinfonce.tabular.estimators.c_learning import CLearningVariant
from tdinfonce.tabular.estimators.td_infonce import sample_sarsa
from tdinfonce.tabular.fit import fit
from tdinfonce.tabular.gridworld import gridworld
from tdinfonce.tabular.mdp import Mdp, action_values, exact_occupancy, rollouts, uniform_policy
from tdinfonce.tabular.statistics import Statistics, endless_data, stack_draws, summarise
from tdinfonce.tabular.values import values_from_occupancy

DISCOUNT = 0.9
MDP = gridworld()
POLICY = uniform_policy(MDP)
EXACT = exact_occupancy(MDP, POLICY, DISCOUNT)


@pytest.fixture(scope="module")
def walk() -> Statistics:
    data = rollouts(MDP, POLICY, np.random.default_rng(5), episodes=10, steps=2001)
    return summarise(data, 25, 5, DISCOUNT)


def test_certainty_equivalence_is_exact_on_ideal_data():
    np.testing.assert_allclose(certainty_equivalence(endless_data(MDP, POLICY, DISCOUNT), DISCOUNT), EXACT, atol=1e-12)


def test_certainty_equivalence_gives_unseen_pairs_the_marginal(walk):
    blind = walk.sarsa.copy()
    blind[7] = 0
    found = certainty_equivalence(Statistics(25, 5, walk.moves, blind, walk.futures), DISCOUNT)
    np.testing.assert_allclose(found.reshape(125, 25)[7], walk.marginal)
    np.testing.assert_allclose(found.sum(axis=2), 1)


def test_the_known_model_leaves_no_error():
    table = next(itertools.islice(known_model(MDP, POLICY, DISCOUNT), 200, None))
    assert np.abs(table - EXACT).mean() < 1e-6


@pytest.mark.parametrize(
    ("estimator", "limit"),
    [(TdInfonce, 0.0012), (McInfonce, 0.0018), (CLearning, 0.004), (Successor, 0.0006)],
)
def test_estimators_find_the_occupancy_in_ideal_data(estimator, limit):
    """From samples of ideal data what is left is optimisation noise; the first guess is off by 0.0308."""
    rates = {TdInfonce: 5e-3, McInfonce: 5e-3, CLearning: 1e-2, Successor: 1e-3}
    result = fit(
        estimator(DISCOUNT),
        stack_draws([endless_data(MDP, POLICY, DISCOUNT)]),
        jax.random.split(jax.random.key(0), 1),
        jnp.array([rates[estimator]]),
        steps=10_000,
        points=2,
        exact=EXACT,
    )
    assert result.average_error[-1, 0] < limit
    assert result.average_error[-1, 0] < result.average_error[0, 0] < 0.0308


def test_grouped_rows_have_the_candidates_of_their_group():
    """One group is the estimator itself; several are several minibatches."""
    one = TdInfonce(DISCOUNT, batch_size=8)
    draws = jax.tree.map(lambda x: x[0], stack_draws([endless_data(MDP, POLICY, DISCOUNT)]))
    table, target = jax.random.normal(jax.random.key(1), (2, 125, 25))
    batch = Grouped(one, 4).sample(draws, jax.random.key(0))
    assert {x.shape for x in batch} == {(4, 8)}
    assert len({tuple(x) for x in np.asarray(batch.pair)}) == 4
    alone = [one.loss(table, target, jax.tree.map(lambda x, i=i: x[i], batch), draws) for i in range(4)]
    np.testing.assert_allclose(Grouped(one, 4).loss(table, target, batch, draws), np.mean(alone), rtol=1e-5)
    whole = jax.tree.map(jnp.ravel, batch)
    assert abs(TdInfonce(DISCOUNT, batch_size=32).loss(table, target, whole, draws) - np.mean(alone)) > 0.1


def test_few_candidates_bias_td_infonce_and_not_monte_carlo():
    """With the same draws at every step: normalising the weights among few candidates flattens the futures."""
    ring = 0.9 * np.roll(np.eye(5), 1, axis=1) + 0.1 * np.eye(5)
    mdp, policy = Mdp(ring[:, None]), np.ones((5, 1))
    exact, draws = exact_occupancy(mdp, policy, 0.8), stack_draws([endless_data(mdp, policy, 0.8)])
    errors = {}
    for kind in (TdInfonce, McInfonce):
        for number in (2, 128):
            estimator = Grouped(kind(0.8, n_states=5, n_actions=1, batch_size=number), 128 // number)
            options = {"steps": 3_000, "exact": exact, "target_rate": 0.05}
            found = fit(estimator, draws, jax.random.split(jax.random.key(0), 1), jnp.array([5e-3]), **options)
            errors[kind, number] = found.average_error[-1, 0]
    assert errors[TdInfonce, 2] > 8 * errors[TdInfonce, 128]
    assert errors[McInfonce, 2] < 2 * errors[McInfonce, 128]
    assert errors[TdInfonce, 2] > 2 * errors[McInfonce, 2]


def test_td_infonce_comes_close_to_the_floor_and_values_follow(walk):
    floor = np.abs(certainty_equivalence(walk, DISCOUNT) - EXACT).mean()
    draws = stack_draws([walk])
    estimator = TdInfonce(DISCOUNT)
    keys = jax.random.split(jax.random.key(1), 1)
    result = fit(estimator, draws, keys, jnp.array([5e-3]), steps=15_000, exact=EXACT)
    assert result.average_error[-1, 0] < 1.3 * floor
    one = jax.tree.map(lambda x: x[0], draws)
    occupancy = np.asarray(estimator.occupancy(result.average[0], one), dtype=float)
    np.testing.assert_allclose(occupancy.sum(axis=2), 1, atol=1e-5)
    reward = np.random.default_rng(2).normal(size=POLICY.shape)
    exact_values = action_values(MDP, POLICY, reward, DISCOUNT)
    estimated = values_from_occupancy(occupancy, reward, POLICY, DISCOUNT)
    blind = values_from_occupancy(np.full_like(EXACT, 1 / 25), reward, POLICY, DISCOUNT)
    assert np.abs(estimated - exact_values).mean() < 0.25 * np.abs(blind - exact_values).mean()


def gradient(estimator, table, target, batch, draws):
    return jax.grad(estimator.loss)(table, target, batch, draws)


@pytest.mark.parametrize("seed", range(3))
def test_the_ablation_has_both_methods_at_its_ends(walk, seed):
    draws = jax.tree.map(lambda x: x[0], stack_draws([walk]))
    batch = sample_sarsa(draws, jax.random.key(seed), 256)
    table, target = 0.5 * jax.random.normal(jax.random.key(seed + 10), (2, 125, 25))
    free = 5 * jax.random.uniform(jax.random.key(seed), (125, 1))
    off, on = (
        CLearningVariant(DISCOUNT),
        CLearningVariant(DISCOUNT, categorical=True, self_normalised=True, all_pairs=True),
    )
    for variant, method in ((off, CLearning(DISCOUNT)), (on, TdInfonce(DISCOUNT))):
        for shown in (target, target + free):
            found = gradient(variant, table, shown, batch, draws)
            np.testing.assert_allclose(found, gradient(method, table, shown, batch, draws), atol=1e-6)
    assert not np.allclose(
        gradient(off, table, target, batch, draws), gradient(on, table, target, batch, draws), atol=1e-4
    )


@pytest.mark.parametrize("switch", ["categorical", "self_normalised", "all_pairs"])
def test_every_switch_of_the_ablation_does_something(walk, switch):
    draws = jax.tree.map(lambda x: x[0], stack_draws([walk]))
    batch = sample_sarsa(draws, jax.random.key(0), 256)
    table, target = 0.5 * jax.random.normal(jax.random.key(1), (2, 125, 25))
    one, other = CLearningVariant(DISCOUNT), CLearningVariant(DISCOUNT, **{switch: True})
    difference = gradient(one, table, target, batch, draws) - gradient(other, table, target, batch, draws)
    assert np.abs(difference).max() > 1e-5


def test_no_estimator_sends_gradient_into_its_target(walk):
    draws = jax.tree.map(lambda x: x[0], stack_draws([walk]))
    for estimator in (TdInfonce(DISCOUNT), CLearning(DISCOUNT), Successor(DISCOUNT)):
        batch = estimator.sample(draws, jax.random.key(0))
        table = 0.1 * jax.random.normal(jax.random.key(1), (125, 25))
        to_target = jax.grad(estimator.loss, argnums=1)(table, table, batch, draws)
        assert not np.any(to_target)


def test_lanes_do_not_touch_each_other(walk):
    """A lane gives the same numbers alone and beside others, so results do not depend on how work was grouped."""
    keys = jax.random.split(jax.random.key(0), 3)
    rates = jnp.array([1e-3, 1e-2, 5e-3])
    together = fit(TdInfonce(DISCOUNT), stack_draws([walk] * 3), keys, rates, steps=50, exact=EXACT)
    alone = fit(TdInfonce(DISCOUNT), stack_draws([walk]), keys[1:2], rates[1:2], steps=50, exact=EXACT)
    np.testing.assert_allclose(together.table[1], alone.table[0], atol=1e-6)


def test_fit_measures_where_it_says(walk):
    keys = jax.random.split(jax.random.key(0), 1)
    result = fit(TdInfonce(DISCOUNT), stack_draws([walk]), keys, jnp.array([1e-2]), steps=20, points=4, exact=EXACT)
    np.testing.assert_array_equal(result.steps, [5, 10, 15, 20])
    assert result.error.shape == result.average_error.shape == (4, 1)
    with pytest.raises(ValueError, match="points must divide steps"):
        fit(TdInfonce(DISCOUNT), stack_draws([walk]), keys, jnp.array([1e-2]), steps=20, points=3)


class Slope:
    """A table of two numbers that runs after its target, with noise."""

    def initial(self):
        return jnp.array([1.0, -2.0])

    def sample(self, draws, key):
        return jax.random.normal(key, (2,))

    def loss(self, table, target, batch, draws):
        return jnp.sum((table - target - 1 - batch) ** 2 * jnp.array([1.0, 3.0]))

    def occupancy(self, table, draws):
        return table


def test_fit_by_hand(walk):
    """Adam, a target that follows the new table, an average in which iterate k weighs as k cubed, fresh minibatches."""
    keys, rates = jax.random.split(jax.random.key(0), 2), np.array([0.1, 0.3])
    result = fit(Slope(), stack_draws([walk] * 2), keys, jnp.asarray(rates), steps=6, target_rate=0.4)
    for lane, (key, rate) in enumerate(zip(keys, rates, strict=True)):
        table = target = average = np.array([1.0, -2.0])
        first, second = np.zeros(2), np.zeros(2)
        for count in range(1, 7):
            noise = np.asarray(jax.random.normal(jax.random.fold_in(key, count), (2,)))
            slope = 2 * (table - target - 1 - noise) * [1, 3]
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            table = table - rate * first / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)
            target = 0.6 * target + 0.4 * table
            share = 4 / (count + 3)
            average = (1 - share) * average + share * table
        np.testing.assert_allclose(result.table[lane], table, rtol=1e-4)
        np.testing.assert_allclose(result.average[lane], average, rtol=1e-4)
