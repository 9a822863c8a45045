"""A ring of whole episodes, in memory or in mapped files: the oldest episode makes room for the newest."""

import json
import math
from pathlib import Path

import numpy as np

from tdinfonce.data._mapped import mapped
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError
from tdinfonce.system.files import read_json, write_atomic
from tdinfonce.system.machine import memory
from tdinfonce.types import EnvSpec, Episode

__all__ = ["Replay"]

LAYOUT = "layout.json"
BY_ROW = ("observation", "achieved", "action")
"""Fields with a row for each state; the others have one for each episode."""


class Replay:
    """Episodes in slots of equal size, so a new one overwrites exactly one old one.

    Images are stored once, as uint8: `achieved` is then the same array as `observation`.
    """

    def __init__(self, spec: EnvSpec, capacity: int, folder: Path | None = None) -> None:
        """Make room for ``capacity`` transitions (at least one episode).

        Args:
            spec: shapes and types of what is stored.
            capacity: in transitions.
            folder: keep the arrays in files there instead of in memory. Made if missing; a replay of the same layout
                that is there already is continued. A checkpoint does not rely on these files.
        """
        self.slots = max(1, capacity // spec.episode_length)
        self.slot = spec.episode_length + 1
        rows = self.slots * self.slot
        layout = {
            "observation": ((rows, *spec.observation_shape), spec.dtype),
            "achieved": ((rows, *spec.goal_shape), spec.dtype),
            "action": ((rows, spec.action_size), np.float32),
            "length": ((self.slots,), np.int64),
            "goal": ((self.slots, *spec.goal_shape), spec.dtype),
            "count": ((1,), np.int64),
        }
        if spec.image is not None:
            del layout["achieved"]
        self.folder = folder
        size, room = _bytes(layout), memory()
        if folder is None and room is not None and size > room:
            raise UserError(
                f"a replay of {size / 2**30:,.1f} GiB does not fit into {room / 2**30:.1f} GiB of memory; "
                "lower replay_capacity, or set replay_on_disk=true"
            )
        arrays = {name: np.zeros(*what) for name, what in layout.items()} if folder is None else _open(folder, layout)
        self.observation, self.action = arrays["observation"], arrays["action"]
        self.achieved = arrays.get("achieved", self.observation)
        self.length, self.goal, self._count = arrays["length"], arrays["goal"], arrays["count"]
        self._fields = [name for name in layout if name != "count"]

    @property
    def added(self) -> int:
        """How many episodes were ever stored."""
        return int(self._count[0])

    @added.setter
    def added(self, count: int) -> None:
        self._count[:] = count

    def __len__(self) -> int:
        """Number of stored episodes."""
        return min(self.added, self.slots)

    def append(self, episode: Episode) -> None:
        """Store an episode; raises ValueError if it is empty or longer than the spec's episode length."""
        steps = len(episode.action)
        if not 1 <= steps < self.slot or len(episode.observation) != steps + 1 or len(episode.achieved) != steps + 1:
            raise ValueError(
                f"an episode has 1 to {self.slot - 1} actions and one state more; got {steps} actions, "
                f"{len(episode.observation)} observations and {len(episode.achieved)} achieved goals"
            )
        once = self.achieved is self.observation
        if once and not (
            episode.achieved is episode.observation or np.array_equal(episode.achieved, episode.observation)
        ):
            raise ValueError("images are stored once: a state as a goal must be its observation")
        index = self.added % self.slots
        first = index * self.slot
        self.observation[first : first + steps + 1] = episode.observation
        if not once:
            self.achieved[first : first + steps + 1] = episode.achieved
        self.action[first : first + steps] = episode.action
        self.action[first + steps] = 0.0
        self.length[index] = steps
        self.goal[index] = episode.goal
        self._count += 1

    def view(self) -> Episodes:
        """What is stored, without a copy."""
        n = len(self)
        rows = n * self.slot
        start = np.arange(n) * self.slot
        observation = self.observation[:rows]
        achieved = observation if self.achieved is self.observation else self.achieved[:rows]
        return Episodes(observation, achieved, self.action[:rows], start, self.length[:n], self.goal[:n])

    def clear(self) -> None:
        """Become empty, as a new one is."""
        for name in self._fields:
            array = getattr(self, name)
            array[: len(self) * (self.slot if name in BY_ROW else 1)] = 0
        self.added = 0

    def take(self, first: int, last: int) -> dict[str, np.ndarray]:
        """The slots of the episodes from ``first`` to before ``last``, counted from the first ever stored."""
        slots, rows = self._places(first, last)
        return {name: getattr(self, name)[rows if name in BY_ROW else slots] for name in self._fields}

    def put(self, first: int, slots: dict[str, np.ndarray], *, newest: int) -> None:
        """Store what `take` gave back in its place, but for episodes that had left the ring of ``newest`` episodes.

        Raises ValueError if it does not fit.
        """
        count = len(slots.get("length", ()))
        skip = max(newest - self.slots - first, 0)
        for name in self._fields:
            array = getattr(self, name)
            wanted = (count * (self.slot if name in BY_ROW else 1), *array.shape[1:])
            found = slots.get(name)
            if found is None or found.shape != wanted or found.dtype != array.dtype:
                what = "is missing" if found is None else f"is {found.dtype} {list(found.shape)}"
                raise ValueError(f"the stored replay does not fit: {name} {what}, not {array.dtype} {list(wanted)}")
        if count and not (slots["length"].min() >= 1 and slots["length"].max() < self.slot):
            raise ValueError("the stored replay does not fit: an episode has no possible length")
        places, rows = self._places(first + skip, first + count)
        for name in self._fields:
            by_row = name in BY_ROW
            getattr(self, name)[rows if by_row else places] = slots[name][skip * (self.slot if by_row else 1) :]

    def _places(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Slots of episodes, and their rows."""
        slots = np.arange(first, last) % self.slots
        return slots, (slots[:, None] * self.slot + np.arange(self.slot)).reshape(-1)

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Become the ring that checkpoints of format 1 hold whole, or, of a replay in files, only count."""
        added = int(state["added"][0])
        if self.folder is None:
            for name in self._fields:
                array, stored = getattr(self, name), state[name]
                if stored.shape[1:] != array.shape[1:] or len(stored) > len(array):
                    raise ValueError(f"the stored replay does not fit: {name} has shape {list(stored.shape)}")
                array[: len(stored)] = stored
        elif self.added < added:
            raise ValueError(f"the replay in {self.folder} holds {self.added} episodes; {added} were stored")
        self.added = added


def _open(folder: Path, layout: dict[str, tuple[tuple[int, ...], type]]) -> dict[str, np.ndarray]:
    """Map one file for each array; a folder that holds another layout is refused."""
    wanted = {name: [*shape, np.dtype(kind).name] for name, (shape, kind) in layout.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / LAYOUT
        if note.exists():
            if read_json(note) != wanted:
                raise UserError(f"{folder} holds a replay of another size or environment; name another folder")
        elif any(path.name != f"{LAYOUT}.partial" for path in folder.iterdir()):
            raise UserError(f"{folder} holds something else than a replay; name another folder")
        else:
            write_atomic(note, (json.dumps(wanted) + "\n").encode())
        return {name: mapped(folder / f"{name}.raw", *what) for name, what in layout.items()}
    except (OSError, ValueError, OverflowError) as error:
        size = _bytes(layout) / 2**30
        raise UserError(f"cannot keep a replay of {size:,.1f} GiB in {folder}: {error}") from error


def _bytes(layout: dict[str, tuple[tuple[int, ...], type]]) -> int:
    return sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in layout.values())
