"""Small data sets in every format, for tests that read them and tests that break them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as tensor_bytes

from tdinfonce.data.replay import Replay
from tdinfonce.data.writer import Recorded, write_minari
from tdinfonce.types import EnvSpec, Episode

OBSERVATION, ACTION, GOAL = 4, 2, 2
Arrays = dict[str, np.ndarray]


def some_episodes(lengths: list[int], seed: int = 0) -> list[Episode]:
    """Random walks; the goal space is the first two coordinates."""
    rng = np.random.default_rng(seed)
    episodes = []
    for steps in lengths:
        states = rng.standard_normal((steps + 1, OBSERVATION)).astype(np.float32)
        actions = rng.uniform(-1, 1, (steps, ACTION)).astype(np.float32)
        episodes.append(Episode(states, states[:, :GOAL], actions, rng.standard_normal(GOAL).astype(np.float32)))
    return episodes


def flat_arrays(episodes: list[Episode]) -> Arrays:
    """As D4RL stores them: as many actions as states, the last one of an episode leads nowhere."""
    rows = [len(e.observation) for e in episodes]
    timeouts = np.zeros(sum(rows), bool)
    timeouts[np.cumsum(rows) - 1] = True
    return {
        "observations": np.concatenate([e.observation for e in episodes]),
        "actions": np.concatenate([np.concatenate([e.action, e.action[-1:]]) for e in episodes]),
        "timeouts": timeouts,
        "terminals": np.ones(sum(rows), bool),
        "goals": np.concatenate([np.repeat(e.goal[None], len(e.observation), axis=0) for e in episodes]),
    }


def write_npz(path: Path, arrays: Arrays, *, compressed: bool = False) -> Path:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def write_hdf5(path: Path, arrays: Arrays, **options: Any) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset("infos/goal" if name == "goals" else name, data=array, **options)
    return path


def write_minari_set(folder: Path, episodes: list[Episode], **changes: Any) -> Path:
    """Changes are of the environment's spec."""
    spec = EnvSpec("test", OBSERVATION, ACTION, GOAL, 100, **changes)
    recorded = (
        Recorded(
            e.observation, e.achieved, np.repeat(e.goal[None], len(e.observation), 0), e.action, e.action[:, 0] > 0
        )
        for e in episodes
    )
    write_minari(folder, "tdinfonce/test-v0", spec, recorded, {"env": "test"})
    return folder


def write_run(folder: Path, episodes: list[Episode], change: Callable[[Arrays], Any] = lambda state: None) -> Path:
    """A run folder with nothing but a replay in it, as checkpoints of format 1 had it."""
    longest = max(len(e.action) for e in episodes)
    replay = Replay(EnvSpec("test", OBSERVATION, ACTION, GOAL, longest), longest * len(episodes))
    for episode in episodes:
        replay.append(episode)
    state = {name: np.array(array) for name, array in replay.take(0, len(episodes)).items()}
    state["added"] = np.array([len(episodes)])
    change(state)
    checkpoint = folder / "checkpoints" / "000000000010"
    checkpoint.mkdir(parents=True)
    data = tensor_bytes(state)
    (checkpoint / "replay.safetensors").write_bytes(data)
    manifest = {"format": 1, "counters": {}, "sha256": {"replay.safetensors": hashlib.sha256(data).hexdigest()}}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    (folder / "config.json").write_text(json.dumps({"env": "point", "seed": 0, "spec": {"tolerance": 0.1}}))
    (folder / "versions.json").write_text(json.dumps({"tdinfonce": "0"}))
    return folder
