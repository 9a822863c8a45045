"""Run folders: they explain themselves, and never eat what is not theirs."""

import json

import pytest

from tdinfonce.errors import UserError
from tdinfonce.runs.folder import RunFolder
from tdinfonce.system.files import read_metrics


def test_a_run_says_what_ran(tmp_path):
    run = RunFolder.create(tmp_path / "a" / "run", {"steps": 3})
    assert json.loads((run.path / "config.json").read_text()) == {"steps": 3}
    versions = json.loads((run.path / "versions.json").read_text())
    assert versions["jax"]
    assert versions["python"].startswith("3.")
    assert not run.complete
    run.finish()
    assert run.complete


def test_metrics_survive_a_torn_last_line(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.log({"step": 1})
    run.log({"step": 2})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "err')
    assert list(read_metrics(run.path)) == [{"step": 1}, {"step": 2}]


def test_an_earlier_run_is_kept_unless_told(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"old": True})
    with pytest.raises(UserError, match=r"holds an earlier run.*overwrite it"):
        RunFolder.create(run.path, {})
    assert json.loads((run.path / "config.json").read_text()) == {"old": True}
    RunFolder.create(run.path, {"old": False}, overwrite=True)
    assert json.loads((run.path / "config.json").read_text()) == {"old": False}


def test_a_folder_that_holds_no_run_is_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="holds no run"):
            RunFolder.create(tmp_path, {}, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_config_alone_does_not_make_a_run(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "versions.json").write_text('{"node": "20"}')
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="holds no run"):
        RunFolder.create(tmp_path, {}, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    RunFolder.create(tmp_path / "link", {})
    RunFolder.create(tmp_path / "link", {"again": True}, overwrite=True)
    assert json.loads((tmp_path / "real" / "config.json").read_text()) == {"again": True}


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        RunFolder.create(tmp_path / "file", {})
    with pytest.raises(UserError, match="cannot make the folder"):
        RunFolder.create(tmp_path / "file" / "below", {})
