"""Look into a data set: check it, say what is in it, and draw where it has been."""

from pathlib import Path
from typing import NamedTuple

from tdinfonce.data import open_dataset, read_record
from tdinfonce.data.actions import ActionBounds
from tdinfonce.errors import UserError

__all__ = ["Inspection", "inspect"]


class Inspection(NamedTuple):
    """What was found in a data set."""

    text: str
    picture: Path


def inspect(
    source: str | Path,
    *,
    goal: str | None = None,
    action_bounds: ActionBounds | None = None,
    out: str | Path | None = None,
) -> Inspection:
    """Read a data set as `open_dataset` does, describe it, and draw it.

    Args:
        source: as for `open_dataset`.
        goal: likewise.
        action_bounds: likewise.
        out: the folder of the picture; None: ``runs/inspect-NAME``.
    """
    from tdinfonce.analysis import datasets

    record = read_record(source)
    episodes = open_dataset(source, goal=goal, action_bounds=action_bounds)
    folder = Path("runs") / f"inspect-{Path(source).stem}" if out is None else Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from error
    datasets.draw(folder, episodes, record)
    return Inspection(datasets.report(str(source), episodes, record), folder / "coverage.png")
