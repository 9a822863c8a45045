"""A recipe is a run before it starts: names, configs and a seed. It is what a run folder's config.json holds."""

import dataclasses
import itertools
import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tdinfonce import agents, envs, tuning
from tdinfonce.errors import UserError, nearest
from tdinfonce.runs.folder import CONFIG
from tdinfonce.settings import Settings, apply, describe
from tdinfonce.system.files import read_json
from tdinfonce.types import EnvSpec, GoalEnv, InputScale

__all__ = ["Recipe", "at", "build", "check_sizes", "field_help", "read", "starting_point"]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that decides how a run goes."""

    env: str
    """Short name or Gymnasium id; empty for a run on data without an environment."""
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
    """By what."""
    dataset: str = ""
    """Where the data come from; empty for an online run."""
    goal: str | None = None
    """The coordinates of an observation that are a goal, if the data do not say."""
    test_goal: tuple[float, ...] = ()
    """The goal of an agent that learns one task; empty: the environment's."""
    data: dict[str, int] | None = None
    """What identifies the data."""
    threads: int = 0
    """Threads that JAX works with, also when the run is continued elsewhere; 0: as many as cores are visible."""

    @property
    def kind(self) -> str:
        """``offline`` if it learns from a data set, else ``online``."""
        return "offline" if self.dataset else "online"

    def as_json(self, spec: EnvSpec) -> dict[str, Any]:
        """Plain values, with the environment's spec for those who load the policy without the environment."""
        return {"kind": self.kind} | dataclasses.asdict(self) | {"spec": dataclasses.asdict(spec)}

    def make_env(self, *, render: bool = False) -> GoalEnv:
        """Make the environment of this run; in a process of its own if the training asks for it."""
        options: dict[str, Any] = {
            "name": self.env,
            "goal_space": self.goal_space,
            "noise": self.noise,
            "noise_kind": self.noise_kind,
        }
        if getattr(self.training, "env_worker", False) and not render:
            from tdinfonce.envs._worker import WorkerEnv

            return WorkerEnv(options)
        return envs.make(**options, render=render)

    def create_agent(self, spec: EnvSpec, seed: int, scale: Any = None) -> Any:
        """A fresh agent."""
        import jax

        from tdinfonce.training.compiled import create

        make = agents.load(self.agent).Agent.create
        return create(make, jax.random.PRNGKey(seed), spec, self.agent_config, scale or InputScale.identity(spec))


def build(
    env: str,
    agent: str,
    preset: str,
    seed: int,
    *,
    goal_space: str | None,
    settings: Sequence[str] = (),
    noise: float = 0.0,
    noise_kind: str = "resampled",
    dataset: str = "",
    goal: str | None = None,
    test_goal: tuple[float, ...] = (),
) -> Recipe:
    """Look up the names and apply ``name=value`` settings to the preset's configs."""
    if not 0 <= seed < 2**63:
        raise UserError(f"a seed is not negative, and below 2**63; got {seed}")
    if not all(math.isfinite(x) for x in test_goal):
        raise UserError(f"--test-goal must be finite; got {test_goal}")
    spaces = envs.goal_spaces(env) if env else ("data",)
    if goal_space is not None and goal_space not in spaces:
        raise UserError(f"{env or 'data'} has no goal space '{goal_space}'; choose one of: {', '.join(spaces)}")
    configs = _apply(starting_point(env, agent, preset, offline=bool(dataset)), settings)
    for config in configs:
        _check_ranges(config)
    name, space = agent.replace("_", "-"), goal_space or spaces[0]
    agent_config, training = configs
    source = dataset, goal, test_goal
    return Recipe(env, space, name, preset, seed, agent_config, training, noise, noise_kind, *source)


def starting_point(env: str, agent: str, preset: str, *, offline: bool) -> list[Any]:
    """The configs of agent and training: the preset's, then what the agent and the environment change in it."""
    presets = agents.presets(agent, offline=offline)
    if preset not in presets:
        raise nearest("preset", preset, presets)
    if offline:
        from tdinfonce.training.offline import PRESETS as trainings
    else:
        from tdinfonce.training.online import PRESETS as trainings  # type: ignore[assignment]
    table = "OFFLINE_TRAINING" if offline else "ONLINE_TRAINING"
    changes = getattr(agents.load(agent), table, {}).get(preset, {})
    changes = changes | (tuning.changes(env, preset, agent.replace("_", "-"), offline=offline) if env else {})
    configs = []
    for config in (presets[preset], trainings[preset]):
        fields = {field.name for field in dataclasses.fields(config)}
        wanted = {name: value for name, value in changes.items() if name in fields}
        configs.append(dataclasses.replace(config, **wanted))
    return configs


def read(run: Path) -> tuple[Recipe, EnvSpec]:
    """The recipe and spec of a run folder."""
    from tdinfonce.training.offline import OfflineConfig
    from tdinfonce.training.online import OnlineConfig

    path = run / CONFIG
    if not path.is_file():
        raise UserError(f"{run} is not a run folder: it has no {CONFIG}")
    try:
        stored = read_json(path)
        kinds = {"online": OnlineConfig, "offline": OfflineConfig}
        kind = kinds.get(stored.pop("kind", None))
        if kind is None:
            raise UserError(f"{run} is not a training run (its {CONFIG} is of another kind)")
        spec = from_json(EnvSpec, stored.pop("spec"))
        kind_of_agent = agents.load(stored["agent"]).Config
        try:
            agent_config = from_json(kind_of_agent, stored.pop("agent_config"))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        training = from_json(kind, stored.pop("training"))
        plan = from_json(Recipe, stored | {"agent_config": agent_config, "training": training})
        for part in (spec, agent_config, training, plan):
            _check_types(part)
        if not all(0 < size <= MOST_SIZE for size in (spec.observation_size, spec.action_size, spec.goal_size)):
            raise ValueError(f"the sizes of a spec lie between 1 and {MOST_SIZE:,}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged or of another version: {error}") from error
    try:
        for part in (agent_config, training):
            _check_ranges(part)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return plan, spec


def at(plan: Recipe, env: str | None) -> Recipe:
    """The recipe in another environment, if one is named; it must have one in the end."""
    if env is not None:
        spaces = envs.goal_spaces(env)
        return dataclasses.replace(
            plan, env=env, goal_space=plan.goal_space if plan.goal_space in spaces else spaces[0]
        )
    if not plan.env:
        raise UserError("this run learned from data without an environment; name one with --env")
    return plan


def check_sizes(trained: EnvSpec, spec: EnvSpec) -> None:
    """Raise UserError unless a policy that was trained for one spec can act under the other."""
    for name in ("observation_size", "action_size", "goal_size"):
        if getattr(trained, name) != getattr(spec, name):
            wanted, found = getattr(trained, name), getattr(spec, name)
            raise UserError(
                f"the policy does not fit {spec.name}: {name} is {wanted} for one and {found} for the other"
            )


def from_json(kind: Any, values: dict[str, Any]) -> Any:
    """A dataclass from its JSON values; lists become tuples."""
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _check_types(values: Any) -> None:
    """Raise TypeError if a field does not have the type that it is declared with."""
    for name, kind in typing.get_type_hints(type(values)).items():
        if not _fits(getattr(values, name), kind):
            raise TypeError(f"{name} cannot be {getattr(values, name)!r}")


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(x, inner[0]) for x in value)
    if typing.get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if inner:
        return any(_fits(value, each) for each in inner)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def field_help(kind: Any) -> dict[str, str]:
    """The text under each field of a config, read from its source unless it is declared."""
    if issubclass(kind, Settings):
        return describe(kind)
    import ast
    import inspect
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    texts = {}
    for before, after in itertools.pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[before.target.id] = str(after.value.value)  # type: ignore[union-attr]
    return texts


def _apply(configs: list[Any], settings: Sequence[str]) -> list[Any]:
    for setting in settings:
        if "=" not in setting:
            raise UserError(f"a setting is written name=value; got '{setting}'")
    return apply(configs, {name: text for name, _, text in (setting.partition("=") for setting in settings)})


AT_LEAST_ONE = {"env_steps", "updates_per_call", "batch_size", "eval_every", "eval_episodes", "final_episodes"}
AT_LEAST_ONE |= {"critics", "n_step", "representation_size", "replay_capacity"}
AT_LEAST_ONE |= {"latent_size", "components", "component_size"}
AT_LEAST_ONE |= {"updates", "context", "width", "layers", "heads", "policy_delay", "keep_checkpoints"}
SHARES = {"exploration_uniform", "actor_future_share", "critic_future_share", "future_share", "monte_carlo_weight"}
SHARES |= {"target_rate", "exploration_episodes", "commanded_share", "cloning_share", "next_share"}
BELOW_ONE = {"discount", "held_out", "dropout", "expectile_level"}
POSITIVE = {"temperature", "critic_rate", "actor_rate", "max_weight", "expectile_level", "gradient_clip"}
POSITIVE |= {"multiplier", "push_sharpness"}
MOST = {"batch_size": 10**6, "updates_per_call": 10**5, "context": 10**4, "width": 10**4, "layers": 100, "heads": 1000}
MOST |= {"critics": 100, "n_step": 10**4, "representation_size": 10**5, "latent_size": 10**5, "components": 10**5}
MOST |= {"component_size": 10**5, "eval_episodes": 10**6, "final_episodes": 10**6}
MOST_WIDTH = 65_536
MOST_SIZE = 10**6
"""Of an observation, an action or a goal."""
MOST_ROWS = 10**7
"""Of the batches that one compiled call is given."""
MOST_WEIGHTS = 10**8
"""Of the layers that a setting such as `hidden` names."""


def _check_ranges(config: Any) -> None:
    """Refuse values that cannot work, before anything is made."""
    from tdinfonce.networks.pixels import TORSOS

    values = dataclasses.asdict(config)
    for name, value in values.items():
        if name in AT_LEAST_ONE and value < 1:
            raise UserError(f"{name} must be at least 1; got {value}")
        if name in SHARES and not 0 <= value <= 1:
            raise UserError(f"{name} must lie between 0 and 1; got {value}")
        if name in BELOW_ONE and not 0 <= value < 1:
            raise UserError(f"{name} must be at least 0 and below 1; got {value}")
        if name in POSITIVE and not value > 0:
            raise UserError(f"{name} must be positive; got {value}")
        if name == "context" and value < 2:
            raise UserError(f"context must be at least 2, the present step and one before it; got {value}")
        if name == "torso" and value not in TORSOS:
            raise nearest("torso", value, TORSOS)
        if name.endswith("hidden") and (not value or min(value) < 1):
            raise UserError(f"{name} must name at least one width, such as 256,256; got {value}")
        if isinstance(value, int | float) and not value >= 0:
            raise UserError(f"{name} must not be negative; got {value}")
        if isinstance(value, int | float) and not value <= MOST.get(name, 10**12):
            raise UserError(f"{name} must be at most {MOST.get(name, 10**12):,}; got {value}")
        if name.endswith("hidden") and max(value) > MOST_WIDTH:
            raise UserError(f"{name} names a width above {MOST_WIDTH:,}; got {value}")
        if isinstance(value, tuple) and sum(a * b for a, b in itertools.pairwise((1, *value))) > MOST_WEIGHTS:
            raise UserError(f"{name} asks for more than {MOST_WEIGHTS:,} weights; got {value}")
    if values.get("batch_size", 0) * values.get("updates_per_call", 0) > MOST_ROWS:
        raise UserError(f"batch_size times updates_per_call must be at most {MOST_ROWS:,} rows")
    for name in ("actor_future_share", "critic_future_share"):
        if values.get(name, 0) + values.get("commanded_share", 0) > 1:
            raise UserError(f"{name} and commanded_share are shares of one batch: together at most 1")
    if values.get("future_share", 0) + values.get("next_share", 0) > 1:
        raise UserError("future_share and next_share are shares of one batch: together at most 1")
