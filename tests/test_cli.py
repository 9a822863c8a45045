"""The command line as a user meets it: quick help, one line for a mistake, exit code 2."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tdinfonce
from tdinfonce.cli import command_names, main


def fails(capsys, *words) -> str:
    assert main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("tdinfonce: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in command_names():
        assert f"  {name} " in text


@pytest.mark.parametrize("command", command_names())
def test_every_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert f"tdinfonce {command}" in text
    assert "{None}" not in text


def test_values_that_may_be_left_out_have_plain_names(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "--env STR " in capsys.readouterr().out
    assert "Error parsing --updates: expected INT, got 'many'" in fails(capsys, "train", "--updates", "many")
    inspect = ["data", "inspect", "x", "--action-bounds", "0"]
    assert "Error parsing --action-bounds: expected FLOAT FLOAT, got '0' 'a'" in fails(capsys, *inspect, "a")
    assert "Error parsing --action-bounds: expected FLOAT FLOAT, got '0' (see" in fails(capsys, *inspect)


def test_a_mistake_on_a_terminal_is_one_line_without_colours():
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "tdinfonce", "doctor", "--foldr", "x"]
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    assert subprocess.run(words, stdin=slave, stdout=slave, stderr=slave, env=env, check=False).returncode == 2
    said = os.read(master, 100_000).decode()
    os.close(slave)
    os.close(master)
    assert said.startswith("tdinfonce: Unrecognized options: --foldr, x Perhaps you meant: --folder PATH")
    assert "\x1b" not in said
    assert said.count("\n") == 1


def test_nothing_is_said_of_processes_that_are_started():
    code = (
        "import os, sys, jax; jax.devices(); from tdinfonce.cli import main; main()\n"
        "os.waitpid(os.fork() or os._exit(0), 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def seconds(*words: str) -> float:
    """The best of five processes."""

    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        return time.perf_counter() - start

    return min(once() for _ in range(5))


def test_it_starts_quickly():
    nothing = seconds("-c", "pass")
    assert seconds("-c", "import tdinfonce") - nothing <= 0.1
    assert seconds("-m", "tdinfonce", "--help") <= 0.3


@pytest.mark.parametrize("words", [["--help"], ["reproduce", "--help"], ["--version"]])
def test_help_needs_no_jax(words):
    code = (
        "import sys; from tdinfonce.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'matplotlib', 'optax', 'gymnasium', 'mujoco'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tdinfonce {tdinfonce.__version__}\n"


def test_unknown_names_get_the_nearest_match_and_the_list(capsys):
    text = fails(capsys, "reprodcue")
    assert "Did you mean 'reproduce'?" in text
    text = fails(capsys, "reproduce", "tabular-ocupancy")
    assert "Did you mean 'tabular-occupancy'?" in text
    assert "tabular-shortcuts" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reproduce"], "name an experiment"),
        (["reproduce", "tabular-occupancy", "--seeds", "0"], "seeds must be at least 1"),
        (["reproduce", "tabular-occupancy", "--seeds", "many"], "seeds are a number of them, or a list such as 3,7"),
        (["reproduce", "tabular-occupancy", "--budget", "huge"], "'smoke', 'default', 'paper'"),
        (["reproduce", "tabular-occupancy", "--sedes", "3"], "--seeds"),
        (["reproduce", "tabular-occupancy", "extra"], "extra"),
        (["report"], "RUN"),
        (["report", "no/such/folder"], "holds no run"),
        (["--verbose"], "unknown option"),
    ],
)
def test_mistakes_get_one_line(capsys, words, said):
    assert said in fails(capsys, *words)


def test_a_broken_run_folder_is_named(capsys, tmp_path):
    (tmp_path / "config.json").write_text("{")
    assert "is not JSON" in fails(capsys, "report", str(tmp_path))
    (tmp_path / "config.json").write_text('{"agent": "x"}')
    assert "not the run of an experiment" in fails(capsys, "report", str(tmp_path))
    (tmp_path / "config.json").write_text('{"experiment": "tabular-occupancy"}')
    assert "is not finished" in fails(capsys, "report", str(tmp_path))
    (tmp_path / "COMPLETE").write_text("")
    assert "No such file" in fails(capsys, "report", str(tmp_path))
    for damaged in ("", "not json\n", '{"phase": "evaluate"}\n'):
        (tmp_path / "metrics.jsonl").write_text(damaged)
        assert "is damaged" in fails(capsys, "report", str(tmp_path))


def test_list_says_what_where_and_how_long(capsys):
    assert main(["reproduce", "--list"]) == 0
    text = capsys.readouterr().out
    for name in (
        "tabular-occupancy",
        "tabular-efficiency",
        "tabular-known-model",
        "tabular-c-learning-ablation",
        "tabular-stitching",
        "tabular-shortcuts",
        "tabular-n-step",
        "tabular-candidates",
    ):
        assert name in text
    assert text.count("paper: ") == text.count("takes about: ") >= 6


def test_ctrl_c_ends_at_once_with_one_line_and_no_orphans(tmp_path):
    # A job in the background of a shell starts with Ctrl-C ignored, and so would this test's child.
    heed = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from tdinfonce.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "reproduce", "tabular-occupancy", "--out", str(tmp_path / "run")]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, start_new_session=True) as run:
        deadline = time.monotonic() + 60
        while _workers(run.pid) < 2 and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        os.killpg(run.pid, signal.SIGINT)
        _, error = run.communicate(timeout=30)
    assert run.returncode == 130
    assert error.splitlines()[-1] == "tdinfonce: stopped"
    assert "Traceback" not in error
    assert (tmp_path / "run" / "config.json").is_file()
    assert not (tmp_path / "run" / "COMPLETE").exists()
    deadline = time.monotonic() + 30
    while _alive(run.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _alive(run.pid)


def _workers(parent: int) -> int:
    """How many children a process has."""
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    return len(listed.read_text().split()) if listed.exists() else 0


def _alive(group: int) -> bool:
    """Whether a process of the group is still there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_bench_prints_figures(capsys):
    assert main(["bench", "--seconds", "0.05", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert len(figures) >= 7
    assert any(figure["unit"] == "batches/s" for figure in figures)
    assert all(figure["value"] > 0 for figure in figures)


def test_bench_needs_time(capsys):
    assert "seconds must be positive" in fails(capsys, "bench", "--seconds", "0")
