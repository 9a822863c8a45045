"""Quasimetrics: distances that obey the triangle inequality but may differ between there and back.

Both heads are quasimetrics whatever their parameters are, so nothing has to be learned to make them so.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tdinfonce.networks.mlp import MLP
from tdinfonce.networks.pixels import Torso, see

__all__ = ["IQE", "MRN", "QuasimetricCritic", "interval_union"]


def interval_union(x: Array, y: Array) -> Array:
    """Length of the union, over the first axis, of the intervals from x_i to y_i; one that runs backwards is empty.

    It is the sum of the ends that no interval covers, less the starts that none covers. Finding them needs comparisons
    only, so the gradient costs nothing; sorting would be a scatter in the gradient, which is slow on a CPU.
    """
    real = y > x
    end = jnp.where(real, y, -jnp.inf)
    last = begins = ~jnp.zeros_like(real)
    for index in range(len(x)):
        # Of equal starts, and of equal ends, the first one counts.
        later = (jnp.arange(len(x)) > index).reshape(-1, *[1] * (x.ndim - 1))
        starts_before = (x[index] < x) | ((x[index] == x) & later)
        ends_after = (end[index] > y) | ((end[index] == y) & later)
        begins &= ~(starts_before & (end[index] >= x))
        last &= ~(ends_after & (x[index] <= y))
    return jnp.sum(jnp.where(real & last, y, 0.0) - jnp.where(real & begins, x, 0.0), axis=0)


class IQE(eqx.Module):
    """Interval quasimetric embedding: interval unions of the components, reduced to a mix of maximum and mean."""

    raw_share: Array
    component_size: int = eqx.field(static=True)

    def __init__(self, component_size: int) -> None:
        """Components have ``component_size`` entries; the share of the maximum is learned and starts at 0.27."""
        self.raw_share = jnp.float32(-1.0)
        self.component_size = component_size

    def __call__(self, x: Array, y: Array) -> Array:
        """Distance from each row of x to that row of y."""
        # The entries of a component lie apart, so that whole slices are compared.
        shape = (*x.shape[:-1], self.component_size, -1)
        length = interval_union(*(jnp.moveaxis(z.reshape(shape), -2, 0) for z in (x, y)))
        share = jax.nn.sigmoid(self.raw_share)
        return share * jnp.max(length, axis=-1) + (1 - share) * jnp.mean(length, axis=-1)


class MRN(eqx.Module):
    """Metric residual network: a Euclidean distance plus the largest coordinate that must be given up.

    The original squares the first term, which breaks the triangle inequality.
    """

    symmetric: MLP
    asymmetric: MLP

    def __init__(self, key: Array, input_size: int, *, hidden: tuple[int, ...] = (176,), size: int = 16) -> None:
        """Make the two projections to ``size`` coordinates."""
        first, second = jax.random.split(key)
        self.symmetric = MLP(first, (input_size, *hidden, size))
        self.asymmetric = MLP(second, (input_size, *hidden, size))

    def __call__(self, x: Array, y: Array) -> Array:
        """Distance from each row of x to that row of y."""
        square = jnp.mean(jnp.square(self.symmetric(x) - self.symmetric(y)), axis=-1)
        # The square root of zero has no gradient: take that of one there, and throw it away.
        metric = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
        return metric + jnp.max(jax.nn.relu(self.asymmetric(x) - self.asymmetric(y)), axis=-1)


class QuasimetricCritic(eqx.Module):
    """States and goals as points of one latent space, a distance between points, and what an action does to a point."""

    torso: Torso | None
    state_encoder: MLP
    goal_encoder: MLP
    projector: MLP
    head: IQE | MRN
    dynamics: MLP

    def __init__(
        self,
        key: Array,
        observation_size: int,
        goal_size: int,
        action_size: int,
        *,
        hidden: tuple[int, ...],
        goal_hidden: tuple[int, ...],
        projector_hidden: tuple[int, ...],
        dynamics_hidden: tuple[int, ...],
        latent_size: int,
        components: int,
        component_size: int,
        mrn: bool = False,
        layer_norm: bool = False,
        torso: Torso | None = None,
    ) -> None:
        """Make the networks; the head compares ``components * component_size`` numbers, ``mrn`` chooses its kind."""
        state, goal, project, move, head = jax.random.split(key, 5)
        size = components * component_size
        self.torso = torso
        self.state_encoder = MLP(state, (observation_size, *hidden, latent_size), layer_norm=layer_norm)
        self.goal_encoder = MLP(goal, (goal_size, *goal_hidden, latent_size), layer_norm=layer_norm)
        self.projector = MLP(project, (latent_size, *projector_hidden, size), layer_norm=layer_norm)
        widths = (latent_size + action_size, *dynamics_hidden, latent_size)
        self.dynamics = MLP(move, widths, layer_norm=layer_norm, zero_last=True)
        self.head = MRN(head, size) if mrn else IQE(component_size)

    def embed(self, observation: Array) -> Array:
        """The latent point of each state."""
        return self.state_encoder(*see(self.torso, (observation,)))

    def embed_goal(self, goal: Array) -> Array:
        """The latent point of each goal."""
        return self.goal_encoder(*see(self.torso, (goal,)))

    def predict(self, latent: Array, action: Array) -> Array:
        """The latent point of the state that follows."""
        return latent + self.dynamics(latent, action)

    def distance(self, start: Array, end: Array) -> Array:
        """Steps from each latent point to another."""
        first, second = jnp.split(self.projector(jnp.concatenate([start, end])), 2)
        return self.head(first, second)

    def distances(
        self, observation: Array, action: Array, next_observation: Array, next_goal: Array, random_goal: Array
    ) -> list[Array]:
        """What QRL trains on; every network runs once, on all its inputs together.

        Returns:
            The distances of each row from its state to its random goal, to the next state of another row and to its own
            next state; from the next state to the goal it achieves; and between the next state as the latent model
            predicts it and as it is, there and back.
        """
        state, later = _together(self.embed, observation, next_observation)
        reached, random = _together(self.embed_goal, next_goal, random_goal)
        points = _together(self.projector, state, later, reached, random, self.predict(state, action))
        z, z_later, z_reached, z_random, z_predicted = points
        z_other = jnp.roll(z_later, 1, axis=0)
        pairs = [(z, z_random), (z, z_other), (z, z_later), (z_later, z_reached)]
        pairs += [(z_predicted, z_later), (z_later, z_predicted)]
        starts, ends = (jnp.concatenate(ends) for ends in zip(*pairs, strict=True))
        return jnp.split(self.head(starts, ends), len(pairs))


def _together(network: Callable[[Array], Array], *inputs: Array) -> list[Array]:
    """The outputs of a network for several batches of equal size, by one pass."""
    return jnp.split(network(jnp.concatenate(inputs)), len(inputs))
