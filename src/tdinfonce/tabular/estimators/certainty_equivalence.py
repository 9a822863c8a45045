"""Certainty equivalence: take the data's frequencies for the truth, and solve. The statistical floor."""

import numpy as np

from tdinfonce.tabular.mdp import Table, check_discount
from tdinfonce.tabular.statistics import Statistics

__all__ = ["certainty_equivalence"]


def certainty_equivalence(data: Statistics, discount: float) -> Table:
    """Solve the empirical chain of state-actions for its occupancy.

    It uses every count of the data and has no step size, so no SARSA estimator beats it by more than luck.
    A state-action with no data gets the marginal, as an untrained ratio would.

    Returns:
        ``[S, A, S]``.
    """
    check_discount(discount)
    visits = data.sarsa.sum(axis=1, keepdims=True)
    known = visits > 0
    chain = np.divide(data.sarsa, visits, out=np.zeros_like(data.sarsa), where=known)
    move = np.divide(data.moves, visits, out=np.zeros_like(data.moves), where=known)
    constant = np.where(known, (1 - discount) * move, data.marginal)
    solved = np.linalg.solve(np.eye(len(chain)) - discount * chain, constant)
    return np.asarray(solved.reshape(data.n_states, data.n_actions, data.n_states))
