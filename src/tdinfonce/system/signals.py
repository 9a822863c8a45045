"""SIGINT and SIGTERM: the first asks a run to end at its next safe point, the second ends it at once."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from tdinfonce.errors import Stopped

__all__ = ["Stop", "own_process", "sigterm_as_ctrl_c"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_owned = False


def own_process() -> None:
    """Say that this process is our command line and nobody else's: a second signal may end it at once."""
    global _owned  # noqa: PLW0603 - a process is one
    _owned = True


class Stop:
    """Use as a context manager around a run; elsewhere than in the main thread it hears nothing.

    In a process of the user's (a script, a notebook) the second signal does what it did before: Ctrl-C raises
    KeyboardInterrupt. Only our own command line ends the process.
    """

    def __init__(self) -> None:
        """Not asked yet."""
        self.asked: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._watch: tuple[socket.socket, int] | None = None

    def __enter__(self) -> Self:
        """Listen. A signal that the process was started to ignore stays ignored."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._hear)
            if _owned:
                ear, mouth = socket.socketpair()
                mouth.setblocking(False)
                self._watch = mouth, signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
                threading.Thread(target=_end_at_the_second, args=(ear, set(self._before)), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        if self._watch is not None:
            mouth, before = self._watch
            signal.set_wakeup_fd(before)
            mouth.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Stopped if asked; for places where nothing needs to be saved."""
        if self.asked is not None:
            raise Stopped(f"stopped by {self.asked.name}")

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked = signal.Signals(number)
        elif _owned:
            os._exit(128 + number)
        else:
            self._again(signal.Signals(number), frame)

    def _again(self, number: signal.Signals, frame: FrameType | None) -> None:
        """Do what the signal did before we listened."""
        before = self._before[number]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, before)
            signal.raise_signal(number)


def _end_at_the_second(ear: socket.socket, numbers: set[signal.Signals]) -> None:
    """End the process at the second of these signals, also in the midst of a compiled call: no handler runs there."""
    heard = 0
    with ear:
        while data := ear.recv(1):
            heard += data[0] in numbers
            if heard > 1:
                os._exit(128 + data[0])


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """A scheduler that ends a job sends SIGTERM: stop as for Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
