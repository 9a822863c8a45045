"""Signals of the commands that are not a training run."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["sigterm_as_ctrl_c"]


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
