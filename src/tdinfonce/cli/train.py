"""`tdinfonce train`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdinfonce.errors import Stopped, UserError
from tdinfonce.system.machine import fix_threads, keep_freed_memory, threads

__all__ = ["Command"]

MOST_THREADS = 1024


@dataclass(frozen=True)
class Command:
    """Train an agent to reach goals: online in an environment, or offline on stored data.

    With `--dataset` nothing is collected; an environment, if named, only serves to evaluate.

    The run folder gets the config, metrics as JSON lines and for TensorBoard, checkpoints and a summary. Ctrl-C and
    SIGTERM save first (exit code 75); `--resume` continues exactly, however the run ended.
    """

    env: str | None = None
    """Short name (see `tdinfonce list`) or Gymnasium id (FetchReach-v4, module:Env-v0) of a goal environment; default:
    fetch-reach, or none with --dataset."""
    dataset: str | None = None
    """Learn offline from these data."""
    goal: str | None = None
    """Of the data: the coordinates of an observation that are a goal, such as 0:2."""
    test_goal: tuple[float, ...] = ()
    """For agents that learn one task offline: its goal; default: the environment's, if it has only one."""
    agent: str = "td-infonce"
    """Which algorithm."""
    preset: str = "fast"
    """Where the settings start from: fast (minutes on a CPU), paper (the paper's hyper-parameters) or, for td-infonce
    offline, release (those of the paper's code)."""
    seed: int = 0
    """Decides everything random."""
    seeds: tuple[int, ...] = ()
    """Train once for each of these, into OUT/seed-N."""
    env_steps: int | None = None
    """Environment steps of an online run; default: the preset's."""
    updates: int | None = None
    """Gradient updates of an offline run; default: the preset's."""
    out: Path | None = None
    """The run folder; default: runs/ENV-AGENT-SEED, or runs/DATASET-AGENT-SEED."""
    goal_space: str | None = None
    """How a state becomes a goal; default: the environment's first."""
    noise: float = 0.0
    """Chance at each step that the observation is replaced; the true state still decides success."""
    noise_kind: str = "resampled"
    """By what: resampled (from the statistics of random actions), previous or zeros."""
    set: tuple[str, ...] = ()
    """Change settings of agent or training: --set discount=0.99 hidden=512,512 (see `tdinfonce list --settings`)."""
    threads: int | None = None
    """Threads that JAX works with; a run gives the same numbers on any machine if it has the same number of them, and
    keeps its number when it is continued. Default: one for each visible core."""
    resume: Path | None = None
    """Continue the run in this folder; the other options are then read from it."""
    overwrite: bool = False
    """Replace an earlier run in the folder."""

    def run(self) -> int:
        """Train every asked-for seed, then print one line or a table."""
        if self.resume is not None:
            return self._continue(self.resume)
        from tdinfonce.plans import plan as recipe

        self._check()
        settings = [*self.set, *([f"env_steps={self.env_steps}"] if self.env_steps is not None else [])]
        settings += [f"updates={self.updates}"] if self.updates is not None else []
        env = self.env if self.env is not None else "" if self.dataset else "fetch-reach"
        seeds = self.seeds or (self.seed,)
        if len(set(seeds)) != len(seeds):
            raise UserError("each seed may be given once")
        source = Path(self.dataset).stem if self.dataset and Path(self.dataset).exists() else self.dataset or env
        base = self.out or Path("runs") / f"{source.replace(':', '-').replace('/', '-')}-{self.agent}"
        plans = [
            recipe.build(
                env,
                self.agent,
                self.preset,
                seed,
                goal_space=self.goal_space,
                settings=settings,
                noise=self.noise,
                noise_kind=self.noise_kind,
                dataset=self.dataset or "",
                goal=self.goal,
                test_goal=self.test_goal,
            )
            for seed in seeds
        ]
        count = threads() if self.threads is None else self.threads
        for plan in plans:
            plan = dataclasses.replace(plan, threads=count)
            folder = base if not self.seeds else base / f"seed-{plan.seed}"
            if self.out is None and not self.seeds:
                folder = base.with_name(f"{base.name}-{plan.seed}")
            _train(plan, folder, overwrite=self.overwrite)
        return 0

    def _check(self) -> None:
        """Refuse options that belong to the other kind of training."""
        offline = self.dataset is not None
        wrong = ("env_steps",) if offline else ("updates", "goal", "test_goal")
        for name in wrong:
            if getattr(self, name) not in (None, ()):
                kind = "an online run; offline, give --updates" if offline else "data; name some with --dataset"
                raise UserError(f"--{name.replace('_', '-')} belongs to {kind}")
        if self.seeds and self.seed:
            raise UserError("--seed is one seed and --seeds several; give one of the two")
        if self.noise and offline and self.env is None:
            raise UserError("--noise is the environment's: data are taken as they are; name one with --env")
        if self.noise_kind != "resampled" and not self.noise:
            raise UserError("--noise-kind says what replaces an observation, and --noise how often: add --noise 0.1")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise UserError(f"--threads must lie between 1 and {MOST_THREADS}; got {self.threads}")
        if self.env == "" and not offline:
            raise UserError("--env is empty; name an environment, or data with --dataset")
        if self.dataset == "":
            raise UserError("--dataset is empty; name a file or a data set")

    def _continue(self, folder: Path) -> int:
        given = [f.name for f in dataclasses.fields(self) if f.name != "resume" and getattr(self, f.name) != f.default]
        if given:
            raise UserError(f"--resume reads everything from the run folder; leave out --{given[0].replace('_', '-')}")
        from tdinfonce.plans import plan as recipe
        from tdinfonce.runs.folder import RunFolder

        place = RunFolder(folder)
        plan, _ = recipe.read(folder)
        if place.complete:
            print(f"{folder} is complete already; see: tdinfonce eval {folder}")
            return 0
        _train(plan, folder, place)
        return 0


def _train(plan, folder: Path, place=None, *, overwrite: bool = False) -> None:  # type: ignore[no-untyped-def]
    """Train into a new folder, or go on in a place that is one."""
    keep_freed_memory()
    if plan.threads:
        fix_threads(plan.threads)
    env = plan.make_env() if plan.env else None
    try:
        result = (_offline if plan.dataset else _online)(plan, env, folder, place, overwrite=overwrite)
    except Stopped as stop:
        raise Stopped(f"{stop}; continue with: tdinfonce train --resume {folder}") from None
    finally:
        if env is not None:
            env.close()
    from tdinfonce.analysis.training import report

    report(folder)
    print(f"{folder}: {_said(result)}")
    print(f"learning curve: {folder / 'figure.png'}, table: {folder / 'table.md'}")


def _online(plan, env, folder: Path, place, *, overwrite: bool):  # type: ignore[no-untyped-def]
    from tdinfonce.runs.folder import RunFolder
    from tdinfonce.training.online import run_online

    def create(seed, scale):  # type: ignore[no-untyped-def]
        return plan.create_agent(env.spec, seed, scale)

    create(0, None)  # what does not fit should fail before anything is written
    resume = place is not None
    place = place or RunFolder.create(folder, plan.as_json(env.spec), overwrite=overwrite)
    return run_online(place, env, create, plan.agent_config.sampling, plan.training, plan.seed, resume=resume)


def _offline(plan, env, folder: Path, place, *, overwrite: bool):  # type: ignore[no-untyped-def]
    from tdinfonce.data import open_dataset
    from tdinfonce.runs.folder import RunFolder, check_folder
    from tdinfonce.training import offline

    resume = place is not None
    if not resume:
        check_folder(folder, overwrite=overwrite)  # before the data are read: that may take a while
        if Path(plan.dataset).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"the data lie in {folder}, which this run would replace; choose another folder with --out")
    episodes = open_dataset(plan.dataset, goal=plan.goal)
    found = offline.facts(episodes)
    if resume and plan.data != found:
        raise UserError(f"{plan.dataset} is not what the run in {folder} learned from: {found} instead of {plan.data}")
    spec = offline.spec_of(plan.dataset, episodes) if env is None else env.spec
    offline.check_fit(spec, episodes)
    sampling, training = plan.agent_config.sampling, plan.training
    if sampling.of_one_task:
        if not plan.test_goal and env is None:
            raise UserError(f"{plan.agent} learns one task: name its goal with --test-goal, or give --env")
        goal = plan.test_goal or offline.task_goal(env)
        episodes = offline.with_task(episodes, goal, spec, training.reward_radius)
        plan = dataclasses.replace(plan, test_goal=tuple(float(x) for x in goal))

    def create(seed, scale):  # type: ignore[no-untyped-def]
        return plan.create_agent(spec, seed, scale)

    create(0, None)  # what does not fit should fail before anything is written
    plan = dataclasses.replace(plan, data=found)
    place = place or RunFolder.create(folder, plan.as_json(spec), overwrite=overwrite)
    title = f"{plan.agent} on {Path(plan.dataset).name}"
    return offline.run_offline(place, episodes, env, create, sampling, training, plan.seed, title=title, resume=resume)


def _said(result: dict[str, Any]) -> str:
    """The summary of a run as one line."""
    cost = f"{result['updates']:,} updates, {result['training_seconds']:.0f} s"
    if "env_steps" in result:
        cost = f"{result['env_steps']:,} environment steps, {cost}"
    if "success_any" not in result:
        return f"{cost}; not evaluated, for it has no environment"
    return (
        f"success_any {result['success_any']:.2f}, success_final {result['success_final']:.2f}, "
        f"min_distance {result['min_distance']:.3f} over {result['episodes']} episodes; {cost}"
    )
