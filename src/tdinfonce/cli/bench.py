"""``tdinfonce bench``: how fast it is on this machine, as figures."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.machine import visible_cores

__all__ = ["Command"]

TARGETS = {("tabular-occupancy", "default"): "3 min", ("tabular-efficiency", "paper"): "25 min"}


@dataclass(frozen=True)
class Command:
    """Measure speed and memory on this machine; run it when nothing else runs."""

    reproduce: bool = False
    """Also run whole experiments and hold them against their targets (about half an hour)."""
    seconds: float = 3.0
    """How long to measure each estimator."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> int:
        """Measure and print."""
        if not self.seconds > 0:
            raise UserError(f"--seconds must be positive; got {self.seconds}")
        rows = [_start_up(), *_estimators(self.seconds)]
        if self.reproduce:
            for (name, budget), target in TARGETS.items():
                rows += _experiment(name, budget, target)
        if self.json:
            print(json.dumps({"cores": visible_cores(), "figures": rows}))
            return 0
        from rich.console import Console
        from rich.table import Table

        table = Table("what", "figure", "target", title=f"tdinfonce bench, {visible_cores()} cores")
        for row in rows:
            table.add_row(row["what"], f"{row['value']:,.3g} {row['unit']}", row.get("target", ""))
        Console().print(table)
        return 0


def _start_up() -> dict[str, Any]:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tdinfonce", "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    return {"what": "tdinfonce --help", "value": min(once() for _ in range(5)), "unit": "s", "target": "0.5 s"}


def _estimators(seconds: float) -> list[dict[str, Any]]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from tdinfonce.tabular.estimators import CLearning, McInfonce, Successor, TdInfonce
    from tdinfonce.tabular.fit import fit
    from tdinfonce.tabular.gridworld import gridworld
    from tdinfonce.tabular.mdp import rollouts, uniform_policy
    from tdinfonce.tabular.statistics import stack_draws, summarise

    mdp = gridworld()
    walk = rollouts(mdp, uniform_policy(mdp), np.random.default_rng(0), episodes=10, steps=1001)
    lanes, steps = 10, 500
    draws = stack_draws([summarise(walk, 25, 5, 0.95)] * lanes)
    keys, rates = jax.random.split(jax.random.key(0), lanes), jnp.full(lanes, 1e-3)
    rows = []
    for estimator in (TdInfonce(0.95), McInfonce(0.95), CLearning(0.95), Successor(0.95)):
        fit(estimator, draws, keys, rates, steps=steps)
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            fit(estimator, draws, keys, rates, steps=steps)
            done += steps * lanes
        rate = done / (time.perf_counter() - start)
        rows.append({"what": f"tabular {type(estimator).__name__}, batch 256", "value": rate, "unit": "updates/s"})
    return rows


def _experiment(name: str, budget: str, target: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["reproduce", name, "--budget", budget, "--out", os.path.join(folder, "run")]
        start, peak = time.perf_counter(), 0.0
        with subprocess.Popen([sys.executable, "-m", "tdinfonce", *words], stdout=subprocess.DEVNULL) as run:
            while run.poll() is None:
                peak = max(peak, _memory(run.pid))
                time.sleep(0.5)
        if run.returncode:
            raise UserError(
                f"'tdinfonce {' '.join(words[:4])}' failed with code {run.returncode}; its message is above"
            )
        minutes = (time.perf_counter() - start) / 60
    what = f"reproduce {name} --budget {budget}"
    rows = [{"what": what, "value": minutes, "unit": "min", "target": target}]
    return [*rows, {"what": f"{what}, peak memory", "value": peak, "unit": "GiB", "target": "3 GiB"}] if peak else rows


def _memory(pid: int) -> float:
    """Resident memory of a process and all below it in GiB, as Linux tells it; 0 where there is no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        below = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30 + sum(_memory(int(child)) for child in below.split())
