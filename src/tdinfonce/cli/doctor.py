"""`tdinfonce doctor`."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.errors import UserError
from tdinfonce.system.machine import memory, threads, visible_cores

__all__ = ["Command"]

ROOM = 2 << 30
"""Bytes that the disk should have left."""


@dataclass(frozen=True)
class Command:
    """Look at versions, devices, graphics and disk, train for some seconds, and say what to mend."""

    folder: Path = Path("runs")
    """Where runs would be written."""

    def run(self) -> int:
        """Print one line for each thing looked at; the exit code is 1 if something must be mended."""
        good = True
        checks: dict[str, Callable[[], str]] = {
            "versions": _versions,
            "machine": _machine,
            "devices": _devices,
            "graphics": _graphics,
            "disk": lambda: _disk(self.folder),
            "self-test": _self_test,
        }
        for name, check in checks.items():
            try:
                print(f"{name:<10} {check()}", flush=True)
            except Exception as error:  # whatever is broken here is what it is asked about
                good = good and name == "graphics"  # only images need it
                print(f"{name:<10} {'note' if name == 'graphics' else 'WRONG'}: {_said(error)}", flush=True)
        return 0 if good else 1


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def _versions() -> str:
    from tdinfonce.runs.folder import versions

    found = versions()
    missing = [name for name in ("jax", "equinox", "optax", "numpy") if not found[name]]
    if missing:
        raise UserError(f"{', '.join(missing)} missing; install with: pip install tdinfonce")
    names = ("tdinfonce", "python", "jax", "equinox", "optax", "numpy", "mujoco", "gymnasium")
    text = ", ".join(f"{name} {found[name]}" for name in names if found[name])
    robots = "" if found["mujoco"] and found["gymnasium-robotics"] else "; for Fetch: pip install 'tdinfonce[robotics]'"
    return text + robots


def _machine() -> str:
    room = memory()
    text = f"{visible_cores()} cores, {threads()} threads for JAX"
    text += f", {room / 2**30:.1f} GiB of memory" if room else ""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    busy = f"; busy (load {load:.1f}): figures of speed will be wrong" if load > visible_cores() else ""
    return text + busy


def _devices() -> str:
    import jax

    kinds = ", ".join(f"{device.platform}:{device.id}" for device in jax.devices())
    return kinds + ("" if jax.default_backend() != "cpu" else "; the presets are made for a CPU")


def _graphics() -> str:
    """In a process of its own, for a broken driver may take it down."""
    words = [sys.executable, "-m", "tdinfonce.envs.offscreen"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise UserError("drawing a picture took more than a minute") from None
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
    if done.returncode:
        raise UserError(lines[-1].removeprefix("error: "))
    return lines[-1]


def _disk(folder: Path) -> str:
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        raise UserError(f"{place} cannot be written; name another folder with --folder or --out")
    free = shutil.disk_usage(place).free
    if free < ROOM:
        raise UserError(f"{place} has {free / 2**30:.1f} GiB left; a run with images wants 4")
    return f"{free / 2**30:,.0f} GiB left in {place}"


def _self_test() -> str:
    """Train, stop half-way, continue, and compare with a run that went straight on."""
    from tdinfonce.plans import plan as recipe
    from tdinfonce.runs import checkpoint
    from tdinfonce.runs.folder import RunFolder
    from tdinfonce.training.online import run_online

    settings = ["hidden=16", "warmup_steps=100", "eval_every=200", "eval_episodes=1", "final_episodes=10"]
    began, ends = time.monotonic(), []
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stderr(io.StringIO()):
        for name, lengths in (("straight", [400]), ("stopped", [200, 400])):
            path = Path(temporary) / name
            for steps in lengths:
                words = [*settings, f"env_steps={steps}"]
                plan = recipe.build("point", "gcbc", "fast", 0, goal_space=None, settings=words)
                env = plan.make_env()
                folder = RunFolder(path) if path.exists() else RunFolder.create(path, {"kind": "doctor"})
                make = lambda seed, scale, plan=plan, env=env: plan.create_agent(env.spec, seed, scale)  # noqa: E731
                sampling = plan.agent_config.sampling
                run_online(folder, env, make, sampling, plan.training, 0, resume=steps != lengths[0])
            ends.append(checkpoint.load(path, "agent").parts["agent"])
    same = all(a.tobytes() == ends[1][name].tobytes() for name, a in ends[0].items())
    if not same:
        raise UserError("a continued run differs from a straight one: results here cannot be relied on")
    return f"trained, saved, continued bit for bit in {time.monotonic() - began:.0f} s"
