"""The one exception that means: the input is wrong, and this line says what to do."""

import difflib
from collections.abc import Iterable

__all__ = ["UserError", "nearest"]


class UserError(Exception):
    """Bad input. The message is one line; the command line prints it and exits with code 2."""


def nearest(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Build the error for an unknown name: the nearest known one, then all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UserError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(names)}")
