"""Why a command ends early, each with a message of one line."""

import difflib
from collections.abc import Iterable

__all__ = ["EnvironmentLost", "Stopped", "UserError", "nearest"]


class UserError(Exception):
    """Bad input, or a fault that stops a run. The command line prints the message and exits with code 2."""


class Stopped(Exception):
    """A signal asked a run to end, and it has ended at a safe point. The command line exits with code 75."""


class EnvironmentLost(Exception):
    """The process of an environment died or hangs; what it was doing is lost."""


def nearest(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Build the error for an unknown name: the nearest known one, then all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UserError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(names)}")
