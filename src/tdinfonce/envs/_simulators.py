"""Import the simulators, which may be missing, broken, or too new, and say in one line what to do."""

import contextlib
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from tdinfonce.errors import UserError

__all__ = ["LIBRARIES", "load", "problems", "quiet_imports", "reason"]

LIBRARIES = {"egl": "libegl1 libgl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""The Debian packages of the graphics libraries that MuJoCo can be told to use."""
WORKING = "mujoco>=3.1,<3.12", "gymnasium-robotics==1.4.2"
"""The versions that the environments were tried with; newer MuJoCos break every Fetch environment."""
MEND = f"pip install {' '.join(repr(name) for name in WORKING)}"
MISSING = "pip install 'tdinfonce[robotics]'"


def load(name: str) -> Any:
    """Import a simulator quietly; raise UserError in one line if that fails, in whichever way it does."""
    try:
        with quiet_imports():
            return importlib.import_module(name)
    except UserError:
        raise
    except Exception as error:  # a broken package fails in its own way
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            raise UserError(f"the simulators are not installed ({error.name} is missing): {MISSING}") from error
        raise UserError(f"cannot import {name} ({reason(error)}): {MEND}") from error


def problems() -> list[str]:
    """What keeps the simulated robots and mazes from working, a line each; empty if all is well."""
    found = [text] if (text := mujoco_version()) else []
    for name in ("gymnasium", "mujoco", "gymnasium_robotics"):
        try:
            load(name)
        except UserError as error:
            found.append(str(error))
    return found


def mujoco_version() -> str:
    """What is wrong with the version of MuJoCo; empty if nothing, or if there is none."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        version = metadata.version("mujoco")
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if not (3, 1) <= numbers < (3, 12):
            return f"mujoco {version} does not work with Gymnasium's robots: {MEND}"
    return ""


def reason(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextlib.contextmanager
def quiet_imports() -> Iterator[None]:
    """Swallow the notice that gymnasium-robotics prints at import; show everything else it printed.

    While it is imported, MuJoCo loads the graphics library that ``MUJOCO_GL`` names, and fails in that library's way.
    """
    caught = io.StringIO()
    asked = os.environ.get("MUJOCO_GL")
    try:
        with contextlib.redirect_stderr(caught):
            yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        modules = {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)}
        if not asked or not any(name.endswith(".gl_context") for name in modules):
            raise  # it is not the graphics
        mend = f"install {LIBRARIES[asked.lower()]}, or unset it" if asked.lower() in LIBRARIES else "unset it"
        raise UserError(f"cannot load the simulator with MUJOCO_GL={asked} ({reason(error)}); {mend}") from error
    finally:
        kept = [line for line in caught.getvalue().splitlines() if "Adroit" not in line and line.strip()]
        if kept:
            print("\n".join(kept), file=sys.stderr)
