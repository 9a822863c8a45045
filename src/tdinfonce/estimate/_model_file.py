"""A fitted `TDInfoNCE` as one file: safetensors, with its parameters as JSON in the header. Nothing in it can run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from tdinfonce.errors import UserError
from tdinfonce.estimate._model import Model
from tdinfonce.system.files import parse_json, read_bytes, write_atomic

__all__ = ["read_model", "write_model"]

FORMAT = 1
KEY = "tdinfonce.series"
WRONG = (SafetensorError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError)


def write_model(path: Path, estimator: Any) -> None:
    """Write it whole or not at all; raises UserError if that cannot be done."""
    parameters = estimator.get_params()
    state = parameters["random_state"]
    parameters["random_state"] = int(state) if isinstance(state, int | np.integer) else None
    about = {
        "format": FORMAT,
        "parameters": parameters,
        "fixed": estimator._fixed,
        "columns": [*map(str, getattr(estimator, "feature_names_in_", []))],
        "n_step": estimator.n_step_,
        "seen": estimator._seen,
    }
    arrays = {"candidates": estimator.candidates_, "loss": estimator.loss_} | estimator._model.arrays()
    arrays = {name: np.ascontiguousarray(array, np.float64) for name, array in arrays.items()}
    try:
        write_atomic(path, tensor_bytes(arrays, {KEY: json.dumps(about, default=_plain)}))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def read_model(path: Path, kind: Any) -> Any:
    """An estimator of this class; raises UserError unless the file is whole and ours."""
    try:
        data = read_bytes(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        return _understood(data, kind)
    except WRONG as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is no model that TDInfoNCE.save wrote, or damaged: {said}") from error


def _understood(data: bytes, kind: Any) -> Any:
    arrays = parse_tensors(data)
    header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
    about = parse_json(header["__metadata__"][KEY])
    if about["format"] != FORMAT:
        raise ValueError(f"format {about['format']} is not known here")
    features = arrays["centre"].size
    estimator = kind(**{name: _tuples(value) for name, value in about["parameters"].items()})
    estimator._config()
    estimator._fixed = {
        name: _tuples(about["fixed"][name]) for name in ("discount", "dim", "method", "n_step", "hidden")
    }
    estimator._model = Model.of_arrays({k: v for k, v in arrays.items() if k not in ("candidates", "loss")}, features)
    estimator.candidates_, estimator.loss_ = arrays["candidates"], arrays["loss"]
    if estimator.candidates_.ndim != 2 or estimator.candidates_.shape[1] != features or not len(estimator.candidates_):
        raise ValueError(f"candidates must have {features} columns")
    if not np.isfinite(estimator.candidates_).all() or not 0 <= estimator._fixed["discount"] < 1:
        raise ValueError("it holds numbers that cannot be")
    estimator.n_step_, estimator._seen = about["n_step"], int(about["seen"])
    estimator.n_features_in_ = features
    if about["columns"]:
        if len(about["columns"]) != features:
            raise ValueError(f"it names {len(about['columns'])} columns, and has {features}")
        estimator.feature_names_in_ = np.array(about["columns"], dtype=object)
    estimator._right = estimator._model.embed_place(estimator.candidates_)
    return estimator


def _plain(x: Any) -> Any:
    """NumPy's numbers as JSON has them."""
    if isinstance(x, np.generic | np.ndarray):
        return x.tolist()
    raise UserError(f"a parameter cannot be saved: {x!r}")


def _tuples(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x
