"""Plain time series from files: columns of numbers, a row for each moment. No actions, no goals.

Read without trust: no pickles, no links in HDF5, and what is missing or irregular is refused with its row.
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.data.check import refuse
from tdinfonce.data.formats import hdf5, npz
from tdinfonce.errors import UserError, nearest
from tdinfonce.system.files import open_plain, read_bytes

__all__ = ["Series", "read_series"]

Columns = dict[str, np.ndarray]
JITTER = 0.05
"""Time stamps may be off by this share of a step: clocks are rounded."""
MISSING = ("", "na", "nan", "null", "none", "n/a", "-", "?")


class Series(NamedTuple):
    """What a file holds."""

    rows: np.ndarray
    """``[rows, columns]``, float64."""
    columns: tuple[str, ...]
    """Their names."""
    groups: np.ndarray | None
    """``[rows]``, the session of each; None: there is one."""


def read_series(
    path: str | Path, columns: Sequence[str] | None = None, *, group: str | None = None, time: str | None = None
) -> Series:
    """Read and check a series.

    Args:
        path: a ``.csv`` file whose first line names the columns, ``.parquet``, ``.npy`` (an array ``[rows, n]``, whose
            columns are 0 to n - 1), ``.npz`` or HDF5 (arrays of equally many rows; those of more than one dimension
            have columns name_0, name_1, …, and their name stands for all of them).
        columns: which; default: all but ``group`` and ``time``.
        group: a column whose value the rows of one session share.
        time: a column of time stamps, numbers or dates, which must be equally spaced within each session.

    Raises:
        UserError: one line with column and row.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in READERS:
        raise UserError(f"{path}: a series is a file that ends in {', '.join(READERS)}")
    if not path.is_file():
        raise refuse(str(path), "", "there is no such file")
    found = READERS[path.suffix.lower()](path)
    chosen = _chosen(path, found, columns, [name for name in (group, time) if name is not None])
    lengths = {name: len(found[name]) for name in [*chosen, *(n for n in (group, time) if n is not None)]}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise refuse(str(path), short, f"has {lengths[short]:,} rows, but {long} has {lengths[long]:,}")
    if not min(lengths.values()):
        raise refuse(str(path), "", "holds no rows")
    lines = path.suffix.lower() == ".csv"
    rows = np.stack([_numbers(path, name, found[name], lines) for name in chosen], axis=1)
    groups = None if group is None else _labels(path, group, found[group], lines)
    if time is not None:
        _check_time(path, time, found[time], groups, lines)
    return Series(rows, tuple(chosen), groups)


def _chosen(path: Path, found: Columns, columns: Sequence[str] | None, others: list[str]) -> list[str]:
    """The columns to read, all of them there, each once."""
    chosen: list[str] = []
    for name in [*map(str, columns or ()), *others]:
        parts = [name] if name in found else [part for part in found if re.fullmatch(rf"{re.escape(name)}_\d+", part)]
        if not parts or (name in others and name not in found):
            raise UserError(f"{path}: {nearest('column', name, found)}")
        chosen += parts
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        raise refuse(str(path), twice, "is named twice: it can be a column, the group or the time")
    chosen = [name for name in (found if columns is None else chosen) if name not in others]
    if not chosen:
        raise refuse(str(path), "", "has no column to learn from")
    return chosen


def _where(row: int, lines: bool) -> str:
    return f"row {row} (line {row + 2})" if lines else f"row {row}"


def _numbers(path: Path, name: str, values: np.ndarray, lines: bool) -> np.ndarray:
    """A column as float64; the first value that is none is refused."""
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "U":
        numbers = _parsed(values)
    else:
        raise refuse(str(path), name, f"must hold numbers; its type is {values.dtype}")
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        text = str(values[row]).strip()
        missing = text.lower() in MISSING
        problem = "is missing; fill it, or cut the series there" if missing else f"is no finite number: '{text[:40]}'"
        raise refuse(str(path), name, problem, _where(row, lines))
    return numbers


def _parsed(values: np.ndarray) -> np.ndarray:
    """Texts as numbers; NaN where one is none."""
    try:
        return values.astype(np.float64)
    except ValueError:
        return np.array([_number(value) for value in values])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _labels(path: Path, name: str, values: np.ndarray, lines: bool) -> np.ndarray:
    """A column of labels without gaps."""
    missing = np.char.strip(values) == "" if values.dtype.kind == "U" else values != values
    if np.any(missing):
        raise refuse(str(path), name, "is missing; every row needs its group", _where(int(np.argmax(missing)), lines))
    return values


def _check_time(path: Path, name: str, values: np.ndarray, groups: np.ndarray | None, lines: bool) -> None:
    """Refuse time stamps that are not equally spaced within each session."""
    stamps = _stamps(path, name, values, lines)
    label = np.zeros(len(stamps)) if groups is None else groups
    order = np.argsort(label, kind="stable")
    inside = label[order][1:] == label[order][:-1]
    steps, at = np.diff(stamps[order])[inside], order[1:][inside]
    if not len(steps):
        return
    step = float(np.median(steps))
    wrong = ~(steps > 0) if not step > 0 else np.abs(steps - step) > JITTER * step
    if wrong.any():
        first = int(np.argmax(wrong))
        found = f"{steps[first]:g} after the one before; elsewhere it is {step:g}"
        problem = (
            "does not rise" if not steps[first] > 0 else f"is irregular: {found}; resample, or cut the series there"
        )
        raise refuse(str(path), name, problem, _where(int(at[first]), lines))


def _stamps(path: Path, name: str, values: np.ndarray, lines: bool) -> np.ndarray:
    """Time stamps as numbers; dates in seconds."""
    if values.dtype.kind == "U" and np.isnan(_number(values[0])) and values[0].strip().lower() not in MISSING:
        dates = np.array([_date(value) for value in values])
    elif values.dtype.kind == "M":
        dates = values
    else:
        return _numbers(path, name, values, lines)
    if np.isnat(dates).any():
        row = int(np.argmax(np.isnat(dates)))
        text = str(values[row]).strip()[:40]
        problem = f"is neither a number nor a date such as 2024-05-01T12:00:00: '{text}'"
        raise refuse(str(path), name, problem, _where(row, lines))
    return (dates - dates[0]) / np.timedelta64(1, "s")


def _date(text: str) -> np.datetime64:
    try:
        return np.datetime64(text.strip().removesuffix("Z"), "us")
    except ValueError:
        return np.datetime64("NaT", "us")


def _read_csv(path: Path) -> Columns:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        table = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except (ValueError, csv.Error) as error:
        raise refuse(str(path), "", f"is no CSV file ({error})") from error
    if len(table) < 2:
        raise refuse(str(path), "", "needs a line of column names and rows of numbers below it")
    names = [name.strip() for name in table[0]]
    if not all(names) or len(set(names)) < len(names) or not any(np.isnan(_number(name)) for name in names):
        raise refuse(
            str(path), "", f"must begin with a line of column names, each once; it is '{','.join(names)[:60]}'"
        )
    uneven = next((row for row, cells in enumerate(table[1:]) if len(cells) != len(names)), None)
    if uneven is not None:
        cells = len(table[uneven + 1])
        raise refuse(str(path), "", f"has {cells} cells, but {len(names)} columns have names", _where(uneven, True))
    return {name: np.array(cells) for name, cells in zip(names, zip(*table[1:], strict=True), strict=True)}


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise UserError("this needs pyarrow: pip install 'tdinfonce[series]'") from error
    try:
        with open_plain(path) as file:
            table = parquet.read_table(file)
            return {name: _arrow(table.column(name)) for name in table.column_names}
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise refuse(str(path), "", f"is no parquet file, or damaged ({error})") from error


def _arrow(column: Any) -> np.ndarray:
    """A column as an array: numbers (gaps as NaN), dates, or texts (gaps as nothing)."""
    values = column.to_numpy()
    if values.dtype.kind != "O":
        return values
    return np.array(["" if value is None else str(value) for value in values])


def _read_npy(path: Path) -> Columns:
    try:
        with open_plain(path) as file:
            array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise refuse(str(path), "", f"is no array of plain numbers, or cut short ({error})") from error
    if not isinstance(array, np.ndarray) or array.ndim not in (1, 2):
        raise refuse(str(path), "", f"must be an array [rows, columns]; its shape is {list(np.shape(array))}")
    return {str(i): column for i, column in enumerate(array.reshape(len(array), -1).T)}


def _read_npz(path: Path) -> Columns:
    return _joined(path, npz.read_arrays(path, npz.array_names(path)))


def _read_hdf5(path: Path) -> Columns:
    with hdf5.open_file(path) as file:
        return _joined(path, {name: hdf5.read_array(file, str(path), name) for name in file})


def _joined(path: Path, arrays: dict[str, np.ndarray]) -> Columns:
    """Arrays as columns."""
    found: Columns = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            found[name] = array
        elif array.ndim == 2:
            found |= {f"{name}_{i}": column for i, column in enumerate(array.T)}
        else:
            raise refuse(
                str(path), name, f"must be an array [rows] or [rows, columns]; its shape is {list(array.shape)}"
            )
    return found


READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".hdf5": _read_hdf5,
    ".h5": _read_hdf5,
}
