"""Loggers that need packages of their own: `make test-slow` installs them."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import tdinfonce as td

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {"hidden": 16, "env_steps": 400, "warmup_steps": 100, "eval_every": 100, "eval_episodes": 2}
TINY |= {"final_episodes": 4, "batch_size": 32, "updates_per_call": 10, "env": "point", "agent": "gcbc"}


class Interrupt:
    """Ctrl-C at the second row of metrics."""

    rows = 0

    def on_log(self, row: dict[str, Any]) -> None:
        import signal

        self.rows += 1
        if self.rows == 2:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("default")  # those of the packages are not ours
def test_mlflow_has_every_row_in_one_run_also_of_a_run_that_was_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow: Any = importlib.import_module("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions want to be asked
    store = (tmp_path / "mlruns").as_uri()
    with pytest.raises(td.Stopped):
        td.train(loggers=[td.mlflow_logger("reach", uri=store)], out=tmp_path / "a", callbacks=[Interrupt()], **TINY)
    run = td.train(loggers=[td.mlflow_logger("reach", uri=store)], out=tmp_path / "a", **TINY)
    client = mlflow.MlflowClient(tracking_uri=store)
    found = client.search_runs([client.get_experiment_by_name("reach").experiment_id])
    assert len(found) == 1
    assert found[0].data.params["agent_config.hidden"] == "[16]"
    rows = [row for row in run.metrics() if "eval/success_any" in row]
    history = client.get_metric_history(found[0].info.run_id, "eval/success_any")
    assert [(point.step, point.value) for point in history] == [
        (row["env_steps"], row["eval/success_any"]) for row in rows
    ]
    assert found[0].info.status == "FINISHED"


@pytest.mark.filterwarnings("default")
def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(td.Stopped):
        td.train(loggers=[td.wandb_logger("reach", mode="offline")], out="runs/a", callbacks=[Interrupt()], **TINY)
    run = td.train(loggers=[td.wandb_logger("reach", mode="offline")], out="runs/a", **TINY)
    written = sorted(Path("wandb").glob("offline-run-*/run-*.wandb"))
    assert len(written) == 2, "one part before the stop and one behind it"
    assert len({path.name for path in written}) == 1, "both of one run, which is put together when it is sent"
    logged = [row for path in written for row in history(path)]
    assert [row["_step"] for row in logged if "eval/success_any" in row] == [100, 200, 300, 400]
    assert logged[-1]["final/success_any"] == run.summary["success_any"]


BLOCK, HEADER, MARK = 32_768, 7, 7
"""Its files are LevelDB's logs: a mark, then blocks of pieces, each with checksum, length and kind."""


def history(path: Path) -> list[dict[str, Any]]:
    """The rows in a file of Weights & Biases."""
    record: Any = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    data, place, whole, rows = path.read_bytes(), MARK, b"", []
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        piece = data[place + HEADER : place + HEADER + length]
        whole = piece if kind in (1, 2) else whole + piece  # whole, first; middle, last
        place += HEADER + length
        found = record.FromString(whole) if kind in (1, 4) else None
        if found is not None and found.WhichOneof("record_type") == "history":
            rows.append({item.key or item.nested_key[0]: json.loads(item.value_json) for item in found.history.item})
    return rows


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(td.UserError, match=r"pip install 'tdinfonce\[wandb\]'"):
        td.train(loggers=["wandb"], out="runs/nothing", **TINY)
    assert not Path("runs/nothing").exists()
