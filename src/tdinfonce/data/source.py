"""Data from outside, whatever its format: one name, one function, one validation."""

from pathlib import Path
from typing import Any

from tdinfonce.data import formats
from tdinfonce.data.actions import ActionBounds
from tdinfonce.data.check import FEWEST_STEPS
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.finish import finish
from tdinfonce.data.store import MEMORY_LIMIT

__all__ = ["open_dataset", "read_record"]


def open_dataset(
    source: str | Path,
    *,
    goal: str | None = None,
    action_bounds: ActionBounds | None = None,
    default_bounds: ActionBounds | None = None,
    default_goal: str | None = None,
    memory_limit: int = MEMORY_LIMIT,
    fewest_steps: int = FEWEST_STEPS,
) -> Episodes:
    """Read and check a data set.

    Args:
        source: a Minari id (downloaded if it is not here) or the folder of a Minari data set, a D4RL-style .hdf5 file,
            an .npz file with the same arrays or with OGBench's, or the folder of one of our runs, whose replay is read.
        goal: the coordinates of an observation that make the goal, ``0:2`` or ``0,1``. Needed where the data have no
            achieved goals; where they have, it must agree with them. Or ``all``: the whole observation, which is what
            OGBench's data have without it. Images are their own goals.
        action_bounds: the smallest and the largest action, which become -1 and 1: numbers, or one for each coordinate;
            or how many discrete actions there are. Without it, what the data set says; if it says nothing, what
            ``default_bounds`` says; else, if actions leave [-1, 1], the smallest and the largest in the data, with a
            warning.
        default_bounds: likewise, for data that do not say it themselves: those of the environment they are for.
        default_goal: as ``goal``, for data that name no achieved goals: of the environment they are for.
        memory_limit: larger data sets, in bytes, are memory-mapped.
        fewest_steps: shorter episodes are refused.

    Raises:
        UserError: one line with file, field and row.
    """
    name, path = formats.find_format(source)
    raw = formats.load(name).open(path, memory_limit)
    return finish(raw, goal, action_bounds, default_bounds, memory_limit, fewest_steps, default_goal)


def read_record(source: str | Path) -> dict[str, Any]:
    """What a data set says about how it was made; always with ``format``, and with ``env`` if that is known."""
    name, path = formats.find_format(source)
    return {"format": name} | formats.load(name).record(path)
