"""From run folders to tables, statistics and figures. Reads files; needs no JAX."""

from pathlib import Path

from tdinfonce.errors import UserError
from tdinfonce.system.files import read_json

__all__ = ["experiment_of", "report"]


def report(folder: Path) -> None:
    """Write ``figure.png``, ``figure.svg`` and ``table.md`` of a training run, or of all that a folder holds."""
    from tdinfonce.analysis import compare, groups, training

    if not (folder / "config.json").exists() and any(groups.find_runs(folder)):
        compare.report(folder)
        return
    if _config(folder).get("kind") not in training.UNITS:
        raise UserError(f"{folder} is not the run of an experiment, nor of training; its config.json says neither")
    training.report(folder)


def experiment_of(folder: Path) -> str | None:
    """The name of the experiment whose folder this is; None if it is none."""
    name = _config(folder).get("experiment") if (folder / "config.json").exists() else None
    return None if name is None else str(name)


def _config(folder: Path) -> dict[str, object]:
    try:
        config = read_json(folder / "config.json")
    except OSError as error:
        raise UserError(f"{folder} holds no run: config.json: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{folder / 'config.json'} is not JSON: {error}") from error
    return config if isinstance(config, dict) else {}
