"""Checkpoints: safetensors and a JSON manifest with a SHA-256 for each file. No file can run code.

A checkpoint is a folder that appears whole: it is written under a temporary name, flushed to the disk, and renamed.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from tdinfonce.errors import UserError

__all__ = ["latest", "read", "restore_agent", "save"]

Model = TypeVar("Model")
MANIFEST = "manifest.json"
FORMAT = 1


def save(run: Path, step: int, parts: dict[str, Any], counters: dict[str, int]) -> Path:
    """Write a checkpoint, then remove the older ones.

    Args:
        run: the run folder; checkpoints live in its folder ``checkpoints``.
        step: names the checkpoint; a later one has a larger step.
        parts: for each file a dict of numpy arrays, or an agent (any pytree).
        counters: integers to go with them.
    """
    root = run / "checkpoints"
    root.mkdir(exist_ok=True)
    final, partial = root / f"{step:012d}", root / f"{step:012d}.partial"
    for leftover in root.glob("*.partial"):
        shutil.rmtree(leftover)
    partial.mkdir()
    hashes = {}
    for name, value in parts.items():
        data = tensor_bytes(value if isinstance(value, dict) else agent_arrays(value))
        _write(partial / f"{name}.safetensors", data)
        hashes[f"{name}.safetensors"] = hashlib.sha256(data).hexdigest()
    manifest = {"format": FORMAT, "counters": counters, "sha256": hashes}
    _write(partial / MANIFEST, (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
    _flush(partial)
    if final.exists():
        shutil.rmtree(final)
    os.rename(partial, final)
    _flush(root)
    for older in root.iterdir():
        if older.name < final.name:
            shutil.rmtree(older)
    return final


def latest(run: Path) -> Path:
    """The newest checkpoint of a run."""
    found = sorted(p for p in (run / "checkpoints").glob("[0-9]*") if not p.name.endswith(".partial"))
    if not found:
        raise UserError(f"{run} holds no checkpoint yet")
    return found[-1]


def read(checkpoint: Path, *names: str) -> tuple[dict[str, int], dict[str, dict[str, np.ndarray]]]:
    """The counters and the asked-for parts of a checkpoint, each checked against its SHA-256."""
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        hashes, counters = dict(manifest["sha256"]), dict(manifest["counters"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{checkpoint} is not a checkpoint: its {MANIFEST} is missing or damaged") from error
    if manifest.get("format") != FORMAT:
        raise UserError(f"{checkpoint} has format {manifest.get('format')}; this version reads format {FORMAT}")
    parts = {}
    for name in names:
        path = checkpoint / f"{name}.safetensors"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} is missing") from error
        if hashlib.sha256(data).hexdigest() != hashes.get(path.name):
            raise UserError(f"{path} is damaged: its SHA-256 does not match the manifest")
        parts[name] = parse_tensors(data)
    return counters, parts


def agent_arrays(agent: Any) -> dict[str, np.ndarray]:
    """The arrays of an agent by their path."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(agent, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restore_agent(template: Model, arrays: dict[str, np.ndarray]) -> Model:
    """The template with the stored arrays in place of its own."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(eqx.filter(template, eqx.is_array))
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    wrong = set(names) ^ set(arrays)
    wrong |= {n for n, (_, x) in zip(names, leaves, strict=True) if n in arrays and arrays[n].shape != x.shape}
    if wrong:
        raise UserError(f"the checkpoint does not fit the run's config; it differs at {sorted(wrong)[0]}")
    restored = jax.tree_util.tree_unflatten(structure, [jnp.array(arrays[name]) for name in names])
    return eqx.combine(restored, template)


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
