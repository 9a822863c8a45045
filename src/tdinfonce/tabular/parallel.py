"""Independent jobs on all cores.

Processes, not threads: measured on two cores, two threads that run compiled JAX loops share one core's worth of time.
"""

import concurrent.futures
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["run_jobs"]

Progress = Callable[[int], None]
_reports: Any = None


def run_jobs(
    job: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], workers: int, progress: Progress
) -> Iterator[Any]:
    """Call ``job(*arguments, progress)`` for each tuple of arguments; yield the results in that order.

    A job that fails ends the rest at once.

    Args:
        job: a function of a module, so that another process can import it.
        arguments: one tuple for each call.
        workers: processes; 1 means this one.
        progress: told the steps done, whichever process did them.
    """
    if workers <= 1:
        for one in arguments:
            yield job(*one, progress)
        return
    # When workers are killed, Python's tracker frees what they shared and would say so in three lines.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
    context = multiprocessing.get_context("spawn")
    # Written in the worker's own thread, so that a report is here before the result of its job.
    reports = context.SimpleQueue()
    not_ours = set(multiprocessing.active_children())
    pool = concurrent.futures.ProcessPoolExecutor(
        min(workers, len(arguments)), mp_context=context, initializer=_connect, initargs=(reports,)
    )
    try:
        futures = [pool.submit(_call, job, one) for one in arguments]
        for future in futures:
            while not future.done():
                concurrent.futures.wait([future], timeout=0.2)
                _drain(reports, progress)
                for other in futures:
                    if other.done():
                        other.result()
            yield future.result()
        _drain(reports, progress)
    except BaseException:
        # Stopped or failed: what still runs is of no use and may run for minutes. Nor may we wait for the pool here: a
        # worker that was killed with a lock in its hand would keep it waiting for ever.
        for worker in set(multiprocessing.active_children()) - not_ours:
            worker.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    reports.close()


def _connect(reports: Any) -> None:
    # Ctrl-C goes to every process of the terminal: a worker just ends, and the parent says one line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # One thread for each worker, said before JAX starts: its threads would wait for each other more than they work
    # (a third of the time, measured), and results would depend on the number of cores.
    os.environ["NPROC"] = "1"
    global _reports  # noqa: PLW0603 - a worker process has one parent to report to
    _reports = reports


def _call(job: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return job(*arguments, _reports.put)


def _drain(reports: Any, progress: Progress) -> None:
    while not reports.empty():
        progress(reports.get())
