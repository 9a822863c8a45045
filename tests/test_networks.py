"""Networks: shapes, densities, finite log-probabilities at the bounds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce.networks.actor import CategoricalActor, DeterministicActor, GaussianActor, log_density
from tdinfonce.networks.critic import ContrastiveCritic, ScalarCritic, logits, pair_logits, smallest
from tdinfonce.networks.mlp import MLP
from tdinfonce.networks.pixels import Torso, image_torso, patches, shrink

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
    actor = GaussianActor(KEY, 3, 2, 4, hidden=(16,), min_std=0.05)
    state, goal = jnp.ones((1, 3)), jnp.ones((1, 2))
    loc, scale = actor(state, goal)
    np.testing.assert_allclose(actor.mode(state, goal), jnp.tanh(loc), rtol=1e-6)
    many = actor.sample(jnp.repeat(state, 20_000, 0), jnp.repeat(goal, 20_000, 0), KEY)
    assert np.all(np.abs(many) <= 1)
    np.testing.assert_allclose(np.arctanh(many).mean(0), loc[0], atol=0.03)
    np.testing.assert_allclose(np.arctanh(many).std(0), scale[0], rtol=0.03)
    assert float(scale.min()) >= 0.05
    np.testing.assert_allclose(actor.mean(state, goal)[0], many.mean(0), atol=0.05)


@pytest.mark.parametrize("min_std", [1e-6, 0.5, 3.0, 20.0])
def test_the_mean_action_is_the_integral(min_std: float) -> None:
    actor = GaussianActor(KEY, 3, 2, 4, hidden=(16,), min_std=min_std)
    state, goal = 3 * jax.random.normal(KEY, (5, 3)), jnp.ones((5, 2))
    loc, scale = (np.asarray(x, float)[..., None] for x in actor(state, goal))
    at = np.linspace(-8, 8, 20_001)
    weight = np.exp(-(at**2) / 2)
    wanted = np.sum(weight * np.tanh(loc + scale * at), axis=-1) / weight.sum()
    np.testing.assert_allclose(actor.mean(state, goal), wanted, atol=0.04)


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


@pytest.mark.parametrize(("kernel", "stride"), [(8, 4), (4, 2), (3, 1), (8, 8), (2, 2)])
def test_patches_times_a_matrix_is_a_convolution(kernel: int, stride: int) -> None:
    x = jax.random.normal(KEY, (2, 16, 24, 3))
    weight = jax.random.normal(jax.random.PRNGKey(1), (kernel, kernel, 3, 5))
    order = ("NHWC", "HWIO", "NHWC")
    wanted = jax.lax.conv_general_dilated(x, weight, (stride, stride), "SAME", dimension_numbers=order)
    blocks = weight.reshape(kernel // stride, stride, kernel // stride, stride, 3, 5)
    matrix = jnp.swapaxes(blocks, 1, 2).reshape(-1, 5)
    np.testing.assert_allclose(patches(x, kernel, stride) @ matrix, wanted, rtol=1e-4, atol=1e-4)


def test_torso_of_the_paper() -> None:
    torso = image_torso(KEY, (64, 64, 3), "conv")
    assert torso is not None
    assert torso.size == 4096
    assert [weight.shape for weight in torso.weights] == [(192, 32), (512, 64), (576, 64)]
    for weight in torso.weights:
        spread = len(weight) ** -0.5
        assert float(weight.std()) == pytest.approx(spread, rel=0.03)
        assert float(jnp.abs(weight).max()) < 2.28 * spread
    assert not any(bias.any() for bias in torso.biases)
    image = jnp.asarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    features = torso(image)
    assert features.shape == (4096,)
    np.testing.assert_allclose(torso(jnp.stack([image, image]))[1], features, rtol=1e-5, atol=1e-6)


def test_shrinking_is_the_mean_of_squares() -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 4, 6, 2), dtype=np.uint8)
    wanted = (image / 255).reshape(3, 2, 2, 3, 2, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(shrink(jnp.asarray(image), 2), wanted, rtol=1e-5)
    np.testing.assert_allclose(shrink(jnp.asarray(image[0]), 1), image[0] / 255, rtol=1e-5)


def test_a_critic_sees_states_and_goals_with_one_torso_and_an_actor_with_its_own() -> None:
    torso, stacked = image_torso(KEY, (16, 16, 3), "patches"), image_torso(KEY, (16, 16, 3), "patches", stacked=2)
    assert torso is not None and stacked is not None  # noqa: PT018
    image, goal = np.random.default_rng(0).integers(0, 256, (2, 4, 16, 16, 3), dtype=np.uint8)
    critic = ContrastiveCritic(
        KEY, 2 * torso.size + 2, torso.size, hidden=(8,), representation_size=4, members=2, torso=torso
    )
    plain = ContrastiveCritic(KEY, 2 * torso.size + 2, torso.size, hidden=(8,), representation_size=4, members=2)
    action = jnp.ones((4, 2))
    seen, wanted = torso(jnp.asarray(image)), torso(jnp.asarray(goal))
    for one, two in zip(
        critic.embed(jnp.asarray(image), action, jnp.asarray(goal)), plain.embed(seen, action, wanted), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-5)
    np.testing.assert_allclose(critic.embed_goal(jnp.asarray(goal))[1], plain.embed_goal(wanted)[1], rtol=1e-5)
    for kind in (CategoricalActor, DeterministicActor, GaussianActor):
        actor = kind(KEY, 768, 768, 2, hidden=(8,), torso=stacked)
        assert jax.tree.leaves(actor(jnp.asarray(image), jnp.asarray(goal)))[0].shape == (4, 2)
        assert stacked.weights[0].shape[0] == 2 * torso.weights[0].shape[0]


def test_networks_on_images_by_hand() -> None:
    """Squares of two pixels are averaged, then come layers whose patches do not overlap, with biases and ReLU."""
    rng = np.random.default_rng(0)
    state, goal = rng.integers(0, 256, (2, 3, 32, 32, 1), dtype=np.uint8)

    def features(torso: Torso, image: np.ndarray) -> np.ndarray:
        x = image.reshape(len(image), 16, 2, 16, 2, -1).mean((2, 4)) / 255
        for weight, bias, (_, side, _) in zip(torso.weights, torso.biases, torso.plan.layers, strict=True):
            places = -(-x.shape[1] // side)
            missing = places * side - x.shape[1]
            padding = (missing // 2, missing - missing // 2)
            x = np.pad(x, ((0, 0), padding, padding, (0, 0)))
            patch = x.reshape(len(x), places, side, places, side, -1).swapaxes(2, 3)
            x = np.maximum(patch.reshape(len(x), places, places, -1) @ np.asarray(weight) + np.asarray(bias), 0)
        return x.reshape(len(x), -1)

    def with_biases(torso: Torso | None) -> Torso:
        assert torso is not None
        return eqx.tree_at(lambda t: t.biases, torso, tuple(b + rng.normal(size=b.shape) for b in torso.biases))

    stacked, single = (with_biases(image_torso(KEY, (32, 32, 1), "patches", stacked=number)) for number in (2, 1))
    actor = DeterministicActor(KEY, 0, 0, 2, hidden=(8,), torso=stacked)
    seen = features(stacked, np.concatenate([state, goal], axis=-1))
    np.testing.assert_allclose(actor(state, goal), np.tanh(actor.net(jnp.asarray(seen, jnp.float32))), rtol=1e-4)
    critic = ScalarCritic(KEY, 2 * single.size + 2, hidden=(8,), torso=single)
    action = np.ones((3, 2), np.float32)
    joined = np.concatenate([features(single, state), action, features(single, goal)], axis=1)
    wanted = critic.towers[0](jnp.asarray(joined, jnp.float32))[:, 0]
    np.testing.assert_allclose(critic(state, jnp.asarray(action), goal)[0], wanted, rtol=1e-4, atol=1e-5)
