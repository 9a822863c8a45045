"""Callbacks that come with the package. Anything with some of `Callback`'s methods is one."""

import time
from collections.abc import Callable
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.training.hooks import RunInfo
from tdinfonce.types import Metrics

__all__ = ["Callback", "progress_to", "stop_at_success", "stop_at_wall_time", "stop_when_stuck"]


class Callback:
    """Is told how a run goes. Each method may return True to end the run, which then is complete.

    What it is given are copies: nothing it does to them changes what is learned. Inherit from it, or write any class
    with some of these methods.

    >>> import tdinfonce as td
    >>> class Halfway(td.Callback):
    ...     reason = "halfway there"
    ...     def on_log(self, row):
    ...         return row["env_steps"] >= 500
    >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, callbacks=[Halfway()], out="runs/half")
    >>> run.summary["stopped"]
    'halfway there'
    """

    reason = ""
    """Why it ends a run, for the summary; empty: the name of its class."""

    def on_start(self, info: RunInfo) -> bool | None:
        """The run begins or continues."""

    def on_log(self, row: Metrics) -> bool | None:
        """A row of metrics was written."""

    def on_evaluation(self, result: Metrics) -> bool | None:
        """An evaluation was made: ``success_any, success_final, …`` with ``env_steps`` and ``updates``."""

    def on_end(self, summary: Metrics) -> bool | None:
        """The run is complete."""


class stop_at_success(Callback):
    """Stop as soon as an evaluation reaches a success rate.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", env_steps=1_000, callbacks=[td.stop_at_success(0.0)], out="runs/soon")
    >>> run.summary["stopped"]
    'success_any reached 0'
    """

    def __init__(self, rate: float, metric: str = "success_any") -> None:
        """``metric`` is a key of the evaluation, such as ``success_final``."""
        self.rate, self.metric = _share(rate), metric
        self.reason = f"{metric} reached {rate:g}"

    def on_evaluation(self, result: Metrics) -> bool:
        """Compare."""
        return bool(_metric(result, self.metric) >= self.rate)


class stop_at_wall_time(Callback):
    """Stop at the first row of metrics after so many seconds of this process; see also ``eval_every``.

    >>> import tdinfonce as td
    >>> td.stop_at_wall_time(3600).reason
    '3,600 seconds are over'
    """

    def __init__(self, seconds: float) -> None:
        """From the start of the run, or of its continuation."""
        if not seconds > 0:
            raise UserError(f"a wall time is a positive number of seconds; got {seconds}")
        self.seconds, self.reason = seconds, f"{seconds:,.0f} seconds are over"
        self._end = float("inf")

    def on_start(self, info: RunInfo) -> None:
        """Start the clock."""
        self._end = time.monotonic() + self.seconds

    def on_log(self, row: Metrics) -> bool:
        """Look at the clock."""
        return time.monotonic() >= self._end


class stop_when_stuck(Callback):
    """Stop when several evaluations in a row bring nothing better.

    >>> import tdinfonce as td
    >>> td.stop_when_stuck(evaluations=5).reason
    'success_any has not improved for 5 evaluations'
    """

    def __init__(self, evaluations: int = 5, metric: str = "success_any", least: float = 0.0) -> None:
        """``least`` is how much better counts as better."""
        if evaluations < 1:
            raise UserError(f"at least one evaluation must bring nothing; got {evaluations}")
        self.evaluations, self.metric, self.least = evaluations, metric, least
        self.reason = f"{metric} has not improved for {evaluations} evaluations"
        self._best, self._since = float("-inf"), 0

    def on_start(self, info: RunInfo) -> None:
        """Begin anew, with what was measured before the run continued."""
        self._best, self._since = float("-inf"), 0
        for row in info.metrics:
            if f"eval/{self.metric}" in row:
                self._count(row[f"eval/{self.metric}"])

    def on_evaluation(self, result: Metrics) -> bool:
        """Count."""
        self._count(_metric(result, self.metric))
        return self._since >= self.evaluations

    def _count(self, value: float) -> None:
        better = value > self._best + self.least
        self._since = 0 if better else self._since + 1
        self._best = value if better else self._best


class progress_to(Callback):
    """Tell any function how far the run is: a progress bar, a chat, a queue.

    >>> import tdinfonce as td
    >>> seen = []
    >>> tell = td.progress_to(lambda done, total, row: seen.append(done))
    >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, eval_every=500, callbacks=[tell], out="runs/told")
    >>> seen
    [500, 1000, 1000]
    """

    def __init__(self, function: Callable[[int, int, Metrics], Any]) -> None:
        """It is called with how far the run is, how far it will go, and each row of metrics."""
        self._function = function

    def on_start(self, info: RunInfo) -> None:
        """Learn what the run counts."""
        self._unit, self._total = info.unit, info.total

    def on_log(self, row: Metrics) -> None:
        """Tell."""
        self._function(row[self._unit], self._total, row)


def _share(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise UserError(f"a success rate lies between 0 and 1; got {rate}")
    return rate


def _metric(result: Metrics, name: str) -> float:
    if name not in result:
        raise UserError(f"an evaluation has no '{name}'; it has {', '.join(result)}")
    return float(result[name])
