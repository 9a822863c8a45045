"""Where metrics go: JSON lines in the run folder, and TensorBoard beside them."""

import json
import os
from typing import Any

from tdinfonce.training.run_folder import METRICS, RunFolder, read_metrics
from tdinfonce.types import Metrics

__all__ = ["MetricLog", "rewind"]


class MetricLog:
    """Writes each row of metrics to every place."""

    def __init__(self, folder: RunFolder, *, axis: str = "env_step", tensorboard: bool = True) -> None:
        """Open the log of a run whose rows count ``axis``; TensorBoard files go to its folder ``tensorboard``."""
        self.folder, self.axis = folder, axis
        self._board: Any = None
        if tensorboard:
            from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

            self._board = SummaryWriter(str(folder.path / "tensorboard"))

    def write(self, step: int, metrics: Metrics) -> None:
        """Write one row; values become plain numbers."""
        row = {name: value if isinstance(value, int) else round(float(value), 6) for name, value in metrics.items()}
        self.folder.log({self.axis: step} | row)
        if self._board is not None:
            for name, value in row.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush everything."""
        if self._board is not None:
            self._board.close()


def rewind(folder: RunFolder, step: int, *, axis: str = "env_step") -> None:
    """Drop the rows written after ``step``: a continued run will write them again."""
    path = folder.path / METRICS
    if not path.exists():
        return
    kept = [row for row in read_metrics(folder.path) if row.get(axis, 0) <= step]
    partial = path.with_name(path.name + ".partial")
    partial.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    os.replace(partial, path)
