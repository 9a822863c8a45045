"""How fast it is on this machine: start-up, tabular estimators, sampler, updates, acting, saving, whole experiments.

Each figure is a dict with ``what``, ``value``, ``unit`` and, where there is one, ``target``.
"""

import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError

__all__ = ["measure", "rate"]

TARGETS = {("tabular-occupancy", "default"): "3 min", ("tabular-efficiency", "paper"): "25 min"}

Figure = dict[str, Any]


def measure(seconds: float = 3.0, *, reproduce: bool = False) -> list[Figure]:
    """Measure everything that is quick to measure; run it when nothing else runs.

    Args:
        seconds: how long to measure each figure.
        reproduce: also run whole experiments, in processes of their own (about half an hour).
    """
    if not 0 < seconds <= 3600:
        raise UserError(f"seconds must be positive, and at most 3600; got {seconds}")
    figures = [_start_up(), *_estimators(seconds), *_online(seconds)]
    if reproduce:
        for (name, budget), target in TARGETS.items():
            figures += _experiment(name, budget, target)
    return figures


def rate(call: Callable[[], int], seconds: float) -> float:
    """How much a call does in a second; it says itself how much it did. The first call only warms up."""
    call()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        done += call()
    return done / (time.perf_counter() - start)


def _start_up() -> Figure:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tdinfonce", "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    return {"what": "tdinfonce --help", "value": min(once() for _ in range(5)), "unit": "s", "target": "0.3 s"}


def _estimators(seconds: float) -> list[Figure]:
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

        what = f"tabular {type(estimator).__name__}, batch 256"
        rows.append({"what": what, "value": rate(call, seconds), "unit": "updates/s"})
    return rows


def _online(seconds: float) -> list[Figure]:
    """Sampling, learning and acting at the sizes of fetch-push, as training with the preset `fast` does them."""
    import jax

    from tdinfonce import seeding
    from tdinfonce.agents import td_infonce
    from tdinfonce.data.sampler import sample
    from tdinfonce.system.machine import keep_freed_memory
    from tdinfonce.training.compiled import update_many
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

    what, batches = f"sampler, batches of {shape[1]} from 1M fetch-push transitions", draw()
    rows: list[Figure] = [
        {"what": what, "value": rate(lambda: len(draw().action), seconds), "unit": "batches/s", "target": "≥ 15,000"},
        {"what": "TD InfoNCE, fast, fetch-push sizes", "value": rate(update, seconds), "unit": "updates/s"},
    ]
    if importlib.util.find_spec("gymnasium_robotics"):
        rows.append(_acting(agent, spec, seconds))
        rows.append(_saving(agent, spec, rows[-1]["value"], rows[-2]["value"]))
    return rows


def _acting(agent: Any, spec: Any, seconds: float) -> Figure:
    """Whole episodes of the simulator, the policy's actions among them."""
    from tdinfonce import envs, seeding
    from tdinfonce.training.collect import collect
    from tdinfonce.training.compiled import policy_of

    env, index = envs.make("fetch-push"), itertools.count()

    def act() -> int:
        policy = policy_of(agent, 0, spec.episode_length)
        return collect(env, policy, next(index), seeding.generator(0, "collect"))[1].length

    value = rate(act, seconds)
    env.close()
    return {"what": "acting in fetch-push", "value": value, "unit": "environment steps/s"}


def _saving(agent: Any, spec: Any, steps_per_second: float, updates_per_second: float) -> Figure:
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


def _experiment(name: str, budget: str, target: str) -> list[Figure]:
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
