"""The data sets of offline experiments: those that must be here, those that are made, and aimless ones for smoke."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tdinfonce import envs
from tdinfonce.data.catalogue import is_here, place
from tdinfonce.data.writer import write_minari
from tdinfonce.errors import UserError
from tdinfonce.recording.behaviour import Behaviour, record_block
from tdinfonce.recording.generate import make_data

__all__ = ["AIMLESS", "SMOKE", "dataset_id", "make_aimless", "make_missing", "require"]

AIMLESS = "aimless-v0"
"""Where aimless data lie in an experiment's folder."""
SMOKE = ("updates=20", "eval_every=20", "eval_episodes=1", "final_episodes=1", "updates_per_call=10", "batch_size=16")
"""Settings of a run that is there to see that it runs."""


def dataset_id(name: str) -> str:
    """Where `tdinfonce data make` puts a data set unless it is told otherwise."""
    return f"tdinfonce/{name}-v0"


def require(names: Sequence[str]) -> None:
    """Raise UserError if a data set is missing that only somebody with a policy file can make."""
    missing = [name for name in names if not is_here(dataset_id(name))]
    if missing:
        folder = place(dataset_id(missing[0]))[0]
        raise UserError(f"there is no data set {folder}; make it first, with a policy that walks: {', '.join(missing)}")


def make_missing(name: str, kind: str, transitions: int) -> None:
    """Make a data set that needs no policy file, if it is not here."""
    wanted = dataset_id(f"{name}-{kind}")
    if not is_here(wanted):
        make_data(name, wanted, kind=kind, transitions=transitions)


def make_aimless(folder: Path, env: str, *, episodes: int = 8, steps: int = 80) -> None:
    """A few episodes of random actions: no use but to see that everything runs, on a machine without data."""
    if (folder / AIMLESS).exists():
        return
    world = envs.make(env)
    behaviour = Behaviour(world, _Idle(world.spec.action_size), steps, 1.0, None, kind="stay", policy=None)
    recorded = [episode for index in range(episodes) for episode in record_block(behaviour, 0, index)]
    record = {"env": env, "kind": "aimless", "seed": 0, "maze": behaviour.env.grid.as_json()}
    write_minari(folder / f"{AIMLESS}.partial", f"tdinfonce/{AIMLESS}", world.spec, recorded, record)
    (folder / f"{AIMLESS}.partial").rename(folder / AIMLESS)
    world.close()


class _Idle:
    """Nobody steers; the noise does."""

    def __init__(self, size: int) -> None:
        self._nothing = np.zeros(size)

    def begin(self, observation: np.ndarray, goal: np.ndarray) -> None:
        """Nothing to remember."""

    def act(self, observation: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """No action."""
        return self._nothing
