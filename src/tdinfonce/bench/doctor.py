"""Is this machine fit for a run: versions, devices, simulator, graphics, disk, and a run of some seconds."""

import contextlib
import importlib.util
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from tdinfonce.errors import Stopped, UserError
from tdinfonce.system.machine import memory, threads, visible_cores

__all__ = [
    "Finding",
    "check_devices",
    "check_disk",
    "check_graphics",
    "check_machine",
    "check_simulator",
    "check_training",
    "check_versions",
    "examine",
]

ROOM = 2 << 30
"""Bytes that the disk should have left."""
SIMULATE = """import mujoco
from tdinfonce import envs
envs.make('fetch-reach').reset(0)
print('fetch-reach can be made')"""
"""MuJoCo comes first: Gymnasium would say of a broken one that it is not installed."""
SIMULATORS = ("mujoco", "gymnasium-robotics")
MEND = "pip install 'tdinfonce[robotics]'"
OPTIONAL = ("simulator", "graphics")
"""What is broken here keeps nothing else from working."""


class Finding(NamedTuple):
    """What was found out about one thing."""

    name: str
    ok: bool
    """Whether nothing must be mended."""
    text: str


def examine(folder: str | Path = "runs") -> Iterator[Finding]:
    """Look at one thing after the other; the last, a run of some seconds, must continue bit for bit.

    Args:
        folder: where runs would be written.
    """
    checks: dict[str, Callable[[], str]] = {
        "versions": check_versions,
        "machine": check_machine,
        "devices": check_devices,
        "simulator": check_simulator,
        "graphics": check_graphics,
        "disk": lambda: check_disk(Path(folder)),
        "self-test": check_training,
    }
    for name, check in checks.items():
        try:
            yield Finding(name, True, check())
        except Exception as error:  # whatever is broken here is what it is asked about
            optional = name in OPTIONAL
            yield Finding(name, optional, f"{'note' if optional else 'WRONG'}: {_said(error)}")


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def check_versions() -> str:
    """The packages that matter."""
    from tdinfonce.runs.folder import versions

    found = versions()
    missing = [name for name in ("jax", "equinox", "optax", "numpy") if not found[name]]
    if missing:
        raise UserError(f"{', '.join(missing)} missing; install with: pip install tdinfonce")
    names = ("tdinfonce", "python", "jax", "equinox", "optax", "numpy", "mujoco", "gymnasium")
    return ", ".join(f"{name} {found[name]}" for name in names if found[name])


def check_machine() -> str:
    """Cores, memory, and whether others are at work."""
    room = memory()
    text = f"{visible_cores()} cores, {threads()} threads for JAX"
    text += f", {room / 2**30:.1f} GiB of memory" if room else ""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = f"; busy (load {load:.1f}): figures of speed will be wrong" if load > visible_cores() else ""
    return text + busy


def check_devices() -> str:
    """What JAX computes on."""
    import jax

    kinds = ", ".join(f"{device.platform}:{device.id}" for device in jax.devices())
    return kinds + ("" if jax.default_backend() != "cpu" else "; the presets are made for a CPU")


def check_simulator() -> str:
    """Whether a robot can be simulated, if the packages are there."""
    if not all(importlib.util.find_spec(name.replace("-", "_")) for name in SIMULATORS):
        return f"not installed; only Fetch and the mazes need it: {MEND}"
    try:
        return _ask(["-c", SIMULATE], "making fetch-reach")
    except UserError as error:
        if "pip install" in str(error):
            raise
        here = " and ".join(f"{name} {metadata.version(name)}" for name in SIMULATORS)
        raise UserError(f"{here} cannot simulate fetch-reach ({error}); install versions that can: {MEND}") from error


def check_graphics() -> str:
    """Whether images can be drawn."""
    return _ask(["-m", "tdinfonce.envs.offscreen"], "drawing a picture")


def _ask(words: Sequence[str], what: str) -> str:
    """The last line of a Python process of its own, for a broken library may take the process down."""
    command = [sys.executable, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{what} took more than a minute") from None
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode < 0:
        raise UserError(f"{what} crashed: {signal.Signals(-done.returncode).name}")
    lines = lines or [f"{what} failed with exit code {done.returncode}"]
    if done.returncode:
        raise UserError(lines[-1].removeprefix("error: ").removeprefix("tdinfonce.errors.UserError: "))
    return lines[-1]


def check_disk(folder: Path) -> str:
    """Room, and the right to write."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        raise UserError(f"{place} cannot be written; name another folder")
    free = shutil.disk_usage(place).free
    if free < ROOM:
        raise UserError(f"{place} has {free / 2**30:.1f} GiB left; a run with images wants 4")
    return f"{free / 2**30:,.0f} GiB left in {place}"


def check_training() -> str:
    """Train, stop half-way, continue, and compare with a run that went straight on."""
    from tdinfonce.plans.plan import plan
    from tdinfonce.plans.train import train
    from tdinfonce.runs import checkpoint

    how: dict[str, Any] = {
        "hidden": (16,),
        "warmup_steps": 100,
        "eval_every": 200,
        "eval_episodes": 1,
        "final_episodes": 10,
    }
    wanted = plan("point", agent="gcbc", env_steps=400, **how)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stderr(io.StringIO()):
        straight, stopped = (Path(temporary) / name for name in ("straight", "stopped"))
        train(wanted, out=straight, loggers=())
        with contextlib.suppress(Stopped):
            train(wanted, out=stopped, loggers=(), callbacks=[_Interrupt()])
        train(wanted, out=stopped, loggers=())
        ends = [checkpoint.load(path, "agent").parts["agent"] for path in (straight, stopped)]
    same = all(a.tobytes() == ends[1][name].tobytes() for name, a in ends[0].items())
    if not same:
        raise UserError("a continued run differs from a straight one: results here cannot be relied on")
    return f"trained, saved, continued bit for bit in {time.monotonic() - began:.0f} s"


class _Interrupt:
    """Does what Ctrl-C does, at the first row of metrics."""

    def on_log(self, row: object) -> None:
        signal.raise_signal(signal.SIGINT)
