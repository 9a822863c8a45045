"""The command line. Each module of this folder is one command: a dataclass ``Command`` with a ``run`` method.

Command modules must import quickly: JAX, simulators and matplotlib are imported inside ``run``.
"""

import gc
import os
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import tdinfonce
from tdinfonce.cli._parse import load_command, parse, usage
from tdinfonce.errors import Stopped, UserError, nearest
from tdinfonce.system.signals import own_process

__all__ = ["command_names", "main"]

CONTINUE = 75
"""Exit code: try again, as sysexits.h has it."""


def command_names() -> dict[str, str]:
    """Map each command's name to its module."""
    modules = (m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name.replace("_", "-"): name for name in sorted(modules)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 after one line about bad input or a fault, 75 if a signal stopped a run that can be
    continued, or 130 after Ctrl-C elsewhere.
    """
    words = [*(sys.argv[1:] if argv is None else argv)]  # the command `list` hides the built-in name here
    if argv is None:
        own_process()
        warnings.showwarning = _one_line_warning  # type: ignore[assignment]
        # JAX's, when a program such as ffmpeg is started: what is forked is replaced at once.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
    try:
        return _run(words)
    except UserError as error:
        print(f"tdinfonce: {_flat(error)}", file=sys.stderr)
        return 2
    except Stopped as stop:
        print(f"tdinfonce: {_flat(stop)}", file=sys.stderr, flush=True)
        code = CONTINUE
    except KeyboardInterrupt:
        print("tdinfonce: stopped", file=sys.stderr, flush=True)
        code = 130
    except BrokenPipeError:
        # The reader (head, less) went away: not our error, and Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        print(f"tdinfonce: {_flat(error)}", file=sys.stderr)
        return 2
    except MemoryError as error:
        said = f": {_flat(error)}" if str(error) else ""
        print(f"tdinfonce: out of memory{said}; smaller batches or networks need less", file=sys.stderr)
        return 2
    # Stopped. Free what the frames of the interrupted work held, then leave at once: what had to be saved is saved, and
    # taking JAX's threads down in order can crash.
    if argv is None:
        gc.collect()
        os._exit(code)
    return code


def _flat(error: object) -> str:
    """A message on one line, whatever names of files it holds."""
    return " ".join(str(error).split())


def _one_line_warning(message: Warning | str, *_: Any) -> None:
    print(f"tdinfonce: warning: {_flat(message)}", file=sys.stderr, flush=True)


def _run(words: list[str]) -> int:
    known = command_names()
    if any("\0" in word for word in words):
        raise UserError("no option can hold a NUL character")
    if not words or words[0] in ("--help", "-h", "help"):
        print(usage(known), end="")
        return 0
    if words[0] in ("--version", "-V"):
        print(f"tdinfonce {tdinfonce.__version__}")
        return 0
    if words[0] not in known:
        raise nearest("option" if words[0].startswith("-") else "command", words[0], known)
    command = parse(words[0], load_command(known[words[0]]), words[1:])
    return int(command.run() or 0)
