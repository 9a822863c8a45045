"""Episodes in, batches out. The only place where a `Batch` is made."""

import math

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.relabel import geometric_offset, uniform_offset
from tdinfonce.types import Batch, GoalSampling

__all__ = ["sample"]


def sample(episodes: Episodes, rng: np.random.Generator, shape: tuple[int, ...], how: GoalSampling) -> Batch:
    """Draw transitions uniformly, with their next, future and random goals, and sub-goals if any are wanted.

    Args:
        episodes: where from.
        rng: the only source of randomness.
        shape: leading axes of every field of the batch, for example ``(updates, batch_size)``.
        how: the laws of the goals.
    """
    if not len(episodes):
        raise ValueError("no episodes to sample from")
    count = math.prod(shape)
    which, rows, left = _transitions(episodes, rng, 2 * count)
    # A random state is any state but the first of an episode: the same marginal as the next states have.
    row, other = rows[:count], rows[count:] + 1
    which, left = which[:count], left[:count]
    # Every number is drawn whichever fields are wanted: what an agent reads does not change what it is shown.
    uniform = rng.random((2, count), dtype=np.float32)
    draw = uniform_offset if how.uniform_future else lambda u, n: geometric_offset(u, n, how.discount)
    steps = np.minimum(left, how.n_step)
    if how.whole_share:
        steps = np.where(np.arange(count) % shape[-1] < round(how.whole_share * shape[-1]), left, steps)
    sources: dict[str, tuple[np.ndarray | None, np.ndarray]] = {
        "observation": (episodes.observation, row),
        "action": (episodes.action, row),
        "next_observation": (episodes.observation, row + 1),
        "next_goal": (episodes.achieved, row + 1),
        "future_goal": (episodes.achieved, row + draw(uniform[0], left)),
        "random_goal": (episodes.achieved, other),
        "commanded_goal": (episodes.goal, which),
        "near_goal": (episodes.achieved, row + geometric_offset(uniform[1], steps, how.discount)),
        "bootstrap_observation": (episodes.observation, row + steps),
        "bootstrap_discount": (np.float32(how.discount) ** np.arange(steps.max() + 1, dtype=np.float32), steps),
        "reward": (episodes.reward, row + 1),
        "present_goal": (episodes.achieved, row),
        **_context(episodes, which, row, how.context),
        **_later(episodes, rng, row, left, how),
    }

    def take(name: str) -> np.ndarray | None:
        if name not in how.fields:
            return None
        array, index = sources[name]
        if array is None:
            return None
        return array.take(index, axis=0, mode="clip").reshape(*shape, *index.shape[1:], *array.shape[1:])

    return Batch(*map(take, Batch._fields))


def _context(
    episodes: Episodes, which: np.ndarray, row: np.ndarray, steps: int
) -> dict[str, tuple[np.ndarray | None, np.ndarray]]:
    """The last steps of the episode up to each row; before its start the first row is repeated, with time -1."""
    names = "observation", "action", "return", "time"
    if not steps:
        return {f"context_{name}": (None, row) for name in names}
    time = (row - episodes.start[which])[:, None] + np.arange(1 - steps, 1)
    rows = episodes.start[which][:, None] + np.maximum(time, 0)
    arrays = episodes.observation, episodes.action, episodes.reward_to_come
    times = np.arange(-1, int(time.max()) + 1)
    sources = [(array, rows) for array in arrays] + [(times, np.maximum(time, -1) + 1)]
    return {f"context_{name}": source for name, source in zip(names, sources, strict=True)}


def _later(
    episodes: Episodes, rng: np.random.Generator, row: np.ndarray, left: np.ndarray, how: GoalSampling
) -> dict[str, tuple[np.ndarray | None, np.ndarray]]:
    """A state so many steps ahead, any later state, and one so many steps ahead on the way to that.

    They are drawn behind all others: who does not read them is shown what it would be shown without them.
    """
    steps, names = how.subgoal_steps, ("subgoal", "subgoal_observation", "waypoint_goal", "waypoint_observation")
    nothing: dict[str, tuple[np.ndarray | None, np.ndarray]] = dict.fromkeys((*names, "later_goal"), (None, row))
    if not steps and "later_goal" not in how.fields:
        return nothing
    later = uniform_offset(rng.random(len(row), dtype=np.float32), left)
    if not steps:
        return nothing | {"later_goal": (episodes.achieved, row + later)}
    subgoal, waypoint = row + np.minimum(left, steps), row + np.minimum(later, steps)
    return {
        "subgoal": (episodes.achieved, subgoal),
        "subgoal_observation": (episodes.observation, subgoal),
        "later_goal": (episodes.achieved, row + later),
        "waypoint_goal": (episodes.achieved, waypoint),
        "waypoint_observation": (episodes.observation, waypoint),
    }


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
