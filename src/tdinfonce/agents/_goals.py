"""Which goals the rows of a batch are trained on."""

from typing import Any

from tdinfonce.errors import UserError

__all__ = ["check_shares"]


def check_shares(config: Any, *names: str) -> None:
    """Raise UserError if settings that are shares of one batch are more than the whole."""
    if sum(getattr(config, name) for name in names) > 1:
        raise UserError(f"{' and '.join(names)} are shares of one batch: together at most 1")
