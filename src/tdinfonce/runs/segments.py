"""The episodes of a replay as files that are written once: a checkpoint adds only the episodes that are new.

A segment holds the slots of consecutive episodes and is named after the first and the one behind the last. It is
written twice, because every later checkpoint needs it: if one file is damaged, the other takes its place. Where the
replay itself lies on disk, that is the second copy.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from tdinfonce.system.files import read_bytes, sha256, sync_folder, write_atomic

if TYPE_CHECKING:
    from tdinfonce.data.replay import Replay

__all__ = ["Segment", "append", "needed", "prune", "read", "restore"]

PLACES = ("replay", "replay-copy")
"""Folders beside the checkpoints."""
NAME = re.compile(r"\d{12}-\d{12}\.safetensors(\.partial)?")


class Segment(NamedTuple):
    """What a manifest says of a file; its name follows, so no manifest can name another file."""

    first: int
    last: int
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.first:012d}-{self.last:012d}.safetensors"

    @classmethod
    def of(cls, value: Any) -> Self:
        """From JSON; raises ValueError if it cannot be one."""
        if not isinstance(value, list) or [type(x) for x in value] != [int, int, int, str]:
            raise ValueError("a segment is [first, last, size, sha256]")
        segment = cls(*value)
        if not 0 <= segment.first < segment.last < 10**12 or segment.size < 0:
            raise ValueError(f"a segment from {segment.first} to {segment.last} cannot be")
        return segment


def append(root: Path, replay: "Replay", before: Sequence[Segment]) -> list[Segment]:
    """Write the episodes that no segment of ``before`` holds; the segments that the ring needs now."""
    oldest = replay.added - len(replay)
    places = PLACES if replay.folder is None else PLACES[:1]
    wanted = [segment for segment in before if segment.last > oldest]
    # A file that has vanished is written again while the ring still has its episodes.
    kept = list(takewhile(lambda segment: all(_there(root / place, segment) for place in places), wanted))
    first = max([oldest, *(segment.last for segment in kept)])
    if first == replay.added:
        return kept
    data = tensor_bytes(replay.take(first, replay.added))
    new = Segment(first, replay.added, len(data), sha256(data))
    for place in places:
        (root / place).mkdir(mode=0o700, exist_ok=True)
        write_atomic(root / place / new.name, data)
        sync_folder(root / place)
    return [*kept, new]


def _there(place: Path, segment: Segment) -> bool:
    try:
        return (place / segment.name).stat().st_size == segment.size
    except OSError:
        return False


def restore(root: Path, replay: "Replay", segments: Iterable[Segment], added: int) -> list[str]:
    """Become the ring that `append` saved; what was damaged and could be mended is returned in words.

    Raises ValueError if a segment is lost, or does not fit.
    """
    notes, at = [], None
    for segment in segments:
        if at is not None and segment.first != at:
            raise ValueError(f"the replay has no episode {at}")
        at = segment.last
        data, problem = read(root, segment, replay)
        if problem:
            notes.append(problem)
        replay.put(segment.first, parse(data), newest=added)
    if added and at != added:
        raise ValueError(f"the replay ends at episode {at}, not at {added}")
    replay.added = added
    return notes


def read(root: Path, segment: Segment, replay: "Replay | None" = None) -> tuple[bytes, str]:
    """The bytes of a segment, and what was mended; raises ValueError if every copy is damaged."""
    good, bad, problem = None, [], ""
    for place in PLACES:
        if place != PLACES[0] and not (root / place).is_dir():
            continue
        path = root / place / segment.name
        try:
            data = read_bytes(path, segment.size)
            if sha256(data) != segment.sha256:
                raise ValueError(f"{path.name} does not match its SHA-256")
            good = data
        except (OSError, ValueError) as error:
            bad.append(path)
            problem = problem or f"{path} is damaged ({_said(error)})"
    if good is None and replay is not None and replay.folder is not None and segment.first < replay.added:
        ring = tensor_bytes(replay.take(segment.first, segment.last))
        good = ring if sha256(ring) == segment.sha256 else None
    if good is None:
        raise ValueError(problem)
    if replay is None:
        return good, ""
    for path in bad:
        path.unlink(missing_ok=True)
        write_atomic(path, good)
    return good, f"{problem}; mended from its copy" if bad else ""


def parse(data: bytes) -> Any:
    """The arrays of a segment."""
    try:
        return parse_tensors(data)
    except SafetensorError as error:
        raise ValueError(f"the replay is damaged ({error})") from error


def needed(replay: Any) -> list[Segment]:
    """The segments that the entry of a manifest names."""
    if not isinstance(replay, dict) or not isinstance(replay.get("segments"), list):
        raise ValueError("its entry 'replay' is damaged")
    if not all(type(replay.get(name)) is int and 0 <= replay[name] < 10**12 for name in ("added", "held")):
        raise ValueError("its entry 'replay' counts no episodes")
    return [Segment.of(value) for value in replay["segments"]]


def prune(root: Path, keep: set[str]) -> None:
    """Remove the segments that no checkpoint names."""
    for place in PLACES:
        for path in (root / place).glob("*"):
            if path.name not in keep and NAME.fullmatch(path.name):
                path.unlink()


def _said(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
