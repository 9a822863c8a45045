"""Offline training in one process: batches from stored episodes, many updates as one program, no environment needed.

Everything random is addressed by (seed, name, index) and a checkpoint falls between two calls, so a run that was
stopped continues as if it had not been, if it finds the same data.
"""

import dataclasses
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tdinfonce import seeding
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import MetricLog, averages, pack, unpack
from tdinfonce.system.progress import Progress
from tdinfonce.system.signals import Stop
from tdinfonce.training.compiled import policy_of, update_many
from tdinfonce.training.evaluate import evaluate
from tdinfonce.training.faults import check_agent, check_metrics
from tdinfonce.training.scale import scale_of
from tdinfonce.training.session import drive
from tdinfonce.types import Agent, Batch, EnvSpec, GoalEnv, GoalSampling, InputScale, Metrics

__all__ = ["PRESETS", "OfflineConfig", "check_fit", "facts", "run_offline", "spec_of", "task_goal", "with_task"]

AXIS = "updates"
HELD_OUT_BATCHES = 8
JITTER = 3.0
"""Goals within so many tolerances of their mean count as one goal."""


@dataclass(frozen=True)
class OfflineConfig:
    """How to train on stored data; the defaults are the preset `fast`."""

    updates: int = 100_000
    """Gradient updates of the whole run."""
    updates_per_call: int = 50
    """Updates that are compiled into one program; only a matter of speed."""
    batch_size: int = 256
    """Transitions of an update."""
    held_out: float = 0.05
    """Share of the episodes that are not trained on; their losses are logged as heldout/…"""
    reward_radius: float = 0.0
    """For agents of one task: a state this near to the task's goal reaches it; 0: the environment's tolerance."""
    eval_every: int = 10_000
    """Updates between evaluations (and checkpoints)."""
    eval_episodes: int = 20
    """Episodes of an evaluation during training."""
    final_episodes: int = 100
    """Episodes of the evaluation at the end."""
    keep_checkpoints: int = 3
    """Checkpoints that are kept: the newest ones; the best policy is kept besides."""


PRESETS = {
    "fast": OfflineConfig(),
    "paper": OfflineConfig(updates=500_000, held_out=0.0, eval_every=25_000, eval_episodes=50),
    "release": OfflineConfig(updates=500_000, batch_size=1024, held_out=0.0, eval_every=25_000, eval_episodes=50),
}


def run_offline(
    folder: RunFolder,
    episodes: Episodes,
    env: GoalEnv | None,
    create: Callable[[int, InputScale | None], Agent],
    sampling: GoalSampling,
    config: OfflineConfig,
    seed: int,
    *,
    title: str = "",
    resume: bool = False,
) -> Metrics:
    """Train for ``config.updates`` updates and return the metrics of the final evaluation.

    SIGINT and SIGTERM write a checkpoint at the next safe point and raise Stopped; a second one ends the process.

    Args:
        folder: gets metrics, checkpoints, the summary and the COMPLETE mark.
        episodes: what to learn from; with rewards (see `with_task`) if the agent asks for them.
        env: where to evaluate; None: nowhere, the losses have to do.
        create: makes a fresh agent from an integer and the scale of the data (None: only for its shape).
        sampling: how the agent wants its goals drawn.
        config: how to train.
        seed: the run's seed.
        title: stands before the progress.
        resume: continue from the newest checkpoint, or from the start if there is none.
    """
    with folder.locked(), Stop() as stop:
        run = _Run(folder, episodes, env, create, sampling, config, seed)
        if resume:
            run.restore()
        progress = Progress(f"{title} seed {seed}".strip(), config.updates, unit="updates", done=run.updates)
        return drive(run, MetricLog(folder, axis=AXIS), progress, stop)


class _Run:
    """The state of a run: an agent, its data and a counter."""

    def __init__(
        self,
        folder: RunFolder,
        episodes: Episodes,
        env: GoalEnv | None,
        create: Callable[[int, InputScale | None], Agent],
        sampling: GoalSampling,
        config: OfflineConfig,
        seed: int,
    ) -> None:
        self.folder, self.env, self.create, self.sampling = folder, env, create, sampling
        self.config, self.seed, self.updates = config, seed, 0
        self.train, self.held_out = split(episodes, config.held_out, seed)
        self.agent: Any = create(seeding.derive(seed, "agent"), scale_of(self.train, most=200_000))
        self.note = ""
        self.metrics: list[Metrics] = []
        self.seconds = {"update": 0.0, "evaluate": 0.0}
        self.began = time.monotonic()
        self.before = 0.0
        self.best: tuple[float, ...] = (-1.0, -1.0)
        self.saved: int | None = None

    def iterate(self, log: MetricLog) -> int:
        """One call of updates; evaluates and saves when it is time. Returns the updates made."""
        c, clock, before = self.config, time.monotonic(), self.updates
        count = min(c.updates_per_call, c.updates - before)
        rng = seeding.generator(self.seed, "sampler", before)
        batches = sample(self.train, rng, (count, c.batch_size), self.sampling)
        # One call at a time is under way while the next is sampled.
        jax.block_until_ready(eqx.filter(self.agent, eqx.is_array))
        check_metrics(self.metrics[-1:], self.where())
        self.agent, metrics = update_many(self.agent, batches)
        self.updates += count
        self.metrics.append(metrics)
        due = before // c.eval_every != self.updates // c.eval_every
        if due:
            jax.block_until_ready(eqx.filter(self.agent, eqx.is_array))
        self.seconds["update"] += time.monotonic() - clock
        if due:
            self._report(log)
            self.save()
        return count

    def close(self) -> None:
        """Nothing runs beside the updates."""

    def where(self) -> str:
        """The present moment in words."""
        return f"update {self.updates:,}"

    def _report(self, log: MetricLog) -> None:
        check_metrics(self.metrics[-1:], self.where())
        row = averages(self.metrics)
        if "actor/loss" in row:
            self.note = f"actor loss {row['actor/loss']:.3f}"
        held_out = self._held_out()
        check_metrics([held_out], self.where())
        row |= held_out
        if self.env is not None:
            clock = time.monotonic()
            result = self._evaluate(self.config.eval_episodes)
            self.seconds["evaluate"] += time.monotonic() - clock
            row |= {f"eval/{name}": value for name, value in result.items()}
            self.note = f"success any {result['success_any']:.2f}, final {result['success_final']:.2f}"
        row |= {f"time/{name}": value for name, value in self.seconds.items()} | {"time/total": self.wall()}
        log.write(self.updates, row)
        self.metrics = []
        score = row.get("eval/success_any", -1.0), row.get("eval/success_final", -1.0)
        if score > self.best:
            self.best = score
            check_agent(self.agent, self.where())
            checkpoint.save_best(self.folder.path, self.updates, self.agent, self._counters())

    def _held_out(self) -> Metrics:
        """The metrics of an update on episodes that are never trained on; the updated agents are thrown away."""
        if self.held_out is None:
            return {}
        rng = seeding.generator(self.seed, "held out")
        batches = sample(self.held_out, rng, (HELD_OUT_BATCHES, self.config.batch_size), self.sampling)
        metrics = look(self.agent, batches)
        return {f"heldout/{name.replace('/', '_')}": float(value) for name, value in metrics.items()}

    def _evaluate(self, episodes: int, stop: Stop | None = None) -> Metrics:
        if self.env is None:
            return {}
        policy = policy_of(self.agent, 0, self.env.spec.episode_length, greedy=True)
        return evaluate(self.env, policy, episodes, each=lambda _: stop.check() if stop is not None else None)

    def wall(self) -> float:
        """Seconds of training so far, those before a stop included."""
        return self.before + time.monotonic() - self.began

    def finish(self, log: MetricLog, stop: Stop) -> Metrics:
        """Save, evaluate for the last time, write the summary and the COMPLETE mark."""
        jax.block_until_ready(eqx.filter(self.agent, eqx.is_array))
        seconds = self.wall() - self.seconds["evaluate"]
        if self.metrics:
            self._report(log)
        self.save()
        result = self._evaluate(self.config.final_episodes, stop)
        if result:
            log.write(self.updates, {f"final/{name}": value for name, value in result.items()})
        summary = result | {"updates": self.updates, "training_seconds": seconds}
        self.folder.write_json("summary.json", summary | {f"seconds_{k}": v for k, v in self.seconds.items()})
        self.folder.finish()
        return summary

    def _counters(self) -> dict[str, int]:
        return {"updates": self.updates, "rows": self.folder.rows(), "milliseconds": int(1000 * self.wall())}

    def save(self) -> None:
        """Write a checkpoint, unless nothing has changed since the last one."""
        if self.saved == self.updates:
            return
        check_metrics(self.metrics[-1:], self.where())
        check_agent(self.agent, self.where())
        progress = {"best": np.array(self.best), "seconds": np.array([*self.seconds.values()])} | pack(self.metrics)
        parts = {"agent": self.agent, "progress": progress}
        keep = self.config.keep_checkpoints
        checkpoint.save(self.folder.path, self.updates, parts, self._counters(), keep=keep)
        self.saved = self.updates

    def restore(self) -> None:
        """Continue from the newest checkpoint that is whole; from the start if there is none at all."""
        if not checkpoint.list_checkpoints(self.folder.path):
            self.folder.rewind(0)
            return
        path, counters, parts = checkpoint.load(self.folder.path, "agent", "progress")
        checkpoint.check_config(self.folder.path, path)
        with checkpoint.understood(path):
            self.agent = checkpoint.restore_agent(self.create(0, None), parts["agent"])
            self.updates = self.saved = counters["updates"]
            self.before = counters["milliseconds"] / 1000
            progress = parts["progress"]
            self.best = tuple(progress.pop("best", np.array(self.best)).tolist())
            self.seconds |= zip(self.seconds, progress.pop("seconds", np.zeros(2)).tolist(), strict=True)
            self.metrics = unpack(progress)
            self.note = f"continued at {self.updates:,}"
        checkpoint.set_aside(self.folder.path, path)
        rows = counters.get("rows")
        self.folder.rewind(self.folder.rows_until(self.updates, AXIS) if rows is None else rows)


@eqx.filter_jit
def look(agent: Any, batches: Batch) -> Metrics:
    """The mean metrics of an update on each batch, from one and the same agent."""
    metrics: Metrics = jax.lax.map(lambda batch: agent.update(batch)[1], batches)
    return jax.tree.map(lambda x: x.mean(), metrics)


def split(episodes: Episodes, share: float, seed: int) -> tuple[Episodes, Episodes | None]:
    """Episodes to train on and to hold out; at least one of each, or nothing is held out."""
    count = min(max(round(share * len(episodes)), 1), len(episodes) - 1) if share > 0 else 0
    if count < 1:
        return episodes, None
    order = seeding.generator(seed, "split").permutation(len(episodes))
    return episodes.chosen(np.sort(order[count:])), episodes.chosen(np.sort(order[:count]))


def spec_of(name: str, episodes: Episodes) -> EnvSpec:
    """What data without an environment tell of one."""
    state, action, goal = (array.shape[1] for array in (episodes.observation, episodes.action, episodes.achieved))
    return EnvSpec(name, state, action, goal, int(episodes.length.max()), goal_space="data")


def check_fit(spec: EnvSpec, episodes: Episodes) -> None:
    """Raise UserError unless the data could be of this environment."""
    for what, wanted, array in (
        ("observations", spec.observation_size, episodes.observation),
        ("actions", spec.action_size, episodes.action),
        ("goals", spec.goal_size, episodes.achieved),
    ):
        if array.shape[1] != wanted:
            hint = "; choose the goal's coordinates with --goal" if what == "goals" else ""
            raise UserError(
                f"the data do not fit {spec.name}: its {what} have length {wanted}, not {array.shape[1]}{hint}"
            )


def facts(episodes: Episodes) -> dict[str, int]:
    """What identifies data well enough to notice that a run would continue on others."""
    step = max(1, len(episodes.observation) // 10_000)
    words = np.ascontiguousarray(episodes.observation[::step]), np.ascontiguousarray(episodes.action[::step])
    mark = 0
    for array in words:
        mark = zlib.crc32(array.tobytes(), mark)
    return {"episodes": len(episodes), "transitions": episodes.transitions, "checksum": mark}


def task_goal(env: GoalEnv, episodes: int = 20) -> np.ndarray:
    """The one goal of an environment: the mean of its evaluation goals, if they are one place.

    AntMaze draws its goal anew from one cell in each episode, up to about two tolerances from the mean.
    """
    goals = np.stack([env.reset(seed).goal for seed in seeding.evaluation_seeds(episodes)])
    mean = goals.mean(axis=0)
    spread = np.linalg.norm((goals - mean)[:, env.spec.deciding], axis=1).max()
    if env.spec.tolerance is None or spread > JITTER * env.spec.tolerance:
        raise UserError(
            f"{env.spec.name} asks for many goals, and this agent learns one; name it with --test-goal, "
            "or take an agent that is told the goal, such as gc-iql"
        )
    return np.asarray(mean, np.float32)


def with_task(episodes: Episodes, goal: Sequence[float] | np.ndarray, spec: EnvSpec, radius: float) -> Episodes:
    """The episodes with a reward of 1 in each state that is near enough to ``goal``, and this goal as commanded."""
    near = radius or spec.tolerance
    if not near:
        raise UserError("nothing says how near is near enough: give --env, or --set reward_radius=…")
    target = np.asarray(goal, np.float32)
    if target.shape != (spec.goal_size,):
        raise UserError(f"--test-goal needs {spec.goal_size} numbers; got {target.size}")
    gap = np.linalg.norm(episodes.achieved[:, spec.deciding] - target[spec.deciding], axis=1)
    reward = (gap < near).astype(np.float32)
    if not reward.any():
        raise UserError(f"no state of the data is within {near:g} of the goal {target.tolist()}: nothing to learn from")
    goals = np.broadcast_to(target, (len(episodes), len(target)))
    return dataclasses.replace(episodes, goal=goals, reward=reward)
