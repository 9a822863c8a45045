"""Hand arithmetic for the actor's objectives and the scalar TD error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce import losses


def test_goal_infonce_by_hand() -> None:
    rows = losses.goal_infonce([[2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(rows, [np.log(np.exp(2) + 1) - 2, np.log(2)], rtol=1e-6)


def test_maximise_and_cloning_are_negations() -> None:
    np.testing.assert_array_equal(losses.maximise([1.0, -2.0]), [-1.0, 2.0])
    np.testing.assert_array_equal(losses.cloning([-3.0]), [3.0])
    with pytest.raises(ValueError, match=r"one number for each row.*\[2, 2\]"):
        losses.maximise(jnp.ones((2, 2)))


def test_td_error_by_hand() -> None:
    # Targets: clip(-1 + 0.5 * -1) = -1.5; clip(0 + 0.5 * 3) = 0 (above); clip(-1 + 0.5 * -9) = -2 (below).
    rows = losses.td_error([0.0, 1.0, -1.0], [-1.0, 0.0, -1.0], [-1.0, 3.0, -9.0], discount=0.5, low=-2.0, high=0.0)
    np.testing.assert_allclose(rows, [2.25, 1.0, 1.0])


def test_td_error_sends_no_gradient_through_the_target() -> None:
    def total(value: jax.Array, later: jax.Array) -> jax.Array:
        return jnp.sum(losses.td_error(value, jnp.array([-1.0]), later, discount=0.9, low=-10.0, high=0.0))

    value_slope, later_slope = jax.grad(total, argnums=(0, 1))(jnp.array([0.5]), jnp.array([-2.0]))
    np.testing.assert_allclose(value_slope, [2 * (0.5 + 2.8)], rtol=1e-6)
    np.testing.assert_array_equal(later_slope, [0.0])


def test_td_error_without_bounds_and_with_an_end() -> None:
    # Targets: 1 + 0.5 * 4 = 3; at the end of an episode (discount 0) the reward alone.
    rows = losses.td_error([1.0, 1.0], [1.0, 0.0], [4.0, 9.0], discount=jnp.array([0.5, 0.0]))
    np.testing.assert_allclose(rows, [4.0, 1.0])


def test_expectile_by_hand_value_and_gradient() -> None:
    # Below the target: 0.9 * (2 - 1)²; above it: 0.1 * (0 - 3)²; at it: nothing.
    value, target = jnp.array([1.0, 3.0, 5.0]), jnp.array([2.0, 0.0, 5.0])
    np.testing.assert_allclose(losses.expectile(value, target, level=0.9), [0.9, 0.9, 0.0], rtol=1e-6)
    slope = jax.grad(lambda v, t: jnp.sum(losses.expectile(v, t, level=0.9)), argnums=(0, 1))(value, target)
    np.testing.assert_allclose(slope[0], [-1.8, 0.6, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(slope[1], 0.0)


def test_an_expectile_judged_by_another_advantage() -> None:
    # The weight asks the advantage alone, and nought is good enough; the distance is that to the target all the same.
    value, target, advantage = jnp.array([1.0, 3.0, 1.0]), jnp.array([2.0, 0.0, 3.0]), jnp.array([-0.1, 5.0, 0.0])
    rows = losses.expectile(value, target, level=0.9, advantage=advantage)
    np.testing.assert_allclose(rows, [0.1, 0.9 * 9, 0.9 * 4], rtol=1e-6)
    total = lambda v, t, a: jnp.sum(losses.expectile(v, t, level=0.9, advantage=a))  # noqa: E731
    slope = jax.grad(total, argnums=(0, 1, 2))(value, target, advantage)
    np.testing.assert_allclose(slope[0], [-0.2, 5.4, -3.6], rtol=1e-6)
    np.testing.assert_array_equal(slope[1:], np.zeros((2, 3)))
    own = losses.expectile(value, target, level=0.9, advantage=target - value)
    np.testing.assert_array_equal(own, losses.expectile(value, target, level=0.9))
    with pytest.raises(ValueError, match=r"advantage must hold one number for each row, \[B\]; got shape \[2\]"):
        losses.expectile(value, target, level=0.9, advantage=jnp.zeros(2))


def test_the_minimiser_of_the_expectile_loss_lies_where_the_weights_balance() -> None:
    # Targets 0 and 1: level * (1 - v) = (1 - level) * v, so v = level.
    for level in (0.5, 0.9):
        slope = jax.grad(lambda v, e=level: jnp.sum(losses.expectile(jnp.full(2, v), jnp.array([0.0, 1.0]), level=e)))
        np.testing.assert_allclose(slope(level), 0.0, atol=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        losses.expectile([0.0], [0.0], level=1.0)
    with pytest.raises(ValueError, match=r"\[2\] and \[3\]"):
        losses.expectile(jnp.zeros(2), jnp.zeros(3), level=0.5)


def test_advantage_weighted_by_hand_value_and_gradient() -> None:
    log_prob, advantage = jnp.array([-1.0, -2.0, -3.0]), jnp.array([0.0, np.log(2) / 10, 50.0])
    rows = losses.advantage_weighted(log_prob, advantage, sharpness=10.0, max_weight=100.0)
    np.testing.assert_allclose(rows, [1.0, 2 * 2.0, 100 * 3.0], rtol=1e-5)
    total = lambda p, a: jnp.sum(losses.advantage_weighted(p, a, sharpness=10.0))  # noqa: E731
    slope = jax.grad(total, argnums=(0, 1))(log_prob, advantage)
    np.testing.assert_allclose(slope[0], [-1.0, -2.0, -100.0], rtol=1e-5)
    np.testing.assert_array_equal(slope[1], 0.0)
    np.testing.assert_allclose(losses.advantage_weighted(log_prob, advantage, sharpness=0.0), losses.cloning(log_prob))
    with pytest.raises(ValueError, match="differ"):
        losses.advantage_weighted(jnp.zeros(2), jnp.zeros(3), sharpness=1.0)


def test_cloning_error_by_hand_value_and_gradient() -> None:
    action, stored = jnp.array([[1.0, 0.0], [0.5, 0.5]]), jnp.array([[0.0, 2.0], [0.5, 0.5]])
    np.testing.assert_allclose(losses.cloning_error(action, stored), [(1 + 4) / 2, 0.0])
    slope = jax.grad(lambda a, s: jnp.sum(losses.cloning_error(a, s)), argnums=(0, 1))(action, stored)
    np.testing.assert_allclose(slope[0], [[1.0, -2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(slope[1], 0.0)
    with pytest.raises(ValueError, match="one action for each row"):
        losses.cloning_error(jnp.zeros(2), jnp.zeros(2))
