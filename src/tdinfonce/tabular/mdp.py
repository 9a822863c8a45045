"""A finite Markov decision process, its exact occupancy and values, and trajectories through it.

Tables are numpy arrays in double precision: ``[S, A]`` for policies and rewards, ``[S, A, S]`` for transitions and
occupancies. A policy of one row for each state is ``policy[s, a] = π(a | s)``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mdp", "Trajectories", "action_values", "exact_occupancy", "infonce_bellman", "rollouts", "uniform_policy"]

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mdp:
    """States, actions and how they lead to the next state."""

    transition: Table
    """``[S, A, S]``: the chance of each next state."""

    def __post_init__(self) -> None:
        """Check that every row is a distribution."""
        shape = np.shape(self.transition)
        if len(shape) != 3 or shape[0] != shape[2]:
            raise ValueError(f"transition must be [S, A, S]; got shape {list(shape)}")
        check_distribution("transition", self.transition)

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.transition.shape[0])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.transition.shape[1])

    @cached_property
    def successor(self) -> NDArray[np.int64] | None:
        """``[S, A]``, the next state where every move is certain; None in a stochastic world."""
        return np.argmax(self.transition, axis=2) if np.all(np.max(self.transition, axis=2) == 1) else None


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Episodes of possibly different lengths, padded to the longest."""

    states: NDArray[np.integer[Any]]
    """``[E, T + 1]``."""
    actions: NDArray[np.integer[Any]]
    """``[E, T]``: action t leads from state t to state t + 1."""
    lengths: NDArray[np.integer[Any]]
    """``[E]``: how many actions of each episode are real."""

    def __post_init__(self) -> None:
        """Check the shapes against each other."""
        episodes, steps = np.shape(self.actions)
        if np.shape(self.states) != (episodes, steps + 1) or np.shape(self.lengths) != (episodes,):
            raise ValueError(
                "states must be [E, T + 1], actions [E, T] and lengths [E]; got "
                f"{list(np.shape(self.states))}, {list(np.shape(self.actions))} and {list(np.shape(self.lengths))}"
            )


def check_distribution(name: str, table: Table) -> None:
    """Raise unless the last axis of ``table`` sums to 1 with no negative entry."""
    if not np.all(np.isfinite(table)) or np.any(table < 0) or not np.allclose(np.sum(table, axis=-1), 1, atol=1e-9):
        raise ValueError(f"each row of {name} must be a probability distribution")


def check_discount(discount: float) -> None:
    """Raise unless 0 <= discount < 1."""
    if not 0 <= discount < 1:
        raise ValueError(f"discount must be at least 0 and below 1; got {discount}")


def uniform_policy(mdp: Mdp) -> Table:
    """The policy that picks every action equally often."""
    return np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)


def exact_occupancy(mdp: Mdp, policy: Table, discount: float) -> Table:
    """Solve for the discounted state occupancy measure of ``policy``.

    Implements: Eq. discounted-state-occupancy-measure (Sec. 3.1) through its recurrence. It starts at the *next*
    state: the current one counts only when it is visited again.
    Deviates: no.

    Returns:
        ``[S, A, S]``, rows sum to 1.
    """
    check_discount(discount)
    _check_policy(mdp, policy)
    step = np.einsum("sa,sat->st", policy, mdp.transition)
    from_state = np.linalg.solve(np.eye(mdp.n_states) - discount * step, (1 - discount) * step)
    return infonce_bellman(mdp, policy, discount, np.broadcast_to(from_state[:, None, :], mdp.transition.shape))


def infonce_bellman(mdp: Mdp, policy: Table, discount: float, table: Table) -> Table:
    """Apply the InfoNCE Bellman operator once to ``table[s, a, u]``.

    Implements: the operator of App. A, which is also the classifier's update in Eq. td-infonce-update and the
    recurrence of Eq. discounted-state-occupancy-measure-recurrence. Its only fixed point is `exact_occupancy`.
    Deviates: no.
    """
    _check_policy(mdp, policy)
    following = np.einsum("sa,sau->su", policy, table)
    return (1 - discount) * mdp.transition + discount * mdp.transition @ following


def action_values(mdp: Mdp, policy: Table, reward: Table, discount: float) -> Table:
    """Solve for Q: the discounted sum of ``reward[s, a]`` from each state-action on, ``[S, A]``."""
    check_discount(discount)
    _check_policy(mdp, policy)
    step = np.einsum("sa,sat->st", policy, mdp.transition)
    state_reward = np.sum(policy * reward, axis=1)
    value = np.linalg.solve(np.eye(mdp.n_states) - discount * step, state_reward)
    return reward + discount * mdp.transition @ value


def rollouts(
    mdp: Mdp, policy: Table, rng: np.random.Generator, *, episodes: int, steps: int, start: Table | None = None
) -> Trajectories:
    """Walk through the world, all episodes side by side.

    Args:
        mdp: the world.
        policy: ``[S, A]``.
        rng: the source of randomness.
        episodes: how many.
        steps: actions of each episode.
        start: ``[S]``, the distribution of first states. Default: uniform.
    """
    _check_policy(mdp, policy)
    first = np.full(mdp.n_states, 1 / mdp.n_states) if start is None else start
    check_distribution("start", first)
    policy_cdf, move_cdf = np.cumsum(policy, axis=-1), np.cumsum(mdp.transition, axis=-1)
    states = np.empty((steps + 1, episodes), dtype=np.int16)
    actions = np.empty((steps, episodes), dtype=np.int16)
    states[0] = rng.choice(mdp.n_states, size=episodes, p=first)
    for t in range(steps):
        actions[t] = _draw(policy_cdf[states[t]], rng)
        if mdp.successor is None:
            states[t + 1] = _draw(move_cdf[states[t], actions[t]], rng)
        else:
            states[t + 1] = mdp.successor[states[t], actions[t]]
    return Trajectories(states.T, actions.T, np.full(episodes, steps))


def _draw(cdf: Table, rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from each row; the last entry catches what rounding leaves over."""
    return np.sum(rng.random((len(cdf), 1)) >= cdf[:, :-1], axis=1)


def _check_policy(mdp: Mdp, policy: Table) -> None:
    if np.shape(policy) != (mdp.n_states, mdp.n_actions):
        raise ValueError(
            f"policy must be [S, A] = [{mdp.n_states}, {mdp.n_actions}]; got shape {list(np.shape(policy))}"
        )
    check_distribution("policy", policy)
