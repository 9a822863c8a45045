"""One file for each way of estimating where a policy goes. The folder is the registry.

An estimator is a frozen dataclass with four pure functions, so that one loop (`fit`) trains them all alike:
``initial() -> table``, ``sample(draws, key) -> batch``, ``loss(table, target, batch, draws) -> scalar``,
``occupancy(table, draws) -> [S, A, S]``.
"""

from tdinfonce.tabular.estimators.c_learning import CLearning
from tdinfonce.tabular.estimators.certainty_equivalence import certainty_equivalence
from tdinfonce.tabular.estimators.mc_infonce import McInfonce
from tdinfonce.tabular.estimators.successor import Successor, known_model
from tdinfonce.tabular.estimators.td_infonce import TdInfonce

__all__ = ["CLearning", "McInfonce", "Successor", "TdInfonce", "certainty_equivalence", "known_model"]
