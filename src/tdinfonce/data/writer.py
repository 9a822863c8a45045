"""Write episodes as a Minari data set. The same episodes give the same bytes."""

import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec

__all__ = ["RECORD", "Recorded", "import_h5py", "write_minari"]

RECORD = "tdinfonce"
"""Under this key of the metadata stands how the data were made."""
OLDEST = "0.5.3"


class Recorded(NamedTuple):
    """One episode of T steps, with the goal that was commanded at each state."""

    observation: np.ndarray
    """``[T + 1, observation_size]``"""
    achieved: np.ndarray | None
    """``[T + 1, goal_size]``; None: nobody commanded a goal, and what a goal is will be said by whoever learns."""
    desired: np.ndarray | None
    """``[T + 1, goal_size]``, or None likewise."""
    action: np.ndarray
    """``[T, action_size]``, in [-1, 1] or one-hot; they are written in the environment's units."""
    success: np.ndarray
    """``[T]``, whether the goal was reached behind each step."""


def write_minari(
    folder: Path, dataset_id: str, spec: EnvSpec, episodes: Iterable[Recorded], record: dict[str, Any]
) -> None:
    """Write ``folder/data`` in Minari's layout.

    Args:
        folder: must not hold data yet.
        dataset_id: namespace/name-vN.
        spec: sizes of observation, goal and action.
        episodes: in order.
        record: how they were made, as plain JSON values.
    """
    h5py = import_h5py()
    data = folder / "data"
    data.mkdir(parents=True)
    count, steps, flat = 0, 0, False
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for index, episode in enumerate(episodes):
            _write_episode(file.create_group(f"episode_{index}"), index, episode, spec)
            count, steps, flat = count + 1, steps + len(episode.action), episode.achieved is None
    size = (data / "main_data.hdf5").stat().st_size
    goal, seen = _box(spec.goal_size), _box(spec.observation_size)
    spaces = {"observation": seen, "achieved_goal": goal, "desired_goal": goal}
    told = {"type": "Dict", "subspaces": spaces}
    described = {
        "dataset_id": dataset_id,
        "total_episodes": count,
        "total_steps": steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": json.dumps(seen if flat else told),
        "action_space": json.dumps(_action_space(spec)),
        "minari_version": _minari_version(),
        "algorithm_name": "tdinfonce data make",
        "dataset_size": round(size / 1e6, 1),
        RECORD: record,
    }
    (data / "metadata.json").write_text(json.dumps(described, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def import_h5py() -> Any:
    """h5py, or one line that says how to get it."""
    try:
        import h5py  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise UserError("this needs h5py: pip install 'tdinfonce[offline]'") from error
    return h5py


def _write_episode(group: Any, index: int, episode: Recorded, spec: EnvSpec) -> None:
    steps = len(episode.action)
    group.attrs["id"], group.attrs["total_steps"] = index, steps
    ends = np.zeros(steps, bool)
    if episode.achieved is None:
        group["observations"] = np.asarray(episode.observation, np.float32)
    else:
        group["observations/observation"] = np.asarray(episode.observation, np.float32)
        group["observations/achieved_goal"] = np.asarray(episode.achieved, np.float32)
        group["observations/desired_goal"] = np.asarray(episode.desired, np.float32)
    group["actions"] = spec.native_action(episode.action)
    group["rewards"] = np.asarray(episode.success, np.float32)
    group["terminations"] = ends
    ends = ends.copy()
    ends[-1] = True
    group["truncations"] = ends


def _box(size: int, bound: float = float("inf")) -> dict[str, Any]:
    return {"type": "Box", "dtype": "float32", "shape": [size], "low": [-bound] * size, "high": [bound] * size}


def _action_space(spec: EnvSpec) -> dict[str, Any]:
    """The environment's own, in Minari's notation; `native_action` gives actions in it."""
    if spec.discrete:
        first = int(spec.action_low[0]) if spec.action_low else 0
        return {"type": "Discrete", "dtype": "int64", "start": first, "n": spec.action_size}
    if not spec.action_low:
        return _box(spec.action_size, 1.0)
    shape = list(spec.action_shape or (spec.action_size,))
    ends = {"low": np.reshape(spec.action_low, shape).tolist(), "high": np.reshape(spec.action_high, shape).tolist()}
    return {"type": "Box", "dtype": "float32", "shape": shape} | ends


def _minari_version() -> str:
    try:
        return metadata.version("minari")
    except metadata.PackageNotFoundError:
        return OLDEST
