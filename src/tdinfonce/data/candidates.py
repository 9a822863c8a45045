"""The places that an occupancy is asked over: a sample of the stored states, by the law of the critic's negatives."""

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.relabel import geometric_offset, uniform_offset
from tdinfonce.types import GoalSampling

__all__ = ["draw_candidates", "draw_futures"]

MOST = 10_000
MOST_BYTES = 1 << 23
"""Of their observations: of images there are fewer."""


def draw_candidates(episodes: Episodes, rng: np.random.Generator, law: str, how: GoalSampling) -> dict[str, np.ndarray]:
    """The observations of some states and what is achieved there; images are both, and are given once.

    Args:
        episodes: where from.
        rng: the only source of randomness.
        law: ``random_goal``, any state that is no first one; or ``future_goal``, a later state of any transition.
            Each transition gives at most one.
        how: the law of future goals.
    """
    count = min(MOST, max(MOST_BYTES // episodes.observation[:1].nbytes, 1))
    _, row, later = draw_futures(episodes, rng, count, how)
    row = later if law == "future_goal" else row + 1
    stored = {"observation": episodes.observation[row]}
    return stored if episodes.achieved is episodes.observation else stored | {"achieved": episodes.achieved[row]}


def draw_futures(
    episodes: Episodes, rng: np.random.Generator, count: int, how: GoalSampling
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """So many different transitions, or all: their episodes and rows, and the rows of later states of each."""
    chosen = rng.choice(episodes.transitions, min(count, episodes.transitions), replace=False)
    end = np.cumsum(episodes.length)
    which = np.searchsorted(end, chosen, side="right")
    left = end[which] - chosen
    uniform = rng.random(len(chosen), dtype=np.float32)
    ahead = uniform_offset(uniform, left) if how.uniform_future else geometric_offset(uniform, left, how.discount)
    row = episodes.start[which] + episodes.length[which] - left
    return which, row, row + ahead
