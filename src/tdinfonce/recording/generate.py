"""Make a data set, and survive being stopped.

A block is as many episodes as give the steps of one of full length. Block b depends on the seed and b alone. Finished
shards of blocks lie in a hidden folder beside the data set until all are there; the data set is then written in one go,
so a stopped and a straight run give the same bytes.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tdinfonce
from tdinfonce.data.catalogue import place
from tdinfonce.data.formats.minari import read_metadata
from tdinfonce.data.formats.npz import array_names, read_arrays
from tdinfonce.data.writer import RECORD, Recorded, import_h5py, write_minari
from tdinfonce.errors import UserError
from tdinfonce.recording.behaviour import Behaviour, behaviour_for, default_kind, record_block
from tdinfonce.runs.folder import LOCK, RunFolder
from tdinfonce.system.files import read_json, write_npz_atomic, write_text_atomic
from tdinfonce.system.progress import Progress

__all__ = ["Made", "make_data"]

SHARD = 20_000
"""Transitions between two saves."""
RECIPE = "recipe.json"
BEGUN = {LOCK, f"{RECIPE}.partial"}
"""All that a stopped run holds before it says what it is."""


class Made(NamedTuple):
    """A data set that is there."""

    folder: Path
    source: str
    """What `open_dataset` finds it by: its id, or the folder if one was named."""
    record: dict[str, Any]
    """How it was made, as the data set says it."""
    episodes: int
    """How many there are."""


def make_data(
    name: str,
    out: str | Path | None = None,
    *,
    kind: str | None = None,
    transitions: int = 1_000_000,
    seed: int = 0,
    policy: Path | None = None,
    end_falls: bool = False,
    overwrite: bool = False,
) -> Made:
    """Record whole episodes as a Minari data set.

    Called again with the same arguments it continues a stopped run, or does nothing if the data set is there.

    Args:
        name: an environment of which there are data sets (`known_sets`), or any with a trained run as policy.
        out: a Minari id or a folder; None: ``tdinfonce/NAME-KIND-v0``, of antmaze of its default kind without it.
        kind: reach, navigate, stay or stitch: see `behaviour`; None: reach of antmaze, navigate of pointmaze. The names
            of OGBench's sets say it themselves.
        transitions: at least so many steps.
        seed: decides everything random; one seed, one file.
        policy: who walks: a file of weights, or the folder of a run.
        end_falls: whether an episode ends when the ant lies on its back.
        overwrite: whether to replace another data set of ours in that place.
    """
    if not 1 <= transitions <= 10**10:
        raise UserError(f"at least one transition is needed, and at most 10,000,000,000; got {transitions}")
    if not 0 <= seed < 2**63:
        raise UserError(f"a seed is not negative, and below 2**63; got {seed}")
    behaviour = behaviour_for(name, kind, policy, end_falls=end_falls)
    base = name.replace(":", "-").removesuffix("-v0")
    plain = not name.startswith("pointmaze-") and behaviour.kind == default_kind(name)
    folder, dataset_id = place(f"tdinfonce/{base if plain else f'{base}-{behaviour.kind}'}-v0" if out is None else out)
    import_h5py()
    record = _record(name, seed, -(-transitions // behaviour.length), behaviour)
    named = out is not None and folder == Path(out).expanduser().resolve()
    if not _complete(folder, _partial(folder), record, overwrite=overwrite):
        _make(folder, dataset_id, behaviour, record)
    return Made(folder, str(folder) if named else dataset_id, record, read_metadata(folder / "data")["total_episodes"])


def _partial(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


def _make(folder: Path, dataset_id: str, behaviour: Behaviour, record: dict[str, Any]) -> None:
    partial = _partial(folder)
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


def _record(name: str, seed: int, blocks: int, behaviour: Behaviour) -> dict[str, Any]:
    """How the data are made; equal records mean equal data."""
    grid = getattr(behaviour.env, "grid", None)
    return {
        "env": name,
        "kind": behaviour.kind,
        "seed": seed,
        "blocks": blocks,
        "length": behaviour.length,
        "noise": behaviour.noise,
        "policy": behaviour.policy,
        "tolerance": behaviour.env.spec.tolerance,
        "end_falls": behaviour.end_falls,
        "maze": None if grid is None else grid.as_json(),
        "version": tdinfonce.__version__,
    } | (behaviour.about or {})


def _complete(folder: Path, partial: Path, record: dict[str, Any], *, overwrite: bool) -> bool:
    """Whether nothing is left to do; raises if something else is in the way."""
    for file, what in ((folder / "data" / "metadata.json", "another data set"), (partial / RECIPE, "a stopped run")):
        if not file.parent.exists() or (file.parent == partial and {p.name for p in partial.iterdir()} <= BEGUN):
            continue
        found = _read_json(file)
        if found is None:
            raise UserError(f"{file.parent} is in the way, and nothing that we made; choose another out")
        found = found.get(RECORD, found)
        if found == record and file.parent != partial and not overwrite:
            return True
        if found != record and not overwrite:
            raise UserError(f"{file.parent} holds {what} (of {found.get('env')}); choose another out, or overwrite it")
        if found != record and file.parent == partial:
            shutil.rmtree(partial)
    if folder.exists() and not (folder / "data").exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no data set; choose another out")
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
    blocks, each = record["blocks"], max(1, SHARD // behaviour.length)
    shards = [range(first, min(first + each, blocks)) for first in range(0, blocks, each)]
    missing = [shard for shard in shards if not _shard(partial, shard.start).is_file()]
    before = (blocks - sum(map(len, missing))) * behaviour.length
    title = f"{record['env']} {record['kind']}"
    with Progress(title, blocks * behaviour.length, unit="transitions", done=before) as progress:
        reached = made = 0
        for shard in missing:
            recorded: list[Recorded] = []
            for index in shard:
                block = record_block(behaviour, record["seed"], index)
                recorded += block
                reached, made = reached + sum(bool(e.success.any()) for e in block), made + len(block)
                progress.advance(behaviour.length, f"goal reached in {reached / made:.0%} of episodes")
            _write_shard(_shard(partial, shard.start), recorded)


def _shard(partial: Path, first: int) -> Path:
    return partial / f"shard-{first:08d}.npz"


def _write_shard(path: Path, episodes: list[Recorded]) -> None:
    """An atomic write."""
    lengths = np.array([len(episode.action) for episode in episodes])
    names = [name for name in Recorded._fields if getattr(episodes[0], name) is not None]
    arrays = {name: np.concatenate([getattr(e, name) for e in episodes]) for name in names}
    arrays["length"] = lengths
    write_npz_atomic(path, arrays)


def _read_shards(partial: Path) -> Iterator[Recorded]:
    """The episodes of all shards, in order."""
    for path in sorted(partial.glob("shard-*.npz")):
        there = array_names(path)
        arrays = read_arrays(path, there)
        state = step = 0
        for length in arrays["length"].tolist():
            states, steps = slice(state, state + length + 1), slice(step, step + length)
            parts: dict[str, Any] = dict.fromkeys(Recorded._fields)
            parts |= {n: arrays[n][steps if n in ("action", "success") else states] for n in there if n != "length"}
            yield Recorded(**parts)
            state, step = states.stop, steps.stop
