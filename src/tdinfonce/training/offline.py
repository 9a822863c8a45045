"""Offline training in one process: batches from stored episodes, many updates as one program, no environment needed.

Everything random is addressed by (seed, name, index) and a checkpoint falls between two calls, so a run that was
stopped continues as if it had not been, if it finds the same data.
"""

import dataclasses
import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tdinfonce import seeding
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.runs.folder import RunFolder
from tdinfonce.settings import Settings, setting
from tdinfonce.training.compiled import update_many
from tdinfonce.training.evaluate import ACTING
from tdinfonce.training.faults import check_metrics
from tdinfonce.training.hooks import Hooks
from tdinfonce.training.scale import scale_of
from tdinfonce.training.session import Create, Session
from tdinfonce.training.shared import check_rows, shared
from tdinfonce.types import Batch, EnvSpec, GoalEnv, GoalSampling, Metrics

__all__ = [
    "PRESETS",
    "OfflineConfig",
    "OfflineSession",
    "check_fit",
    "fingerprint",
    "spec_of",
    "split",
    "task_goal",
    "with_task",
]

HELD_OUT_BATCHES = 8
JITTER = 3.0
"""Goals within so many tolerances of their mean count as one goal."""


@dataclass(frozen=True)
class OfflineConfig(Settings):
    """How to train on stored data; the defaults are the preset `fast`."""

    updates: int = setting(100_000, "Gradient updates of the whole run.", low=1)
    updates_per_call: int = shared.updates_per_call(50)
    batch_size: int = shared.batch_size(256)
    held_out: float = setting(
        0.05, "Share of the episodes that are not trained on; their losses are logged as heldout/…", below=1
    )
    cut_at_goals: bool = setting(False, "Whether stored episodes are cut where a new goal was commanded.")
    trim_after_arrival: int = setting(
        0, "How many steps of an episode are kept after it first reached its commanded goal; 0: all.", high=10**9
    )
    reward_radius: float = setting(
        0.0, "For agents of one task: a state this near to the task's goal reaches it; 0: the environment's tolerance."
    )
    eval_every: int = shared.eval_every(0, "Updates between evaluations (and checkpoints); 0: about 20 of them.")
    eval_episodes: int = shared.eval_episodes(20)
    final_episodes: int = shared.final_episodes(100)
    acting: str = setting(
        "greedy",
        "How the policy acts in evaluations: greedy, sampled, or noisy (greedy with Gaussian noise of 0.2).",
        choices=ACTING,
    )
    final_acting: bool = setting(
        False, "Whether the final evaluation is repeated with the other ways of acting, each told by its name."
    )
    keep_checkpoints: int = shared.keep_checkpoints(3)

    def check(self) -> None:
        """Refuse batches that no memory holds."""
        check_rows(self.batch_size, self.updates_per_call)


PRESETS = {
    "fast": OfflineConfig(),
    "estimate": OfflineConfig(),
    "paper": OfflineConfig(updates=500_000, held_out=0.0, eval_episodes=50),
    "release": OfflineConfig(updates=500_000, batch_size=1024, held_out=0.0, eval_episodes=50),
}


class OfflineSession(Session):
    """An agent and its data."""

    unit = "updates"
    clocks = ("update", "evaluate")
    config: OfflineConfig

    def __init__(
        self,
        folder: RunFolder,
        episodes: Episodes,
        env: GoalEnv | None,
        create: Create,
        sampling: GoalSampling,
        config: OfflineConfig,
        seed: int,
        hooks: Hooks | None = None,
    ) -> None:
        """Begin at zero; see `Session`.

        Args:
            folder: gets metrics, checkpoints, the summary and the COMPLETE mark.
            episodes: what to learn from; with rewards (see `with_task`) if the agent asks for them.
            env: where to evaluate; None: nowhere, the losses have to do.
            create: makes the agent.
            sampling: how the agent wants its goals drawn.
            config: how to train.
            seed: the run's seed.
            hooks: who is told how it goes.
        """
        super().__init__(folder, env, create, sampling, config, seed, hooks)
        self.train, self.held_out = split(episodes, config.held_out, seed)
        seen = self.train.observation.dtype == np.uint8
        self.agent = create(seeding.derive(seed, "agent"), None if seen else scale_of(self.train, most=200_000))

    def iterate(self) -> int:
        """One call of updates; evaluates and saves when it is time. Returns the updates made."""
        c, clock, before = self.config, time.monotonic(), self.updates
        count = min(c.updates_per_call, c.updates - before)
        rng = seeding.generator(self.seed, "sampler", before)
        batches = sample(self.train, rng, (count, c.batch_size), self.sampling)
        # One call at a time is under way while the next is sampled.
        self.wait()
        check_metrics(self.metrics[-1:], self.where())
        self.agent, metrics = update_many(self.agent, batches)
        self.updates += count
        self.metrics.append(metrics)
        due = before // self.every != self.updates // self.every
        if due:
            self.wait()
        self.seconds["update"] += time.monotonic() - clock
        if due:
            self.report()
            self.save()
        return count

    def stored(self) -> Episodes:
        """The episodes that are trained on."""
        return self.train

    def measured(self) -> Metrics:
        """The metrics of an update on episodes that are never trained on; the updated agents are thrown away."""
        if self.held_out is None:
            return {}
        rng = seeding.generator(self.seed, "held out")
        batches = sample(self.held_out, rng, (HELD_OUT_BATCHES, self.config.batch_size), self.sampling)
        metrics = look(self.agent, batches)
        row = {f"heldout/{name.replace('/', '_')}": float(value) for name, value in metrics.items()}
        check_metrics([row], self.where())
        return row

    def complete(self) -> None:
        """What was learned since the last report is reported."""
        if self.metrics:
            self.report()


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
    seen = episodes.observation.shape[1:]
    state, action, goal = (
        math.prod(array.shape[1:]) for array in (episodes.observation, episodes.action, episodes.achieved)
    )
    return EnvSpec(
        name,
        state,
        action,
        goal,
        int(episodes.length.max()),
        goal_space="data",
        image=seen if len(seen) > 1 else None,
        discrete=episodes.actions > 0,
        action_low=episodes.action_low,
        action_high=episodes.action_high,
    )


def check_fit(spec: EnvSpec, episodes: Episodes) -> None:
    """Raise UserError unless the data could be of this environment."""
    for what, wanted, array in (
        ("observations", spec.observation_shape, episodes.observation),
        ("actions", (spec.action_size,), episodes.action),
        ("goals", spec.goal_shape, episodes.achieved),
    ):
        found = array.shape[1:]
        if found != wanted:
            hint = "; choose the goal's coordinates (goal), or a goal space (goal_space)" if what == "goals" else ""
            sizes = [f"length {shape[0]}" if len(shape) == 1 else f"shape {list(shape)}" for shape in (wanted, found)]
            second = sizes[1].removeprefix("length ") if sizes[0].startswith("length") else sizes[1]
            raise UserError(f"the data do not fit {spec.name}: its {what} have {sizes[0]}, not {second}{hint}")
    if spec.discrete != (episodes.actions > 0):
        kinds = ("continuous", "discrete")
        raise UserError(
            f"the data do not fit {spec.name}: its actions are {kinds[spec.discrete]}, not {kinds[not spec.discrete]}"
        )
    for mine, data, end in (
        (spec.action_low, episodes.action_low, "smallest"),
        (spec.action_high, episodes.action_high, "largest"),
    ):
        if not spec.discrete and mine != data:
            shown = [list(x) or ("-1" if end == "smallest" else "1") for x in (mine, data)]
            raise UserError(f"the data do not fit {spec.name}: its {end} action is {shown[0]}, not {shown[1]}")


def fingerprint(episodes: Episodes) -> dict[str, int]:
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
    goals = np.stack([env.reset(seed).goal for seed in seeding.evaluation_seeds(episodes, env.spec.tasks)])
    mean = goals.mean(axis=0)
    spread = np.linalg.norm((goals - mean)[:, env.spec.deciding], axis=1).max()
    if env.spec.tolerance is None or spread > JITTER * env.spec.tolerance:
        raise UserError(
            f"{env.spec.name} asks for many goals, and this agent learns one; name it (test_goal), "
            "or take an agent that is told the goal, such as gc-iql"
        )
    return np.asarray(mean, np.float32)


def with_task(episodes: Episodes, goal: Sequence[float] | np.ndarray, spec: EnvSpec, radius: float) -> Episodes:
    """The episodes with a reward of 1 in each state that is near enough to ``goal``, and this goal as commanded."""
    if spec.image is not None:
        raise UserError("agents of one task ask how near a state is to the goal, which images do not tell")
    near = radius or spec.tolerance
    if not near:
        raise UserError("nothing says how near is near enough: name an environment (env), or set reward_radius")
    target = np.asarray(goal, np.float32)
    if target.shape != (spec.goal_size,):
        raise UserError(f"test_goal needs {spec.goal_size} numbers; got {target.size}")
    gap = np.linalg.norm(episodes.achieved[:, spec.deciding] - target[spec.deciding], axis=1)
    reward = (gap < near).astype(np.float32)
    if not reward.any():
        raise UserError(f"no state of the data is within {near:g} of the goal {target.tolist()}: nothing to learn from")
    goals = np.broadcast_to(target, (len(episodes), len(target)))
    return dataclasses.replace(episodes, goal=goals, reward=reward, commanded=True)
