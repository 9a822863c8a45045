"""Episodes in, batches out. The only place where a `Batch` is made."""

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.relabel import geometric_offset, uniform_offset
from tdinfonce.types import Batch, GoalSampling

__all__ = ["sample"]


def sample(episodes: Episodes, rng: np.random.Generator, shape: tuple[int, ...], how: GoalSampling) -> Batch:
    """Draw transitions uniformly, with their next, future and random goals.

    Args:
        episodes: where from.
        rng: the only source of randomness.
        shape: leading axes of every field of the batch, for example ``(updates, batch_size)``.
        how: the laws of the goals.
    """
    if not len(episodes):
        raise ValueError("no episodes to sample from")
    count = int(np.prod(shape))
    which, row, left = _transitions(episodes, rng, count)
    uniform = rng.random((2, count), dtype=np.float32)
    draw = uniform_offset if how.uniform_future else lambda u, n: geometric_offset(u, n, how.discount)
    future = row + draw(uniform[0], left)
    # A random state is any state but the first of an episode: the same marginal as the next states have.
    other = _transitions(episodes, rng, count)[1] + 1

    def take(array: np.ndarray, index: np.ndarray) -> np.ndarray:
        return array.take(index, axis=0, mode="clip").reshape(*shape, array.shape[1])

    next_observation = take(episodes.observation, row + 1)
    next_goal = near_goal = take(episodes.achieved, row + 1)
    bootstrap_observation, bootstrap_discount = next_observation, np.full(shape, how.discount, np.float32)
    if how.n_step > 1:
        steps = np.minimum(left, how.n_step)
        near_goal = take(episodes.achieved, row + geometric_offset(uniform[1], steps, how.discount))
        bootstrap_observation = take(episodes.observation, row + steps)
        powers = np.float32(how.discount) ** np.arange(how.n_step + 1, dtype=np.float32)
        bootstrap_discount = powers[steps].reshape(shape)
    return Batch(
        observation=take(episodes.observation, row),
        action=take(episodes.action, row),
        next_observation=next_observation,
        next_action=take(episodes.action, row + 1),
        next_goal=next_goal,
        future_goal=take(episodes.achieved, future),
        random_goal=take(episodes.achieved, other),
        commanded_goal=take(episodes.goal, which),
        near_goal=near_goal,
        bootstrap_observation=bootstrap_observation,
        bootstrap_discount=bootstrap_discount,
    )


def _transitions(episodes: Episodes, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transitions drawn uniformly over all steps: their episodes, their rows, and how many later states there are."""
    length = episodes.length
    if length.min() == length.max():
        steps = int(length[0])
        flat = rng.integers(len(length) * steps, size=count)
        which = flat // steps
        time = flat - which * steps
        return which, episodes.start[which] + time, steps - time
    end = np.cumsum(length)
    flat = rng.integers(end[-1], size=count)
    which = np.searchsorted(end, flat, side="right")
    time = flat - (end[which] - length[which])
    return which, episodes.start[which] + time, length[which] - time
