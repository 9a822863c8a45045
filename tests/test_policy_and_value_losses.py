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
