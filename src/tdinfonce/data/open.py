"""Stand-in until the readers of all formats arrive: plain .npz files only, hardly checked."""

import zipfile
from pathlib import Path

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError

__all__ = ["open_dataset"]


def open_dataset(source: str, *, goal: str | None = None) -> Episodes:
    """Read ``observations``, ``actions`` and ``timeouts`` (one entry for each state) of an .npz file.

    Args:
        source: the file.
        goal: the coordinates of an observation that are a goal, for example ``0:2``; None: all.
    """
    if not Path(source).is_file():
        raise UserError(f"there is no data set {source}")
    try:
        with np.load(source) as file:
            observation, action = (np.asarray(file[name], np.float32) for name in ("observations", "actions"))
            end = np.flatnonzero(file["timeouts"])
        words = [int(part) if part else None for part in (goal or ":").split(":")]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read {source}: {error}") from error
    start = np.concatenate([[0], end[:-1] + 1])
    achieved = observation[:, slice(*words)]
    return Episodes(observation, achieved, action, start, end - start, achieved[end])
