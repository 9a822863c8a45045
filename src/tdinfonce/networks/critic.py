"""Critics: two towers whose inner product is a logit, and scalar Q functions. Both come as ensembles."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.networks.mlp import MLP
from tdinfonce.networks.pixels import Torso, see

__all__ = ["ContrastiveCritic", "ScalarCritic", "TableCritic", "logits", "pair_logits", "smallest"]


class ContrastiveCritic(eqx.Module):
    """f_k(x, u) = φ_k(x)·ψ_k(u) / temperature, for members k of an ensemble.

    x is (state, action) or (state, action, commanded goal); u is a state seen as a goal. An ensemble is a tuple of
    separate networks: on a CPU that costs the same as stacked parameters, and one member costs half of two. Images go
    through one torso, the same for states, goals and all members.
    """

    torso: Torso | None
    left: tuple[MLP, ...]
    right: tuple[MLP, ...]
    log_temperature: Array
    normalise: bool = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        left_size: int,
        goal_size: int,
        *,
        hidden: tuple[int, ...],
        representation_size: int,
        goal_hidden: tuple[int, ...] | None = None,
        members: int = 1,
        normalise: bool = True,
        temperature: float = 1.0,
        layer_norm: bool = False,
        torso: Torso | None = None,
    ) -> None:
        """Make ``members`` pairs of towers; ``left_size`` is the joint length of the inputs of φ, counting the features
        of images.

        ``goal_hidden`` are the widths of ψ if they differ from those of φ.
        """
        keys = jax.random.split(key, 2 * members)
        left = (left_size, *hidden, representation_size)
        right = (goal_size, *(goal_hidden or hidden), representation_size)
        self.torso = torso
        self.left = tuple(MLP(k, left, layer_norm=layer_norm) for k in keys[:members])
        self.right = tuple(MLP(k, right, layer_norm=layer_norm) for k in keys[members:])
        self.log_temperature = jnp.log(jnp.float32(temperature))
        self.normalise = normalise

    def embed(self, *inputs: Array) -> tuple[Array, ...]:
        """φ_k of each row, one array for each member, divided by the temperature."""
        scale, inputs = jnp.exp(-self.log_temperature), see(self.torso, inputs)
        return tuple(scale * self._unit(tower(*inputs)) for tower in self.left)

    def embed_goal(self, goal: Array) -> tuple[Array, ...]:
        """ψ_k of each row."""
        inputs = see(self.torso, (goal,))
        return tuple(self._unit(tower(*inputs)) for tower in self.right)

    def with_fixed_temperature(self) -> "ContrastiveCritic":
        """The same critic, but its temperature gets no gradient."""
        return eqx.tree_at(lambda m: m.log_temperature, self, jax.lax.stop_gradient(self.log_temperature))

    def _unit(self, x: Array) -> Array:
        return _unit(x) if self.normalise else x


STRIDE = 10.0
"""How much faster than others the entries of a table move: each is met in few of the batches."""


class TableCritic(eqx.Module):
    """A `ContrastiveCritic` of states that are known by number: φ and ψ begin with a row of a table for each state.

    ψ is that row; φ joins the state's row with the action by one hidden layer. It costs what its batch costs, however
    many states there are.
    """

    state: Array
    action: Array
    bias: Array
    out: Array
    place: Array
    log_temperature: Array

    def __init__(
        self, key: Array, states: int, actions: int, *, hidden: int, representation_size: int, temperature: float
    ) -> None:
        """Make tables for so many states, and ``actions`` coordinates of an action, which may be none."""
        keys = jax.random.split(key, 3)
        self.state = jax.random.normal(keys[0], (states, hidden)) / STRIDE
        self.action = jnp.zeros((actions, hidden))
        self.bias = jnp.zeros(hidden)
        self.out = jax.random.normal(keys[1], (hidden, representation_size)) / hidden**0.5
        self.place = jax.random.normal(keys[2], (states, representation_size)) / STRIDE
        self.log_temperature = jnp.log(jnp.float32(temperature))

    def embed(self, state: Array, action: Array) -> tuple[Array, ...]:
        """φ of each number of a state and action, divided by the temperature."""
        hidden = jax.nn.relu(STRIDE * (self.state[state] + action @ self.action) + self.bias)
        return (jnp.exp(-self.log_temperature) * _unit(hidden @ self.out),)

    def embed_goal(self, goal: Array) -> tuple[Array, ...]:
        """ψ of each number of a state."""
        return (_unit(self.place[goal]),)


def _unit(x: Array) -> Array:
    # The square root of zero has no gradient, so the small number goes inside.
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + 1e-12)


def logits(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    """All pairs: entry [i, j] of member k is f_k(x_i, u_j)."""
    return tuple(a @ b.T for a, b in zip(left, right, strict=True))


def pair_logits(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    """Pairs of one row: entry [i] of member k is f_k(x_i, u_i)."""
    return tuple(jnp.sum(a * b, axis=-1) for a, b in zip(left, right, strict=True))


def smallest(values: tuple[Array, ...]) -> Array:
    """Elementwise minimum over the members."""
    result = values[0]
    for value in values[1:]:
        result = jnp.minimum(result, value)
    return result


class ScalarCritic(eqx.Module):
    """Q_k(state, action, goal), one number for each row and member; images go through one torso."""

    torso: Torso | None
    towers: tuple[MLP, ...]

    def __init__(
        self,
        key: Array,
        input_size: int,
        *,
        hidden: tuple[int, ...],
        members: int = 1,
        layer_norm: bool = False,
        torso: Torso | None = None,
        activation: str = "relu",
    ) -> None:
        """Make ``members`` networks; ``input_size`` is the joint length of the inputs, images as their features."""
        keys = jax.random.split(key, members)
        self.torso = torso
        sizes = input_size, *hidden, 1
        self.towers = tuple(MLP(k, sizes, layer_norm=layer_norm, activation=activation) for k in keys)

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Values ``[B]`` of each member."""
        inputs = see(self.torso, inputs)
        return tuple(tower(*inputs)[..., 0] for tower in self.towers)
