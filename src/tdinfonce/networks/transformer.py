"""The small causal transformer that reads a sequence of returns, states and actions."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.networks.mlp import MLP

__all__ = ["SequenceActor"]


class SequenceActor(eqx.Module):
    """Predicts the action at each step of a sequence from the steps before and the present return and state.

    Each step becomes three tokens (return, state, action), each a linear map of its input plus a learned embedding of
    the time in the episode. The action is read off the token of the state, which no later token can reach.
    """

    embed_return: MLP
    embed_state: MLP
    embed_action: MLP
    times: Array
    blocks: tuple["Block", ...]
    head: MLP

    def __init__(
        self,
        key: Array,
        observation_size: int,
        action_size: int,
        *,
        times: int,
        width: int,
        layers: int,
        heads: int,
    ) -> None:
        """Make a transformer of ``layers`` blocks; ``times`` is the number of different times it knows."""
        keys = jax.random.split(key, 5 + layers)
        self.embed_return = MLP(keys[0], (1, width))
        self.embed_state = MLP(keys[1], (observation_size, width))
        self.embed_action = MLP(keys[2], (action_size, width))
        self.times = 0.02 * jax.random.normal(keys[3], (times, width))
        self.head = MLP(keys[4], (width, action_size))
        self.blocks = tuple(Block(k, width, heads) for k in keys[5:])

    def __call__(
        self,
        observation: Array,
        action: Array,
        returns: Array,
        time: Array,
        *,
        dropout: float = 0.0,
        key: Array | None = None,
    ) -> Array:
        """Actions in [-1, 1] for each step, ``[..., steps, action_size]``.

        Args:
            observation: ``[..., steps, observation_size]``.
            action: ``[..., steps, action_size]``; the last one is not looked at for any answer but a later one.
            returns: ``[..., steps]``, what is still to come.
            time: ``[..., steps]`` integers; steps with -1 are padding.
            dropout: share of the activations that are dropped, with ``key``.
            key: of the dropout; None: no dropout.
        """
        parts = self.embed_return(returns[..., None]), self.embed_state(observation), self.embed_action(action)
        when = self.times[jnp.clip(time, 0, len(self.times) - 1)]
        tokens = jnp.stack(parts, axis=-2) + when[..., None, :]
        *front, steps, _, width = tokens.shape
        x = drop(standardise(tokens.reshape(*front, 3 * steps, width)), dropout, key)
        seen = jnp.repeat(time >= 0, 3, axis=-1)
        for index, block in enumerate(self.blocks):
            x = block(x, seen, dropout, None if key is None else jax.random.fold_in(key, index + 1))
        state_tokens = standardise(x).reshape(*front, steps, 3, width)[..., 1, :]
        return jnp.tanh(self.head(state_tokens))


class Block(eqx.Module):
    """Causal self-attention, then a layer of its own for each token; both are added to what comes in."""

    mix: MLP
    join: MLP
    feed: MLP
    heads: int = eqx.field(static=True)

    def __init__(self, key: Array, width: int, heads: int) -> None:
        """Make a block."""
        mix, join, feed = jax.random.split(key, 3)
        self.mix = MLP(mix, (width, 3 * width))
        self.join = MLP(join, (width, width))
        self.feed = MLP(feed, (width, 4 * width, width))
        self.heads = heads

    def __call__(self, x: Array, seen: Array, dropout: float, key: Array | None) -> Array:
        """New tokens; those that are not ``seen`` are looked at by nobody."""
        keys = (None, None) if key is None else jax.random.split(key)
        x = x + drop(self.join(self._attend(standardise(x), seen)), dropout, keys[0])
        return x + drop(self.feed(standardise(x)), dropout, keys[1])

    def _attend(self, x: Array, seen: Array) -> Array:
        *front, length, width = x.shape
        size = width // self.heads
        query, key, value = (
            part.reshape(*front, length, self.heads, size) for part in jnp.split(self.mix(x), 3, axis=-1)
        )
        scores = jnp.einsum("...qhd,...khd->...hqk", query, key) * size**-0.5
        allowed = jnp.tril(jnp.ones((length, length), bool)) & seen[..., None, None, :]
        weights = jax.nn.softmax(jnp.where(allowed, scores, -1e9), axis=-1)
        return jnp.einsum("...hqk,...khd->...qhd", weights, value).reshape(x.shape)


def standardise(x: Array) -> Array:
    """Layer norm without learned gain: the next linear layer can learn it."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + 1e-5)


def drop(x: Array, rate: float, key: Array | None) -> Array:
    """Dropout: each entry is zero with chance ``rate``, the others grow accordingly."""
    if key is None or not rate:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)
