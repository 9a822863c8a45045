"""Goal-conditioned policies: a Gaussian squashed by tanh, a choice among a few actions, and one without noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm

from tdinfonce.networks.mlp import MLP
from tdinfonce.networks.pixels import Torso

__all__ = ["Actor", "CategoricalActor", "ClippedActor", "DeterministicActor", "GaussianActor", "log_density"]

EDGE = 0.999
"""Actions beyond this get the mean density of the tail: stored actions reach the bounds, where atanh is infinite."""


class GaussianActor(eqx.Module):
    """tanh(Normal(loc, scale)), dimensions independent; log-probabilities are finite up to and at the bounds."""

    torso: Torso | None
    body: MLP
    heads: MLP
    min_std: float = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        observation_size: int,
        goal_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...],
        min_std: float = 1e-6,
        layer_norm: bool = False,
        torso: Torso | None = None,
        activation: str = "relu",
    ) -> None:
        """Make a policy with ``hidden`` layers and two linear heads; a torso for images stacked upon their goals."""
        first, second = jax.random.split(key)
        sizes = (torso.size if torso else observation_size + goal_size, *hidden)
        self.torso = torso
        self.body = MLP(first, sizes, layer_norm=layer_norm, activate_last=True, activation=activation)
        self.heads = MLP(second, (hidden[-1], 2 * action_size))
        self.min_std = min_std

    def __call__(self, observation: Array, goal: Array) -> tuple[Array, Array]:
        """Location and scale before the squashing."""
        loc, raw = jnp.split(self.heads(self.body(*_stack(self.torso, observation, goal))), 2, axis=-1)
        return loc, jax.nn.softplus(raw) + self.min_std

    def sample(self, observation: Array, goal: Array, key: Array) -> Array:
        """One action for each row; differentiable."""
        loc, scale = self(observation, goal)
        return jnp.tanh(loc + scale * jax.random.normal(key, loc.shape))

    def mode(self, observation: Array, goal: Array) -> Array:
        """The action without noise."""
        return jnp.tanh(self(observation, goal)[0])

    def mean(self, observation: Array, goal: Array) -> Array:
        """The mean action, to within 0.04, by MacKay's approximation of a sigmoid's mean under a Gaussian.

        A wide Gaussian puts its mass at both bounds, and tanh(loc) is then far from its mean.
        """
        loc, scale = self(observation, goal)
        return jnp.tanh(loc / jnp.sqrt(1 + jnp.pi / 2 * jnp.square(scale)))

    def log_prob(self, observation: Array, goal: Array, action: Array) -> Array:
        """Log-density of each row's action, summed over its dimensions."""
        return jnp.sum(log_density(action, *self(observation, goal)), axis=-1)


def log_density(action: Array, loc: Array, scale: Array) -> Array:
    """Log-density of tanh(Normal(loc, scale)) for each dimension.

    Beyond ±0.999 it is the mean density of the tail, log(mass) - log(0.001), which is finite at ±1.
    """
    inside = jnp.clip(action, -EDGE, EDGE)
    raw = jnp.arctanh(inside)
    middle = norm.logpdf(raw, loc, scale) - jnp.log1p(-jnp.square(inside))
    edge = jnp.arctanh(jnp.float32(EDGE))
    width = jnp.log(1.0 - EDGE)
    low = norm.logcdf((-edge - loc) / scale) - width
    high = norm.logcdf((loc - edge) / scale) - width
    return jnp.where(action <= -EDGE, low, jnp.where(action >= EDGE, high, middle))


class ClippedActor(eqx.Module):
    """Normal(mean, std) without a squashing, clipped to [-1, 1]: stored actions at the bounds are nothing special."""

    torso: Torso | None
    net: MLP
    std: float = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        observation_size: int,
        goal_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...],
        std: float = 0.2,
        layer_norm: bool = False,
        torso: Torso | None = None,
        activation: str = "relu",
    ) -> None:
        """Make a policy with ``hidden`` layers and one standard deviation for all states."""
        inputs = torso.size if torso else observation_size + goal_size
        self.torso, self.std = torso, std
        self.net = MLP(key, (inputs, *hidden, action_size), layer_norm=layer_norm, activation=activation)

    def __call__(self, observation: Array, goal: Array) -> tuple[Array, Array]:
        """Mean, which may lie outside of the bounds, and standard deviation."""
        mean = self.net(*_stack(self.torso, observation, goal))
        return mean, jnp.full_like(mean, self.std)

    def sample(self, observation: Array, goal: Array, key: Array) -> Array:
        """One action for each row; differentiable where it is not clipped."""
        mean, std = self(observation, goal)
        return jnp.clip(mean + std * jax.random.normal(key, mean.shape), -1, 1)

    def mode(self, observation: Array, goal: Array) -> Array:
        """The action without noise."""
        return jnp.clip(self(observation, goal)[0], -1, 1)

    def log_prob(self, observation: Array, goal: Array, action: Array) -> Array:
        """Log-density of each row's action before clipping, summed over its dimensions."""
        return jnp.sum(norm.logpdf(action, *self(observation, goal)), axis=-1)


class CategoricalActor(eqx.Module):
    """One of ``action_size`` actions, one-hot."""

    torso: Torso | None
    net: MLP

    def __init__(
        self,
        key: Array,
        observation_size: int,
        goal_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...],
        layer_norm: bool = False,
        torso: Torso | None = None,
        activation: str = "relu",
    ) -> None:
        """Make a policy with ``hidden`` layers; a torso for images stacked upon their goals."""
        inputs = torso.size if torso else observation_size + goal_size
        self.torso = torso
        self.net = MLP(key, (inputs, *hidden, action_size), layer_norm=layer_norm, activation=activation)

    def __call__(self, observation: Array, goal: Array) -> Array:
        """The logit of each action; their softmax are the probabilities."""
        return self.net(*_stack(self.torso, observation, goal))

    def sample(self, observation: Array, goal: Array, key: Array) -> Array:
        """One action for each row; not differentiable."""
        logits = self(observation, goal)
        return jax.nn.one_hot(jax.random.categorical(key, logits), logits.shape[-1])

    def mode(self, observation: Array, goal: Array) -> Array:
        """The likeliest action."""
        logits = self(observation, goal)
        return jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1])

    def log_prob(self, observation: Array, goal: Array, action: Array) -> Array:
        """Log-probability of each row's action."""
        return jnp.sum(action * jax.nn.log_softmax(self(observation, goal)), axis=-1)


Actor = GaussianActor | ClippedActor | CategoricalActor
"""A policy that samples."""


class DeterministicActor(eqx.Module):
    """tanh of a network: one action for each state and goal."""

    torso: Torso | None
    net: MLP

    def __init__(
        self,
        key: Array,
        observation_size: int,
        goal_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...],
        layer_norm: bool = False,
        torso: Torso | None = None,
    ) -> None:
        """Make a policy with ``hidden`` layers; a torso for images stacked upon their goals."""
        inputs = torso.size if torso else observation_size + goal_size
        self.torso = torso
        self.net = MLP(key, (inputs, *hidden, action_size), layer_norm=layer_norm)

    def __call__(self, observation: Array, goal: Array) -> Array:
        """The action of each row."""
        return jnp.tanh(self.net(*_stack(self.torso, observation, goal)))


def _stack(torso: Torso | None, observation: Array, goal: Array) -> tuple[Array, ...]:
    """Features of an image with its goal as further channels; vectors as they are."""
    return (observation, goal) if torso is None else (torso(jnp.concatenate([observation, goal], axis=-1)),)
