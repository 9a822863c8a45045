"""Put one fault at a time into a copy of the sources and see whether the tests notice.

    python tools/mutants.py [--only NAME] [--jobs 2]

Each fault of ``mutants.txt`` is a piece of source text and what it becomes. Texts are compared token by token, so that
spaces, line breaks and trailing commas do not matter. The exit code is 1 if a fault survives, or if its text is no
longer found exactly once: then the list must follow the sources.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("mutants.txt")
LIMIT = 900
"""Seconds for the tests of one fault."""
CACHED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""The environment of the tests: every compiled program is kept, however small."""


class Mutant(NamedTuple):
    """A fault and the tests that should see it."""

    name: str
    file: str
    """Below ``src/tdinfonce``."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest."""

    def applied(self, source: str) -> str | None:
        """The source with the fault, or None if there is not exactly one place for it."""
        found = list(pattern(self.old).finditer(source))
        if len(found) != 1:
            return None
        return source[: found[0].start()] + self.new + source[found[0].end() :]


def pattern(text: str) -> re.Pattern[str]:
    """A pattern of the tokens of a text, whatever lies between them; a comma may precede a closing bracket."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    parts = [(r",?\s*" if token in ")]}" else "") + re.escape(token) for token in tokens]
    edges = (r"\b" if re.match(r"\w", tokens[0]) else ""), (r"\b" if re.match(r"\w", tokens[-1]) else "")
    return re.compile(edges[0] + r"\s*".join(parts) + edges[1])


def mutants() -> list[Mutant]:
    """The faults of ``mutants.txt``."""
    found: list[Mutant] = []
    file, tests, name, old = "", (), "", ""
    for line in LIST.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "@":
            file, _, arguments = rest.partition(": ")
            tests = tuple(shlex.split(arguments))
        elif kind == "-":
            old = rest
        elif kind == "+":
            found.append(Mutant(name, file, old, rest, tests))
        elif kind not in ("", "#"):
            name = line
    names = [mutant.name for mutant in found]
    assert len(names) == len({*names}), "each name once"
    return found


def run(mutant: Mutant | None, tests: tuple[str, ...], cache: str) -> tuple[str, str]:
    """Killed, survived or broken, and by what; without a mutant, the sources as they are.

    ``cache`` is a folder for compiled programs, most of which are the same for every fault. Each thread has its own
    part of it: JAX warns of an entry that another process is still writing, and a warning is an error in the tests.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            file = source / "tdinfonce" / mutant.file
            text = mutant.applied(file.read_text()) if file.exists() else None
            if text is None:
                return "stale", "its text is not there exactly once"
            file.write_text(text)
        own = {"JAX_COMPILATION_CACHE_DIR": f"{cache}/{threading.get_ident()}", "PYTHONPATH": str(source)}
        environment = os.environ | CACHED | own
        options = "-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-m", "not slow"
        command = [sys.executable, "-m", "pytest", *options, *tests]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return "broken", f"no end after {LIMIT} s"
    failed = re.search(r"^FAILED \S*?(\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return "survived", ""
    if done.returncode == 1 and failed:
        return "killed", failed[1].removeprefix("tests/")
    return "broken", (done.stdout + done.stderr).strip().splitlines()[-1]


def main() -> int:
    """Try every fault; 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="those whose names or files contain this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    options = parser.parse_args()
    chosen = [m for m in mutants() if options.only in m.name or options.only in m.file]
    if not chosen:
        parser.error(f"no fault is called {options.only}")
    names = [m.name for m in chosen]
    found: dict[str, tuple[str, str]] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as cache, ThreadPoolExecutor(options.jobs) as pool:
        print("the tests without any fault", flush=True)
        for result, said in pool.map(lambda tests: run(None, tests, cache), {m.tests for m in chosen}):
            if result != "survived":
                print(f"the tests fail without any fault: {said}")
                return 1
        jobs = {pool.submit(run, m, m.tests, cache): m for m in chosen}
        for number, job in enumerate(as_completed(jobs), 1):
            name = jobs[job].name
            found[name] = job.result()
            seconds = time.monotonic() - began
            print(f"{number:4d}/{len(chosen)}  {seconds:5.0f} s  {found[name][0]:9s} {name}", flush=True)
    width = max(map(len, names))
    print(f"\n{'fault':{width}s}  {'result':9s} by")
    for m in chosen:
        print(f"{m.name:{width}s}  {found[m.name][0]:9s} {found[m.name][1]}")
    left = [name for name in names if found[name][0] != "killed"]
    print(f"\n{len(names) - len(left)} of {len(names)} faults are seen" + (f"; not: {', '.join(left)}" if left else ""))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
