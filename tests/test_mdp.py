"""The exact side of the tabular world: occupancies, the Bellman operator, values, walks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_mdp
from tdinfonce.losses import td_infonce
from tdinfonce.tabular.gridworld import ACTIONS, cell, gridworld, state
from tdinfonce.tabular.mdp import (
    Mdp,
    Trajectories,
    action_values,
    exact_occupancy,
    infonce_bellman,
    rollouts,
    uniform_policy,
)
from tdinfonce.tabular.theory import expected_mc_infonce, expected_td_infonce, n_step_occupancy, optimal_logits
from tdinfonce.tabular.values import values_from_occupancy, values_from_weights

# Closed-form figures of the 5×5 grid under the uniform policy: largest and smallest entry, and the error of 1/25.
ANCHORS = {
    0.90: (0.312077, 0.004339, 0.030754),
    0.95: (0.202592, 0.012038, 0.020245),
    0.99: (0.079850, 0.030746, 0.005667),
}


@pytest.mark.parametrize("discount", ANCHORS)
def test_occupancy_of_the_paper_grid(discount):
    mdp = gridworld()
    occupancy = exact_occupancy(mdp, uniform_policy(mdp), discount)
    found = (occupancy.max(), occupancy.min(), np.abs(occupancy - 1 / 25).mean())
    np.testing.assert_allclose(found, ANCHORS[discount], atol=6e-7)
    np.testing.assert_allclose(occupancy.sum(axis=2), 1, rtol=1e-12)


def test_occupancy_is_the_discounted_sum_over_time(rng):
    mdp, policy = random_mdp(rng)
    discount = 0.7
    step = np.einsum("sa,sat->st", policy, mdp.transition)
    total, at_time = np.zeros(mdp.transition.shape), mdp.transition
    for t in range(120):
        total += (1 - discount) * discount**t * at_time
        at_time = at_time @ step
    np.testing.assert_allclose(exact_occupancy(mdp, policy, discount), total, atol=1e-12)


def test_occupancy_starts_at_the_next_state():
    # Two states, always swap: from 0 the next state is 1, so at discount 0 all the mass is there.
    swap = Mdp(np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    np.testing.assert_allclose(exact_occupancy(swap, np.ones((2, 1)), 0.0)[0, 0], [0, 1])
    # At discount 1/2: mass 1/2 at t = 1, 1/4 at t = 2, … = 2/3 on the other state.
    np.testing.assert_allclose(exact_occupancy(swap, np.ones((2, 1)), 0.5)[0, 0], [1 / 3, 2 / 3])


@given(st.integers(0, 1000), st.floats(0.0, 0.98))
def test_the_bellman_operator_is_a_contraction(seed, discount):
    rng = np.random.default_rng(seed)
    mdp, policy = random_mdp(rng)
    one, other = rng.normal(size=(2, *mdp.transition.shape))
    after = infonce_bellman(mdp, policy, discount, one) - infonce_bellman(mdp, policy, discount, other)
    assert np.abs(after).max() <= discount * np.abs(one - other).max() + 1e-12


@given(st.integers(0, 1000))
def test_iterating_the_operator_finds_the_occupancy_from_anywhere(seed):
    rng = np.random.default_rng(seed)
    mdp, policy = random_mdp(rng)
    table = 10 * rng.normal(size=mdp.transition.shape)
    for _ in range(200):
        table = infonce_bellman(mdp, policy, 0.9, table)
    np.testing.assert_allclose(table, exact_occupancy(mdp, policy, 0.9), atol=1e-6)


def test_the_expected_loss_is_minimised_by_one_application_of_the_operator(rng):
    mdp, policy = random_mdp(rng, states=4, actions=2)
    marginal = rng.dirichlet(np.ones(4))
    target = rng.normal(size=mdp.transition.shape)
    classifier = np.exp(target) * marginal
    classifier /= classifier.sum(axis=2, keepdims=True)
    backed_up = infonce_bellman(mdp, policy, 0.9, classifier)
    with jax.enable_x64(True):

        def loss(logits):
            return expected_td_infonce(mdp, policy, 0.9, marginal, logits, jnp.asarray(target)).sum()

        minimiser = jnp.asarray(optimal_logits(backed_up, marginal, rng.normal(size=(4, 2))))
        assert float(jnp.abs(jax.grad(loss)(minimiser)).max()) < 1e-10
        assert float(jnp.abs(jax.grad(loss)(jnp.asarray(target))).max()) > 1e-3
        # The loss is convex in the logits, so a gradient of zero is the minimum; a step away is worse.
        for _ in range(10):
            assert loss(minimiser + 0.1 * rng.normal(size=minimiser.shape)) > loss(minimiser)


def test_repeated_minimisation_of_the_expected_loss_converges(rng):
    """Fitted iteration with the real loss function: minimise by gradient, copy to the target, repeat."""
    mdp, policy = random_mdp(rng, states=3, actions=2)
    marginal, discount = np.full(3, 1 / 3), 0.6
    with jax.enable_x64(True):
        gradient = jax.jit(
            jax.grad(lambda f, target: expected_td_infonce(mdp, policy, discount, marginal, f, target).sum())
        )
        target = jnp.asarray(3 * rng.normal(size=mdp.transition.shape))
        for _ in range(40):
            logits = target
            for _ in range(200):
                logits = logits - 2.0 * gradient(logits, target)
            target = logits
        classifier = jax.nn.softmax(target + jnp.log(marginal), axis=-1)
        np.testing.assert_allclose(classifier, exact_occupancy(mdp, policy, discount), atol=1e-6)


def test_at_the_optimum_both_losses_are_equal(rng):
    """L_TD(f*) = L_MC(f*), whatever the free constants are; with another discount, target or marginal it is not."""
    mdp, policy = random_mdp(rng, states=4, actions=2)
    marginal, constant = rng.dirichlet(np.ones(4)), rng.normal(size=(4, 2))
    occupancy = exact_occupancy(mdp, policy, 0.9)
    best = optimal_logits(occupancy, marginal, constant)
    wrong = {
        "discount": (0.8, marginal, best),
        "target": (0.9, marginal, best + 0.3 * rng.normal(size=best.shape)),
        "one-step future": (0.9, marginal, optimal_logits(mdp.transition, marginal)),
        "marginal": (0.9, rng.dirichlet(np.ones(4)), best),
    }
    with jax.enable_x64(True):
        td = expected_td_infonce(mdp, policy, 0.9, marginal, best, best)
        np.testing.assert_allclose(td, expected_mc_infonce(occupancy, marginal, best), atol=1e-12)
        entropy = -(occupancy * np.log(occupancy)).sum(axis=2)
        futures = -(occupancy * np.log(marginal)).sum(axis=2)
        np.testing.assert_allclose(td, entropy - futures, atol=1e-12, err_msg="minus the information of the row")
        # Of any critic, as long as the target's futures are right: then both losses are one function.
        other = rng.normal(size=best.shape)
        td = expected_td_infonce(mdp, policy, 0.9, marginal, other, best)
        np.testing.assert_allclose(td, expected_mc_infonce(occupancy, marginal, other), atol=1e-12)
        for what, (discount, candidates, target) in wrong.items():
            td = expected_td_infonce(mdp, policy, discount, candidates, best, target)
            assert jnp.abs(td - expected_mc_infonce(occupancy, candidates, best)).max() > 1e-3, what


@pytest.mark.parametrize("n", [1, 2, 5])
def test_n_steps_have_the_same_loss_at_the_optimum(rng, n):
    """Positives among the next n states by γ^(k-1), and a bootstrap of γ^n behind them; not with one of γ."""
    mdp, policy = random_mdp(rng, states=4, actions=2)
    marginal, discount = rng.dirichlet(np.ones(4)), 0.8
    occupancy = exact_occupancy(mdp, policy, discount)
    best = optimal_logits(occupancy, marginal)
    step = np.einsum("sa,sat->st", policy, mdp.transition)
    reached = [mdp.transition.reshape(8, 4) @ np.linalg.matrix_power(step, k) for k in range(n)]
    near = sum(discount**k * reached[k] for k in range(n)) * (1 - discount) / (1 - discount**n)
    ends = np.einsum("xt,ta->xta", reached[-1], policy).reshape(8, 8)
    pair, positive, end = (index.ravel() for index in np.indices((8, 4, 8)))
    weight = near[pair, positive] * ends[pair, end]

    def loss(bootstrap: float) -> np.ndarray:
        flat = jnp.asarray(best.reshape(8, 4))
        counts = {"positive": positive, "next_counts": marginal, "random_counts": marginal}
        rows = td_infonce(flat[pair], flat[pair], flat[end], discount=bootstrap, **counts)
        return np.bincount(pair, weight * np.asarray(rows)).reshape(4, 2)

    with jax.enable_x64(True):
        expected = np.asarray(expected_mc_infonce(occupancy, marginal, best))
        np.testing.assert_allclose(loss(discount**n), expected, atol=1e-12)
        for bootstrap in (discount ** (n + 1), 1 - discount**n):
            assert np.abs(loss(bootstrap) - expected).max() > 1e-3


def test_n_step_bootstrapping_joins_the_behaviour_to_the_policy(rng):
    mdp, policy = random_mdp(rng)
    behaviour = uniform_policy(mdp)
    np.testing.assert_allclose(n_step_occupancy(mdp, behaviour, policy, 0.8, 1), exact_occupancy(mdp, policy, 0.8))
    for n in (2, 5):  # on its own data the policy is not misjudged
        on_policy = n_step_occupancy(mdp, policy, policy, 0.8, n)
        np.testing.assert_allclose(on_policy, exact_occupancy(mdp, policy, 0.8), atol=1e-12)
    endless = n_step_occupancy(mdp, behaviour, policy, 0.8, 200)
    np.testing.assert_allclose(endless, exact_occupancy(mdp, behaviour, 0.8), atol=1e-12)


def test_two_step_bootstrapping_by_hand():
    # Three states in a row, actions "on" and "back"; state 2 keeps its visitor. The data go back, the policy goes on.
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[1, 0, 2] = moves[0, 1, 0] = moves[1, 1, 0] = 1
    moves[2, :, 2] = 1
    on, back = (np.eye(2)[[a] * 3] for a in (0, 1))
    found = n_step_occupancy(Mdp(moves), back, on, 0.5, 2)
    # From 0 by "on": state 1 (1/2), then back to 0 (1/4); from there the policy's "on" repeats both with weight 1/4.
    np.testing.assert_allclose(found[0, 0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(exact_occupancy(Mdp(moves), on, 0.5)[0, 0], [0, 1 / 2, 1 / 2])
    with pytest.raises(ValueError, match="at least 1"):
        n_step_occupancy(Mdp(moves), back, on, 0.5, 0)


@given(st.integers(0, 1000), st.floats(0.0, 0.98))
def test_values_from_the_exact_occupancy_are_the_exact_values(seed, discount):
    rng = np.random.default_rng(seed)
    mdp, policy = random_mdp(rng)
    reward = rng.normal(size=policy.shape)
    exact = action_values(mdp, policy, reward, discount)
    occupancy = exact_occupancy(mdp, policy, discount)
    np.testing.assert_allclose(values_from_occupancy(occupancy, reward, policy, discount), exact, atol=1e-9)


def test_action_values_satisfy_the_bellman_equation(rng):
    mdp, policy = random_mdp(rng)
    reward = rng.normal(size=policy.shape)
    values = action_values(mdp, policy, reward, 0.9)
    np.testing.assert_allclose(values, reward + 0.9 * mdp.transition @ np.sum(policy * values, axis=1), atol=1e-10)


@given(st.integers(0, 1000))
def test_an_error_of_the_occupancy_bounds_the_error_of_the_values(seed):
    rng = np.random.default_rng(seed)
    mdp, policy = random_mdp(rng)
    reward, discount = rng.uniform(-1, 1, size=policy.shape), 0.9
    occupancy = exact_occupancy(mdp, policy, discount)
    estimate = 0.9 * occupancy + 0.1 * rng.dirichlet(np.ones(mdp.n_states), size=policy.shape)
    difference = values_from_occupancy(estimate, reward, policy, discount) - action_values(
        mdp, policy, reward, discount
    )
    bound = discount / (1 - discount) * np.abs(estimate - occupancy).sum(axis=2)
    assert np.all(np.abs(difference) <= bound + 1e-9)
    assert np.abs(difference).max() > 0


def test_values_from_sampled_weights_approach_the_exact_values(rng):
    mdp, policy = random_mdp(rng)
    marginal = rng.dirichlet(5 * np.ones(mdp.n_states))
    reward, discount = rng.normal(size=policy.shape), 0.9
    logits = optimal_logits(exact_occupancy(mdp, policy, discount), marginal, rng.normal(size=policy.shape))
    states = rng.choice(mdp.n_states, size=200_000, p=marginal)
    actions = (rng.random((len(states), 1)) > np.cumsum(policy, axis=1)[states]).sum(axis=1)
    found = values_from_weights(
        logits.reshape(-1, mdp.n_states)[:, states], reward.ravel(), reward[states, actions], discount
    )
    exact = action_values(mdp, policy, reward, discount).ravel()
    np.testing.assert_allclose(found, exact, atol=0.15)
    assert np.std(exact) > 0.5  # so that 0.15 means something


def test_gridworld_moves_and_walls():
    mdp = gridworld()
    assert (mdp.n_states, mdp.n_actions) == (25, 5)
    ends = {name: cell(int(mdp.successor[state(0, 2), a])) for a, name in enumerate(ACTIONS)}
    assert ends == {"up": (0, 2), "down": (1, 2), "left": (0, 1), "right": (0, 3), "stay": (0, 2)}


def test_slip_mixes_in_every_action():
    mdp = gridworld(slip=0.5)
    assert mdp.successor is None
    # Down from the top left corner: 1/2 + 1/10 down, 1/10 right, and up, left and stay leave it there.
    np.testing.assert_allclose(mdp.transition[0, 1, [5, 1, 0]], [0.6, 0.1, 0.3])


def test_walks_follow_policy_and_transitions(rng):
    mdp, policy = random_mdp(rng, states=3, actions=2)
    walk = rollouts(mdp, policy, rng, episodes=2000, steps=50)
    states, actions, following = walk.states[:, :-1].ravel(), walk.actions.ravel(), walk.states[:, 1:].ravel()
    for s in range(3):
        assert np.mean(actions[states == s] == 0) == pytest.approx(policy[s, 0], abs=0.01)
        for a in range(2):
            here = (states == s) & (actions == a)
            share = np.bincount(following[here], minlength=3) / here.sum()
            np.testing.assert_allclose(share, mdp.transition[s, a], atol=0.015)


def test_walks_repeat_with_the_seed():
    mdp = gridworld()
    one, other = (rollouts(mdp, uniform_policy(mdp), np.random.default_rng(3), episodes=4, steps=9) for _ in range(2))
    np.testing.assert_array_equal(one.states, other.states)
    np.testing.assert_array_equal(one.actions, other.actions)


def test_bad_input_is_named(rng):
    with pytest.raises(ValueError, match=r"transition must be \[S, A, S\]"):
        Mdp(np.ones((2, 2)))
    with pytest.raises(ValueError, match="row of transition must be a probability distribution"):
        Mdp(np.ones((2, 1, 2)))
    mdp, policy = random_mdp(rng)
    with pytest.raises(ValueError, match=r"policy must be \[S, A\]"):
        exact_occupancy(mdp, policy[:, :1], 0.9)
    with pytest.raises(ValueError, match="discount must be at least 0 and below 1"):
        exact_occupancy(mdp, policy, 1.0)
    with pytest.raises(ValueError, match="slip must be a probability"):
        gridworld(slip=2.0)
    with pytest.raises(ValueError, match=r"states must be \[E, T \+ 1\]"):
        Trajectories(np.zeros((1, 3)), np.zeros((1, 3)), np.array([3]))
