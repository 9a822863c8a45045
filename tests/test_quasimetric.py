"""The quasimetric heads are quasimetrics, and the losses of QRL are the written-out formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tdinfonce import losses
from tdinfonce.networks.mlp import MLP
from tdinfonce.networks.quasimetric import IQE, MRN, QuasimetricCritic, interval_union

KEY = jax.random.PRNGKey(0)
HEADS = {"iqe": eqx.filter_jit(IQE(4)), "mrn": eqx.filter_jit(MRN(KEY, 8, hidden=(16,), size=4))}
every_head = pytest.mark.parametrize("head", HEADS)
# Few different numbers, so that ends of intervals often meet.
three_points = arrays(np.float32, (3, 8), elements=st.integers(-6, 6).map(lambda n: n / 2))


def union_by_sweep(x: np.ndarray, y: np.ndarray) -> float:
    """Join the intervals from left to right."""
    total, reach = 0.0, -np.inf
    for start, end in sorted((a, b) for a, b in zip(x, y, strict=True) if b > a):
        total += max(end - max(start, reach), 0.0)
        reach = max(reach, end)
    return total


@given(arrays(np.float32, (2, 7), elements=st.integers(-9, 9).map(float)), st.integers(1, 7))
def test_interval_union_is_the_sweep(points: np.ndarray, size: int) -> None:
    x, y = points[:, :size]
    assert float(interval_union(jnp.asarray(x), jnp.asarray(y))) == pytest.approx(union_by_sweep(x, y), abs=1e-4)


def test_iqe_by_hand() -> None:
    """The unions have lengths 2 and 0: one way 0.269·2 + 0.731·1, the other way 0 if there is one component."""
    x, y = jnp.zeros(2), jnp.array([1.0, 2.0])
    assert float(IQE(2)(x, y)) == 2.0
    assert float(IQE(2)(y, x)) == 0.0
    apart = IQE(1)(x, jnp.array([2.0, -1.0]))
    share = 1 / (1 + np.e)
    assert float(apart) == pytest.approx(share * 2 + (1 - share) * 1, rel=1e-5)


def test_mrn_by_hand() -> None:
    head = MRN(KEY, 2, hidden=(), size=2)
    head = eqx.tree_at(lambda h: [h.symmetric.weights[0], h.asymmetric.weights[0]], head, [jnp.eye(2), jnp.eye(2)])
    x, y = jnp.zeros(2), jnp.array([3.0, -4.0])
    # sqrt((9 + 16) / 2), and what is lost from x to y is (-3, 4), from y to x (3, -4).
    assert float(head(x, y)) == pytest.approx(12.5**0.5 + 4, rel=1e-5)
    assert float(head(y, x)) == pytest.approx(12.5**0.5 + 3, rel=1e-5)


@every_head
@given(points=three_points)
def test_heads_are_quasimetrics(head: str, points: np.ndarray) -> None:
    distance, (x, y, z) = HEADS[head], jnp.asarray(points)
    there, back, detour, rest = distance(x, y), distance(y, x), distance(y, z), distance(x, z)
    assert float(distance(x, x)) == 0.0
    assert min(map(float, (there, back, detour, rest))) >= 0.0
    assert float(rest) <= float(there + detour) + 1e-4


@every_head
def test_there_and_back_may_differ(head: str) -> None:
    x, y = jax.random.normal(KEY, (2, 50, 8))
    there, back = HEADS[head](x, y), HEADS[head](y, x)
    assert np.mean(np.abs(there - back) > 0.05) > 0.8


@every_head
def test_gradients_of_the_heads_are_finite_also_where_points_meet(head: str) -> None:
    point = jax.random.normal(KEY, (8,))
    slopes = jax.grad(HEADS[head], argnums=(0, 1))(point, point)
    assert np.all(np.isfinite(slopes))


def test_gradient_of_the_union_moves_its_ends_only() -> None:
    """[0, 2], [1, 3] and [5, 4]: growing the union means an earlier first start or a later last end."""
    x, y = jnp.array([0.0, 1.0, 5.0]), jnp.array([2.0, 3.0, 4.0])
    starts, ends = jax.grad(interval_union, argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(starts, [-1.0, 0.0, 0.0])
    np.testing.assert_array_equal(ends, [0.0, 1.0, 0.0])


def test_the_latent_model_starts_as_standing_still() -> None:
    assert not np.any(MLP(KEY, (3, 4, 2), zero_last=True)(jnp.ones(3)))
    widths = {"hidden": (8,), "goal_hidden": (8,), "projector_hidden": (), "dynamics_hidden": (8,)}
    critic = QuasimetricCritic(KEY, 5, 3, 2, **widths, latent_size=6, components=2, component_size=4)
    latent = critic.embed(jnp.ones((4, 5)))
    np.testing.assert_array_equal(critic.predict(latent, jnp.ones((4, 2))), latent)
    assert critic.distance(latent, critic.embed_goal(jnp.ones((4, 3)))).shape == (4,)


def test_push_apart_by_hand() -> None:
    # softplus(0) / 2 at the offset; two below it, softplus(4) / 2.
    rows = losses.push_apart([3.0, 1.0], offset=3.0, sharpness=2.0)
    np.testing.assert_allclose(rows, [np.log(2) / 2, np.log1p(np.exp(4.0)) / 2], rtol=1e-6)
    slope = jax.grad(lambda d: losses.push_apart(d, offset=3.0, sharpness=2.0).sum())(jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(slope, [-0.5, -1 / (1 + np.exp(-4.0))], rtol=1e-6)


def test_local_excess_by_hand() -> None:
    rows = losses.local_excess([0.5, 1.5, 3.0], 1.0, tolerance=0.5)
    np.testing.assert_allclose(rows, [-0.25, 0.0, 3.75])
    np.testing.assert_allclose(losses.local_excess([0.5, 0.5], [0.0, 1.0], tolerance=0.0), [0.25, 0.0])


def test_latent_dynamics_by_hand() -> None:
    np.testing.assert_allclose(losses.latent_dynamics([1.0, 0.0], [3.0, 2.0]), [5.0, 2.0])


def test_lagrangian_lowers_the_excess_and_raises_the_multiplier_only_if_violated() -> None:
    np.testing.assert_allclose(losses.lagrangian([2.0, -1.0], 3.0), [6.0, -3.0])
    gradient = jax.grad(lambda e, m: losses.lagrangian(e, m).sum(), argnums=(0, 1))
    for excess, direction in (([0.5, 1.5], 1), ([-0.5, -1.5], -1)):
        by_excess, by_multiplier = gradient(jnp.array(excess), jnp.float32(3.0))
        np.testing.assert_allclose(by_excess, [3.0, 3.0])
        assert float(-by_multiplier) == pytest.approx(2.0 * direction), "descent moves against the gradient"


def test_losses_of_distances_want_one_number_for_each_row() -> None:
    with pytest.raises(ValueError, match=r"distance must hold one number for each row.*\[2, 2\]"):
        losses.push_apart(jnp.ones((2, 2)), offset=1.0, sharpness=1.0)
    with pytest.raises(ValueError, match=r"there and back must.*\[2\] and \[3\]"):
        losses.latent_dynamics(jnp.ones(2), jnp.ones(3))
