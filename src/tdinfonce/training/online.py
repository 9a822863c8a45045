"""Online training in one process: collect an episode, append it, and run the updates it pays for as one program.

Everything random is addressed by (seed, name, index), and a checkpoint falls between two episodes, so a run that
was stopped continues as if it had not been.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tdinfonce import seeding
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.errors import EnvironmentLost, UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import MetricLog, averages, pack, unpack
from tdinfonce.system.progress import Progress
from tdinfonce.system.signals import Stop
from tdinfonce.training.collect import Exploration, Outcome, collect, uniform_policy
from tdinfonce.training.compiled import policy_of, update_many
from tdinfonce.training.evaluate import evaluate
from tdinfonce.training.faults import check_agent, check_metrics
from tdinfonce.training.scale import growth, scale_of
from tdinfonce.training.session import drive
from tdinfonce.types import Agent, Episode, GoalEnv, GoalSampling, InputScale, Metrics

__all__ = [
    "PRESETS",
    "OnlineConfig",
    "run_online",
]


LOST_IN_A_ROW = 5
"""Episodes; then the environment is given up."""


@dataclass(frozen=True)
class OnlineConfig:
    """How to train; the defaults are the preset `fast`."""

    env_steps: int = 300_000
    """Environment steps of the whole run, warm-up included."""
    warmup_steps: int = 2_000
    """Steps with uniform actions before the first update."""
    updates_per_env_step: float = 0.5
    """Gradient updates for each environment step after the warm-up."""
    scale_growth: float = 1.1
    """The scale of the inputs is measured anew whenever the run has grown by this factor; 1 or less: never."""
    updates_per_call: int = 25
    """Updates that are compiled into one program; only a matter of speed."""
    batch_size: int = 256
    """Transitions of an update."""
    replay_capacity: int = 1_000_000
    """Transitions that the replay can hold."""
    replay_on_disk: bool = False
    """Keep the replay in files of the run folder, mapped into memory: for images that do not fit into it."""
    exploration_noise: float = 0.2
    """Standard deviation of the Gaussian noise on collected actions."""
    exploration_uniform: float = 0.3
    """Share of collected actions that are uniform."""
    exploration_episodes: float = 0.5
    """Share of collected episodes with that exploration; the others follow the policy's own samples, so that the
    replay shows where the policy gets stuck when nothing shakes it."""
    eval_every: int = 10_000
    """Environment steps between evaluations (and checkpoints)."""
    eval_episodes: int = 20
    """Episodes of an evaluation during training."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end."""
    keep_checkpoints: int = 3
    """Checkpoints that are kept: the newest ones; the best policy is kept besides."""
    env_worker: bool = False
    """Run the environment in a process of its own, which is restarted if it dies or hangs; slower."""


PRESETS = {
    "fast": OnlineConfig(),
    "paper": OnlineConfig(
        env_steps=1_000_000,
        warmup_steps=10_000,
        updates_per_env_step=1.0,
        updates_per_call=50,
        exploration_noise=0.0,
        exploration_uniform=0.0,
        eval_episodes=50,
    ),
}


def run_online(
    folder: RunFolder,
    env: GoalEnv,
    create: Callable[[int, InputScale | None], Agent],
    sampling: GoalSampling,
    config: OnlineConfig,
    seed: int,
    *,
    resume: bool = False,
) -> Metrics:
    """Train until ``config.env_steps`` and return the metrics of the final evaluation.

    SIGINT and SIGTERM write a checkpoint at the next safe point and raise Stopped; a second one ends the process.

    Args:
        folder: gets metrics, checkpoints, the summary and the COMPLETE mark.
        env: where to learn.
        create: makes a fresh agent from an integer and the scale of the warm-up data (None: only for its shape).
        sampling: how the agent wants its goals drawn.
        config: how to train.
        seed: the run's seed.
        resume: continue from the newest checkpoint, or from the start if there is none.
    """
    with folder.locked(), Stop() as stop:
        run = _Run(folder, env, create, sampling, config, seed)
        if resume:
            run.restore()
        title = f"{env.spec.name} seed {seed}"
        return drive(run, MetricLog(folder), Progress(title, config.env_steps, done=run.env_steps), stop)


class _Run:
    """The state of a run: an agent, a replay and three counters."""

    def __init__(
        self,
        folder: RunFolder,
        env: GoalEnv,
        create: Callable[[int, InputScale | None], Agent],
        sampling: GoalSampling,
        config: OnlineConfig,
        seed: int,
    ) -> None:
        self.folder, self.env, self.create, self.sampling = folder, env, create, sampling
        self.config, self.seed = config, seed
        disk = folder.path / "replay" if config.replay_on_disk else None
        self.replay = Replay(env.spec, config.replay_capacity, disk)
        self.env_steps = self.episodes = self.updates = self.dropped = 0
        self.best: tuple[float, ...] = (-1.0, -1.0)
        self.saved: tuple[int, int] | None = None
        self.agent: Any = None
        self.note = "warm-up"
        self.recent: deque[Outcome] = deque(maxlen=100)
        self.metrics: list[Metrics] = []
        self.seconds = {"collect": 0.0, "update": 0.0, "evaluate": 0.0}
        self.began = time.monotonic()
        self.before = 0.0
        self.compiling: threading.Thread | None = None

    def iterate(self, log: MetricLog) -> int:
        """One episode and the updates it pays for; evaluates and saves when it is time. Returns the steps taken."""
        before = self.env_steps
        clock = time.monotonic()
        episode, outcome = self._next_episode()
        self.replay.append(episode)
        self.recent.append(outcome)
        self.env_steps += outcome.length
        self.episodes += 1
        self.seconds["collect"] += time.monotonic() - clock
        if self.agent is None and self.compiling is None:
            self.compiling = threading.Thread(target=self._compile, args=(self.replay.view(),))
            self.compiling.start()
        if self.env_steps >= self.config.warmup_steps:
            self._update(before)
        every = self.config.eval_every
        if self.agent is not None and before // every != self.env_steps // every:
            self._report(log)
            self.save()
        return outcome.length

    def _next_episode(self) -> tuple[Episode, Outcome]:
        """The next episode that comes to its end; those that their environment did not survive are counted."""
        for _ in range(LOST_IN_A_ROW):
            try:
                return self._collect()
            except EnvironmentLost as error:
                reason = error
                self.episodes += 1
                self.dropped += 1
        raise UserError(f"the environment was lost in {LOST_IN_A_ROW} episodes in a row: {reason}")

    def _collect(self) -> tuple[Episode, Outcome]:
        rng = seeding.generator(self.seed, "collect", self.episodes)
        start = seeding.derive(self.seed, "episode", self.episodes)
        if self.agent is None:
            return collect(self.env, uniform_policy(self.env.spec, rng), start, rng)
        c = self.config
        policy = policy_of(self.agent, seeding.derive(self.seed, "policy", self.episodes), self.env.spec.episode_length)
        explore = rng.random() < c.exploration_episodes
        chosen = Exploration(c.exploration_noise, c.exploration_uniform) if explore else Exploration()
        return collect(self.env, policy, start, rng, chosen)

    def _compile(self, episodes: Episodes) -> None:
        """Compile what the warm-up does not need while it runs: run it once on an agent that is thrown away."""
        c = self.config
        rng = np.random.default_rng(0)
        with contextlib.suppress(Exception):  # if it cannot work, the run itself will say so
            agent = self.create(0, None)
            for greedy in (False, True):
                policy_of(agent, 0, 1, greedy=greedy)(episodes.observation[0], episodes.goal[0], 0)
            update_many(agent, sample(episodes, rng, (c.updates_per_call, c.batch_size), self.sampling))

    def close(self) -> None:
        """Wait for the compiler."""
        if self.compiling is not None:
            self.compiling.join()

    def _update(self, before: int) -> None:
        c = self.config
        clock = time.monotonic()
        if self.agent is None:
            self.close()
            scale = None if self.env.spec.image else scale_of(self.replay.view())
            self.agent = self.create(seeding.derive(self.seed, "agent"), scale)
        elif not self.env.spec.image and growth(before, c.scale_growth) != growth(self.env_steps, c.scale_growth):
            self.agent = self.agent.rescaled(scale_of(self.replay.view()))
        done = len(self.metrics)
        # What the steps so far pay for, in whole calls: one compiled shape.
        while self.updates + c.updates_per_call <= (self.env_steps - c.warmup_steps) * c.updates_per_env_step:
            rng = seeding.generator(self.seed, "sampler", self.updates)
            batches = sample(self.replay.view(), rng, (c.updates_per_call, c.batch_size), self.sampling)
            self.agent, metrics = update_many(self.agent, batches)
            self.metrics.append(metrics)
            self.updates += c.updates_per_call
        jax.block_until_ready(eqx.filter(self.agent, eqx.is_array))
        check_metrics(self.metrics[done:], self.where())
        self.seconds["update"] += time.monotonic() - clock

    def where(self) -> str:
        """The present moment in words."""
        return f"step {self.env_steps:,}, update {self.updates:,}"

    def _report(self, log: MetricLog) -> None:
        clock = time.monotonic()
        result = self._evaluate(self.config.eval_episodes)
        self.seconds["evaluate"] += time.monotonic() - clock
        row: Metrics = {f"eval/{name}": value for name, value in result.items()}
        row |= averages(self.metrics)
        row |= self._collected()
        row |= {f"time/{name}": value for name, value in self.seconds.items()}
        row |= {"time/total": self.wall(), "updates": self.updates, "episodes": self.episodes}
        row |= {"collect/dropped": self.dropped} if self.dropped else {}
        log.write(self.env_steps, row)
        self.metrics = []
        score = result["success_any"], result["success_final"]
        if score > self.best:
            self.best = score
            check_agent(self.agent, self.where())
            checkpoint.save_best(self.folder.path, self.env_steps, self.agent, self._counters())
        self.note = f"success any {result['success_any']:.2f}, final {result['success_final']:.2f}"

    def _collected(self) -> Metrics:
        """How the last hundred collected episodes went; `moved` is the early sign that an object is being found."""
        least = self.env.spec.tolerance or 0.0
        return {
            "collect/success_any": float(np.mean([o.success_any for o in self.recent])),
            "collect/moved": float(np.mean([o.moved > least for o in self.recent])),
        }

    def _evaluate(self, episodes: int, stop: Stop | None = None) -> Metrics:
        policy = policy_of(self.agent, 0, self.env.spec.episode_length, greedy=True)
        return evaluate(self.env, policy, episodes, each=lambda _: stop.check() if stop is not None else None)

    def wall(self) -> float:
        """Seconds of training so far, those before a stop included."""
        return self.before + time.monotonic() - self.began

    def finish(self, log: MetricLog, stop: Stop) -> Metrics:
        """Save, evaluate for the last time, write the summary and the COMPLETE mark."""
        if self.agent is None:
            self._update(0)
        self.save()
        seconds = self.wall() - self.seconds["evaluate"]
        result = self._evaluate(self.config.final_episodes, stop)
        log.write(self.env_steps, {f"final/{name}": value for name, value in result.items()})
        summary = result | {"env_steps": self.env_steps, "updates": self.updates, "training_seconds": seconds}
        summary |= {"dropped_episodes": self.dropped} if self.dropped else {}
        self.folder.write_json("summary.json", summary | {f"seconds_{k}": v for k, v in self.seconds.items()})
        self.folder.finish()
        return summary

    def _counters(self) -> dict[str, int]:
        counters = {"env_steps": self.env_steps, "episodes": self.episodes, "updates": self.updates}
        return counters | {"dropped": self.dropped, "rows": self.folder.rows(), "milliseconds": int(1000 * self.wall())}

    def save(self) -> None:
        """Write a checkpoint, unless there is no agent yet or nothing has changed since the last one."""
        if self.agent is None or self.saved == (self.env_steps, self.updates):
            return
        check_agent(self.agent, self.where())
        progress = {"outcomes": np.array(self.recent, np.float64), "best": np.array(self.best)}
        progress |= {"seconds": np.array([*self.seconds.values()])} | pack(self.metrics)
        parts = {"agent": self.agent, "progress": progress}
        keep = self.config.keep_checkpoints
        checkpoint.save(self.folder.path, self.env_steps, parts, self._counters(), self.replay, keep)
        self.saved = (self.env_steps, self.updates)

    def restore(self) -> None:
        """Continue from the newest checkpoint that is whole; from the start if there is none at all."""
        if not checkpoint.list_checkpoints(self.folder.path):
            self.folder.rewind(0)
            self.replay.clear()  # one on disk holds the episodes of the run that was killed
            return
        path, counters, parts = checkpoint.load(self.folder.path, "agent", "progress", replay=self.replay)
        checkpoint.check_config(self.folder.path, path)
        with checkpoint.understood(path):
            self.agent = checkpoint.restore_agent(self.create(0, None), parts["agent"])
            self.env_steps, self.episodes, self.updates = (counters[k] for k in ("env_steps", "episodes", "updates"))
            self.dropped, self.before = counters.get("dropped", 0), counters["milliseconds"] / 1000
            self.saved = (self.env_steps, self.updates)
            self.note = f"continued at {self.env_steps:,}"
            progress = parts["progress"]
            outcomes = progress.pop("outcomes").tolist()
            self.recent.extend(Outcome(bool(o[0]), bool(o[1]), o[2], o[3], o[4], int(o[5])) for o in outcomes)
            self.best = tuple(progress.pop("best", np.array(self.best)).tolist())
            self.seconds |= zip(self.seconds, progress.pop("seconds", np.zeros(3)).tolist(), strict=True)
            self.metrics = unpack(progress)
        checkpoint.set_aside(self.folder.path, path)
        rows = counters.get("rows")
        self.folder.rewind(self.folder.rows_until(self.env_steps, "env_step") if rows is None else rows)
