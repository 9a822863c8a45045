"""Updates a second of each offline agent at the sizes of AntMaze, and the updates that fit into half an hour.

Run on one core, for example with NPROC=1 OMP_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 1.
Rates are for a second of processor time, so that a busy machine matters less.
"""

import json
import sys
import time

import jax
import numpy as np

import tdinfonce as td
from tdinfonce import agents
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.training.compiled import update_many
from tdinfonce.types import EnvSpec, Episode

SPEC = EnvSpec("antmaze-like", observation_size=29, action_size=8, goal_size=2, episode_length=1000, tolerance=0.5)
STEPS = 1000


def noise(episodes: int) -> Episodes:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(episodes):
        states = rng.normal(size=(STEPS + 1, 29)).astype(np.float32)
        found.append(
            Episode(states, states[:, :2].copy(), rng.uniform(-1, 1, (STEPS, 8)).astype(np.float32), states[0, :2])
        )
    data = Episodes.of(found)
    return Episodes(
        *(getattr(data, name) for name in ("observation", "achieved", "action", "start", "length", "goal")),
        reward=(rng.random(len(data.observation)) < 0.01).astype(np.float32),
    )


def measure(name: str, data: Episodes, preset: str, seconds: float) -> dict[str, float]:
    plan = td.plan(data="noise", agent=name, preset=preset)
    shape = plan.training.updates_per_call, plan.training.batch_size
    agent = plan.create_agent(SPEC, 0)
    rng, how = np.random.default_rng(0), plan.agent_config.sampling
    agent, metrics = update_many(agent, sample(data, rng, shape, how))
    jax.block_until_ready(metrics)
    count, drawn, began, clock = 0, 0.0, time.process_time(), time.perf_counter()
    while time.process_time() - began < seconds:
        before = time.process_time()
        batches = sample(data, rng, shape, how)
        drawn += time.process_time() - before
        agent, metrics = update_many(agent, batches)
        jax.block_until_ready(metrics)
        count += shape[0]
    used = time.process_time() - began
    return {
        "batch": shape[1],
        "updates_per_second": round(count / used, 1),
        "sampling_share": round(drawn / used, 3),
        "updates_in_half_an_hour": int(1800 * count / used),
        "wall_updates_per_second": round(count / (time.perf_counter() - clock), 1),
    }


if __name__ == "__main__":
    preset = sys.argv[1] if len(sys.argv) > 1 else "fast"
    data = noise(200)
    for name in agents.names():
        if hasattr(agents.load(name), "OFFLINE"):
            print(json.dumps({"agent": name, "preset": preset} | measure(name, data, preset, 5.0)), flush=True)
