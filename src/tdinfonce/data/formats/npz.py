"""Arrays in .npz files, read without trust: no pickles, sizes checked before memory is taken."""

import contextlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tdinfonce.data.check import Raw, check_field, refuse
from tdinfonce.data.flat import FIELDS, Field, assemble
from tdinfonce.data.store import check_packing
from tdinfonce.errors import UserError

__all__ = ["READS", "accepts", "array_names", "ends_at_terminals", "open", "open_fields", "read_arrays", "record"]


READS = "an .npz file"
NOT_OGBENCH = set(FIELDS) - {"observations", "actions"}
"""What only D4RL's layout has."""


def accepts(path: Path) -> bool:
    """Whether it ends in .npz, and is not one of OGBench's."""
    return path.suffix == ".npz" and not path.is_dir() and not ends_at_terminals(path)


def open(path: Path, memory_limit: int) -> Raw:
    """Flat arrays, compressed or not."""
    with open_fields(path) as fields:
        return assemble(str(path), fields, memory_limit)


def ends_at_terminals(path: Path) -> bool:
    """Whether its arrays are named as OGBench names them: nothing but `terminals` can say where episodes end.

    D4RL's `terminals` mark reached goals, and its files have rewards; OGBench's have them with `masks` only.
    """
    if path.suffix != ".npz" or not path.is_file():
        return False
    with contextlib.suppress(UserError), _archive(path) as archive:
        names = set(_names(archive))
        return "terminals" in names and not names & NOT_OGBENCH and ("rewards" not in names or "masks" in names)
    return False


@contextlib.contextmanager
def open_fields(path: Path) -> Iterator[dict[str, Field]]:
    """The arrays of a file by name, none of them read yet."""
    with _archive(path) as archive:
        yield {name: _Member(archive, str(path), name).field() for name in _names(archive)}


def record(path: Path) -> dict[str, Any]:
    """The file does not say how it was made."""
    return {}


def array_names(path: str | Path) -> list[str]:
    """The names of the arrays of a file."""
    with _archive(Path(path)) as archive:
        return _names(archive)


def read_arrays(path: str | Path, names: Sequence[str]) -> dict[str, Any]:
    """These arrays of a file, whole."""
    with _archive(Path(path)) as archive:
        arrays = {}
        for name in names:
            if f"{name}.npy" not in archive.namelist():
                raise refuse(str(path), name, "is missing")
            field = _Member(archive, str(path), name).field()
            check_field(str(path), name, field.shape, field.dtype, sizes=(None,) * len(field.shape))
            arrays[name] = np.zeros(field.shape, field.dtype)
            field.read(0, arrays[name])
        return arrays


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise refuse(str(path), "", "there is no such file") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
        raise refuse(str(path), "", f"is not an .npz file, or cut short ({error})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Member:
    """One array of an archive, read from front to back."""

    def __init__(self, archive: zipfile.ZipFile, file: str, name: str) -> None:
        self._archive, self._file, self._name = archive, file, name
        self._info = archive.getinfo(f"{name}.npy")
        self._stream: IO[bytes] | None = None
        with self._opened() as stream:
            self._shape, self._fortran, self._dtype = self._header(stream)
            self._offset = stream.tell()

    def field(self) -> Field:
        """Check the sizes that it claims against those of the file."""
        claimed = int(np.prod(self._shape, dtype=object)) * self._dtype.itemsize
        if not self._dtype.hasobject:
            if self._info.file_size != self._offset + claimed:
                held = self._info.file_size - self._offset
                raise refuse(self._file, self._name, f"claims {claimed:,} bytes of numbers, but holds {held:,}")
            problem = check_packing(claimed, self._info.compress_size)
            if problem:
                raise refuse(self._file, self._name, problem)
        if self._fortran and len(self._shape) > 1:
            raise refuse(self._file, self._name, "is stored column by column; save it with np.ascontiguousarray")
        return Field(self._shape, self._dtype, self._read)

    def _opened(self) -> IO[bytes]:
        try:
            return self._archive.open(self._info)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, ValueError, EOFError) as error:
            raise refuse(self._file, self._name, f"is damaged ({error})") from error

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
        try:
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                return np.lib.format.read_array_header_1_0(stream)
            return np.lib.format.read_array_header_2_0(stream)
        except Exception as error:  # it is parsed as Python, and may be nested, cut or packed in any way
            raise refuse(self._file, self._name, f"has a damaged header ({error})") from error

    def _read(self, first: int, out: np.ndarray) -> None:
        """The next rows; the checksum is compared behind the last one."""
        if first == 0:
            self._stream = self._opened()
            self._stream.read(self._offset)
        assert self._stream is not None
        try:
            data = self._stream.read(out.size * self._dtype.itemsize)
            if first + len(out) >= self._shape[0]:
                self._stream.read(1)
                self._stream.close()
        except (zipfile.BadZipFile, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
            raise refuse(self._file, self._name, f"is damaged ({error})", f"row {first} or later") from error
        if len(data) != out.size * self._dtype.itemsize:
            raise refuse(self._file, self._name, "is cut short", f"row {first} or later")
        with np.errstate(over="ignore"):
            out[...] = np.frombuffer(data, self._dtype).reshape(out.shape)
