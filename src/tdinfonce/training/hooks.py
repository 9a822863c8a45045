"""Who is told how a run goes: callbacks and loggers. None of them can change what is learned."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdinfonce.types import Metrics

__all__ = ["Hooks", "RunInfo"]


@dataclass(frozen=True)
class RunInfo:
    """What a callback is told at the start of a run."""

    folder: Path
    """Where the run is written."""
    config: dict[str, Any]
    """What config.json holds: the plan and the environment's spec."""
    unit: str
    """What the run counts: ``env_steps`` or ``updates``."""
    total: int
    """How far it will go."""
    done: int
    """How far it is: above zero if it continues."""
    metrics: list[Metrics] = field(default_factory=list)
    """The rows of metrics that were written before it continued."""


class Hooks:
    """The callbacks of a run. Each sees copies, so nothing it does reaches the run, but for its wish to stop."""

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        """Anything with some of the methods ``on_start, on_log, on_evaluation, on_end``."""
        self.callbacks = tuple(callbacks)
        self.wish = ""
        """Why a callback wants the run to end; empty: none does."""

    def start(self, info: RunInfo) -> None:
        """The run begins, or continues."""
        self._tell("on_start", info)

    def log(self, row: Metrics) -> None:
        """A row of metrics was written."""
        self._tell("on_log", row)

    def evaluation(self, result: Metrics) -> None:
        """An evaluation was made; told before the row that holds it."""
        self._tell("on_evaluation", result)

    def end(self, summary: Metrics) -> None:
        """The run is complete."""
        self._tell("on_end", summary)

    def _tell(self, name: str, what: Any) -> None:
        for callback in self.callbacks:
            method = getattr(callback, name, None)
            if method is not None and method(copy.deepcopy(what)):
                self.wish = self.wish or str(getattr(callback, "reason", "") or type(callback).__name__)
