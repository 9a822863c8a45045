"""What a set of trajectories says, counted.

A minibatch drawn from a data set with replacement is a draw from its empirical distribution. In a small world that
distribution is a short table, so a data set of ten million transitions costs no more memory or time than one of a
thousand, and the draws are the same in law. For Monte Carlo methods the table holds the chance of each
(state-action, future state) pair when the future is drawn from the truncated geometric distribution.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tdinfonce.tabular.mdp import Mdp, Table, Trajectories, check_discount, exact_occupancy

__all__ = ["Draws", "Statistics", "endless_data", "stack_draws", "summarise"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts of a data set. A state-action is numbered ``x = s * A + a``."""

    n_states: int
    n_actions: int
    moves: Table
    """``[X, S]``: how often each next state followed."""
    sarsa: Table
    """``[X, X]``: how often each next state and next action followed."""
    futures: Table
    """``[X, S]``: chance that a draw of a transition and of its geometric future gives this pair; sums to 1."""

    @property
    def marginal(self) -> Table:
        """``[S]``: the empirical distribution of next states, from which random states are drawn."""
        return np.asarray(self.moves.sum(axis=0) / self.moves.sum())

    @property
    def future_marginal(self) -> Table:
        """``[S]``: the distribution of Monte Carlo futures."""
        return np.asarray(self.futures.sum(axis=0))

    @property
    def seen(self) -> NDArray[np.bool_]:
        """``[S, A]``: which actions the data hold."""
        return self.moves.sum(axis=1).reshape(self.n_states, self.n_actions) > 0


def summarise(data: Trajectories, n_states: int, n_actions: int, discount: float, *, sarsa: bool = True) -> Statistics:
    """Count the transitions of ``data``.

    Args:
        data: the trajectories.
        n_states: S.
        n_actions: A.
        discount: of the geometric futures.
        sarsa: leave out the last transition of each episode, whose next action is unknown, for every method alike.
    """
    check_discount(discount)
    n_pairs = n_states * n_actions
    pair = data.states[:, :-1].astype(np.int64) * n_actions + data.actions
    following = data.states[:, 1:].astype(np.int64)
    usable = np.arange(pair.shape[1]) < (data.lengths - int(sarsa))[:, None]
    if not usable.any():
        raise ValueError("no transition is left: every episode is too short")
    moves = _count(pair[usable] * n_states + following[usable], (n_pairs, n_states))
    if sarsa:
        flat = pair[:, :-1] * n_pairs + pair[:, 1:]
        chain = _count(flat[usable[:, :-1]], (n_pairs, n_pairs))
    else:
        chain = np.zeros((n_pairs, n_pairs))
    futures = _futures(pair, following, usable, data.lengths, (n_pairs, n_states), discount)
    return Statistics(n_states, n_actions, moves, chain, futures)


def endless_data(mdp: Mdp, policy: Table, discount: float) -> Statistics:
    """What infinitely many transitions of ``policy`` would say, if every state-action were seen equally often."""
    states, pairs = mdp.n_states, mdp.n_states * mdp.n_actions
    moves = mdp.transition.reshape(pairs, states) / pairs
    sarsa = np.einsum("xs,sa->xsa", moves, policy).reshape(pairs, pairs)
    futures = exact_occupancy(mdp, policy, discount).reshape(pairs, states) / pairs
    return Statistics(states, mdp.n_actions, moves, sarsa, futures)


def _count(index: NDArray[np.int64], shape: tuple[int, int]) -> Table:
    return np.bincount(index, minlength=shape[0] * shape[1]).reshape(shape).astype(float)


def _futures(
    pair: NDArray[np.int64],
    following: NDArray[np.int64],
    usable: NDArray[np.bool_],
    lengths: NDArray[np.integer],
    shape: tuple[int, int],
    discount: float,
) -> Table:
    """Walk each episode backwards; ``ahead[e]`` is the discounted sum of the states still to come, not normalised."""
    total = np.zeros(shape[0] * shape[1])
    columns = np.arange(shape[1])
    for block in np.array_split(np.arange(len(pair)), max(1, len(pair) // 2000)):
        ahead = np.zeros((len(block), shape[1]))
        for t in reversed(range(pair.shape[1])):
            live = t < lengths[block]
            ahead *= discount
            ahead[live, following[block, t][live]] += 1 - discount
            keep = usable[block, t]
            if keep.any():
                rows = ahead[keep] / (1 - discount ** (lengths[block][keep] - t))[:, None]
                index = pair[block, t][keep][:, None] * shape[1] + columns
                total += np.bincount(index.ravel(), weights=rows.ravel(), minlength=len(total))
    return total.reshape(shape) / usable.sum()


class Draws(NamedTuple):
    """`Statistics` as arrays to draw from inside compiled code."""

    sarsa_cdf: Array
    """``[K]``, over the distinct (state-action, next state-action) pairs of the data."""
    sarsa_pair: Array
    """``[K]``, the state-action of each."""
    sarsa_next: Array
    """``[K]``, the next state-action of each."""
    move_cdf: Array
    """``[X * S]``, over (state-action, next state)."""
    future_cdf: Array
    """``[X * S]``, over (state-action, Monte Carlo future)."""
    state_cdf: Array
    """``[S]``."""
    marginal: Array
    """``[S]``."""
    future_marginal: Array
    """``[S]``."""
    seen: Array
    """``[S, A]``, which actions the data hold."""


def stack_draws(statistics: list[Statistics]) -> Draws:
    """One `Draws` whose arrays have a leading axis, one entry for each data set."""
    kept = [np.nonzero(s.sarsa.ravel())[0] for s in statistics]
    width = max(1, *(len(k) for k in kept))

    def lane(s: Statistics, index: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        n_pairs = len(s.sarsa)
        padded = np.pad(index, (0, width - len(index)))
        weight = np.pad(s.sarsa.ravel()[index], (0, width - len(index)))
        return {
            "sarsa_cdf": _cdf(weight),
            "sarsa_pair": padded // n_pairs,
            "sarsa_next": padded % n_pairs,
            "move_cdf": _cdf(s.moves.ravel()),
            "future_cdf": _cdf(s.futures.ravel()),
            "state_cdf": _cdf(s.marginal),
            "marginal": s.marginal,
            "future_marginal": s.future_marginal,
            "seen": s.seen,
        }

    lanes = [lane(s, k) for s, k in zip(statistics, kept, strict=True)]

    def stack(name: str) -> Array:
        array = np.stack([arrays[name] for arrays in lanes])
        return jnp.asarray(array, {"i": jnp.int32, "b": jnp.bool_}.get(array.dtype.kind, jnp.float32))

    return Draws(*(stack(name) for name in Draws._fields))


def _cdf(weight: Table) -> Table:
    """Cumulative shares; exactly 1 from the last positive entry on, so that no draw falls beyond it."""
    total = np.cumsum(weight)
    if total[-1] == 0:
        return np.ones(len(weight))
    share = total / total[-1]
    share[np.nonzero(weight)[0][-1] :] = 1
    return share
