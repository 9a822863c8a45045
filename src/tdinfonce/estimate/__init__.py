"""What critics know: where a policy or a process will go, values of rewards, representations.

Called as a function, it is `tdinfonce.estimate.off_policy.estimate`: ``td.estimate(data, policy=…, discount=…)``.
"""

import sys
from types import ModuleType
from typing import Any

__all__: list[str] = []


class _Room(ModuleType):
    """A package that can be called: `tdinfonce.estimate` names both."""

    def __call__(self, data: Any, policy: Any = "behaviour", *, discount: float, **options: Any) -> Any:
        """Evaluate a policy from logged data; see `tdinfonce.estimate.off_policy.estimate`."""
        from tdinfonce.estimate.off_policy import estimate

        return estimate(data, policy, discount=discount, **options)


sys.modules[__name__].__class__ = _Room
