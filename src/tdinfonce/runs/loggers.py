"""Loggers beside the JSON lines: TensorBoard, Weights & Biases, MLflow. Any object with these three methods is one."""

import contextlib
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from tdinfonce.errors import UserError, nearest

__all__ = ["Logger", "as_loggers", "mlflow_logger", "tensorboard_logger", "wandb_logger"]


class Logger(Protocol):
    """Where rows of metrics go beside the run folder."""

    def open(self, folder: Path, config: dict[str, Any], step: int) -> None:
        """A run begins, or continues at ``step``; ``config`` is what its config.json holds."""

    def write(self, step: int, row: dict[str, Any]) -> None:
        """One row: plain numbers by name."""

    def close(self) -> None:
        """The run has ended or was stopped."""


class tensorboard_logger:
    """Events for TensorBoard in the run's folder ``tensorboard``.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", env_steps=600, loggers=[td.tensorboard_logger()], out="runs/board")
    >>> (run.folder / "tensorboard").is_dir()
    True
    """

    def open(self, folder: Path, config: dict[str, Any], step: int) -> None:
        """Begin a file of events."""
        from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]

        place = folder / "tensorboard"
        place.mkdir(exist_ok=True)
        # Its own front end writes from a thread, where a full disk could not be told of.
        self._events = EventsWriter(str(place / "events"))

    def write(self, step: int, row: dict[str, Any]) -> None:
        """One event for each number."""
        from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]
        from tensorboardX.summary import scalar  # type: ignore[import-untyped]

        for name, value in row.items():
            self._events.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self._events.flush()

    def close(self) -> None:
        """What cannot be written any more is not missed."""
        with contextlib.suppress(OSError):
            self._events.close()


class wandb_logger:
    """A run of Weights & Biases; a continued run of ours continues there. Needs ``pip install 'tdinfonce[wandb]'``.

    >>> import tdinfonce as td
    >>> logger = td.wandb_logger("reaching", mode="offline")
    """

    def __init__(self, project: str = "tdinfonce", *, mode: str | None = None, **options: Any) -> None:
        """``mode`` is "online", "offline" or "disabled"; ``options`` go to ``wandb.init``."""
        self._options = {"project": project, "mode": mode} | options

    def open(self, folder: Path, config: dict[str, Any], step: int) -> None:
        """Begin or continue a run named after its folder."""
        wandb = _import("wandb")
        name = {"id": _identity(folder), "name": folder.name, "resume": "allow"}
        self._run = wandb.init(**name | self._options, config=config)

    def write(self, step: int, row: dict[str, Any]) -> None:
        """One step of the run."""
        self._run.log(row, step=step)

    def close(self) -> None:
        """Finish; what was not sent stays in its folder, ./wandb."""
        self._run.finish()


class mlflow_logger:
    """A run of MLflow; a continued run of ours continues there. Needs ``pip install 'tdinfonce[mlflow]'``.

    >>> import tdinfonce as td
    >>> logger = td.mlflow_logger("reaching", uri="runs/mlruns")
    """

    def __init__(self, experiment: str = "tdinfonce", *, uri: str | None = None) -> None:
        """``uri`` is the tracking server, file or database; None: what MLflow's own environment says."""
        self._experiment, self._uri = experiment, uri

    def open(self, folder: Path, config: dict[str, Any], step: int) -> None:
        """Begin a run named after its folder, or continue the one that this folder began."""
        mlflow = _import("mlflow")
        self._client = mlflow.MlflowClient(tracking_uri=self._uri)
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        tag = _identity(folder)
        before = self._client.search_runs([experiment], filter_string=f"tags.tdinfonce = '{tag}'")
        if before and step:
            self._id = before[0].info.run_id
            return
        run = self._client.create_run(experiment, run_name=folder.name, tags={"tdinfonce": tag})
        self._id = run.info.run_id
        for name, value in _flat(config):
            self._client.log_param(self._id, name, str(value)[:500])

    def write(self, step: int, row: dict[str, Any]) -> None:
        """One value of each metric."""
        from mlflow.entities import Metric  # type: ignore[import-not-found]

        now = int(1000 * time.time())
        self._client.log_batch(self._id, [Metric(name, float(value), now, step) for name, value in row.items()])

    def close(self) -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._id)


MAKERS = {"tensorboard": tensorboard_logger, "wandb": wandb_logger, "mlflow": mlflow_logger}


def as_loggers(loggers: Iterable[Any]) -> list[Logger]:
    """Loggers from names and objects; what a name needs must be installed, before anything is trained."""
    found: list[Logger] = []
    for logger in loggers:
        if isinstance(logger, str):
            if logger not in MAKERS:
                raise nearest("logger", logger, MAKERS)
            logger = MAKERS[logger]()
        if not all(callable(getattr(logger, name, None)) for name in ("open", "write", "close")):
            raise UserError(f"a logger is one of {', '.join(MAKERS)}, or has open, write and close; got {logger!r}")
        if isinstance(logger, wandb_logger | mlflow_logger):
            _import(type(logger).__name__.removesuffix("_logger"))
        found.append(logger)
    return found


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"this logger needs {name}: pip install 'tdinfonce[{name}]'") from error


def _identity(folder: Path) -> str:
    """The same for one folder as long as it lies where it is, so that a continued run is recognised."""
    return f"tdinfonce-{zlib.crc32(str(folder.resolve()).encode()):08x}-{folder.name}"[:64]


def _flat(config: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
