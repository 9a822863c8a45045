"""Where metrics go: JSON lines in the run folder always, and whatever loggers a user asks for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.loggers import Logger
from tdinfonce.types import Metrics

__all__ = ["MetricLog", "averages", "pack", "unpack"]


class MetricLog:
    """Writes each row of metrics to every place.

    A row holds ``env_steps`` (0 offline) and ``updates``, then groups: ``eval/…`` of an evaluation, ``final/…`` of the
    last one, ``critic/…`` and ``actor/…`` means over the updates since the last row, ``collect/…`` of collected
    episodes, ``heldout/…`` of episodes that are not trained on, ``time/…`` in seconds.
    """

    def __init__(self, folder: RunFolder, loggers: Sequence[Logger] = ()) -> None:
        """A log of a run; `open` it before the first row."""
        self.folder, self.loggers = folder, loggers
        self._open: list[Logger] = []

    def open(self, config: dict[str, Any], step: int) -> None:
        """Tell the loggers what will be logged, and where it begins."""
        for logger in self.loggers:
            logger.open(self.folder.path, config, step)
            self._open.append(logger)

    def write(self, step: int, metrics: Metrics) -> Metrics:
        """Write one row; values become plain numbers. Returns the row."""
        row = {name: value if isinstance(value, int) else round(float(value), 6) for name, value in metrics.items()}
        self.folder.log(row)
        for logger in self.loggers:
            logger.write(step, row)
        return row

    def close(self) -> None:
        """Flush everything."""
        for logger in self._open:
            logger.close()


def averages(metrics: list[Metrics]) -> Metrics:
    """The mean of each metric over several calls."""
    return {name: float(np.mean([m[name] for m in metrics])) for name in _common(metrics)}


def pack(metrics: list[Metrics]) -> dict[str, np.ndarray]:
    """Metrics that are not logged yet, as arrays for a checkpoint."""
    return {f"metric:{name}": np.stack([m[name] for m in metrics]) for name in _common(metrics)}


def unpack(arrays: dict[str, np.ndarray]) -> list[Metrics]:
    """What `pack` packed."""
    names = sorted(arrays)  # as compiled programs return them; those of a file come in any order
    rows = zip(*(arrays[name] for name in names), strict=True)
    return [dict(zip([name.removeprefix("metric:") for name in names], row, strict=True)) for row in rows]


def _common(metrics: list[Metrics]) -> list[str]:
    """The names that every call has: those from before a stop may be of another version."""
    return [name for name in (metrics or [{}])[-1] if all(name in m for m in metrics)]
