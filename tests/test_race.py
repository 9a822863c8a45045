"""The race against another library, without that library: parsing, the target, and plain words when it fails."""

import ast
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tdinfonce.bench import install as _install
from tdinfonce.bench import peers
from tdinfonce.bench import race as _race
from tdinfonce.bench.race import Race, Reading
from tdinfonce.cli import main
from tdinfonce.errors import UserError
from tdinfonce.system import venv

SPEAK = """
import json, sys, time
print(json.dumps({"settings": {"net": [4]}, "versions": {"peer": "1"}}), flush=True)
for steps, any_, final in json.loads(sys.argv[1]):
    row = {"env_steps": steps, "success_any": any_, "success_final": final}
    print(json.dumps(row | {"total_seconds": steps / 100, "evaluate_seconds": steps / 200}), flush=True)
"""


def race(folder: Path, **changes: Any) -> Race:
    return Race("sb3", folder, (0, 1), 5_000, 0.98, 0.95, 500)._replace(**changes)


def speaker(*rows: tuple[int, float, float], then: str = "") -> list[str]:
    return [sys.executable, "-c", SPEAK + then, json.dumps(rows)]


def watched(folder: Path, words: list[str]) -> Reading | None:
    rows = folder / "rows.jsonl"
    return _race.watch("it", words, race(folder), _race.of_peer, rows=rows, log=folder / "log", stdout=rows)


def test_the_target_needs_both_successes(tmp_path: Path) -> None:
    shares = [(0.5, 0.5), (1.0, 0.94), (0.97, 0.97), (0.98, 0.95), (1.0, 1.0)]
    readings = [Reading(500 * i, 1.0, *share, 0.0) for i, share in enumerate(shares)]
    met = _race.first(readings, race(tmp_path))
    assert met is not None
    assert met.env_steps == 1_500
    assert _race.first(readings[:3], race(tmp_path)) is None


def test_rows_of_both_sides_become_readings() -> None:
    ours = {"env_step": 2_000, "eval/success_any": 1.0, "eval/success_final": 0.9, "time/total": 9.0}
    assert _race.of_metrics(ours | {"time/evaluate": 4.0})[:5] == (2_000, 5.0, 1.0, 0.9, 4.0)  # type: ignore[index]
    assert _race.of_metrics({"env_step": 3_000, "final/success_any": 1.0}) is None
    theirs = {"env_steps": 2_000, "success_any": 1.0, "success_final": 0.9, "total_seconds": 9.0}
    assert _race.of_peer(theirs | {"evaluate_seconds": 4.0})[:5] == (2_000, 5.0, 1.0, 0.9, 4.0)  # type: ignore[index]
    assert _race.of_peer({"settings": {}, "versions": {}}) is None


def test_a_program_is_stopped_at_the_target(tmp_path: Path) -> None:
    words = speaker((500, 0.2, 0.1), (1_000, 1.0, 1.0), then="time.sleep(1000)")
    met = watched(tmp_path, words)
    assert met is not None
    assert (met.env_steps, met.seconds) == (1_000, 5.0)
    assert math.isfinite(met.whole)


def test_a_program_that_ends_without_the_target_or_fails(tmp_path: Path) -> None:
    assert watched(tmp_path, speaker((500, 0.2, 0.1))) is None
    with pytest.raises(UserError, match="it failed with code 1: RuntimeError: no memory"):
        watched(tmp_path, speaker((500, 0.2, 0.1), then="raise RuntimeError('no memory')"))


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert _race._read(path) == []
    path.write_text('{"env_steps": 1}\n{"env_st')
    assert _race._read(path) == [{"env_steps": 1}]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both sides replaced by programs that only speak; the peer does not get there with seed 1."""
    ours = {0: Reading(2_000, 10.0, 1.0, 1.0, 3.0, 12.0), 1: Reading(3_000, 20.0, 1.0, 1.0, 3.0, 22.0)}
    script = tmp_path / "peer.py"
    script.write_text(
        SPEAK.replace("json.loads(sys.argv[1])", "[(4000, 1.0, 1.0)] if not json.loads(sys.argv[1])['seed'] else []")
    )
    monkeypatch.setattr(_race, "install", lambda peer, folder: Path(sys.executable))
    monkeypatch.setattr(_race, "run_ours", lambda race, seed: ours[seed])
    monkeypatch.setattr(peers.load("sb3"), "__file__", str(script))
    return tmp_path


def test_a_race_is_reported(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "--peer", "sb3", "--peer-seeds", "0", "1", "--peer-folder", str(stand_in)]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((stand_in / "report.json").read_text())
    first, second = report["seeds"]
    assert (first["steps_ratio"], first["seconds_ratio"]) == (2.0, 2.0)
    assert (second["peer"], second["steps_ratio"]) == (None, None)
    assert report["median"]["ours"]["env_steps"] == 2_500
    assert report["median"]["peer"] is None
    assert report["peer_settings"] == {"net": [4]}
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "never" in shown
    assert "How sb3 was set: net [4]" in shown


def test_a_peer_that_cannot_be_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "ERROR: Could not find a version\nERROR: No matching distribution found for torch==2.13.0\n\n[notice] bye\n"
    answer = SimpleNamespace(returncode=1, stderr=said, stdout="")
    monkeypatch.setattr(venv.subprocess, "run", lambda *words, **options: answer)
    assert main(["bench", "--peer", "sb3", "--peer-folder", str(tmp_path)]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("tdinfonce: cannot install the peer 'sb3': ERROR: No matching distribution")
    assert len(error) == 2  # the other one says that it is installing
    assert not (tmp_path / "venv" / "INSTALLED").exists()


def test_a_peer_is_installed_once_with_the_simulator_we_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    calls: list[list[str]] = []

    def run(words: list[str], **options: Any) -> SimpleNamespace:
        calls.append(words)
        (tmp_path / "venv").mkdir(exist_ok=True)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(venv.subprocess, "run", run)
    python = _install.install("sb3", tmp_path)
    assert [words[-1].partition("==")[0] for words in calls[1:]] == ["torch", "mujoco"]
    assert any(word.startswith("gymnasium-robotics==") for word in calls[-1])
    assert _install.install("sb3", tmp_path) == python
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--peer", "sb4"], "Did you mean 'sb3'?"),
        (["--peer", "sb3", "--reproduce"], "one at a time"),
        (["--peer", "sb3", "--peer-seeds", "1", "1"], "different seeds"),
        (["--peer", "sb3", "--peer-steps", "100"], "at least 1500"),
        (["--peer", "sb3", "--peer-success", "98", "95"], "at most 1"),
        (["--peer", "sb3", "--peer-every", "0"], "at least 1"),
        (["--peer", "sb3", "--peer-set", "tau"], "name=value"),
        (["--peer", "sb3", "--peer-set", "tua=0.1"], "Did you mean 'tau'?"),
        (["--peer", "sb3", "--peer-set", "tau=small"], "must be like 0.05"),
        (["--peer", "sb3", "--peer-set", "net_arch=big"], "must be like [256, 256]"),
    ],
)
def test_mistakes_get_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_settings_of_a_peer_can_be_changed() -> None:
    before = dict(peers.load("sb3").SETTINGS)
    changed = _install.peer_settings("sb3", ("tau=0.01", "net_arch=[64,64]", "normalise_observations=false"))
    assert changed == before | {"tau": 0.01, "net_arch": [64, 64], "normalise_observations": False}
    assert before == peers.load("sb3").SETTINGS


@pytest.mark.parametrize("name", peers.names())
def test_a_peer_imports_nothing_of_ours_and_says_how_it_is_set(name: str) -> None:
    module = peers.load(name)
    assert module.REQUIREMENTS
    assert module.SETTINGS
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        found = [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        found += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(word.startswith(("tdinfonce", ".")) for word in found)
