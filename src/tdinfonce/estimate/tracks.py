"""Positions of real rats, from the wheel of RatInABox: read at an even pace, in halves, in pieces, as states.

The package itself is never imported here: it has an environment of its own.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.system import venv

__all__ = ["PACKAGE", "RATS", "data_folder", "even", "halves", "python", "read", "states"]

PACKAGE = "ratinabox==1.15.3"
NEEDS = ("numpy==2.4.6", "scipy==1.17.1", "shapely==2.2.0", "matplotlib==3.11.2")
RATS = ("sargolini", "tanni")
"""Names of the recordings."""
PAUSE = 0.5
"""Seconds without a position that end a session; shorter ones are bridged by a straight line."""


def python(folder: Path = Path("runs") / "ratinabox") -> Path:
    """The Python of an environment that has RatInABox, installed into ``folder`` if it is not there."""
    return venv.install(PACKAGE, folder, [(PACKAGE, *NEEDS)])


def data_folder(folder: Path = Path("runs") / "ratinabox") -> Path:
    """The folder of the recordings, in the same environment."""
    found = sorted(python(folder).parents[1].rglob("ratinabox/data/tanni.npz"))
    if not found:
        raise UserError(f"{PACKAGE} in {folder} has no recordings; remove that folder and try again")
    return found[0].parent


def read(rat: str, folder: Path, rate: float) -> list[np.ndarray]:
    """Sessions ``[rows, 2]`` of positions in metres, ``rate`` in a second."""
    try:
        with np.load(folder / f"{rat}.npz") as file:
            times, positions = file["t"], file["pos"]
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"{folder / rat}.npz is no recording of times t and positions pos: {error}") from error
    breaks = np.flatnonzero(np.diff(times) > PAUSE) + 1
    return [even(t, p, rate) for t, p in zip(np.split(times, breaks), np.split(positions, breaks), strict=True)]


def even(times: np.ndarray, positions: np.ndarray, rate: float) -> np.ndarray:
    """The mean position in each bin of time, so that a jump of the tracking weighs little; empty bins are bridged."""
    bins = np.floor((times - times[0]) * rate + 1e-6).astype(int)
    count = np.bincount(bins)
    means = np.stack([np.bincount(bins, x) for x in positions.T], axis=1) / np.maximum(count, 1)[:, None]
    seen = np.flatnonzero(count)
    return np.stack([np.interp(np.arange(len(count)), seen, x) for x in means[seen].T], axis=1)


def halves(sessions: Sequence[np.ndarray], share: float = 0.5) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What comes first, of that share of all rows, and what comes after."""
    first, second, left = [], [], round(share * sum(map(len, sessions)))
    for session in sessions:
        first.append(session[:left])
        second.append(session[left:])
        left = max(left - len(session), 0)
    return [s for s in first if len(s)], [s for s in second if len(s)]


def states(positions: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """``[rows - longest lag, 2 + 2 · lags]``: a position and how it differs from each of ``lags`` rows before.

    It is made within a session: the first rows of each, whose past is not in it, give none.
    """
    longest, rows = max(lags), len(positions)
    now = positions[longest:]
    return np.concatenate([now, *(now - positions[longest - lag : rows - lag] for lag in lags)], axis=1)
