"""Where metrics go: JSON lines in the run folder, and TensorBoard beside them."""

import contextlib
import time
from typing import Any

import numpy as np

from tdinfonce.runs.folder import RunFolder
from tdinfonce.types import Metrics

__all__ = ["MetricLog", "averages", "pack", "unpack"]


class MetricLog:
    """Writes each row of metrics to every place."""

    def __init__(self, folder: RunFolder, *, axis: str = "env_step", tensorboard: bool = True) -> None:
        """Open the log of a run whose rows count ``axis``; TensorBoard files go to its folder ``tensorboard``."""
        self.folder, self.axis = folder, axis
        self._board: Any = None
        if tensorboard:
            from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]

            place = folder.path / "tensorboard"
            place.mkdir(exist_ok=True)
            # Its own front end writes from a thread, where a full disk could not be told of.
            self._board = EventsWriter(str(place / "events"))

    def write(self, step: int, metrics: Metrics) -> None:
        """Write one row; values become plain numbers."""
        row = {name: value if isinstance(value, int) else round(float(value), 6) for name, value in metrics.items()}
        self.folder.log({self.axis: step} | row)
        if self._board is not None:
            from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]
            from tensorboardX.summary import scalar  # type: ignore[import-untyped]

            for name, value in row.items():
                self._board.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
            self._board.flush()

    def close(self) -> None:
        """Flush everything; what TensorBoard cannot write any more is not missed."""
        if self._board is not None:
            with contextlib.suppress(OSError):
                self._board.close()


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
