"""What `TDInfoNCE` is given, as one matrix and the lengths of its sessions. Bad input gets one line, a ValueError."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tdinfonce.errors import UserError

__all__ = ["InvalidInput", "Sessions", "blocks", "read_rows", "read_sessions"]


class InvalidInput(UserError, ValueError):
    """Bad input, as scikit-learn wants it: a ValueError."""


class Sessions:
    """Rows of several sessions, one session behind the other."""

    def __init__(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        """Keep ``rows`` ``[sum of lengths, features]``."""
        self.rows, self.lengths = rows, lengths
        ends = np.cumsum(lengths)
        self.left = np.repeat(ends, lengths) - np.arange(len(rows)) - 1
        """``[rows]``, how many later rows the session of each has."""
        self.moments = np.flatnonzero(self.left)
        """The rows that have a next one."""

    @property
    def next_rows(self) -> np.ndarray:
        """Every row that is the next one of another: all but the first of each session."""
        return self.rows[self.moments + 1]


def read_sessions(estimator: Any, X: Any, groups: Any, *, reset: bool) -> Sessions:
    """Check ``X`` and ``groups`` against each other and, unless ``reset``, against what ``estimator`` was fitted on."""
    if is_list_of_sessions(X):
        if groups is not None:
            raise InvalidInput("a list of sessions says already which rows belong together; leave groups out")
        parts = [_read(estimator, part, f"session {i}", reset and i == 0) for i, part in enumerate(X)]
        lengths, names = np.array([len(part) for part in parts]), [f"session {i}" for i in range(len(parts))]
        rows = np.concatenate(parts)
    else:
        rows = _read(estimator, X, "X", reset)
        rows, lengths, names = _grouped(rows, groups)
    if (lengths < 2).any() and len(lengths) > 1:
        name = names[int(np.argmax(lengths < 2))]
        raise InvalidInput(f"{name} has 1 row: a session needs 2 or more, for there is no next row to learn from")
    if len(rows) < 3:
        raise InvalidInput(f"X has {len(rows)} rows (n_samples={len(rows)}); at least 3 are needed")
    return Sessions(rows, lengths)


def read_rows(estimator: Any, X: Any, name: str = "X") -> np.ndarray:
    """States to answer for; of a list of sessions, one behind the other."""
    parts = X if is_list_of_sessions(X) else [X]
    with warnings.catch_warnings():
        # Who fitted a table may ask about a state or a place that is just numbers.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return np.concatenate([_read(estimator, part, name, False) for part in parts])


def is_list_of_sessions(X: Any) -> bool:
    """Whether it is a list or tuple of tables, not of rows."""
    return isinstance(X, list | tuple) and len(X) > 0 and _dimensions(X[0]) == 2


def _dimensions(x: Any) -> int:
    if hasattr(x, "ndim"):
        return int(x.ndim)
    return 1 + _dimensions(x[0]) if isinstance(x, list | tuple) and x else int(isinstance(x, list | tuple))


def _read(estimator: Any, X: Any, name: str, reset: bool) -> np.ndarray:
    try:
        rows = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
    except ValueError as error:
        said = " ".join(str(error).split())
        raise InvalidInput(said if name == "X" else f"{name}: {said}") from error
    if not np.isfinite(rows).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        what = "NaN" if np.isnan(rows[row, column]) else "inf"
        place = f"row {row}, column {getattr(X, 'columns', range(rows.shape[1]))[column]!r}"
        raise InvalidInput(f"{name} holds {what} in {place}; fill such gaps, or cut the series there")
    return rows


def _grouped(rows: np.ndarray, groups: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows of one group behind one another in their order, wherever they stood; their numbers; their names."""
    if groups is None:
        return rows, np.array([len(rows)]), ["X"]
    labels = np.asarray(groups)
    if labels.shape != (len(rows),):
        raise InvalidInput(
            f"groups must be one label for each of the {len(rows)} rows of X; got shape {list(labels.shape)}"
        )
    if labels.dtype.kind == "O" and any(label is None or label != label for label in labels):
        raise InvalidInput("groups must have a label for each row; one is missing")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInput(f"groups must have a label for each row; row {int(np.argmin(np.isfinite(labels)))} has none")
    try:
        names, which, lengths = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise InvalidInput("groups must be labels of one kind: numbers, or words") from error
    return rows[np.argsort(which, kind="stable")], lengths, [f"group {name!s}" for name in names]


def blocks(rows: int, columns: int, entries: int = 4_000_000) -> Iterator[slice]:
    """Cut ``rows`` so that a matrix of each part has about so many entries at most."""
    size = max(1, entries // max(columns, 1))
    return (slice(first, first + size) for first in range(0, rows, size))
