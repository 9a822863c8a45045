"""`tdinfonce ask`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from tdinfonce.errors import UserError

__all__ = ["Command"]

LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Command:
    """Ask a trained run where it will be: the chance of a place in the discounted future of a state."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run", metavar="RUN")]
    """The run folder that `tdinfonce train` made."""
    observation: tuple[float, ...] = ()
    """Where to start: --observation 0.1 -0.3."""
    goal: tuple[float, ...] = ()
    """What the policy is told to reach."""
    action: tuple[float, ...] = ()
    """The first action, in the environment's units; default: the policy's own."""
    near: tuple[float, ...] = ()
    """The place whose chance is asked; default: the goal."""
    radius: float | None = None
    """How near is near; default: the tolerance of the environment."""
    candidates: Path | None = None
    """Places to choose among, a row each (.npy or .csv); default: those that the run has stored."""
    best: bool = False
    """Ask the policy that did best in the evaluations during training instead of the newest one."""
    seed: int = 0
    """Of the draws of the policy's actions."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> int:
        """Ask and print."""
        from tdinfonce.plans.policy import load

        policy = load(self.run_folder, best=self.best)
        spec = policy.spec
        if spec.image is not None:
            raise UserError("images cannot be typed: ask in Python, td.load(RUN).occupancy(observation, goal)")
        if not self.observation or not (self.goal or self.action):
            raise UserError(
                f"name --observation ({spec.observation_size} numbers) and --goal ({spec.goal_size} numbers)"
            )
        action = (self.action[0] if spec.discrete and len(self.action) == 1 else self.action) if self.action else None
        places = None if self.candidates is None else _read(self.candidates)
        where = policy.occupancy(self.observation, self.goal or None, action, candidates=places, seed=self.seed)
        radius = spec.tolerance if self.radius is None else self.radius
        near = self.near or tuple(spec.goal(self.goal).tolist() if len(self.goal) != spec.goal_size else self.goal)
        if near and radius is None:
            raise UserError(f"{spec.name} has no tolerance: name --radius")
        found: dict[str, Any] = {"agent": policy.plan.agent, "discount": where.discount, "near": near, "radius": radius}
        found |= {"probability": where.probability(near, radius) if near and radius is not None else None}
        found |= {"candidates": len(where.candidates), "effective_candidates": where.effective_candidates}
        found |= {"mean": where.expectation(lambda place: place).tolist()}
        found |= {"quantiles": {str(level): where.quantile(level).tolist() for level in LEVELS}}
        found |= {} if where.mass is None else {"mass": float(where.mass)}
        print(json.dumps(found)) if self.json else _table(self.run_folder, found)
        return 0


def _read(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read places from {path}: {error}") from None


def _table(folder: Path, found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    ahead = 1 / (1 - found["discount"])
    table = Table(title=f"{folder}: where {found['agent']} will be, about {ahead:,.0f} steps ahead")
    for name in ("", "mean", *(f"{float(level):.0%}" for level in found["quantiles"])):
        table.add_column(name, justify="right" if name else "left")
    columns = [found["mean"], *found["quantiles"].values()]
    for index in range(len(found["mean"])):
        table.add_row(f"coordinate {index}", *(f"{column[index]:.3g}" for column in columns))
    Console().print(table)
    if found["probability"] is not None:
        place = ", ".join(f"{x:g}" for x in found["near"])
        print(f"probability within {found['radius']:g} of ({place}): {found['probability']:.3f}")
    print(f"effective candidates: {found['effective_candidates']:,.0f} of {found['candidates']:,}")
    if "mass" in found:
        print(f"mass before it was normalised, 1 if the critic is consistent: {found['mass']:.3f}")
