"""A grid of training runs on this machine: finished runs are skipped, broken ones continue.

Each run is a process of its own on one core, so that runs neither share memory nor a fault.
"""

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tdinfonce.errors import UserError
from tdinfonce.plans import plan as recipe
from tdinfonce.runs.folder import COMPLETE

__all__ = ["GridRun", "run_grid"]


@dataclass(frozen=True)
class GridRun:
    """One cell of a grid: what `tdinfonce train` is called with."""

    name: str
    """The folder of the run inside the grid's folder."""
    env: str
    """Environment."""
    agent: str
    """Agent."""
    seed: int
    """Seed."""
    preset: str = "fast"
    """Preset."""
    settings: tuple[str, ...] = ()
    """Further settings, ``name=value``."""
    noise: float = 0.0
    """Chance that a step's observation is replaced."""
    goal_space: str | None = None
    """Goal space; None: the environment's first."""
    dataset: str | None = None
    """Train offline on these data, and evaluate in the environment. A name inside the grid's folder goes first."""

    def words(self, root: Path) -> list[str]:
        """The command's words, or those that continue it if it has a checkpoint."""
        folder = root / self.name
        if _begun(folder):
            return ["train", "--resume", str(folder)]
        words = ["train", "--env", self.env, "--agent", self.agent, "--preset", self.preset]
        words += ["--seed", str(self.seed), "--out", str(folder), "--overwrite"]
        words += ["--noise", str(self.noise)] if self.noise else []
        words += ["--goal-space", self.goal_space] if self.goal_space else []
        if self.dataset:
            here = root / self.dataset
            words += ["--dataset", str(here) if here.is_dir() else self.dataset]
        return [*words, "--set", *self.settings] if self.settings else words

    def check(self, root: Path) -> None:
        """Raise UserError if what is there, finished or begun, was made with other settings than these."""
        folder = root / self.name
        if not ((folder / COMPLETE).is_file() or _begun(folder)):
            return
        wanted = recipe.build(
            self.env,
            self.agent,
            self.preset,
            self.seed,
            goal_space=self.goal_space,
            settings=self.settings,
            noise=self.noise,
            dataset=self.dataset or "",
        )
        found, _ = recipe.read(folder)
        for name, value in _settings(wanted).items():
            if (other := _settings(found).get(name)) != value:
                problem = f"was made with {name}={other}, which is {value} now"
                raise UserError(f"{folder} {problem}; delete it, or name another folder (out)")


def _settings(plan: recipe.Recipe) -> dict[str, object]:
    names = ("env", "goal_space", "agent", "seed", "noise")
    return {n: getattr(plan, n) for n in names} | {
        field.name: getattr(config, field.name)
        for config in (plan.agent_config, plan.training)
        for field in dataclasses.fields(config)
    }


def _begun(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("[0-9]*"))


def run_grid(root: Path, runs: Sequence[GridRun], *, advance: Callable[[int], None]) -> None:
    """Run every cell that is not complete, one for each core; raise UserError at the end if any failed.

    Settings may have changed since a run was made: then nothing is run, so that a table never mixes the two.
    The output of each run is in ``NAME.log`` beside its folder.
    """
    for run in runs:
        run.check(root)
    open_runs = [run for run in runs if not (root / run.name / COMPLETE).is_file()]
    advance(len(runs) - len(open_runs))
    cores: SimpleQueue[int] = SimpleQueue()
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    for core in available:
        cores.put(core)
    children, stopping = set[subprocess.Popen[bytes]](), threading.Event()

    def work(run: GridRun) -> str | None:
        core = cores.get()
        try:
            return _run_cell(root, run, core, children, stopping)
        finally:
            cores.put(core)
            advance(1)

    with ThreadPoolExecutor(max_workers=len(available)) as pool:
        try:
            failures = [message for message in pool.map(work, open_runs) if message]
        except KeyboardInterrupt:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in list(children):
                child.terminate()
            raise
    if failures:
        raise UserError(f"{len(failures)} of {len(runs)} runs failed; call again to continue. The first: {failures[0]}")


def _run_cell(
    root: Path, run: GridRun, core: int, children: set[subprocess.Popen[bytes]], stopping: threading.Event
) -> str | None:
    """Run one cell on one core; the last line of its log if it failed."""
    log = root / f"{run.name}.log"
    # One thread: several runs share the machine, and results then do not depend on the number of its cores.
    settings = os.environ | {"NPROC": "1", "OMP_NUM_THREADS": "1"}
    settings["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false").strip()
    with open(log, "ab") as file:
        command = [sys.executable, "-m", "tdinfonce", *run.words(root)]
        # In a session of its own: Ctrl-C is meant for the grid, which tells its runs once. A second signal would end
        # them before they have saved.
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=settings, start_new_session=True)
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
    return f"{run.name} (exit code {code}): {lines[-1] if lines else 'no output'}"
