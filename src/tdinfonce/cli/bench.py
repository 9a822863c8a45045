"""``tdinfonce bench``: how fast it is on this machine, as figures."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError
from tdinfonce.system.machine import visible_cores

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
    peer: str | None = None
    """Instead: race TD InfoNCE against this library on fetch-reach (sb3: Stable-Baselines3's DDPG+HER). The first time
    it is installed into a virtual environment of its own."""
    peer_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """One run of each side for each of these."""
    peer_steps: int = 50_000
    """Environment steps after which a side gives up."""
    peer_success: tuple[float, float] = (0.98, 0.95)
    """The success to reach over 100 episodes: at any step, and at the last step."""
    peer_every: int = 250
    """Environment steps between evaluations, of both sides."""
    peer_set: tuple[str, ...] = ()
    """Change how the peer learns: --peer-set tau=0.01 net_arch=[64,64] (the settings stand below the table)."""
    peer_folder: Path | None = None
    """Where the virtual environment, the runs and the report go; default: runs/peer-NAME."""

    def run(self) -> int:
        """Measure and print."""
        if not 0 < self.seconds <= 3600:
            raise UserError(f"--seconds must be positive, and at most 3600; got {self.seconds}")
        if self.peer is not None:
            return self._race(self.peer)
        rows = [_start_up(), *_estimators(self.seconds), *_online(self.seconds)]
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

    def _race(self, peer: str) -> int:
        from tdinfonce.bench import peers
        from tdinfonce.bench import race as _race

        peers.load(peer)  # an unknown name should fail first
        if self.reproduce:
            raise UserError("--peer and --reproduce are two measurements; ask for one at a time")
        seeds = self.peer_seeds
        if not seeds or min(seeds) < 0 or len(set(seeds)) != len(seeds):
            raise UserError("--peer-seeds wants different seeds that are not negative, such as: 0 1 2")
        if self.peer_steps < 1_500:
            raise UserError(f"--peer-steps must be at least 1500, for both sides warm up first; got {self.peer_steps}")
        if self.peer_every < 1:
            raise UserError(f"--peer-every must be at least 1; got {self.peer_every}")
        if not all(0 < share <= 1 for share in self.peer_success):
            raise UserError("--peer-success wants two shares above 0 and at most 1, such as: 0.98 0.95")
        folder = self.peer_folder or Path("runs") / f"peer-{peer}"
        rules = (self.peer_steps, *self.peer_success, self.peer_every, self.peer_set)
        report = _race.compare(_race.Race(peer, folder, seeds, *rules))
        if self.json:
            print(json.dumps(report))
        else:
            _race.show(report)
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

        def call(estimator: Any = estimator) -> int:
            fit(estimator, draws, keys, rates, steps=steps)
            return steps * lanes

        rate = _rate(call, seconds)
        rows.append({"what": f"tabular {type(estimator).__name__}, batch 256", "value": rate, "unit": "updates/s"})
    return rows


def _online(seconds: float) -> list[dict[str, Any]]:
    """Sampling, learning and acting at the sizes of fetch-push, as training with the preset `fast` does them."""
    import itertools

    import jax

    from tdinfonce import envs, seeding
    from tdinfonce.agents import td_infonce
    from tdinfonce.data.sampler import sample
    from tdinfonce.system.machine import keep_freed_memory
    from tdinfonce.training.collect import collect
    from tdinfonce.training.compiled import policy_of, update_many
    from tdinfonce.training.online import PRESETS

    keep_freed_memory()  # as training does
    replay, spec = _push_replay()
    config, training = td_infonce.PRESETS["fast"], PRESETS["fast"]
    shape, index = (training.updates_per_call, training.batch_size), itertools.count()
    agent = td_infonce.Agent.create(jax.random.PRNGKey(0), spec, config)

    def draw() -> Any:
        return sample(replay.view(), seeding.generator(0, "sampler", next(index)), shape, config.sampling)

    def update() -> int:
        nonlocal agent
        agent, metrics = update_many(agent, batches)
        jax.block_until_ready(metrics)
        return shape[0]

    def act() -> int:
        policy = policy_of(agent, 0, spec.episode_length)
        return collect(env, policy, next(index), seeding.generator(0, "collect"))[1].length

    what, batches = f"sampler, batches of {shape[1]} from 1M fetch-push transitions", draw()
    rows: list[dict[str, Any]] = [
        {"what": what, "value": _rate(lambda: len(draw().action), seconds), "unit": "batches/s", "target": "≥ 15,000"},
        {"what": "TD InfoNCE, fast, fetch-push sizes", "value": _rate(update, seconds), "unit": "updates/s"},
    ]
    if importlib.util.find_spec("gymnasium_robotics"):
        env = envs.make("fetch-push")
        rows.append({"what": "acting in fetch-push", "value": _rate(act, seconds), "unit": "environment steps/s"})
        env.close()
        rows.append(_saving(agent, spec, rows[-1]["value"], rows[-2]["value"]))
    return rows


def _saving(agent: Any, spec: Any, steps_per_second: float, updates_per_second: float) -> dict[str, Any]:
    """The share of training with the preset `fast` that its checkpoints take."""
    from tdinfonce.runs import checkpoint
    from tdinfonce.training.faults import check_agent
    from tdinfonce.training.online import PRESETS

    every, took = PRESETS["fast"].eval_every, []
    with tempfile.TemporaryDirectory() as folder:
        replay, _ = _push_replay(5 * every)
        for step in range(1, 6):
            replay.added = step * every // spec.episode_length
            start = time.perf_counter()
            check_agent(agent, "")
            checkpoint.save(Path(folder), step, {"agent": agent}, {}, replay)
            took.append(time.perf_counter() - start)
    save = sorted(took)[len(took) // 2]
    train = every / steps_per_second + every * PRESETS["fast"].updates_per_env_step / updates_per_second
    what = f"checkpoints, of acting and learning in fetch-push ({1000 * save:.0f} ms each)"
    return {"what": what, "value": 100 * save / (save + train), "unit": "%", "target": "≤ 3 %"}


def _push_replay(transitions: int = 1_000_000) -> tuple[Any, Any]:
    """A full replay of transitions as those of fetch-push, random numbers all, and the spec they have."""
    import numpy as np

    from tdinfonce.data.replay import Replay
    from tdinfonce.types import EnvSpec, Episode

    spec = EnvSpec("fetch-push", observation_size=25, action_size=4, goal_size=3, episode_length=50)
    replay, rng = Replay(spec, transitions), np.random.default_rng(0)
    for _ in range(replay.slots):
        sizes = ((51, 25), (51, 3), (50, 4), (3,))
        replay.append(Episode(*(rng.random(size, dtype=np.float32) for size in sizes)))
    return replay, spec


def _rate(call: Callable[[], int], seconds: float) -> float:
    """How much a call does in a second; it says itself how much it did. The first call only warms up."""
    call()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        done += call()
    return done / (time.perf_counter() - start)


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
