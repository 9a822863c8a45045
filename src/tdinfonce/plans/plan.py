"""A plan is a run before it starts: names, configs and a seed. It is data, and what config.json of a run holds."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import agents, envs, tuning
from tdinfonce.errors import UserError, nearest
from tdinfonce.runs.folder import CONFIG
from tdinfonce.settings import apply, from_json
from tdinfonce.system.files import read_json, write_text_atomic
from tdinfonce.system.machine import threads as threads_here
from tdinfonce.training.offline import PRESETS as OFFLINE
from tdinfonce.training.offline import OfflineConfig
from tdinfonce.training.online import PRESETS as ONLINE
from tdinfonce.training.online import OnlineConfig
from tdinfonce.types import EnvSpec, GoalEnv, InputScale

__all__ = ["Plan", "check_sizes", "differences", "plan", "read_plan", "starting_point"]

IN_MEMORY = "data in memory"
"""What a plan calls data that are no file."""
MOST_SIZE = 10**6
"""Of an observation, an action or a goal."""
MOST_THREADS = 1024
TRANSIENT = ("world", "episodes")
"""Fields that live in this process only."""
KINDS = {"online": OnlineConfig, "offline": OfflineConfig}


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that decides how a run goes. `tdinfonce.plan` makes one.

    >>> import tdinfonce as td
    >>> plan = td.plan(env="point", env_steps=2_000)
    >>> plan.kind, plan.training.env_steps
    ('online', 2000)
    """

    env: str
    """Name, Gymnasium id or module:function; empty for a run on data without an environment."""
    goal_space: str
    """How a state becomes a goal."""
    agent: str
    """The agent's name."""
    preset: str
    """Where the configs started from."""
    seed: int
    """The run's seed."""
    agent_config: Any
    """The agent's config."""
    training: Any
    """How to train: an OnlineConfig, or an OfflineConfig if there is a data set."""
    noise: float = 0.0
    """Chance that a step's observation is replaced."""
    noise_kind: str = "resampled"
    """What replaces it."""
    dataset: str = ""
    """Where the data come from; empty for an online run."""
    goal: str | None = None
    """The coordinates of an observation that are a goal, if the data do not say."""
    test_goal: tuple[float, ...] = ()
    """The goal of an agent that learns one task; empty: the environment's."""
    action_low: tuple[float, ...] = ()
    """The true bounds of the actions in the data, if somebody named them."""
    action_high: tuple[float, ...] = ()
    """Likewise."""
    actions: int = 0
    """How many discrete actions the data have, if somebody said so."""
    data: dict[str, int] | None = None
    """The fingerprint of the data."""
    threads: int = 0
    """Threads that JAX works with, also when the run is continued elsewhere; 0: as many as cores are visible."""
    env_path: str = ""
    """The folder from which the environment's module can be imported, if it is not installed."""
    world: envs.ResolvedEnv | None = dataclasses.field(default=None, compare=False, repr=False)
    """How the environment is made, if it was given as an object or a function."""
    episodes: Any = dataclasses.field(default=None, compare=False, repr=False)
    """The data themselves, where they are no file."""

    @property
    def kind(self) -> str:
        """``offline`` if it learns from a data set, else ``online``."""
        return "offline" if self.dataset else "online"

    @property
    def in_memory(self) -> bool:
        """Whether it can be trained in this process only: its environment cannot be made by name, or its data are no
        file.
        """
        return self.episodes is not None or (self.world is not None and self.world.in_memory)

    @property
    def action_bounds(self) -> Any:
        """What somebody said of the actions in the data, as `open_dataset` takes it; None: nothing."""
        return self.actions or ((self.action_low, self.action_high) if self.action_low else None)

    def as_json(self, spec: EnvSpec | None = None) -> dict[str, Any]:
        """Plain values, with the environment's spec for those who load the policy without the environment."""
        stored = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in TRANSIENT}
        stored |= {name: dataclasses.asdict(stored[name]) for name in ("agent_config", "training")}
        return {"kind": self.kind} | stored | ({"spec": dataclasses.asdict(spec)} if spec is not None else {})

    def save(self, path: str | Path) -> None:
        """Write the plan to a file that `tdinfonce.train` takes, here or on another machine.

        >>> import tdinfonce as td
        >>> td.plan(env="point", env_steps=600).save("plan.json")
        >>> td.train("plan.json", out="runs/planned").complete
        True
        """
        if self.in_memory:
            raise UserError("a plan with an environment object or with data in memory belongs to this process")
        write_text_atomic(Path(path), json.dumps(self.as_json(), indent=2) + "\n")

    def make_env(self, *, render: bool = False) -> GoalEnv:
        """Make the environment of this run; in a process of its own if the training asks for it."""
        how: dict[str, Any] = {"goal_space": self.goal_space, "noise": self.noise, "noise_kind": self.noise_kind}
        if getattr(self.training, "env_worker", False) and not render:
            if self.world is not None and self.world.in_memory:
                raise UserError("env_worker needs an environment that can be made by its name")
            from tdinfonce.envs.worker import WorkerEnv

            return WorkerEnv({"env": self.env, "path": self.env_path} | how)
        return envs.make(self.world or self.env, render=render, path=self.env_path, **how)

    def create_agent(self, spec: EnvSpec, seed: int, scale: Any = None) -> Any:
        """A fresh agent."""
        import jax

        from tdinfonce.training.compiled import create

        make = agents.load(self.agent).Agent.create
        return create(make, jax.random.PRNGKey(seed), spec, self.agent_config, scale or InputScale.identity(spec))

    def at(self, env: Any) -> "Plan":
        """The plan in another environment, if one is named; it must have one in the end."""
        if env is None:
            if not self.env:
                raise UserError("this run learned from data without an environment; name one (env)")
            return self
        found = envs.resolve(env)
        space = self.goal_space if self.goal_space in found.goal_spaces else found.goal_spaces[0]
        training = dataclasses.replace(self.training, **({"env_worker": False} if self.kind == "online" else {}))
        world = None if isinstance(env, str) else found
        where: dict[str, Any] = {"env": found.name, "env_path": found.path, "world": world}
        return dataclasses.replace(self, goal_space=space, training=training, **where)


def plan(
    env: Any = None,
    data: Any = None,
    agent: str = "td-infonce",
    preset: str = "fast",
    seed: int = 0,
    *,
    goal_space: str | None = None,
    noise: float = 0.0,
    noise_kind: str = "resampled",
    goal: str | None = None,
    test_goal: Sequence[float] = (),
    action_bounds: Any = None,
    threads: int | None = None,
    **settings: Any,
) -> Plan:
    """Plan a run: look up the names, and change settings of the preset.

    Args:
        env: a name (`tdinfonce list`), a Gymnasium id, ``module:function``, an environment object, or a function that
            makes one. With ``data`` it only serves to evaluate, and may be left out.
        data: learn offline from these: a file, a Minari id or a run folder, `Episodes`, or arrays in memory.
        agent: which algorithm.
        preset: where the settings start from: fast (minutes on a CPU), paper (the paper's hyper-parameters) or, for
            td-infonce, estimate (for probabilities that are right rather than control) and, offline, release (those of
            the paper's code).
        seed: decides everything random.
        goal_space: how a state becomes a goal; None: the environment's first.
        noise: chance at each step that the observation is replaced; the true state still decides success.
        noise_kind: what replaces it: resampled (from the statistics of random actions), previous or zeros.
        goal: of data: the coordinates of an observation that are a goal, such as ``"0:2"``.
        test_goal: for agents that learn one task offline: its goal; default: the environment's, if it has only one.
        action_bounds: of data: the smallest and the largest action, if they leave [-1, 1] and neither the data nor the
            environment say; or how many discrete actions there are.
        threads: threads that JAX works with; the same number gives the same numbers on any machine.
        settings: of agent or training, by their own names: ``env_steps=20_000, discount=0.9``.

    >>> import tdinfonce as td
    >>> td.plan(env="point", agent="gcbc", discount=0.9).agent_config.discount
    0.9
    """
    _check_arguments(env, data, seed, threads, {"goal": goal, "test_goal": test_goal, "action_bounds": action_bounds})
    if data is not None and "env_steps" in settings:
        raise UserError("env_steps belongs to an online run; on data, say how many updates")
    if data is None and "updates" in settings:
        raise UserError("updates belongs to a run on data; name some (data), or say how many env_steps")
    if noise_kind != "resampled" and not noise:
        raise UserError("noise_kind says what replaces an observation, and noise how often: add noise=0.1")
    if noise and env is None:
        raise UserError("noise is the environment's, and data are taken as they are; name an environment (env)")
    if not all(math.isfinite(x) for x in test_goal):
        raise UserError(f"test_goal must be finite; got {tuple(test_goal)}")
    found = None if env is None else envs.resolve(env)
    name, spaces = (found.name, found.goal_spaces) if found else ("", ("data",))
    if goal_space is not None and goal_space not in spaces:
        raise UserError(f"{name or 'data'} has no goal space '{goal_space}'; choose one of: {', '.join(spaces)}")
    configs = starting_point(name, agent, preset, offline=data is not None)
    if data is None and "env_steps" in settings and "warmup_steps" not in settings:
        settings |= _shorter_warmup(configs[1], settings["env_steps"])
    agent_config, training = apply(configs, settings)
    source = data if isinstance(data, str | Path) else None
    return Plan(
        env=name,
        goal_space=goal_space or spaces[0],
        agent=agent.replace("_", "-"),
        preset=preset,
        seed=seed,
        agent_config=agent_config,
        training=training,
        noise=noise,
        noise_kind=noise_kind,
        dataset="" if data is None else IN_MEMORY if source is None else str(source),
        goal=goal,
        test_goal=tuple(float(x) for x in test_goal),
        **_bounds(action_bounds),
        threads=threads_here() if threads is None else threads,
        env_path=found.path if found else "",
        world=None if isinstance(env, str) else found,
        episodes=None if source is not None else data,
    )


def starting_point(env: str, agent: str, preset: str, *, offline: bool) -> list[Any]:
    """The configs of agent and training: the preset's, then what the agent and the environment change in it."""
    presets = agents.presets(agent, offline=offline)
    if preset not in presets:
        raise nearest("preset", preset, presets)
    trainings: Mapping[str, Any] = OFFLINE if offline else ONLINE
    table = "OFFLINE_TRAINING" if offline else "ONLINE_TRAINING"
    changes = getattr(agents.load(agent), table, {}).get(preset, {})
    changes = changes | tuning.changes(env, preset, agent.replace("_", "-"), offline=offline)
    configs = []
    for config in (presets[preset], trainings[preset]):
        fields = {field.name for field in dataclasses.fields(config)}
        wanted = {name: value for name, value in changes.items() if name in fields}
        configs.append(dataclasses.replace(config, **wanted))
    return configs


def read_plan(path: str | Path) -> tuple[Plan, EnvSpec | None]:
    """The plan in a run folder, with the spec that it holds, or in a file that `Plan.save` wrote."""
    place = Path(path)
    file = place / CONFIG if place.is_dir() else place
    if not file.is_file():
        raise UserError(f"{place} is not a run folder: it has no {CONFIG}")
    try:
        stored = read_json(file)
        kind = KINDS.get(stored.pop("kind", None))
        if kind is None:
            raise UserError(f"{place} is not a training run (its {file.name} is of another kind)")
        spec = _read_spec(stored.pop("spec", None))
        agent = agents.load(stored["agent"])
        agent_config = from_json(agent.Config, getattr(agent, "EARLIER", {}) | stored.pop("agent_config"))
        training = from_json(kind, stored.pop("training"))
        if set(stored) & set(TRANSIENT):
            raise ValueError("a plan on disk holds names and numbers only")
        return from_json(Plan, stored | {"agent_config": agent_config, "training": training}), spec
    except UserError as error:
        raise UserError(f"{file}: {error}" if str(file) not in str(error) else str(error)) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is malformed or of another version: {error}") from error


def differences(stored: Plan, wanted: Plan) -> dict[str, tuple[Any, Any]]:
    """What decides the numbers of a run and is not the same in two plans: from names to the two values."""
    one, two = _decides(stored), _decides(wanted)
    for name in ("test_goal", "action_low", "action_high"):
        if getattr(wanted, name):  # otherwise the data or the environment have said it
            one[name], two[name] = getattr(stored, name), getattr(wanted, name)
    return {name: (one.get(name), two.get(name)) for name in {**one, **two} if one.get(name) != two.get(name)}


def check_sizes(trained: EnvSpec, spec: EnvSpec) -> None:
    """Raise UserError unless a policy that was trained for one spec can act under the other."""
    for name in ("observation_size", "action_size", "goal_size"):
        if getattr(trained, name) != getattr(spec, name):
            wanted, found = getattr(trained, name), getattr(spec, name)
            raise UserError(
                f"the policy does not fit {spec.name}: {name} is {wanted} for one and {found} for the other"
            )


def _decides(plan: Plan) -> dict[str, Any]:
    names = ("env", "goal_space", "agent", "seed", "noise", "noise_kind", "dataset", "goal")
    found = {name: getattr(plan, name) for name in names}
    if plan.dataset:
        found["dataset"] = str(Path(plan.dataset).resolve()) if Path(plan.dataset).exists() else plan.dataset
    return found | dataclasses.asdict(plan.agent_config) | dataclasses.asdict(plan.training)


def _check_arguments(env: Any, data: Any, seed: Any, threads: int | None, of_data: Mapping[str, Any]) -> None:
    if env is None and data is None:
        raise UserError("name an environment (env) or data (data) to learn from")
    for name, value in (("env", env), ("data", data)):
        if isinstance(value, str | Path) and not str(value):
            raise UserError(f"{name} is empty; name {'an environment' if name == 'env' else 'a file or a data set'}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UserError(f"a seed is a whole number, not negative, and below 2**63; got {seed}")
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UserError(f"threads must lie between 1 and {MOST_THREADS}; got {threads}")
    if data is None:
        given = next((name for name, value in of_data.items() if value not in (None, ())), None)
        if given:
            raise UserError(f"{given} belongs to data; name some (data)")


def _shorter_warmup(training: Any, env_steps: Any) -> dict[str, int]:
    """A run that is shorter than the preset's warm-up warms up for half of it."""
    steps = apply([training], {"warmup_steps": 0, "env_steps": env_steps})[0].env_steps
    return {"warmup_steps": steps // 2} if steps <= training.warmup_steps else {}


def _bounds(bounds: Any) -> dict[str, Any]:
    """Bounds as a plan stores them; `open_dataset` checks them against the data."""
    if bounds is None:
        return {}
    if isinstance(bounds, int) and not isinstance(bounds, bool):
        return {"actions": bounds}
    try:
        low, high = (tuple(float(x) for x in np.ravel(end)) for end in bounds)
    except (TypeError, ValueError):
        raise UserError(f"action_bounds are the smallest and the largest action; got {bounds!r}") from None
    return {"action_low": low, "action_high": high}


def _read_spec(stored: Any) -> EnvSpec | None:
    if stored is None:
        return None
    spec: EnvSpec = from_json(EnvSpec, stored)
    if not all(0 < size <= MOST_SIZE for size in (spec.observation_size, spec.action_size, spec.goal_size)):
        raise ValueError(f"the sizes of a spec lie between 1 and {MOST_SIZE:,}")
    return spec
