"""Online training in one process: collect an episode, append it, and run the updates it pays for as one program.

Everything random is addressed by (seed, name, index), and a checkpoint falls between two episodes, so a run that
was stopped continues as if it had not been.
"""

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from tdinfonce import seeding
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.errors import EnvironmentLost, UserError
from tdinfonce.runs.folder import RunFolder
from tdinfonce.settings import Settings, setting
from tdinfonce.training.collect import Exploration, Outcome, collect, uniform_policy
from tdinfonce.training.compiled import policy_of, update_many
from tdinfonce.training.faults import check_metrics
from tdinfonce.training.hooks import Hooks
from tdinfonce.training.scale import growth, scale_of
from tdinfonce.training.session import Create, Session
from tdinfonce.training.shared import check_rows, shared
from tdinfonce.types import Episode, GoalEnv, GoalSampling, Metrics

__all__ = ["PRESETS", "OnlineConfig", "OnlineSession"]

LOST_IN_A_ROW = 5
"""Episodes; then the environment is given up."""


@dataclass(frozen=True)
class OnlineConfig(Settings):
    """How to train; the defaults are the preset `fast`."""

    env_steps: int = setting(300_000, "Environment steps of the whole run, warm-up included.", low=1)
    warmup_steps: int = setting(2_000, "Steps with uniform actions before the first update; fewer than env_steps.")
    updates_per_env_step: float = setting(0.5, "Gradient updates for each step after the warm-up.", high=100)
    scale_growth: float = setting(
        1.1,
        "The scale of the inputs is measured anew whenever the run has grown by this factor; 1 or less: never.",
        high=1000,
    )
    updates_per_call: int = shared.updates_per_call(25)
    batch_size: int = shared.batch_size(256)
    replay_capacity: int = setting(1_000_000, "Transitions that the replay can hold.", low=1)
    replay_on_disk: bool = setting(
        False, "Keep the replay in files of the run folder, mapped into memory: for images that do not fit into it."
    )
    exploration_noise: float = setting(0.2, "Standard deviation of the Gaussian noise on collected actions.", high=2)
    exploration_uniform: float = setting(0.3, "Share of collected actions that are uniform.", high=1)
    exploration_episodes: float = setting(
        0.5,
        "Share of collected episodes with that exploration; the others follow the policy's own samples, so that the "
        "replay shows where the policy gets stuck when nothing shakes it.",
        high=1,
    )
    eval_every: int = shared.eval_every(0, "Environment steps between evaluations (and checkpoints); 0: about 20.")
    eval_episodes: int = shared.eval_episodes(20)
    final_episodes: int = shared.final_episodes(100)
    keep_checkpoints: int = shared.keep_checkpoints(3)
    env_worker: bool = setting(
        False, "Run the environment in a process of its own, which is restarted if it dies or hangs; slower."
    )

    def check(self) -> None:
        """Refuse a run that would end before it learns."""
        check_rows(self.batch_size, self.updates_per_call)
        if self.warmup_steps >= self.env_steps:
            raise UserError(
                f"warmup_steps must be below env_steps, or nothing is learned; got {self.warmup_steps:,} and "
                f"{self.env_steps:,}"
            )


PRESETS = {
    "fast": OnlineConfig(),
    "estimate": OnlineConfig(env_steps=50_000, updates_per_env_step=1.0),
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


class OnlineSession(Session):
    """An agent, a replay and the counters of a run that collects what it learns from."""

    unit = "env_steps"
    clocks = ("collect", "update", "evaluate")
    env: GoalEnv
    config: OnlineConfig

    def __init__(
        self,
        folder: RunFolder,
        env: GoalEnv,
        create: Create,
        sampling: GoalSampling,
        config: OnlineConfig,
        seed: int,
        hooks: Hooks | None = None,
    ) -> None:
        """Begin with an empty replay; see `Session`."""
        super().__init__(folder, env, create, sampling, config, seed, hooks)
        disk = folder.path / "replay" if config.replay_on_disk else None
        self.replay = Replay(env.spec, config.replay_capacity, disk)
        self.episodes = self.dropped = 0
        self.note = "warm-up"
        self.recent: deque[Outcome] = deque(maxlen=100)
        self.compiling: threading.Thread | None = None

    def iterate(self) -> int:
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
        if self.agent is not None and before // self.every != self.env_steps // self.every:
            self.report()
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
            self.note = ""
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
        self.wait()
        check_metrics(self.metrics[done:], self.where())
        self.seconds["update"] += time.monotonic() - clock

    def stored(self) -> Episodes:
        """The episodes of the replay."""
        return self.replay.view()

    def measured(self) -> Metrics:
        """How the last hundred collected episodes went; `moved` is the early sign that an object is being found."""
        least = self.env.spec.tolerance or 0.0
        return {
            "collect/success_any": float(np.mean([o.success_any for o in self.recent])),
            "collect/moved": float(np.mean([o.moved > least for o in self.recent])),
            "collect/episodes": self.episodes,
            "collect/dropped": self.dropped,
        }

    def complete(self) -> None:
        """A run that ended in its warm-up still gets an agent."""
        if self.agent is None:
            self._update(0)

    def remarks(self) -> Metrics:
        """How many episodes were lost, if any."""
        return {"dropped_episodes": self.dropped} if self.dropped else {}

    def counters(self) -> dict[str, int]:
        """Steps and episodes."""
        return {"env_steps": self.env_steps, "episodes": self.episodes, "dropped": self.dropped}

    def progress(self) -> dict[str, np.ndarray]:
        """How the last episodes went."""
        return {"outcomes": np.array(self.recent, np.float64)}

    def resume(self, counters: dict[str, int], progress: dict[str, np.ndarray]) -> None:
        """Take back what was saved."""
        self.env_steps, self.episodes = counters["env_steps"], counters["episodes"]
        self.dropped = counters.get("dropped", 0)
        outcomes = progress.pop("outcomes").tolist()
        self.recent.extend(Outcome(bool(o[0]), bool(o[1]), o[2], o[3], o[4], int(o[5])) for o in outcomes)

    def clear(self) -> None:
        """A replay on disk holds the episodes of the run that was killed."""
        self.replay.clear()
