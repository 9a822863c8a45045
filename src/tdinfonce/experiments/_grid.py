"""The one grid of the experiments that train: its cells."""

from dataclasses import dataclass
from pathlib import Path

from tdinfonce.plans.plan import Plan, plan
from tdinfonce.settings import words

__all__ = ["GridRun"]


@dataclass(frozen=True)
class GridRun:
    """One cell of a grid: the plan of a run and its folder."""

    name: str
    """The folder of the run inside the grid's folder."""
    env: str
    """Environment."""
    agent: str
    """Agent."""
    seed: int
    """Seed."""
    preset: str = "fast"
    """Preset."""
    settings: tuple[str, ...] = ()
    """Further settings, ``name=value``."""
    noise: float = 0.0
    """Chance that a step's observation is replaced."""
    goal_space: str | None = None
    """Goal space; None: the environment's first."""
    dataset: str | None = None
    """Train offline on these data, and evaluate in the environment. A name inside the grid's folder goes first."""

    def plan(self, root: Path | None = None) -> Plan:
        """The plan, with data that lie in the grid's folder ``root``."""
        data = self.dataset
        if data is not None and root is not None and (root / data).is_dir():
            data = str(root / data)
        how = {"goal_space": self.goal_space, "noise": self.noise, "threads": 1}
        return plan(self.env, data, self.agent, self.preset, self.seed, **how, **words(self.settings))  # type: ignore[arg-type]
