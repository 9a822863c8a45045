"""Bad input: exit code 2, one line, no traceback, nothing left behind, and quickly."""

from pathlib import Path

import pytest

import safety


def test_bad_calls_get_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    figures = safety.bad_input(tmp_path / "here", 500)
    assert figures["tried"] == 500
    assert not figures["wrong"], figures["wrong"]
