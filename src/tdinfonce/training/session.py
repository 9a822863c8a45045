"""What every training run is: a session that iterates, reports, saves, restores and finishes.

Online and offline training differ in where their data come from; all else is here. A session between two iterations is
one that can be saved.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from tdinfonce import seeding
from tdinfonce.data.candidates import draw_candidates
from tdinfonce.data.episodes import Episodes
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import MetricLog, averages, pack, unpack
from tdinfonce.system.progress import Progress
from tdinfonce.system.signals import Stop
from tdinfonce.training.compiled import policy_of
from tdinfonce.training.evaluate import ACTING, act_as, evaluate
from tdinfonce.training.faults import about_disk, check_agent, check_metrics
from tdinfonce.training.hooks import Hooks, RunInfo
from tdinfonce.types import Agent, GoalEnv, GoalSampling, InputScale, Metrics

__all__ = ["Session"]

EVALUATIONS = 20
"""Of a run, unless its config says how often."""
UNITS = {"env_steps": "steps", "updates": "updates"}
Create = Callable[[int, InputScale | None], Agent]
"""Makes a fresh agent from an integer and the scale of the data (None: only for its shape)."""


class Session:
    """The state of a run: an agent, counters, and what was measured since the last row of metrics."""

    unit: ClassVar[str]
    """What the run counts towards its end: ``env_steps`` or ``updates``."""
    clocks: ClassVar[tuple[str, ...]]
    """What its seconds go to."""

    def __init__(
        self,
        folder: RunFolder,
        env: GoalEnv | None,
        create: Create,
        sampling: GoalSampling,
        config: Any,
        seed: int,
        hooks: Hooks | None = None,
    ) -> None:
        """Begin at zero.

        Args:
            folder: gets metrics, checkpoints, the summary and the COMPLETE mark.
            env: where to evaluate, and online to learn.
            create: makes the agent.
            sampling: how the agent wants its goals drawn.
            config: how to train.
            seed: the run's seed.
            hooks: who is told how it goes.
        """
        self.folder, self.env, self.create, self.sampling = folder, env, create, sampling
        self.config, self.seed, self.hooks = config, seed, hooks or Hooks()
        self.env_steps = self.updates = 0
        self.agent: Any = None
        self.note = ""
        self.metrics: list[Metrics] = []
        self.seconds = dict.fromkeys(self.clocks, 0.0)
        self.began = time.monotonic()
        self.before = 0.0
        self.best: tuple[float, ...] = (-1.0, -1.0)
        self.saved: tuple[int, int] | None = None

    # What online and offline training do in their own ways.

    def iterate(self) -> int:
        """Go on a little, and report when it is time; returns how far."""
        raise NotImplementedError

    def stored(self) -> Episodes:
        """What is learned from, so far."""
        raise NotImplementedError

    def measured(self) -> Metrics:
        """What a row of metrics holds beside the means of the updates and the evaluation."""
        return {}

    def counters(self) -> dict[str, int]:
        """Integers that a checkpoint holds beside those of every run."""
        return {}

    def progress(self) -> dict[str, np.ndarray]:
        """Arrays that a checkpoint holds beside those of every run."""
        return {}

    def resume(self, counters: dict[str, int], progress: dict[str, np.ndarray]) -> None:
        """Take back what `counters` and `progress` gave."""

    def clear(self) -> None:
        """Forget what a run that was killed before its first checkpoint left behind."""

    def close(self) -> None:
        """Let go of what runs beside the updates."""

    # What they share.

    @property
    def done(self) -> int:
        """How far the run is."""
        return int(getattr(self, self.unit))

    def run(self, log: MetricLog, title: str, *, resume: bool = False) -> Metrics:
        """Go to the end and return the metrics of the final evaluation.

        SIGINT and SIGTERM write a checkpoint at the next safe point and raise Stopped.
        """
        with self.folder.locked(), Stop() as stop, contextlib.closing(log):
            if resume:
                self.restore()
            try:
                return self._drive(log, title, stop)
            except OSError as error:
                raise about_disk(self.folder, error) from error
            finally:
                self.close()

    def _drive(self, log: MetricLog, title: str, stop: Stop) -> Metrics:
        self.log, total = log, int(getattr(self.config, self.unit))
        config, rows = self.folder.config(), self.folder.metrics()
        log.open(config, self.done)
        self.hooks.start(RunInfo(self.folder.path, config, self.unit, total, self.done, rows))
        with Progress(title, total, unit=UNITS[self.unit], done=self.done) as progress:
            while progress.done < progress.total and not self.hooks.wish:
                progress.advance(self.iterate(), self.note)
                if stop.asked:
                    self.save()
                    stop.check()
        return self._finish(stop)

    @property
    def every(self) -> int:
        """How far apart evaluations are: as the config says, or about twenty in the run."""
        return int(self.config.eval_every or max(1, getattr(self.config, self.unit) // EVALUATIONS))

    def where(self) -> str:
        """The present moment in words."""
        steps = f"step {self.env_steps:,}, " if self.unit == "env_steps" else ""
        return f"{steps}update {self.updates:,}"

    def wall(self) -> float:
        """Seconds of training so far, those before a stop included."""
        return self.before + time.monotonic() - self.began

    def report(self) -> None:
        """Evaluate, write a row of metrics, and keep the policy if none was better."""
        check_metrics(self.metrics[-1:], self.where())
        row: Metrics = {}
        result: Metrics = {}
        if self.env is not None:
            clock = time.monotonic()
            result = self.evaluate(self.config.eval_episodes)
            self.seconds["evaluate"] += time.monotonic() - clock
            row |= {f"eval/{name}": value for name, value in result.items()}
        row |= averages(self.metrics) | self.measured()
        row |= {f"time/{name}": value for name, value in self.seconds.items()} | {"time/total": self.wall()}
        self._write(row, result)
        if result:
            self.note = f"success any {result['success_any']:.2f}, last {result['success_final']:.2f}"
        elif "actor/loss" in row:
            self.note = f"actor loss {row['actor/loss']:.3f}"
        self.metrics = []
        score = result.get("success_any", -1.0), result.get("success_final", -1.0)
        if score > self.best:
            self.best = score
            check_agent(self.agent, self.where())
            parts = {"agent": self.agent} | self._candidates()
            checkpoint.save_best(self.folder.path, self.done, parts, self._counters())

    def _write(self, row: Metrics, result: Metrics) -> None:
        counters = {"env_steps": self.env_steps, "updates": self.updates}
        written = self.log.write(self.done, counters | row)
        if result:
            self.hooks.evaluation(counters | result)
        self.hooks.log(written)

    def evaluate(self, episodes: int, stop: Stop | None = None, acting: str | None = None) -> Metrics:
        """How the policy does on the evaluation episodes; nothing where there is no environment."""
        if self.env is None:
            return {}
        agent, steps = self.agent, self.env.spec.episode_length
        way = acting or str(getattr(self.config, "acting", ACTING[0]))
        policy, explore = act_as(way, lambda seed, greedy: policy_of(agent, seed, steps, greedy=greedy))
        check = None if stop is None else stop.check
        return evaluate(self.env, policy, episodes, explore=explore, each=lambda _: check() if check else None)

    def _finish(self, stop: Stop) -> Metrics:
        """Save, evaluate for the last time, write the summary and the COMPLETE mark."""
        self.wait()
        seconds = self.wall() - self.seconds["evaluate"]
        self.complete()
        self.save()
        result = self.evaluate(self.config.final_episodes, stop)
        if result and getattr(self.config, "final_acting", False):
            for way in [way for way in ACTING if way != self.config.acting]:
                found = self.evaluate(self.config.final_episodes, stop, way)
                result |= {f"{way}_{name}": found[name] for name in ("success_any", "success_final", "min_distance")}
        if result:
            self._write({f"final/{name}": value for name, value in result.items()}, {})
        steps = {"env_steps": self.env_steps} if self.unit == "env_steps" else {}
        summary = result | steps | {"updates": self.updates, "training_seconds": seconds} | self.remarks()
        summary |= {"stopped": self.hooks.wish} if self.hooks.wish else {}
        self.folder.write_json("summary.json", summary | {f"seconds_{k}": v for k, v in self.seconds.items()})
        self.folder.finish()
        self.hooks.end(summary)
        return summary

    def complete(self) -> None:
        """What is left to do at the end of training, before the last checkpoint."""

    def remarks(self) -> Metrics:
        """What a summary says beside what every one says."""
        return {}

    def wait(self) -> None:
        """Wait until the updates under way are made."""
        jax.block_until_ready(eqx.filter(self.agent, eqx.is_array))

    def _counters(self) -> dict[str, int]:
        common = {"rows": self.folder.rows(), "milliseconds": int(1000 * self.wall())}
        return self.counters() | {"updates": self.updates} | common

    def save(self) -> None:
        """Write a checkpoint, unless there is no agent yet or nothing has changed since the last one."""
        if self.agent is None or self.saved == (self.env_steps, self.updates):
            return
        check_metrics(self.metrics[-1:], self.where())
        check_agent(self.agent, self.where())
        progress = self.progress() | {"best": np.array(self.best), "seconds": np.array([*self.seconds.values()])}
        progress |= {"wish": np.frombuffer(self.hooks.wish.encode(), np.uint8)} if self.hooks.wish else {}
        parts = {"agent": self.agent, "progress": progress | pack(self.metrics)} | self._candidates()
        replay, keep = getattr(self, "replay", None), self.config.keep_checkpoints
        checkpoint.save(self.folder.path, self.done, parts, self._counters(), replay, keep)
        self.saved = (self.env_steps, self.updates)

    def _candidates(self) -> dict[str, Any]:
        """The part of a checkpoint that an occupancy is asked over later, if the agent's critic is a model of one."""
        law = getattr(self.agent, "chance", None)
        if law is None:
            return {}
        rng = seeding.generator(self.seed, "candidates", self.done)
        return {checkpoint.CANDIDATES: draw_candidates(self.stored(), rng, law, self.sampling)}

    def restore(self) -> None:
        """Continue from the newest checkpoint that is whole; from the start if there is none at all."""
        run = self.folder.path
        if not checkpoint.list_checkpoints(run):
            self.folder.rewind(0)
            self.clear()
            return
        path, counters, parts = checkpoint.load(run, "agent", "progress", replay=getattr(self, "replay", None))
        checkpoint.check_config(run, path)
        with checkpoint.understood(path):
            self.agent = checkpoint.restore_agent(self.create(0, None), parts["agent"])
            progress = parts["progress"]
            self.updates, self.before = counters["updates"], counters["milliseconds"] / 1000
            self.best = tuple(progress.pop("best", np.array(self.best)).tolist())
            seconds = progress.pop("seconds", np.zeros(len(self.clocks))).tolist()
            self.seconds |= zip(self.clocks, seconds, strict=True)
            self.hooks.wish = progress.pop("wish", np.zeros(0, np.uint8)).tobytes().decode()
            self.resume(counters, progress)
            self.metrics = unpack(progress)
            self.saved = (self.env_steps, self.updates)
            self.note = f"continued at {self.done:,}"
        checkpoint.set_aside(run, path)
        rows = counters.get("rows")
        self.folder.rewind(self.folder.rows_until(self.done, self.unit) if rows is None else rows)
