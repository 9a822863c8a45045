"""Programs of other environments: what they are asked, what they say, and that they never outlive us."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tdinfonce.errors import UserError
from tdinfonce.system import venv

PARENT = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tdinfonce.system import venv
venv.run("it", sys.executable, sys.argv[1], json.loads(sys.argv[2]))
"""
SLEEPER = """
import json, socket, sys, time
line = socket.create_connection(("127.0.0.1", json.loads(sys.argv[1])["port"]))
line.sendall(b"here")
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    """The program holds a line to us: we wait until it is there, end its parent, and wait until the line is cut."""
    program = tmp_path / "sleeper.py"
    program.write_text(SLEEPER)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        plan = json.dumps({"port": server.getsockname()[1]})
        words = [sys.executable, "-c", PARENT, str(program), plan]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as parent:
            try:
                line, _ = server.accept()
                with line:
                    line.settimeout(60)
                    assert line.recv(4) == b"here"
                    parent.send_signal(number)
                    assert line.recv(1) == b""  # or a timeout, if it lives on
            finally:
                parent.kill()


def test_a_program_reads_its_plan_and_writes_what_is_asked(tmp_path: Path) -> None:
    program, out = tmp_path / "json.py", tmp_path / "out"  # a name that it must not import in place of the library's
    program.write_text(
        "import json, os, sys\n"
        "plan = json.loads(sys.argv[1])\n"
        "open(plan['out'], 'w').write(plan['word'] + os.environ['OMP_NUM_THREADS'])\n"
    )
    venv.run("it", sys.executable, program, {"out": str(out), "word": "threads: "})
    assert out.read_text() == "threads: 1"


def test_a_program_that_fails_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text("import sys\nsys.stderr.write('.' * 200_000 + '\\n')\nraise ValueError('no rows')\n")
    with pytest.raises(UserError, match=r"^the peer failed with code 1: ValueError: no rows$"):
        venv.run("the peer", sys.executable, program, {})
