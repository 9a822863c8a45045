"""Many training runs on this machine: finished runs are skipped, broken ones continue.

Each run is a process of its own on one core, so that runs neither share memory nor a fault.
"""

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tdinfonce.errors import Stopped, UserError
from tdinfonce.plans.plan import Plan, differences, read_plan
from tdinfonce.plans.run import Run
from tdinfonce.plans.train import default_folder, train
from tdinfonce.runs.folder import COMPLETE, is_run
from tdinfonce.seeding import seed_list
from tdinfonce.system.progress import Progress
from tdinfonce.system.signals import sigterm_as_ctrl_c

__all__ = ["run_grid", "train_many", "train_seeds"]


def train_many(plans: Mapping[str, Plan], out: str | Path, *, title: str = "training") -> list[Run]:
    """Train each plan into the folder of its name inside ``out``, one on each core, with a progress bar.

    What is complete is kept, what was begun continues. Plans with an environment object or data in memory belong to
    this process: they are trained here, one after the other.
    """
    root = Path(out)
    root.mkdir(parents=True, exist_ok=True)
    apart = {name: plan for name, plan in plans.items() if not plan.in_memory}
    with sigterm_as_ctrl_c(), Progress(title, len(plans), unit="runs", every=60.0) as bar:
        try:
            run_grid(root, apart, advance=bar.advance)
        except KeyboardInterrupt:
            raise Stopped(f"stopped; the runs in {root} can be continued") from None
    for name, plan in plans.items():
        if name not in apart:
            _check(root / name, plan)
            if not (root / name / COMPLETE).is_file():
                train(plan, out=root / name)
    return [Run(root / name) for name in plans]


def train_seeds(plan: Plan, seeds: int | str | Sequence[int], out: str | Path | None = None) -> list[Run]:
    """Train a plan with several seeds, in parallel, into ``out/seed-N``; see `seeding.seed_list` for ``seeds``."""
    base = default_folder(plan)
    root = Path(out) if out is not None else base.with_name(base.name.rpartition("-")[0])
    return train_many({f"seed-{seed}": dataclasses.replace(plan, seed=seed) for seed in seed_list(seeds)}, root)


def run_grid(root: Path, plans: Mapping[str, Plan], *, advance: Callable[[int], None]) -> None:
    """Run every plan that is not complete, one on each core; raise UserError at the end if any failed.

    Settings may have changed since a run was made: then nothing is run, so that a table never mixes the two.
    The output of each run is in ``NAME.log`` beside its folder, its plan in ``NAME.plan.json``.
    """
    # One thread: several runs share the machine, and results then do not depend on the number of its cores.
    plans = {name: dataclasses.replace(plan, threads=1) for name, plan in plans.items()}
    for name, plan in plans.items():
        _check(root / name, plan)
    waiting = [name for name in plans if not (root / name / COMPLETE).is_file()]
    advance(len(plans) - len(waiting))
    cores: SimpleQueue[int] = SimpleQueue()
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    for core in available:
        cores.put(core)
    children, stopping = set[subprocess.Popen[bytes]](), threading.Event()

    def work(name: str) -> str | None:
        core = cores.get()
        try:
            plans[name].save(root / f"{name}.plan.json")
            return _run_cell(root, name, core, children, stopping)
        finally:
            cores.put(core)
            advance(1)

    with ThreadPoolExecutor(max_workers=len(available)) as pool:
        try:
            failures = [message for message in pool.map(work, waiting) if message]
        except KeyboardInterrupt:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in list(children):
                child.terminate()
            raise
    if failures:
        raise UserError(
            f"{len(failures)} of {len(plans)} runs failed; call again to continue. The first: {failures[0]}"
        )


def _check(folder: Path, wanted: Plan) -> None:
    """Raise UserError if what is there, finished or begun, was made with other settings."""
    if not is_run(folder):
        return
    for name, (before, now) in differences(read_plan(folder)[0], wanted).items():
        raise UserError(
            f"{folder} was made with {name}={before}, which is {now} now; delete it, or choose another folder (out)"
        )


def _run_cell(
    root: Path, name: str, core: int, children: set[subprocess.Popen[bytes]], stopping: threading.Event
) -> str | None:
    """Run one plan on one core; the last line of its log if it failed."""
    log = root / f"{name}.log"
    settings = os.environ | {"NPROC": "1", "OMP_NUM_THREADS": "1"}
    settings["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false").strip()
    command = [sys.executable, "-m", "tdinfonce", "train", "--plan", str(root / f"{name}.plan.json")]
    with open(log, "ab") as file:
        # In a session of its own: Ctrl-C is meant for the grid, which tells its runs once. A second signal would end
        # them before they have saved.
        child = subprocess.Popen(
            [*command, "--out", str(root / name)],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=settings,
            start_new_session=True,
        )
        children.add(child)
        if stopping.is_set():
            child.terminate()
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(child.pid, {core})
        code = child.wait()
        children.discard(child)
    if code == 0:
        return None
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{name} (exit code {code}): {lines[-1] if lines else 'no output'}"
