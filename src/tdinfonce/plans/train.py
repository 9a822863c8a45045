"""The one way from a plan to a run."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tdinfonce.data import cut_at_goals, from_arrays, open_dataset, read_record, trim_after_arrival
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import Stopped, UserError
from tdinfonce.plans.plan import Plan, differences, plan, read_plan
from tdinfonce.plans.run import Run
from tdinfonce.runs.folder import RunFolder, check_folder, is_run
from tdinfonce.runs.log import MetricLog
from tdinfonce.runs.loggers import as_loggers
from tdinfonce.system.machine import fix_threads, keep_freed_memory
from tdinfonce.system.progress import interactive
from tdinfonce.training import offline
from tdinfonce.training.hooks import Hooks
from tdinfonce.training.offline import OfflineSession
from tdinfonce.training.online import OnlineSession
from tdinfonce.training.session import Session
from tdinfonce.types import EnvSpec, GoalEnv

__all__ = ["default_folder", "train"]


def train(
    plan: Any = None,
    *,
    out: str | Path | None = None,
    callbacks: Sequence[Any] = (),
    loggers: Iterable[Any] = ("tensorboard",),
    overwrite: bool = False,
    **arguments: Any,
) -> Run:
    """Train an agent, online in an environment or offline on data, into a run folder.

    A folder that was begun with the same plan is continued exactly; one that is complete is returned as it is; one
    that holds anything else is refused. Ctrl-C saves first: at a prompt or in a notebook the run that can be continued
    is returned, in a script `Stopped` is raised.

    Args:
        plan: what `tdinfonce.plan` made, or a file that `Plan.save` wrote; or the arguments of `tdinfonce.plan`
            themselves, the environment first. With none of them, the run in ``out`` is continued.
        out: the run folder; default: runs/ENV-AGENT-SEED.
        callbacks: objects with some of the methods of `Callback`. They are told how it goes and may ask to stop; they
            cannot change what is learned.
        loggers: where metrics go beside the JSON lines of the run folder: "tensorboard", "wandb", "mlflow", or objects
            with the methods of `Logger`.
        overwrite: replace an earlier run in the folder.
        arguments: those of `tdinfonce.plan`: ``env``, ``data``, ``agent``, ``preset``, ``seed`` and any setting.

    Returns:
        The run: its summary, metrics, figure and policy.

    >>> import tdinfonce as td
    >>> run = td.train("point", agent="gcbc", env_steps=1_000, out="runs/first")
    >>> run.complete, run.summary["env_steps"]
    (True, 1000)
    """
    told, writers = Hooks(callbacks), as_loggers(loggers)
    wanted = _wanted(plan, arguments, out)
    folder = Path(out) if out is not None else default_folder(wanted)
    begun = is_run(folder) and not overwrite
    if begun:
        wanted = _stored(folder, wanted)
        if RunFolder(folder).complete:
            told_so = f"{folder} is complete already, nothing was trained; overwrite it to train anew"
            warnings.warn(told_so, RuntimeWarning, stacklevel=2)
            return Run(folder)
    keep_freed_memory()
    fix_threads(wanted.threads)
    env = wanted.make_env() if wanted.env else None
    try:
        begin: Callable[..., Session] = _begin_offline if wanted.dataset else _begin_online
        session = begin(wanted, env, folder, told, resume=begun, overwrite=overwrite)
        session.run(MetricLog(session.folder, writers), _title(wanted), resume=begun)
    except Stopped as stop:
        said = f"{stop}; continue with: td.train(out={str(folder)!r})"
        if not interactive():
            raise Stopped(said) from None
        print(said)
        return Run(folder)
    finally:
        if env is not None:
            env.close()
    run = Run(folder)
    run.report()
    return run


def default_folder(plan: Plan) -> Path:
    """Where a run goes unless somebody says otherwise."""
    source = Path(plan.dataset).stem if Path(plan.dataset).exists() else plan.dataset
    name = (source if plan.dataset else plan.env).replace(":", "-").replace("/", "-").replace(" ", "-")
    return Path("runs") / f"{name}-{plan.agent}-{plan.seed}"


def _wanted(given: Any, arguments: dict[str, Any], out: str | Path | None) -> Plan:
    stored = isinstance(given, Path) or (isinstance(given, str) and (given.endswith(".json") or Path(given).exists()))
    if (isinstance(given, Plan) or stored) and arguments:
        raise UserError(f"a plan says everything already; leave out {next(iter(arguments))}, or make another plan")
    if isinstance(given, Plan):
        return given
    if stored:
        return read_plan(given)[0]
    if given is None and not arguments and out is not None:
        return read_plan(out)[0]
    return plan(**arguments) if given is None else plan(given, **arguments)


def _stored(folder: Path, wanted: Plan) -> Plan:
    """The plan of a run that was begun, if it is the wanted one; with what only this process has."""
    stored, _ = read_plan(folder)
    for name, (before, now) in differences(stored, wanted).items():
        raise UserError(
            f"{folder} holds a run with {name}={before!r}, not {now!r}; choose another folder (out), or overwrite it"
        )
    world, episodes = wanted.world, wanted.episodes
    return dataclasses.replace(stored, world=world, episodes=episodes)


def _title(plan: Plan) -> str:
    return f"{plan.agent} on {Path(plan.dataset).name if plan.dataset else plan.env}"


def _begin_online(
    plan: Plan, env: GoalEnv, folder: Path, hooks: Hooks, *, resume: bool, overwrite: bool
) -> OnlineSession:
    create = _creator(plan, env.spec)
    place = RunFolder(folder) if resume else RunFolder.create(folder, plan.as_json(env.spec), overwrite=overwrite)
    return OnlineSession(place, env, create, plan.agent_config.sampling, plan.training, plan.seed, hooks)


def _begin_offline(
    plan: Plan, env: GoalEnv | None, folder: Path, hooks: Hooks, *, resume: bool, overwrite: bool
) -> Session:
    if not resume:
        check_folder(folder, overwrite=overwrite)  # before the data are read: that may take a while
        if plan.episodes is None and Path(plan.dataset).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"the data lie in {folder}, which this run would replace; choose another folder (out)")
    episodes = _open(plan, env)
    found = offline.fingerprint(episodes)
    if resume and plan.data != found:
        raise UserError(f"{plan.dataset} is not what the run in {folder} learned from: {found} instead of {plan.data}")
    spec = offline.spec_of(plan.dataset, episodes) if env is None else env.spec
    offline.check_fit(spec, episodes)
    if not resume:
        _check_goals(plan, episodes)
    sampling, training = plan.agent_config.sampling, plan.training
    if sampling.of_one_task:
        if not plan.test_goal and env is None:
            raise UserError(f"{plan.agent} learns one task: name its goal (test_goal), or an environment (env)")
        goal = plan.test_goal or offline.task_goal(env)  # type: ignore[arg-type]
        episodes = offline.with_task(episodes, goal, spec, training.reward_radius)
        plan = dataclasses.replace(plan, test_goal=tuple(float(x) for x in goal))
    create = _creator(plan, spec)
    plan = dataclasses.replace(plan, data=found)
    place = RunFolder(folder) if resume else RunFolder.create(folder, plan.as_json(spec), overwrite=overwrite)
    return OfflineSession(place, episodes, env, create, sampling, training, plan.seed, hooks)


def _check_goals(plan: Plan, episodes: Episodes) -> None:
    """Raise UserError if the critic would be told the future that it has to predict."""
    sampling = plan.agent_config.sampling
    if sampling.whole_share and "commanded_goal" in sampling.fields and not episodes.commanded:
        raise UserError(
            "the data name no commanded goals, so the last state of each episode would be both the critic's goal and "
            "what its Monte Carlo rows predict; set commanded_share=0, or monte_carlo_weight=0"
        )


def _open(plan: Plan, env: GoalEnv | None) -> Episodes:
    """The data of a plan; what they do not say of their actions and goals, the environment may know."""
    known: dict[str, Any] = {"goal": plan.goal, "action_bounds": plan.action_bounds}
    if env is not None:
        known |= {"default_bounds": env.spec.action_bounds, "default_goal": env.spec.data_goal or None}
    given = plan.episodes is not None
    episodes = from_arrays(plan.episodes, **known) if given else open_dataset(plan.dataset, **known)
    if plan.training.cut_at_goals:
        episodes = cut_at_goals(episodes)
    if not plan.training.trim_after_arrival:
        return episodes
    stored = {} if given else read_record(plan.dataset)
    radius = env.spec.tolerance if env is not None else stored.get("tolerance")
    if not radius:
        raise UserError("trim_after_arrival must know how near is near enough: name an environment (env)")
    return trim_after_arrival(episodes, plan.training.trim_after_arrival, radius)


def _creator(plan: Plan, spec: EnvSpec) -> Callable[[int, Any], Any]:
    """Makes agents of a plan. Makes one at once: what does not fit should fail before anything is written."""

    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(spec, seed, scale)

    create(0, None)
    return create
