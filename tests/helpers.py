"""How tests plan and train without a folder's ceremony."""

from collections.abc import Callable, Sequence
from typing import Any

from tdinfonce.plans.plan import Plan, plan
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import MetricLog
from tdinfonce.runs.loggers import as_loggers
from tdinfonce.settings import words
from tdinfonce.training.offline import OfflineSession
from tdinfonce.training.online import OnlineSession
from tdinfonce.types import GoalEnv, GoalSampling, Metrics

__all__ = ["planned", "run_offline", "run_online"]


def planned(env: str, agent: str, preset: str, seed: int, *, settings: Sequence[str] = (), **how: Any) -> Plan:
    """A plan with settings as the words of a command line."""
    return plan(env or None, agent=agent, preset=preset, seed=seed, **how, **words(settings))


def run_online(
    folder: RunFolder,
    env: GoalEnv,
    create: Callable[..., Any],
    sampling: GoalSampling,
    config: Any,
    seed: int,
    *,
    resume: bool = False,
) -> Metrics:
    """Train online in any folder."""
    return OnlineSession(folder, env, create, sampling, config, seed).run(
        MetricLog(folder, as_loggers(["tensorboard"])), "test", resume=resume
    )


def run_offline(
    folder: RunFolder,
    episodes: Any,
    env: GoalEnv | None,
    create: Callable[..., Any],
    sampling: GoalSampling,
    config: Any,
    seed: int,
    *,
    resume: bool = False,
) -> Metrics:
    """Train offline in any folder."""
    session = OfflineSession(folder, episodes, env, create, sampling, config, seed)
    return session.run(MetricLog(folder, as_loggers(["tensorboard"])), "test", resume=resume)
