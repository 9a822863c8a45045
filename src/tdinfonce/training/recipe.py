"""A recipe is a run before it starts: names, configs and a seed. It is what a run folder's config.json holds."""

import dataclasses
import json
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tdinfonce import agents, envs
from tdinfonce.errors import UserError, nearest
from tdinfonce.training.run_folder import CONFIG
from tdinfonce.types import EnvSpec, GoalEnv, InputScale

__all__ = ["Recipe", "build", "field_help", "read"]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that decides how an online run goes."""

    env: str
    """Short name or Gymnasium id."""
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
    """How to train: an OnlineConfig."""
    noise: float = 0.0
    """Chance that a step's observation is replaced."""
    noise_kind: str = "resampled"
    """By what."""

    def as_json(self, spec: EnvSpec) -> dict[str, Any]:
        """Plain values, with the environment's spec for those who load the policy without the environment."""
        return {"kind": "online"} | dataclasses.asdict(self) | {"spec": dataclasses.asdict(spec)}

    def make_env(self, *, render: bool = False) -> GoalEnv:
        """Make the environment of this run."""
        return envs.make(
            self.env, goal_space=self.goal_space, render=render, noise=self.noise, noise_kind=self.noise_kind
        )

    def create_agent(self, spec: EnvSpec, seed: int, scale: Any = None) -> Any:
        """A fresh agent."""
        import jax

        from tdinfonce.training.online import create

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
) -> Recipe:
    """Look up the names and apply ``name=value`` settings to the preset's configs."""
    from tdinfonce.training.online import PRESETS

    module = agents.load(agent)
    if preset not in module.PRESETS:
        raise nearest("preset", preset, module.PRESETS)
    if seed < 0:
        raise UserError(f"a seed is not negative; got {seed}")
    spaces = envs.goal_spaces(env)
    if goal_space is not None and goal_space not in spaces:
        raise UserError(f"{env} has no goal space '{goal_space}'; choose one of: {', '.join(spaces)}")
    name = agent.replace("_", "-")
    configs = []
    for config in (module.PRESETS[preset], PRESETS[preset]):
        fields = {field.name for field in dataclasses.fields(config)}
        wanted = {key: value for key, value in envs.settings(env, preset, name).items() if key in fields}
        configs.append(dataclasses.replace(config, **wanted))
    configs = _apply(configs, settings)
    for config in configs:
        _check_ranges(config)
    agent_config, training = configs
    return Recipe(env, goal_space or spaces[0], name, preset, seed, agent_config, training, noise, noise_kind)


def read(run: Path) -> tuple[Recipe, EnvSpec]:
    """The recipe and spec of a run folder."""
    from tdinfonce.training.online import OnlineConfig

    path = run / CONFIG
    if not path.is_file():
        raise UserError(f"{run} is not a run folder: it has no {CONFIG}")
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("kind", None) != "online":
            raise UserError(f"{run} is not a training run (its {CONFIG} is of another kind)")
        spec = from_json(EnvSpec, stored.pop("spec"))
        agent_config = from_json(agents.load(stored["agent"]).Config, stored.pop("agent_config"))
        training = from_json(OnlineConfig, stored.pop("training"))
        return Recipe(**stored, agent_config=agent_config, training=training), spec
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged or of another version: {error}") from error


def from_json(kind: Any, values: dict[str, Any]) -> Any:
    """A dataclass from its JSON values; lists become tuples."""
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def field_help(kind: Any) -> dict[str, str]:
    """The text under each field of a config, read from its source."""
    import ast
    import inspect
    import itertools
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    texts = {}
    for before, after in itertools.pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[before.target.id] = str(after.value.value)  # type: ignore[union-attr]
    return texts


def _apply(configs: list[Any], settings: Sequence[str]) -> list[Any]:
    fields = {f.name: index for index, config in enumerate(configs) for f in dataclasses.fields(config)}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise UserError(f"a setting is written name=value; got '{setting}'")
        if name not in fields:
            raise nearest("setting", name, fields)
        config = configs[fields[name]]
        kind = typing.get_type_hints(type(config))[name]
        configs[fields[name]] = dataclasses.replace(config, **{name: _value(name, text, kind)})
    return configs


AT_LEAST_ONE = {"env_steps", "updates_per_call", "batch_size", "eval_every", "eval_episodes", "final_episodes"}
AT_LEAST_ONE |= {"critics", "n_step", "representation_size", "replay_capacity"}
AT_LEAST_ONE |= {"latent_size", "components", "component_size"}
SHARES = {"exploration_uniform", "actor_future_share", "critic_future_share", "future_share", "monte_carlo_weight"}
SHARES |= {"target_rate", "exploration_episodes", "commanded_share"}
POSITIVE = {"temperature", "critic_rate", "actor_rate", "max_weight", "multiplier", "push_sharpness"}


def _check_ranges(config: Any) -> None:
    """Refuse values that cannot work, before anything is made."""
    from tdinfonce.networks.pixels import TORSOS

    values = dataclasses.asdict(config)
    for name, value in values.items():
        if name in AT_LEAST_ONE and value < 1:
            raise UserError(f"{name} must be at least 1; got {value}")
        if name in SHARES and not 0 <= value <= 1:
            raise UserError(f"{name} must lie between 0 and 1; got {value}")
        if name == "discount" and not 0 <= value < 1:
            raise UserError(f"discount must be at least 0 and below 1; got {value}")
        if name in POSITIVE and not value > 0:
            raise UserError(f"{name} must be positive; got {value}")
        if name == "torso" and value not in TORSOS:
            raise nearest("torso", value, TORSOS)
        if name.endswith("hidden") and (not value or min(value) < 1):
            raise UserError(f"{name} must name at least one width, such as 256,256; got {value}")
        if isinstance(value, int | float) and not value >= 0:
            raise UserError(f"{name} must not be negative; got {value}")
    for name in ("actor_future_share", "critic_future_share"):
        if values.get(name, 0) + values.get("commanded_share", 0) > 1:
            raise UserError(f"{name} and commanded_share are shares of one batch: together at most 1")


def _value(name: str, text: str, kind: Any) -> Any:
    """Parse one setting as the type of its field."""
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind is int:
            return int(text.replace("_", ""))
        if kind is float:
            return float(text)
        if kind is str:
            return text
        return tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except (ValueError, KeyError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "numbers like 256,256")
        raise UserError(f"{name} must be {wanted}; got '{text}'") from None
