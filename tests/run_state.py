"""All that must be equal between a run that was stopped, however often, and one that never was."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.runs import checkpoint
from tdinfonce.runs import segments as _segments
from tdinfonce.system.files import read_metrics


def state_of(run: Path) -> dict[str, Any]:
    """Parameters and optimiser, replay, unlogged metrics and log of a run, without times."""
    path = checkpoint.list_checkpoints(run)[-1]
    counters, parts = checkpoint.read(path, "agent", "progress")
    parts["progress"].pop("seconds")
    marks = {f"{part} {name}": _mark(array) for part, arrays in parts.items() for name, array in arrays.items()}
    marks |= {f"replay {name}": mark for name, mark in replay_of(path).items()}
    marks |= {name: value for name, value in counters.items() if name != "milliseconds"}
    rows = [[(k, v) for k, v in row.items() if not k.startswith("time/")] for row in read_metrics(run)]  # in order
    return marks | {"log": rows}


def replay_of(path: Path) -> dict[str, str]:
    """The episodes that a checkpoint holds, whichever files they lie in."""
    entry = checkpoint.read_manifest(path)["replay"]
    if entry is None:
        return {}
    parts = [_segments.parse(_segments.read(path.parent, s)[0]) for s in _segments.needed(entry)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    share = entry["held"] / len(joined["length"])
    return {name: _mark(array[len(array) - round(share * len(array)) :]) for name, array in joined.items()}


def _mark(array: np.ndarray) -> str:
    return f"{array.dtype}{array.shape}{hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"
