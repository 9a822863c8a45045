"""Make a data set, and survive being stopped.

Episode e depends on the seed and e alone. Finished shards of episodes lie in a hidden folder beside the data set until
all are there; the data set is then written in one go, so a stopped and a straight run give the same bytes.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tdinfonce
from tdinfonce.data.formats.npz import read_arrays
from tdinfonce.data.writer import RECORD, Recorded, import_h5py, write_minari
from tdinfonce.errors import UserError
from tdinfonce.recording.behaviour import Behaviour, behaviour_for, record_episode
from tdinfonce.runs.folder import LOCK, RunFolder
from tdinfonce.system.files import read_json, write_npz_atomic, write_text_atomic
from tdinfonce.system.progress import Progress

__all__ = ["make_data"]

SHARD = 20_000
"""Transitions between two saves."""
RECIPE = "recipe.json"
BEGUN = {LOCK, f"{RECIPE}.partial"}
"""All that a stopped run holds before it says what it is."""


def make_data(
    name: str,
    folder: Path,
    dataset_id: str,
    *,
    kind: str = "navigate",
    transitions: int = 1_000_000,
    seed: int = 0,
    policy: Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Record whole episodes, at least ``transitions`` steps in all, into ``folder`` as a Minari data set.

    Returns what the data set says about how it was made. Called again with the same arguments it continues a stopped
    run, or does nothing if the data set is there.
    """
    if not 1 <= transitions <= 10**10:
        raise UserError(f"at least one transition is needed, and at most 10,000,000,000; got {transitions}")
    if not 0 <= seed < 2**63:
        raise UserError(f"a seed is not negative, and below 2**63; got {seed}")
    import_h5py()
    behaviour = behaviour_for(name, kind, policy)
    episodes = -(-transitions // behaviour.length)
    record = _record(name, kind, seed, episodes, behaviour)
    partial = folder.with_name(f".{folder.name}.partial")
    if _complete(folder, partial, record, overwrite=overwrite):
        return record
    try:
        partial.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {partial}: {error.strerror}") from error
    with RunFolder(partial).locked():
        _record_shards(behaviour, partial, record)
        shutil.rmtree(partial / "whole", ignore_errors=True)
        write_minari(partial / "whole", dataset_id, behaviour.env.spec, _read_shards(partial), record)
        behaviour.env.close()
        if folder.exists():
            shutil.rmtree(folder)
        os.rename(partial / "whole", folder)
        shutil.rmtree(partial)
    return record


def _record(name: str, kind: str, seed: int, episodes: int, behaviour: Behaviour) -> dict[str, Any]:
    """How the data are made; equal records mean equal data."""
    grid = getattr(behaviour.env, "grid", None)
    return {
        "env": name,
        "kind": kind,
        "seed": seed,
        "episodes": episodes,
        "length": behaviour.length,
        "noise": behaviour.noise,
        "policy": behaviour.policy,
        "tolerance": behaviour.env.spec.tolerance,
        "maze": None if grid is None else grid.as_json(),
        "version": tdinfonce.__version__,
    }


def _complete(folder: Path, partial: Path, record: dict[str, Any], *, overwrite: bool) -> bool:
    """Whether nothing is left to do; raises if something else is in the way."""
    for place, what in ((folder / "data" / "metadata.json", "another data set"), (partial / RECIPE, "a stopped run")):
        if not place.parent.exists() or (place.parent == partial and {p.name for p in partial.iterdir()} <= BEGUN):
            continue
        found = _read_json(place)
        if found is None:
            raise UserError(f"{place.parent} is in the way, and nothing that we made; choose another --out")
        found = found.get(RECORD, found)
        if found == record and place.parent != partial and not overwrite:
            return True
        if found != record and not overwrite:
            raise UserError(f"{place.parent} holds {what} (of {found.get('env')}); choose another --out or --overwrite")
        if found != record and place.parent == partial:
            shutil.rmtree(partial)
    if folder.exists() and not (folder / "data").exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no data set; choose another --out")
    return False


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _record_shards(behaviour: Behaviour, partial: Path, record: dict[str, Any]) -> None:
    """Make every shard that is not there yet."""
    if _read_json(partial / RECIPE) != record:
        write_text_atomic(partial / RECIPE, json.dumps(record) + "\n")
    episodes, each = record["episodes"], max(1, SHARD // behaviour.length)
    shards = [range(first, min(first + each, episodes)) for first in range(0, episodes, each)]
    missing = [shard for shard in shards if not _shard(partial, shard.start).is_file()]
    before = (episodes - sum(map(len, missing))) * behaviour.length
    title = f"{record['env']} {record['kind']}"
    with Progress(title, episodes * behaviour.length, unit="transitions", done=before) as progress:
        reached = made = 0
        for shard in missing:
            recorded = []
            for index in shard:
                recorded.append(record_episode(behaviour, record["seed"], index))
                reached, made = reached + bool(recorded[-1].success.any()), made + 1
                progress.advance(behaviour.length, f"goal reached in {reached / made:.0%} of episodes")
            _write_shard(_shard(partial, shard.start), recorded)


def _shard(partial: Path, first: int) -> Path:
    return partial / f"shard-{first:08d}.npz"


def _write_shard(path: Path, episodes: list[Recorded]) -> None:
    """Whole or not at all."""
    lengths = np.array([len(episode.action) for episode in episodes])
    arrays = {name: np.concatenate([getattr(e, name) for e in episodes]) for name in Recorded._fields}
    arrays["length"] = lengths
    write_npz_atomic(path, arrays)


def _read_shards(partial: Path) -> Iterator[Recorded]:
    """The episodes of all shards, in order."""
    for path in sorted(partial.glob("shard-*.npz")):
        arrays = read_arrays(path, ["length", *Recorded._fields])
        state = step = 0
        for length in arrays["length"].tolist():
            states, steps = slice(state, state + length + 1), slice(step, step + length)
            yield Recorded(*(arrays[n][steps if n in ("action", "success") else states] for n in Recorded._fields))
            state, step = states.stop, steps.stop
