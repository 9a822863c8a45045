"""``tdinfonce bench``: how fast it is on this machine, as figures."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
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
            rows += [_experiment(name, budget, target) for (name, budget), target in TARGETS.items()]
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


def _experiment(name: str, budget: str, target: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["reproduce", name, "--budget", budget, "--out", os.path.join(folder, "run")]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tdinfonce", *words], stdout=subprocess.DEVNULL, check=True)
        minutes = (time.perf_counter() - start) / 60
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    what = f"reproduce {name} --budget {budget} (largest memory of any so far {peak:.2f} GiB)"
    return {"what": what, "value": minutes, "unit": "min", "target": target, "peak_gib": peak}
