"""Which hyper-parameters of TD InfoNCE matter on Fetch push and slide."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdinfonce.analysis import compare
from tdinfonce.experiments import Experiment
from tdinfonce.experiments._grid import GridRun

TITLE = "Hyper-parameters of TD InfoNCE"
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "fast": {
        "base": (),
        "actor-rate-low": ("actor_rate=1e-4",),
        "actor-rate-high": ("actor_rate=3e-3",),
        "critic-rate-low": ("critic_rate=1e-4",),
        "critic-rate-high": ("critic_rate=3e-3",),
        "not-normalised": ("normalise=false", "temperature=1"),
        "narrow": ("hidden=128,128",),
        "deep": ("hidden=256,256,256,256",),
        "representation-small": ("representation_size=8",),
        "representation-large": ("representation_size=128",),
        "discount-low": ("discount=0.9",),
        "discount-high": ("discount=0.99",),
    },
    "paper": {
        "base": (),
        "actor-rate-low": ("actor_rate=1e-5",),
        "actor-rate-high": ("actor_rate=1e-4",),
        "critic-rate-low": ("critic_rate=1e-4",),
        "critic-rate-high": ("critic_rate=1e-3",),
        "not-normalised": ("normalise=false",),
        "narrow": ("hidden=256,256,256,256", "goal_hidden=256,256,256,256"),
        "shallow": ("hidden=512,512", "goal_hidden=512,512"),
        "representation-small": ("representation_size=8",),
        "representation-large": ("representation_size=64",),
        "discount-low": ("discount=0.95",),
        "discount-high": ("discount=0.999",),
    },
}
"""For each preset, one hyper-parameter changed at a time. The paper draws its grid without naming its values."""
ORDER = tuple(dict.fromkeys(name for variants in VARIANTS.values() for name in variants))


@dataclass(frozen=True)
class Grid:
    """Tasks, variants and budget."""

    tasks: tuple[str, ...]
    """Environments."""
    variants: tuple[str, ...]
    """Keys of VARIANTS of the preset."""
    settings: tuple[str, ...] = ()
    """Settings of every variant."""
    preset: str = "fast"
    """Where settings start from."""
    goal_space: str | None = None
    """Goal space; None: the position that decides success."""


BUDGETS = {
    "smoke": Grid(("fetch-push",), ("base", "narrow"), ("env_steps=1_200", "warmup_steps=1_000", "eval_episodes=5")),
    "default": Grid(("fetch-push",), tuple(VARIANTS["fast"]), ("env_steps=150_000",)),
    "paper": Grid(("fetch-push", "fetch-slide"), tuple(VARIANTS["paper"]), preset="paper", goal_space="full"),
}


def runs(config: Grid, seeds: Sequence[int]) -> list[GridRun]:
    """Every task, variant and seed."""
    return [
        GridRun(
            f"{task}--{v}--{seed}",
            task,
            "td-infonce",
            seed,
            preset=config.preset,
            settings=(*config.settings, *VARIANTS[config.preset][v]),
            goal_space=config.goal_space,
        )
        for task in config.tasks
        for v in config.variants
        for seed in seeds
    ]


def report(folder: Path) -> None:
    """Draw curves and bars, and write the table."""
    compare.report(folder, TITLE, ORDER)


EXPERIMENT = Experiment(
    shows="what changing one hyper-parameter of TD InfoNCE does on push and slide",
    paper="App. ablations: actor and critic rate, normalisation, network size, representation size, discount",
    duration={"smoke": "2 min", "default": "3 h", "paper": "days"},
    budgets=BUDGETS,
    report=report,
    seeds={"smoke": 1, "default": 1, "paper": 5},
    grid=runs,
)
