"""Folders and files that we did not write, or that something has spoiled since: one line, nothing lost, no waiting."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import safety
from offline_data import random_walks, write
from tdinfonce.bench.doctor import check_simulator, examine
from tdinfonce.cli import main
from tdinfonce.data import open_dataset
from tdinfonce.envs.worker import WorkerEnv
from tdinfonce.errors import UserError
from tdinfonce.recording.generate import make_data
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("strangers") / "run"
    safety.go(*safety.start(out))
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main([*words]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1, said
    return said


@pytest.mark.parametrize("name", ["table.md", "figure.png", "figure.svg", "table.md.partial", "figure.png.partial"])
def test_a_report_is_never_written_through_a_link(run: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    assert main(["report", str(run)]) == 0
    assert victim.read_text() == "mine"
    assert not (run / "table.md").is_symlink()


def test_ctrl_c_in_a_terminal_lets_every_run_of_a_grid_save(tmp_path: Path) -> None:
    """A terminal tells the whole group: a run that heard it twice would end without saving."""
    script = """
import sys
from pathlib import Path
from tdinfonce.experiments._grid import GridRun
from tdinfonce.scale.grid import run_grid
settings = tuple(sys.argv[2:])
plan = GridRun("cell", "point", "gcbc", 0, settings=settings).plan()
run_grid(Path(sys.argv[1]), {"cell": plan}, advance=lambda _: None)
"""
    words = [sys.executable, "-c", script, str(tmp_path), *safety.TINY, "env_steps=100000000"]
    grid = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
    while not checkpoint.list_checkpoints(tmp_path / "cell"):
        assert grid.poll() is None
        time.sleep(0.1)
    os.killpg(grid.pid, signal.SIGINT)
    grid.wait(timeout=60)
    assert "continue with: tdinfonce train --resume" in (tmp_path / "cell.log").read_text()


def test_a_second_signal_ends_a_process_that_is_in_a_compiled_call() -> None:
    script = """
import hashlib
from tdinfonce.system.signals import Stop, own_process
own_process()
with Stop():
    print("in", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 500_000_000)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 143


def test_a_spoiled_row_of_the_log_does_not_keep_a_run_from_being_continued(run: Path) -> None:
    (run / "COMPLETE").unlink()
    log = run / "metrics.jsonl"
    rows = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([b"\xff" + rows[0][1:], *rows[1:]]))
    with pytest.warns(RuntimeWarning, match="has lost rows"):
        assert main(["train", "--resume", str(run)]) == 0
    assert len(log.read_bytes().splitlines()) == len(rows) - 1
    assert (run / "COMPLETE").is_file()


def held_by(run: Path, at: int) -> int:
    return int(checkpoint.read_manifest(checkpoint.list_checkpoints(run)[at])["replay"]["held"])


@pytest.mark.parametrize("held", [0, -1, 10**6, 1.5, float("inf"), None])
def test_a_replay_that_counts_wrong_gives_way_to_the_one_before(run: Path, held: Any) -> None:
    newest, before = checkpoint.list_checkpoints(run)[-1], held_by(run, -2)
    entry = checkpoint.read_manifest(newest)["replay"]
    safety.reseal(newest, replay=entry | {"held": held})
    with pytest.warns(
        RuntimeWarning, match=rf"{newest.name}.*{checkpoint.list_checkpoints(run)[-2].name} is used instead"
    ):
        assert len(open_dataset(str(run)).start) == before


def test_a_changed_manifest_is_noticed_where_a_run_serves_as_data(run: Path) -> None:
    path = checkpoint.list_checkpoints(run)[-1] / checkpoint.MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"held": ', b'"held": 1'))
    with pytest.warns(RuntimeWarning, match="is used instead"):
        open_dataset(str(run))


def test_pipes_in_place_of_the_replay_are_not_waited_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("replay", "replay-copy"):
        for file in (run / "checkpoints" / place).iterdir():
            file.unlink()
            os.mkfifo(file)
    assert "missing or damaged" in refused(capsys, "data", "inspect", str(run))


@pytest.mark.parametrize(
    "changes", [{"counters": {}}, {"counters": {"updates": 1}}, {"replay": {"added": float("inf"), "segments": []}}]
)
def test_a_sealed_manifest_without_what_we_write_is_one_line(
    run: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in checkpoint.list_checkpoints(run):
        safety.reseal(path, **changes)
    (run / "COMPLETE").unlink()
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert str(run) in refused(capsys, "train", "--resume", str(run))
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before
    if not changes.get("counters", True):
        assert str(run) in refused(capsys, "eval", str(run))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("agent_config", "hidden", "abc"),
        ("agent_config", "hidden", [10**6]),
        ("agent_config", "actor_rate", None),
        ("training", "batch_size", -1),
        ("training", "batch_size", "many"),
        ("spec", "observation_size", "2"),
        ("spec", "observation_size", 10**9),
        ("spec", "action_size", 0),
        ("spec", "command", [1.5]),
        (None, "env", 5),
        (None, "seed", "one"),
        (None, "data", [1]),
    ],
)
def test_a_config_with_other_types_is_one_line(
    run: Path, part: str | None, name: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((run / "config.json").read_text())
    (config if part is None else config[part])[name] = value
    (run / "config.json").write_text(json.dumps(config))
    assert "config.json" in refused(capsys, "eval", str(run))


def npz(path: Path, header: bytes, *, kind: int = zipfile.ZIP_STORED) -> Path:
    """A file whose first array has this text as its header."""
    text = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    walks = write(path.with_name("walks.npz"), random_walks())
    with zipfile.ZipFile(walks) as source, zipfile.ZipFile(path, "w", kind) as target:
        for name in source.namelist():
            target.writestr(name, text if name == "observations.npy" else source.read(name))
    return path


@pytest.mark.parametrize(
    "header", [b"{'descr': (((", b"1" + b"+1" * 9_000, b"-" * 60_000 + b"1", b"{'shape': (", b"\xff\xfe"]
)
def test_headers_that_python_cannot_parse_are_one_line(
    tmp_path: Path, header: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = npz(tmp_path / "a.npz", header)
    assert "observations" in refused(capsys, "data", "inspect", str(file), "--goal", "0:2")


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_single_bits_of_an_archive(tmp_path: Path, kind: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is flipped: it opens, or there is one line."""
    whole = npz(tmp_path / "whole.npz", b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}\n", kind=kind)
    data, file = whole.read_bytes(), tmp_path / "a.npz"
    directory = data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x05\x06"))
    for place in [*range(60), *range(directory, min(directory + 60, len(data)))]:
        spoiled = bytearray(data)
        spoiled[place] ^= 1 << (place % 8)
        file.write_bytes(spoiled)
        capsys.readouterr()
        code = main(["data", "inspect", str(file), "--goal", "0:2"])
        said = capsys.readouterr().err.strip()
        assert code in (0, 2)
        assert len(said.splitlines()) == (code == 2), said


def test_batches_that_no_memory_holds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "--env", "point", "--set", "batch_size=1000000", "updates_per_call=100000")
    assert "at most 10,000,000 rows" in refused(capsys, *words)


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: Any) -> int:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("tdinfonce.cli.list.Command.run", run)
    assert "out of memory: Unable to allocate 9 TiB" in refused(capsys, "list")


def test_a_broken_installation_is_what_doctor_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> str:
        raise AssertionError("no\ndevice")

    for name in ("check_training", "check_graphics"):
        monkeypatch.setattr(f"tdinfonce.bench.doctor.{name}", lambda: "not asked")
    monkeypatch.setattr("tdinfonce.bench.doctor.check_devices", broken)
    monkeypatch.setattr("tdinfonce.bench.doctor.SIMULATE", "raise AttributeError('no mj_step')")
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "devices    WRONG: AssertionError: no device" in lines
    assert any(line.startswith("simulator  note: mujoco ") for line in lines), "only the robots need it"
    assert {finding.name for finding in examine() if not finding.ok} == {"devices"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise AttributeError('no mj_step')",
            r"\(AttributeError: no mj_step\); install .*: pip install",
        ),
        ("import os; os.abort()", r"\(making fetch-reach crashed: SIGABRT\); install versions"),
        ("import sys; sys.exit(3)", r"\(making fetch-reach failed with exit code 3\); install versions"),
    ],
)
def test_doctor_says_what_is_wrong_with_a_simulator(code: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tdinfonce.bench.doctor.SIMULATE", code)
    with pytest.raises(UserError, match=rf"^mujoco [\d.]+ and gymnasium-robotics [\d.]+ cannot simulate .*{said}"):
        check_simulator()


def test_doctor_passes_on_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tdinfonce.errors import UserError; raise UserError('mujoco 9 is too new: pip install mujoco==3.3')"
    monkeypatch.setattr("tdinfonce.bench.doctor.SIMULATE", code)
    with pytest.raises(UserError, match=r"^mujoco 9 is too new: pip install mujoco==3\.3$"):
        check_simulator()


def test_a_broken_simulator_is_seen_by_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mujoco.py").write_text("raise ImportError('libmujoco.so.9: wrong ELF class')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(UserError, match=r"wrong ELF class.*pip install") as caught:
        check_simulator()
    assert "Traceback" not in str(caught.value)


def test_a_lost_environment_takes_its_helpers_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    env = WorkerEnv({"env": "point"})
    env.close()
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    env._process = subprocess.Popen(["sh", "-c", "sleep 60 & exec sleep 60"], **pipes)
    began = time.monotonic()
    env.close()
    assert time.monotonic() - began < 5
    assert env.process_id is None
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserError, match="point cannot be made: its process died"):
        WorkerEnv({"env": "point"})


def test_data_in_the_folder_that_would_be_replaced(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay = sorted((run / "checkpoints" / "replay").iterdir())
    words = ["train", "--dataset", str(run), "--agent", "gcbc", "--updates", "10", "--out", str(run), "--overwrite"]
    assert "the data lie in" in refused(capsys, *words)
    write(run / "walks.npz", random_walks())
    words[2] = str(run / "walks.npz")
    assert "the data lie in" in refused(capsys, *words, "--goal", "0:2")
    assert sorted((run / "checkpoints" / "replay").iterdir()) == replay


def test_one_data_set_is_made_by_one_process(tmp_path: Path) -> None:
    partial = tmp_path / ".walks.partial"
    partial.mkdir()
    with RunFolder(partial).locked(), pytest.raises(UserError, match="is being written by process"):
        make_data("pointmaze-umaze", tmp_path / "walks", transitions=100)
    made = make_data("pointmaze-umaze", tmp_path / "walks", transitions=100)
    assert made.episodes >= 1, "a lock that is left over is in nobody's way"
    assert not partial.exists()
