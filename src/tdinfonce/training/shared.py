"""The settings that online and offline training share: range and help, once."""

from collections.abc import Callable
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.settings import setting

__all__ = ["check_rows", "shared"]

MOST_ROWS = 10**7
"""Of the batches that one compiled call is given."""


def _declare(help: str, **bounds: Any) -> Callable[..., Any]:
    return lambda default, text=help: setting(default, text, **bounds)


class shared:
    """Each is called with the default, and with another help text where it needs one."""

    updates_per_call = _declare(
        "Updates that are compiled into one program; only a matter of speed.", low=1, high=10**5
    )
    batch_size = _declare("Transitions of an update.", low=1, high=10**6)
    eval_every = _declare("Between evaluations (and checkpoints); 0: about 20 of them.")
    eval_episodes = _declare("Episodes of an evaluation during training.", low=1, high=10**6)
    final_episodes = _declare("Episodes of the evaluation at the end.", low=1, high=10**6)
    keep_checkpoints = _declare("Checkpoints that are kept: the newest ones; the best policy is kept besides.", low=1)


def check_rows(batch_size: int, updates_per_call: int) -> None:
    """Refuse batches that no memory holds."""
    if batch_size * updates_per_call > MOST_ROWS:
        raise UserError(f"batch_size times updates_per_call must be at most {MOST_ROWS:,} rows")
