"""Virtual environments for software of others: it never mixes with ours."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tdinfonce.errors import UserError

__all__ = ["complaint", "install", "note", "run"]

LEASH = """
import os, runpy, sys, threading

def watch():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program that ends as soon as its standard input does. Only its parent holds the other end, and however the
parent dies, the system closes it."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def install(what: str, folder: Path, calls: Sequence[Sequence[str]]) -> Path:
    """Make ``folder/venv`` unless it is there; return its Python.

    Args:
        what: the words for it, such as "the peer 'sb3'".
        folder: where it lies; the same calls again do nothing.
        calls: for each call of ``pip install``, its arguments.
    """
    venv = folder.resolve() / "venv"
    python, mark = venv / ("Scripts" if os.name == "nt" else "bin") / "python", venv / "INSTALLED"
    wanted = json.dumps([list(call) for call in calls])
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return python
    note(f"installing {what} into {venv}, once; this takes a while")
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for words in ([sys.executable, "-m", "venv", str(venv)], *([*pip, *call] for call in calls)):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"cannot install {what}: {complaint(done.stderr or done.stdout)}")
    mark.write_text(wanted, encoding="utf-8")
    return python


def run(what: str, python: Path | str, program: Path | str, plan: Mapping[str, Any]) -> None:
    """Run a program to its end, on one thread. It never outlives this process, however this process ends.

    Args:
        what: the words for it, such as "CEBRA".
        python: of the environment that has what the program imports.
        program: a file; its one argument is the plan as JSON.
        plan: what is asked, with the files to read and to write.

    Raises:
        UserError: it failed; with the line of its complaint that says most.
    """
    words = [str(python), "-I", "-c", LEASH, str(program), json.dumps(plan)]
    # In a session of its own: Ctrl-C is for us to hear, and we end the program.
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
        start_new_session=True,
    ) as child:
        assert child.stderr is not None
        try:
            said = child.stderr.read()
            child.wait()
        finally:
            child.kill()
    if child.returncode:
        raise UserError(f"{what} failed with code {child.returncode}: {complaint(said)}")


def complaint(text: str) -> str:
    """The line of a program's complaint that says most: pip's last ERROR, or the last line at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it did not say why"])[-1]


def note(text: str) -> None:
    """Say how it goes, beside the report."""
    print(text, file=sys.stderr, flush=True)
