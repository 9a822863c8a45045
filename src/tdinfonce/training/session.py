"""What every training run is to its loop: something that iterates, saves and finishes."""

from typing import Protocol

from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import MetricLog
from tdinfonce.system.progress import Progress
from tdinfonce.system.signals import Stop
from tdinfonce.training.faults import about_disk
from tdinfonce.types import Metrics

__all__ = ["Run", "drive"]


class Run(Protocol):
    """A run between two iterations is a run that can be saved."""

    folder: RunFolder
    note: str
    """How it goes, for the progress bar."""

    def iterate(self, log: MetricLog) -> int:
        """Go on a little; return how far."""
        ...

    def save(self) -> None:
        """Write a checkpoint."""
        ...

    def finish(self, log: MetricLog, stop: Stop) -> Metrics:
        """Evaluate for the last time and mark the run complete."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


def drive(run: Run, log: MetricLog, progress: Progress, stop: Stop) -> Metrics:
    """Iterate until the progress is complete, then finish; save and raise Stopped if a signal asked for it."""
    try:
        with progress:
            while progress.done < progress.total:
                progress.advance(run.iterate(log), run.note)
                if stop.asked:
                    run.save()
                    stop.check()
        return run.finish(log, stop)
    except OSError as error:
        raise about_disk(run.folder, error) from error
    finally:
        run.close()
        log.close()
