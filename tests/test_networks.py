"""Networks: shapes, densities, finite log-probabilities at the bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce.networks.actor import Actor, log_density
from tdinfonce.networks.critic import ContrastiveCritic, ScalarCritic, logits, pair_logits, smallest
from tdinfonce.networks.mlp import MLP

KEY = jax.random.PRNGKey(0)


def test_mlp_is_the_written_out_formula() -> None:
    net = MLP(KEY, (3, 5, 2))
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    hidden = np.maximum(x @ net.weights[0] + net.biases[0], 0)
    np.testing.assert_allclose(net(jnp.asarray(x)), hidden @ net.weights[1] + net.biases[1], rtol=1e-5)
    np.testing.assert_allclose(net(jnp.asarray(x[:, :1]), jnp.asarray(x[:, 1:])), net(jnp.asarray(x)), rtol=1e-6)


def test_initial_weights_are_lecun_uniform() -> None:
    weight = np.asarray(MLP(KEY, (400, 300)).weights[0])
    assert np.abs(weight).max() <= (3 / 400) ** 0.5
    assert weight.std() == pytest.approx((1 / 400) ** 0.5, rel=0.02)


def test_layer_norm_removes_the_scale_of_the_input() -> None:
    x = jax.random.normal(KEY, (4, 3))
    plain, normed = MLP(KEY, (3, 8, 2)), MLP(KEY, (3, 8, 2), layer_norm=True)
    np.testing.assert_allclose(normed(x), normed(100 * x), rtol=1e-2, atol=1e-3)
    assert not np.allclose(plain(x), plain(100 * x))


@pytest.mark.parametrize(("loc", "scale"), [(0.0, 0.5), (0.8, 0.3), (-1.5, 1.0)])
def test_density_of_the_squashed_gaussian_integrates_to_one(loc: float, scale: float) -> None:
    actions = np.linspace(-1, 1, 400_001)
    density = np.exp(log_density(jnp.asarray(actions, jnp.float32), jnp.float32(loc), jnp.float32(scale)))
    total = np.sum((density[1:] + density[:-1]) / 2 * np.diff(actions))
    assert total == pytest.approx(1, abs=2e-3)


def test_log_density_and_its_gradient_are_finite_at_the_bounds() -> None:
    action = jnp.array([-1.0, 1.0, -0.9999, 0.9999, 0.0])

    def total(loc: jax.Array, scale: jax.Array) -> jax.Array:
        return jnp.sum(log_density(action, loc, scale))

    for loc, scale in ((0.0, 1e-2), (3.0, 0.1), (-40.0, 1e-6), (0.0, 5.0)):
        value, slopes = jax.value_and_grad(total, argnums=(0, 1))(jnp.float32(loc), jnp.float32(scale))
        assert np.all(np.isfinite([value, *slopes])), (loc, scale)


def test_actor_samples_around_its_mode() -> None:
    actor = Actor(KEY, 3, 2, 4, hidden=(16,), min_std=0.05)
    state, goal = jnp.ones((1, 3)), jnp.ones((1, 2))
    loc, scale = actor(state, goal)
    np.testing.assert_allclose(actor.mode(state, goal), jnp.tanh(loc), rtol=1e-6)
    many = actor.sample(jnp.repeat(state, 20_000, 0), jnp.repeat(goal, 20_000, 0), KEY)
    assert np.all(np.abs(many) <= 1)
    np.testing.assert_allclose(np.arctanh(many).mean(0), loc[0], atol=0.03)
    np.testing.assert_allclose(np.arctanh(many).std(0), scale[0], rtol=0.03)
    assert float(scale.min()) >= 0.05


def test_logits_of_normalised_towers_are_bounded_by_the_temperature() -> None:
    critic = ContrastiveCritic(KEY, 5, 2, hidden=(8,), representation_size=4, members=2, temperature=0.1)
    left = critic.embed(jax.random.normal(KEY, (6, 3)), jnp.ones((6, 2)))
    right = critic.embed_goal(jax.random.normal(KEY, (6, 2)))
    pairs, diagonal = logits(left, right), pair_logits(left, right)
    assert len(pairs) == 2
    assert pairs[0].shape == (6, 6)
    assert not np.allclose(pairs[0], pairs[1])
    for matrix, row in zip(pairs, diagonal, strict=True):
        assert np.abs(matrix).max() <= 10.001
        np.testing.assert_allclose(np.diagonal(matrix), row, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(smallest(pairs), np.minimum(*pairs))


def test_a_zero_representation_has_a_finite_gradient() -> None:
    critic = ContrastiveCritic(KEY, 2, 2, hidden=(4,), representation_size=3)
    slope = jax.grad(lambda x: jnp.sum(critic.embed_goal(x)[0]))(jnp.zeros((1, 2)))
    assert np.all(np.isfinite(slope))


def test_scalar_critic_gives_one_number_a_row() -> None:
    values = ScalarCritic(KEY, 5, hidden=(8,), members=2)(jnp.ones((7, 3)), jnp.ones((7, 2)))
    assert [v.shape for v in values] == [(7,), (7,)]
