"""What stops a run: numbers that are not finite, and a disk that takes no more."""

import errno
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.types import Metrics

__all__ = ["about_disk", "check_agent", "check_metrics"]

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT}


def check_metrics(metrics: Iterable[Metrics], where: str) -> None:
    """Raise UserError that names the first metric that is not finite."""
    for row in metrics:
        for name, value in row.items():
            if not np.isfinite(value):
                raise UserError(f"{name} is {float(value)} at {where}: stopped; the last checkpoint is from before")


def check_agent(agent: Any, where: str) -> None:
    """Raise UserError that names the first array of the agent that is not finite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(agent, eqx.is_inexact_array)):
        if not np.isfinite(np.asarray(leaf)).all():
            name = jax.tree_util.keystr(path)
            raise UserError(f"the agent's {name} is not finite at {where}: stopped; the last checkpoint is from before")


def about_disk(folder: RunFolder, error: OSError) -> Exception:
    """What to say of an error while writing: a full disk, a folder that became read-only or went away."""
    if error.errno not in DISK:
        return error
    kept = checkpoint.list_checkpoints(folder.path)
    last = f"the last good checkpoint, {kept[-1].name}, is kept" if kept else "there is no checkpoint yet"
    return UserError(
        f"cannot write {folder.path}: {error.strerror}; {last}; when that is mended, train into it again to continue"
    )
