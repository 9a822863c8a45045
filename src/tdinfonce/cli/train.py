"""`tdinfonce train`."""

import dataclasses
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.errors import UserError

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """Train an agent online to reach goals.

    The run folder gets the config, metrics as JSON lines and for TensorBoard, checkpoints and a summary. Ctrl-C saves
    first; `--resume` continues exactly where the run was.
    """

    env: str = "fetch-reach"
    """Short name (see `tdinfonce list`) or Gymnasium id (FetchReach-v4, module:Env-v0) of a goal environment."""
    agent: str = "td-infonce"
    """Which algorithm."""
    preset: str = "fast"
    """Where the settings start from: fast (minutes on a CPU) or paper (the paper's hyper-parameters)."""
    seed: int = 0
    """Decides everything random."""
    seeds: tuple[int, ...] = ()
    """Train once for each of these, into OUT/seed-N."""
    env_steps: int | None = None
    """Environment steps of the run; default: the preset's."""
    out: Path | None = None
    """The run folder; default: runs/ENV-AGENT-SEED."""
    goal_space: str | None = None
    """How a state becomes a goal; default: the environment's first."""
    noise: float = 0.0
    """Chance at each step that the observation is replaced; the true state still decides success."""
    noise_kind: str = "resampled"
    """By what: resampled (from the statistics of random actions), previous or zeros."""
    set: tuple[str, ...] = ()
    """Change settings of agent or training: --set discount=0.99 hidden=512,512 (see `tdinfonce list --settings`)."""
    resume: Path | None = None
    """Continue the run in this folder; the other options are then read from it."""
    overwrite: bool = False
    """Replace an earlier run in the folder."""

    def run(self) -> int:
        """Train every asked-for seed, then print one line or a table."""
        if self.resume is not None:
            return self._continue(self.resume)
        from tdinfonce.training import recipe

        settings = [*self.set, *([f"env_steps={self.env_steps}"] if self.env_steps is not None else [])]
        seeds = self.seeds or (self.seed,)
        if len(set(seeds)) != len(seeds):
            raise UserError("each seed may be given once")
        base = self.out or Path("runs") / f"{self.env.replace(':', '-').replace('/', '-')}-{self.agent}"
        plans = [
            recipe.build(
                self.env,
                self.agent,
                self.preset,
                seed,
                goal_space=self.goal_space,
                settings=settings,
                noise=self.noise,
                noise_kind=self.noise_kind,
            )
            for seed in seeds
        ]
        for plan in plans:
            folder = base if not self.seeds else base / f"seed-{plan.seed}"
            if self.out is None and not self.seeds:
                folder = base.with_name(f"{base.name}-{plan.seed}")
            _train(plan, folder, overwrite=self.overwrite)
        return 0

    def _continue(self, folder: Path) -> int:
        given = [f.name for f in dataclasses.fields(self) if f.name != "resume" and getattr(self, f.name) != f.default]
        if given:
            raise UserError(f"--resume reads everything from the run folder; leave out --{given[0].replace('_', '-')}")
        from tdinfonce.training import recipe
        from tdinfonce.training.run_folder import RunFolder

        plan, _ = recipe.read(folder)
        if RunFolder(folder).complete:
            print(f"{folder} is complete already; see: tdinfonce eval {folder}")
            return 0
        _train(plan, folder, resume=True)
        return 0


def _train(plan, folder: Path, *, overwrite: bool = False, resume: bool = False) -> None:  # type: ignore[no-untyped-def]
    from tdinfonce.machine import keep_freed_memory
    from tdinfonce.training.online import run_online
    from tdinfonce.training.run_folder import RunFolder

    keep_freed_memory()
    # A scheduler that ends a job sends SIGTERM: save as for Ctrl-C.
    main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if main_thread else None
    env = plan.make_env()
    try:
        place = RunFolder(folder) if resume else RunFolder.create(folder, plan.as_json(env.spec), overwrite=overwrite)

        def create(seed, scale):  # type: ignore[no-untyped-def]
            return plan.create_agent(env.spec, seed, scale)

        create(0, None)  # what does not fit should fail before the first step
        try:
            result = run_online(place, env, create, plan.agent_config.sampling, plan.training, plan.seed, resume=resume)
        except KeyboardInterrupt:
            if any((folder / "checkpoints").glob("*")):
                print(f"saved; continue with: tdinfonce train --resume {folder}")
            raise
    finally:
        env.close()
        if main_thread:
            signal.signal(signal.SIGTERM, before)
    from tdinfonce.analysis.training import report

    report(folder)
    print(
        f"{folder}: success_any {result['success_any']:.2f}, success_final {result['success_final']:.2f}, "
        f"min_distance {result['min_distance']:.3f} over {result['episodes']} episodes; "
        f"{result['env_steps']:,} environment steps, {result['updates']:,} updates, {result['training_seconds']:.0f} s"
    )
    print(f"learning curve: {folder / 'figure.png'}, table: {folder / 'table.md'}")
