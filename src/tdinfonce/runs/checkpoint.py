"""Checkpoints: safetensors and a JSON manifest with a SHA-256 for each file and for itself. No file can run code.

A checkpoint is a folder that appears whole: it is written under a temporary name, flushed to the disk, and renamed.
The episodes of the replay lie beside the checkpoints, in files that are written once (`tdinfonce.runs.segments`).
A damaged checkpoint is named and skipped; the one before it is used.
"""

import contextlib
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from tdinfonce.errors import UserError
from tdinfonce.runs import segments as _segments
from tdinfonce.runs.folder import CONFIG, VERSIONS
from tdinfonce.runs.manifest import FORMAT, LIMIT, MANIFEST, Damaged, list_checkpoints, read_manifest, sealed
from tdinfonce.system.files import read_bytes, sha256, sync_folder, write_atomic

if TYPE_CHECKING:
    from tdinfonce.data.replay import Replay

__all__ = [
    "CANDIDATES",
    "Damaged",
    "Loaded",
    "has_part",
    "list_checkpoints",
    "load",
    "read",
    "read_manifest",
    "restore_agent",
    "save",
    "save_best",
    "set_aside",
    "understood",
]

CANDIDATES = "candidates"
"""The part with the stored states that an occupancy is asked over; checkpoints of before have none."""
Model = TypeVar("Model")
WRONG = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)
"""What values lead to that are not those we write."""
RENAMED = {
    ".actor": ".actor.model",
    ".actor_state": ".actor.state",
    ".average": ".actor.average",
    ".critic": ".critic.model",
    ".critic_state": ".critic.state",
    ".entropy_state": ".entropy_weight.state",
    ".multiplier_state": ".multiplier.state",
    ".policy.actor": ".policy.actor.model",
    ".policy.actor_state": ".policy.actor.state",
    ".policy.average": ".policy.actor.average",
    ".raw_entropy_weight": ".entropy_weight.model",
    ".raw_multiplier": ".multiplier.model",
    ".scale": ".inputs.scale",
    ".value": ".value.model",
    ".value_state": ".value.state",
}
"""Formats 1 and 2 kept a model and what it learns by apart. From the beginning of a path then to that of one now, for
every agent of that time; other paths stay."""


class Loaded(NamedTuple):
    """What `load` found."""

    path: Path
    counters: dict[str, int]
    parts: dict[str, dict[str, np.ndarray]]


def save(
    run: Path, step: int, parts: dict[str, Any], counters: dict[str, int], replay: "Replay | None" = None, keep: int = 3
) -> Path:
    """Write a checkpoint, then remove all but the newest ones. If it fails, those that were there are still there.

    Args:
        run: the run folder; checkpoints live in its folder ``checkpoints``.
        step: names the checkpoint; a later one has a larger step.
        parts: for each file a dict of numpy arrays, or an agent (any pytree).
        counters: integers to go with them.
        replay: its episodes are saved too; only those that are new are written.
        keep: how many checkpoints to keep.
    """
    root = run / "checkpoints"
    root.mkdir(mode=0o700, exist_ok=True)
    entry = None
    if replay is not None:
        before = list_checkpoints(run)
        segments = _segments.append(root, replay, _needed(before[-1]) or [] if before else [])
        entry = {"added": replay.added, "held": len(replay), "segments": segments}
    final = _write_folder(run, root / f"{step:012d}", parts, counters, entry)
    for older in list_checkpoints(run)[:-keep]:
        _remove(older)
    needed = [_needed(path) for path in list_checkpoints(run)]
    if None not in needed:  # one that cannot be read now may be whole: nothing of it is thrown away
        _segments.prune(root, {segment.name for segments in needed for segment in segments or []})
    return final


def save_best(run: Path, step: int, parts: dict[str, Any], counters: dict[str, int]) -> Path:
    """Keep this agent as the best one in place of another, without what only a continued run needs."""
    root = run / "checkpoints"
    root.mkdir(mode=0o700, exist_ok=True)
    best = _write_folder(run, root / f"best-{step:012d}", parts, counters, None)
    for other in root.glob("best-*"):
        if other != best:
            _remove(other)
    return best


def load(run: Path, *names: str, replay: "Replay | None" = None, best: bool = False) -> Loaded:
    """The newest checkpoint that is whole (or the best): its counters and the asked-for parts; it fills the replay.

    Each damaged one on the way is named in a warning.
    """
    problems = []
    for path in reversed(list_checkpoints(run, best=best)):
        try:
            counters, parts = read(path, *names)
            notes = _restore_replay(path, replay) if replay is not None else []
        except Damaged as error:
            problems.append(str(error))
            continue
        _warn([f"{problem}; {path} is used instead" for problem in problems] + notes)
        return Loaded(path, counters, parts)
    if problems:
        raise UserError(f"no checkpoint of {run} is whole: {problems[0]}")
    raise UserError(f"{run} holds no {'best ' if best else ''}checkpoint yet")


def read(checkpoint: Path, *names: str) -> tuple[dict[str, int], dict[str, dict[str, np.ndarray]]]:
    """The counters and the asked-for parts of a checkpoint, each checked against its SHA-256.

    The arrays of an agent have the paths of the newest format.
    """
    manifest = read_manifest(checkpoint)
    files = manifest["files"]
    for name in files:
        if name.endswith(".json"):
            _checked(checkpoint, name, files)
    parts = {name: _tensors(checkpoint, f"{name}.safetensors", files) for name in names}
    if "agent" in parts and manifest["format"] < 3:
        parts["agent"] = {_renamed(path): array for path, array in parts["agent"].items()}
    return manifest["counters"], parts


def has_part(checkpoint: Path, name: str) -> bool:
    """Whether a checkpoint has this part."""
    return f"{name}.safetensors" in read_manifest(checkpoint)["files"]


@contextlib.contextmanager
def understood(checkpoint: Path) -> Iterator[None]:
    """Around what makes use of a checkpoint: one that is whole, but not what we write, raises Damaged."""
    try:
        yield
    except UserError:
        raise
    except WRONG as error:
        raise Damaged(f"{checkpoint} is of another version, or not ours: {error!r}") from error


def set_aside(run: Path, after: Path | None) -> None:
    """Rename the checkpoints after this one: they are damaged, and a continued run will write them again."""
    for path in list_checkpoints(run):
        if after is None or path.name > after.name:
            _remove(path.with_name(f"{path.name}.damaged"))
            os.rename(path, path.with_name(f"{path.name}.damaged"))


def check_config(run: Path, checkpoint: Path) -> None:
    """Raise UserError if the config of the run is not the one that the checkpoint was made with."""
    manifest = read_manifest(checkpoint)
    stored = manifest["files"].get(CONFIG)
    if stored is not None and sha256(read_bytes(run / CONFIG, limit=LIMIT)) != stored[1]:
        raise UserError(f"{run / CONFIG} has changed; what this run was saved with is {checkpoint / CONFIG}")


def agent_arrays(agent: Any) -> dict[str, np.ndarray]:
    """The arrays of an agent by their path."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(agent, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restore_agent(template: Model, arrays: dict[str, np.ndarray]) -> Model:
    """The template with the stored arrays in place of its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(eqx.filter(template, eqx.is_array))
    own = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    # Critics had no average once: theirs is the critic itself, so far.
    older = {name: name.replace(".critic.average", ".critic.model") for name in own if name not in arrays}
    arrays = arrays | {name: arrays[model] for name, model in older.items() if model in arrays}
    wrong = set(own) ^ set(arrays)
    wrong |= {n for n, x in own.items() if n in arrays and (arrays[n].shape, arrays[n].dtype) != (x.shape, x.dtype)}
    if wrong:
        raise UserError(f"the checkpoint does not fit the run's config; it differs at {sorted(wrong)[0]}")
    restored = jax.tree_util.tree_unflatten(structure, [jnp.array(arrays[name]) for name in own])
    return eqx.combine(restored, template)


def _write_folder(run: Path, final: Path, parts: dict[str, Any], counters: dict[str, int], replay: Any) -> Path:
    partial = final.with_name(f"{final.name}.partial")
    _remove(partial)
    contents = {f"{name}.safetensors": value for name, value in parts.items()}
    files = {}
    try:
        partial.mkdir(mode=0o700)
        for name, value in contents.items():
            data = tensor_bytes(value if isinstance(value, dict) else agent_arrays(value))
            write_atomic(partial / name, data)
            files[name] = [len(data), sha256(data)]
        for name in (CONFIG, VERSIONS):
            if (run / name).is_file():
                data = (run / name).read_bytes()
                write_atomic(partial / name, data)
                files[name] = [len(data), sha256(data)]
        manifest = {"format": FORMAT, "counters": counters, "files": files, "replay": replay}
        write_atomic(partial / MANIFEST, sealed(manifest))
        sync_folder(partial)
        old = final.with_name(f"{final.name}.old.partial")
        shutil.rmtree(old, ignore_errors=True)
        if final.exists():
            os.rename(final, old)
        os.rename(partial, final)
        sync_folder(final.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return final


def _checked(checkpoint: Path, name: str, files: dict[str, Any]) -> bytes:
    path = checkpoint / name
    if name not in files:
        raise Damaged(f"{path} is not part of the checkpoint: its {MANIFEST} does not name it")
    size, mark = files[name]
    try:
        data = read_bytes(path, size)
    except FileNotFoundError as error:
        raise Damaged(f"{path} is missing") from error
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} is damaged: {error}") from error
    if sha256(data) != mark:
        raise Damaged(f"{path} is damaged: its SHA-256 does not match the manifest")
    return data


def _tensors(checkpoint: Path, name: str, files: dict[str, Any]) -> dict[str, np.ndarray]:
    data = _checked(checkpoint, name, files)
    try:
        return parse_tensors(data)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise Damaged(f"{checkpoint / name} is damaged: {error}") from error


def _renamed(path: str) -> str:
    """The path in an agent of format 3 of what had this path in formats 1 and 2."""
    beginning = re.match(r"(\.policy)?\.\w+", path)
    old = beginning[0] if beginning else ""
    return RENAMED.get(old, old) + path.removeprefix(old)


def _restore_replay(checkpoint: Path, replay: "Replay") -> list[str]:
    """Fill the replay; what had to be mended."""
    manifest = read_manifest(checkpoint)
    try:
        if manifest["format"] == 1:
            replay.restore(_tensors(checkpoint, "replay.safetensors", manifest["files"]))
            return []
        segments = _segments.needed(manifest["replay"])
        return _segments.restore(checkpoint.parent, replay, segments, int(manifest["replay"]["added"]))
    except WRONG as error:
        raise Damaged(f"{checkpoint} is not whole: {error}") from error


def _needed(checkpoint: Path) -> list[_segments.Segment] | None:
    """The segments that a checkpoint names; None if it cannot be read."""
    try:
        manifest = read_manifest(checkpoint)
    except UserError:
        return None
    try:
        return _segments.needed(manifest["replay"])
    except (ValueError, KeyError):
        return []


def _remove(folder: Path) -> None:
    """Remove a folder, at once under its name."""
    if folder.exists():
        gone = folder.with_name(f"{folder.name}.partial")
        if gone != folder and not gone.exists():
            folder = folder.rename(gone)
        shutil.rmtree(folder)


def _warn(problems: Iterable[str]) -> None:
    for problem in problems:
        warnings.warn(problem, RuntimeWarning, stacklevel=3)
