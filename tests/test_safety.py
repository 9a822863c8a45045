"""Nothing lost, nobody let in: a few of each check of safety.py, and what needs no counting."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as tensor_bytes

import safety
import tdinfonce
from run_state import state_of
from tdinfonce import agents, experiments
from tdinfonce.cli import main
from tdinfonce.data.replay import Replay
from tdinfonce.errors import UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.system.files import read_bytes, read_json, sha256, write_atomic
from tdinfonce.training import online
from tdinfonce.types import Episode

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("safety") / "run"
    safety.go(*safety.start(out))
    return out


def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    figures = safety.kills(tmp_path, 1, 1, ("point",))
    assert safety.KEPT["kills"](figures), figures


def test_damage_is_named_and_never_loaded(tmp_path: Path) -> None:
    figures = safety.damage(tmp_path, 30, 10, 10)
    assert safety.KEPT["damage"](figures), figures


def test_every_byte_of_a_manifest_counts(finished: Path, tmp_path: Path) -> None:
    newest = shutil.copytree(checkpoint.list_checkpoints(finished)[-1], tmp_path / "000000000400")
    manifest = newest / checkpoint.MANIFEST
    whole = manifest.read_bytes()
    assert checkpoint.read_manifest(newest)["counters"]["env_steps"] == 400
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << place % 8
        manifest.write_bytes(spoiled)
        with pytest.raises(checkpoint.Damaged):
            checkpoint.read_manifest(newest)


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl.partial", "checkpoints/replay", "tensorboard/more"])
def test_nothing_is_written_through_a_link_in_a_run(
    name: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = run / name
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.symlink_to(victim)
    (run / "COMPLETE").unlink()
    assert main(["train", "--resume", str(run)]) == 2
    assert f"{link} is a link" in capsys.readouterr().err
    assert victim.read_text() == "mine"


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "new.partial").symlink_to(victim)
    write_atomic(tmp_path / "new", b"data")
    assert (victim.read_text(), (tmp_path / "new").read_text()) == ("mine", "data")


def test_a_run_that_is_killed_in_its_warm_up_starts_again(tmp_path: Path) -> None:
    settings = [*safety.TINY, "replay_on_disk=true"]
    safety.go(*safety.start(tmp_path / "straight", settings))
    plan, env, folder = safety.start(tmp_path / "killed", settings)

    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(env.spec, seed, scale)

    run = online.OnlineSession(folder, env, create, plan.agent_config.sampling, plan.training, plan.seed)
    run.iterate()
    run.iterate()
    run.close()
    assert run.replay.added == 2
    del run
    safety.go(plan, env, folder, resume=True)
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "straight")


def test_lost_rows_of_the_log_are_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.log({"updates": 1})
    with pytest.warns(RuntimeWarning, match="1 of the 3"):
        folder.rewind(3)


def test_episodes_whose_file_has_vanished_are_saved_again(tmp_path: Path) -> None:
    _, env, folder = safety.start(tmp_path / "run")
    replay = Replay(env.spec, 100)
    state = np.zeros((env.spec.episode_length + 1, 2), np.float32)
    episode = Episode(state, state, np.zeros((env.spec.episode_length, 2), np.float32), state[0])
    for step in (1, 2, 3):
        replay.append(episode)
        checkpoint.save(folder.path, step, {}, {"env_steps": step}, replay)
        if step == 2:
            for path in (folder.path / "checkpoints").glob("replay*/000000000000-*"):
                path.unlink()
    again = Replay(env.spec, 100)
    assert checkpoint.load(folder.path, replay=again).path.name == "000000000003"
    assert again.added == 3


def test_numbers_that_are_not_finite_stop_a_run(tmp_path: Path) -> None:
    figures = safety.nan(tmp_path, 4)
    assert safety.KEPT["nan"](figures), figures


def test_a_full_or_read_only_disk_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    figures = safety.full_disk(tmp_path, 2, real=False)  # who may not mount a disk pretends
    assert safety.KEPT["disk"](figures), figures


def test_a_dead_environment_is_replaced(tmp_path: Path) -> None:
    figures = safety.worker(tmp_path, 400, 150)
    assert safety.KEPT["worker"](figures), figures


def test_a_hanging_environment_is_replaced(tmp_path: Path) -> None:
    assert safety.KEPT["hang"](safety.hang(tmp_path))


def test_the_replay_is_written_once(finished: Path) -> None:
    """Each segment belongs to one save; what has left the ring is removed."""
    names = sorted(path.name for path in (finished / "checkpoints" / "replay").iterdir())
    assert all(one.split("-")[1].startswith(two.split("-")[0]) for one, two in itertools.pairwise(names))
    needed = {s.name for path in checkpoint.list_checkpoints(finished) for s in checkpoint._needed(path)}
    assert set(names) == needed == {path.name for path in (finished / "checkpoints" / "replay-copy").iterdir()}
    assert len(checkpoint.list_checkpoints(finished)) == 3
    assert len(checkpoint.list_checkpoints(finished, best=True)) == 1


def killed_and_straight(root: Path, settings: list[str], agent: str = "gcbc") -> bool:
    """Break a run off between two checkpoints, continue it, and compare it with one that was not."""
    left, original = 19, safety.online.OnlineSession.iterate

    def iterate(self: Any) -> int:
        nonlocal left
        left -= 1
        if not left:
            raise RuntimeError("killed")
        return original(self)

    safety.go(*safety.start(root / "straight", settings, agent))
    parts = safety.start(root / "killed", settings, agent)
    with safety.replaced(safety.online.OnlineSession, "iterate", iterate), pytest.raises(RuntimeError):
        safety.go(*parts)
    safety.go(*parts, resume=True)
    return state_of(root / "straight") == state_of(root / "killed")


def test_a_ring_on_disk_continues_exactly(tmp_path: Path) -> None:
    """Also after it has overwritten episodes that the last checkpoint counts on."""
    assert killed_and_straight(tmp_path, [*safety.TINY, "replay_on_disk=true", "replay_capacity=100"])


@pytest.mark.slow
@pytest.mark.parametrize("agent", [name for name in agents.names() if hasattr(agents.load(name), "PRESETS")])
def test_every_agent_continues_exactly(agent: str, tmp_path: Path) -> None:
    assert killed_and_straight(tmp_path, safety.TINY, agent)


def test_a_segment_is_mended_from_the_ring_on_disk(tmp_path: Path) -> None:
    plan, env, folder = safety.start(tmp_path / "run", [*safety.TINY, "replay_on_disk=true"])
    safety.go(plan, env, folder)
    last = max((folder.path / "checkpoints" / "replay").iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    replay = Replay(env.spec, plan.training.replay_capacity, folder.path / "replay")
    with pytest.warns(RuntimeWarning, match="mended"):
        assert checkpoint.load(folder.path, "agent", replay=replay).counters["env_steps"] == 400


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {})
    code = "import sys\nfrom tdinfonce.runs.folder import RunFolder\nfrom pathlib import Path\n"
    code += "with RunFolder(Path(sys.argv[1])).locked(): print('mine', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", code, str(run.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(UserError, match=f"is being written by process {other.pid}"), run.locked():
            pass
        with pytest.raises(UserError, match="is being written"):
            RunFolder.create(run.path, {}, overwrite=True)
        other.send_signal(signal.SIGKILL)
    with run.locked():  # the lock of a dead process is no lock
        pass


def test_a_run_never_trains_under_the_config_of_another(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path / "run", {"learner": "first"})
    second = RunFolder.create(tmp_path / "run", {"learner": "second"}, overwrite=True)
    with pytest.raises(UserError, match=r"another process has begun a run in .*/run meanwhile"), first.locked():
        pass
    with second.locked():
        pass
    continued = RunFolder(tmp_path / "run")  # as a continued run does, before it reads the config
    with continued.locked():
        pass
    RunFolder.create(tmp_path / "run", {"learner": "third"}, overwrite=True)
    for earlier in (second, continued):
        with pytest.raises(UserError, match="meanwhile"), earlier.locked():
            pass


def test_one_grid_is_run_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def busy(folder: Path, runs: Any, advance: Any) -> None:
        with pytest.raises(UserError, match="is being written by process"):
            experiments.reproduce("fetch-noisy", "smoke", 1, tmp_path / "grid")
        seen.append(len(runs))

    monkeypatch.setattr(experiments, "run_grid", busy)
    with contextlib.suppress(UserError, FileNotFoundError):  # there is nothing to draw
        experiments.reproduce("fetch-noisy", "smoke", 1, tmp_path / "grid")
    assert seen == [4]


def test_a_run_folder_is_private(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", {})
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


def test_a_signal_saves_at_the_next_safe_point(tmp_path: Path) -> None:
    """The evaluations, and with them the saves of its own accord, are hours apart."""
    words = [sys.executable, "-m", "tdinfonce", "train", *safety.tasks(tmp_path)["point"]]
    words += ["env_steps=100000000", "eval_every=50000000", "--out", str(tmp_path / "run")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        assert run.stderr is not None
        limit = threading.Timer(300, run.kill)
        limit.start()
        error = ""
        for line in run.stderr:
            error += line
            if "steps/s" in line:  # its progress: it is under way
                break
        run.send_signal(signal.SIGTERM)
        error += run.communicate(timeout=120)[1]
        limit.cancel()
    assert run.returncode == 75, error
    assert f"stopped by SIGTERM; continue with: tdinfonce train --resume {tmp_path / 'run'}" in error
    assert "Traceback" not in error
    steps = checkpoint.load(tmp_path / "run").counters["env_steps"]
    assert 0 < steps < 50_000_000, "it saved at the next safe point, not at the next evaluation"


def test_a_second_signal_ends_at_once() -> None:
    """In a process of its own; two signals may arrive as one, so the second waits for the first."""
    program = """
import os, signal
from tdinfonce.system.signals import Stop, own_process
own_process()
signal.signal(signal.SIGINT, signal.default_int_handler)
with Stop() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    while stop.asked is None:
        pass
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        pass
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 128 + signal.SIGINT


def test_nothing_in_the_source_runs_stored_code() -> None:
    wrong = re.compile(r"\bpickle\b|allow_pickle|yaml\.load|\beval\(|\bexec\(|marshal|shelve|joblib|torch\.load")
    found = []
    for path in Path(tdinfonce.__file__).parent.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{path.name}: {line.strip()}" for line in lines if wrong.search(line)]
    assert not found


def spoil_manifest(run: Path, **changes: Any) -> None:
    """A manifest that is in order by its own SHA-256, but lies."""
    safety.reseal(checkpoint.list_checkpoints(run)[-1], **changes)


def put(run: Path, data: bytes) -> None:
    """An agent file of any content, with a manifest to match."""
    path = checkpoint.list_checkpoints(run)[-1]
    (path / "agent.safetensors").write_bytes(data)
    files = read_json(path / "manifest.json")["files"]
    spoil_manifest(run, files=files | {"agent.safetensors": [len(data), sha256(data)]})


def traverse(run: Path) -> None:
    files = read_json(checkpoint.list_checkpoints(run)[-1] / "manifest.json")["files"]
    spoil_manifest(run, files=files | {"../../../secret.safetensors": [3, "x"]})


def link(run: Path) -> None:
    path = checkpoint.list_checkpoints(run)[-1] / "agent.safetensors"
    secret = run.parent / "secret"
    shutil.move(path, secret)
    path.symlink_to(secret)


def inflate(path: Path, size: int = 1 << 42) -> None:
    """Give a file more bytes than the machine has, which take no room on the disk."""
    with open(path, "r+b") as file:
        file.truncate(size)


def inflate_agent(run: Path) -> None:
    """An agent file beyond all memory, with a manifest that says so."""
    path = checkpoint.list_checkpoints(run)[-1]
    inflate(path / "agent.safetensors")
    files = read_json(path / "manifest.json")["files"]
    spoil_manifest(run, files=files | {"agent.safetensors": [1 << 42, "x"]})


def inflate_replay(run: Path) -> None:
    """Episodes beyond all memory, in both copies, with a manifest that says so."""
    path = checkpoint.list_checkpoints(run)[-1]
    entry = read_json(path / "manifest.json")["replay"]
    first, last, *_ = entry["segments"][-1]
    for place in ("replay", "replay-copy"):
        inflate(path.parent / place / f"{first:012d}-{last:012d}.safetensors")
    spoil_manifest(run, replay=entry | {"segments": [*entry["segments"][:-1], [first, last, 1 << 42, "x"]]})


def leave_out_agent(run: Path) -> None:
    """An agent file of any size that the manifest does not name."""
    path = checkpoint.list_checkpoints(run)[-1]
    inflate(path / "agent.safetensors")
    files = read_json(path / "manifest.json")["files"]
    spoil_manifest(run, files={name: value for name, value in files.items() if name != "agent.safetensors"})


def header(text: str, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if size is None else size) + text.encode()


DEEP = "[" * 100_000
HOSTILE = {
    "traversal": traverse,
    "segment that is a path": lambda run: spoil_manifest(
        run, replay={"added": 1, "segments": [["../../x", 1, 1, "x"]]}
    ),
    "link": link,
    "huge header": lambda run: put(run, header("{}", 2**60)),
    "negative shape": lambda run: put(run, header('{"x":{"dtype":"F32","shape":[-1,4],"data_offsets":[0,0]}}')),
    "huge shape": lambda run: put(
        run, header('{"x":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4]}}')
    ),
    "deep header": lambda run: put(run, header(DEEP)),
    "deep manifest": lambda run: (checkpoint.list_checkpoints(run)[-1] / "manifest.json").write_text(DEEP),
    "a program": lambda run: put(run, b"cos\nsystem\n(S'touch owned'\ntR."),
    "agent beyond all memory": inflate_agent,
    "replay beyond all memory": inflate_replay,
    "agent that nothing names": leave_out_agent,
    "files without size": lambda run: spoil_manifest(run, files={"agent.safetensors": 5}),
    "files as a list": lambda run: spoil_manifest(run, files=["agent.safetensors"]),
    "a size that is a list": lambda run: spoil_manifest(run, files={"agent.safetensors": [[1], "x"]}),
    "a pipe": lambda run: (
        (checkpoint.list_checkpoints(run)[-1] / "agent.safetensors").unlink(),
        os.mkfifo(checkpoint.list_checkpoints(run)[-1] / "agent.safetensors"),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_checkpoints_are_skipped(kind: str, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    HOSTILE[kind](tmp_path / "run")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    replay = Replay(tdinfonce.load(str(finished)).spec, 300)
    with pytest.warns(RuntimeWarning, match="is used instead"):
        loaded = checkpoint.load(tmp_path / "run", "agent", "progress", replay=replay)
    assert loaded.counters["env_steps"] == 300
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_arrays_of_another_type_are_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    arrays = checkpoint.read(checkpoint.list_checkpoints(finished)[-1], "agent")[1]["agent"]
    put(tmp_path / "run", tensor_bytes({name: array.astype(np.float64) for name, array in arrays.items()}))
    with pytest.raises(UserError, match="does not fit the run's config"):
        tdinfonce.load(str(tmp_path / "run"))


def test_sizes_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    inflate(tmp_path / "large")
    with pytest.raises(ValueError, match="at most"):
        read_json(tmp_path / "large")
    with pytest.raises(ValueError, match="were written"):
        read_bytes(tmp_path / "large", 10)
    with pytest.raises(ValueError, match="at most"):
        read_bytes(tmp_path / "large")
    shutil.copytree(FIXTURES / "format-1", tmp_path / "old")
    for name in ("agent", "replay"):
        inflate(checkpoint.list_checkpoints(tmp_path / "old")[-1] / f"{name}.safetensors")
        with pytest.raises(UserError, match=rf"{name}.safetensors has .* bytes; at most"):
            checkpoint.load(tmp_path / "old", name)
    inflate(tmp_path / "old" / "metrics.jsonl")
    for use in (RunFolder(tmp_path / "old").rows, lambda: RunFolder(tmp_path / "old").rewind(1)):
        with pytest.raises(UserError, match=r"holds no metrics: .* at most"):
            use()


@pytest.mark.parametrize("file", ["metrics.jsonl", "summary.json"])
def test_report_names_a_damaged_run(
    file: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, tmp_path / "runs" / "run")
    (tmp_path / "runs" / "run" / file).write_text("{nonsense\n")
    for folder in (tmp_path / "runs" / "run", tmp_path / "runs"):
        assert main(["report", str(folder)]) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1
        assert f"{tmp_path / 'runs' / 'run' / file} is damaged" in said[0]


@pytest.mark.parametrize(
    ("file", "text"), [("config.json", "[]"), ("summary.json", "[]"), ("metrics.jsonl", '"words"\n')]
)
def test_report_wants_objects(
    file: str, text: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, tmp_path / "runs" / "run")
    (tmp_path / "runs" / "run" / file).write_text(text)
    assert main(["report", str(tmp_path / "runs")]) == 2
    assert f"{tmp_path / 'runs' / 'run' / file} is damaged: it is no JSON object" in capsys.readouterr().err


def test_a_changed_config_is_not_continued(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"seed": 3', '"seed": 4'))
    plan, env, _ = safety.start(tmp_path / "other")
    with pytest.raises(UserError, match=r"config.json has changed"):
        safety.go(plan, env, RunFolder(tmp_path / "run"), resume=True)


def test_the_replay_of_a_run_is_a_data_set(finished: Path, tmp_path: Path) -> None:
    from tdinfonce.data import open_dataset

    shutil.copytree(finished, tmp_path / "run")
    segment = min((tmp_path / "run" / "checkpoints" / "replay").iterdir())
    segment.write_bytes(b"damaged; the copy is read")
    replay = Replay(tdinfonce.load(str(finished)).spec, 300)
    checkpoint.load(finished, replay=replay)
    episodes = open_dataset(str(tmp_path / "run"))
    assert len(episodes) == len(replay) == 15
    oldest = replay.added % replay.slots  # the ring starts anywhere, the data set with the oldest
    stored = [episodes.episode(i).observation for i in range(15)]
    ring = [replay.view().episode((oldest + i) % 15).observation for i in range(15)]
    for one, two in zip(stored, ring, strict=True):
        np.testing.assert_array_equal(one, two)
