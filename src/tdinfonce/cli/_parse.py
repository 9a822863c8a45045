"""From words to a command: its module, its help, and one line about words that cannot be meant."""

import contextlib
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tdinfonce.errors import UserError

__all__ = ["given", "load_command", "one_line", "parse", "usage"]

USAGE = """usage: tdinfonce COMMAND [options]

Temporal-difference InfoNCE: learn where an agent will go, and how to make it get there, from transitions alone.

commands:
{commands}

options:
  --help, -h     this text; `tdinfonce COMMAND --help` explains a command
  --version      the version of this package
"""


def usage(commands: Mapping[str, str]) -> str:
    """The help of the whole: the first line of each command's own, by name and module."""
    firsts = {name: (load_command(module).__doc__ or "").strip().splitlines()[0] for name, module in commands.items()}
    return USAGE.format(commands="\n".join(f"  {name:<14} {line}" for name, line in firsts.items()))


def given(command: Any, *names: str) -> dict[str, Any]:
    """The options of these names that somebody gave."""
    return {name: value for name in names if (value := getattr(command, name)) is not None}


def load_command(module: str) -> Any:
    """The dataclass that is the command of a module of this folder."""
    return importlib.import_module(f"{__package__}.{module}").Command


def parse(name: str, command: Any, words: Sequence[str]) -> Any:
    """Let tyro parse, and turn its boxed message about bad options into one line."""
    import tyro

    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)  # nobody writes None: leaving an option out says it
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(command, prog=f"tdinfonce {name}", args=words, config=config)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(one_line(complaint.getvalue(), name)) from None


def one_line(box: str, name: str) -> str:
    """Flatten a boxed, wrapped message: no frame, no title, no colour, no repeated help."""
    box = re.sub(r"\x1b\[[0-9;]*m", "", box)
    rows = [line.strip("│╭╮╰╯─ ") for line in box.splitlines() if not line.startswith("╭")]
    text = " ".join(row for row in rows if row).partition("For full helptext")[0].partition("Argument helptext")[0]
    # tyro lists every type that an optional value could have had; the reader wants the one that was meant.
    meant = r"no type matching \{?(.+?)\}? could be instantiated from \[(.*?)\]\..*"
    text = re.sub(meant, lambda found: f"expected {found[1]}, got {found[2].replace(',', '')}", text)
    return f"{text.strip()} (see: tdinfonce {name} --help)"
