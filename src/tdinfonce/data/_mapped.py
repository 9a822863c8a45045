"""A numpy array that lives in a file."""

import mmap
import os
from pathlib import Path

import numpy as np

__all__ = ["mapped"]


def mapped(path: Path, shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Map a raw file, made of zeros if it is missing; what is written to the array is in the file.

    The room is taken at once, because a disk that fills up later would kill the process without a message.
    """
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    with open(path, "a+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        pages = mmap.mmap(file.fileno(), size)
    # Rows are read in random order: fetching the neighbours of each would read ten times too much.
    pages.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(pages, kind).reshape(shape)
