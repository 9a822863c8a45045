"""Progress of long work: a bar on a terminal, one line that updates in a notebook, plain lines anywhere else."""

import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

__all__ = ["Progress", "interactive", "notebook"]


def notebook() -> bool:
    """Whether this is a notebook: its cells show what is displayed, and a display can be replaced."""
    shell = _shell()
    return shell is not None and hasattr(shell, "kernel")


def interactive() -> bool:
    """Whether somebody sits at a prompt: a notebook, IPython, or plain Python's."""
    return _shell() is not None or hasattr(sys, "ps1")


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


class Progress:
    """Counts steps towards a total. Use as a context manager and call `advance`; threads may share it."""

    def __init__(self, title: str, total: int, *, unit: str = "steps", every: float = 10.0, done: int = 0) -> None:
        """Prepare a display; ``every`` is the number of seconds between plain lines, ``done`` was done before."""
        self.title, self.total, self.unit, self.every = title, max(int(total), 1), unit, every
        self.done = self._before = done
        self.note = ""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Start the clock and the display."""
        self._start = self._printed = time.monotonic()
        self._bar: Any = None
        self._cell: Any = None
        if notebook():
            from IPython.display import display  # type: ignore[import-not-found]

            self._cell = display({"text/plain": self.title}, raw=True, display_id=True)
            self.every = 0.5
        elif sys.stderr.isatty():
            self._bar = self._open_bar()
        return self

    def _open_bar(self) -> Any:
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
            progress.TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self._task = bar.add_task(self.title, total=self.total, rate="", note="")
        bar.start()
        return bar

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bar, or show the last line."""
        if self._bar is not None:
            self._bar.stop()
        elif kind is None or self._cell is not None:
            self._show()

    def advance(self, steps: int, note: str | None = None) -> None:
        """Count ``steps`` more; ``note`` replaces the text behind the bar."""
        with self._lock:
            self.done += steps
            self.note = self.note if note is None else note
            now = time.monotonic()
            if self._bar is not None:
                self._bar.update(self._task, completed=self.done, rate=self._rate(now), note=self.note)
            elif now - self._printed >= self.every:
                self._printed = now
                self._show()

    def _show(self) -> None:
        if self._cell is not None:
            self._cell.update({"text/plain": self.line()}, raw=True)
        else:
            print(self.line(), file=sys.stderr, flush=True)

    def _rate(self, now: float) -> str:
        rate = (self.done - self._before) / max(now - self._start, 1e-9)
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"

    def line(self) -> str:
        """How far it is, how fast, and how long it will take, in one line."""
        now = time.monotonic()
        elapsed = now - self._start
        left = elapsed * (self.total - self.done) / max(self.done - self._before, 1)
        text = f"{self.title}: {self.done:,}/{self.total:,} {self.unit}, {self._rate(now)}, {elapsed:.0f} s"
        text += f", about {left:.0f} s left" if self.done < self.total else ", done"
        return text + (f" · {self.note}" if self.note else "")
