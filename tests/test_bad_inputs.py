"""Bad input: exit code 2, one line, no traceback, nothing left behind, and quickly."""

import time
from pathlib import Path

import pytest

from bad_inputs import bad_calls
from tdinfonce.cli import main


def check_calls(root: Path, count: int, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    wrong, slowest = [], 0.0
    calls = bad_calls(root, count)
    for call in calls:
        began = time.monotonic()
        code = main(call)
        slowest = max(slowest, time.monotonic() - began)
        error = capsys.readouterr().err
        if code != 2 or len(error.strip().splitlines()) != 1 or "Traceback" in error or list(root.iterdir()):
            wrong.append((call, code, error))
    return {"tried": len(calls), "slowest": slowest, "wrong": wrong}


def test_bad_calls_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    figures = check_calls(tmp_path / "here", 500, capsys)
    assert figures["tried"] == 500
    assert not figures["wrong"], figures["wrong"]
