"""A ring of whole episodes, in memory or in mapped files: the oldest episode makes room for the newest."""

import json
from pathlib import Path

import numpy as np

from tdinfonce.data._mapped import flush, mapped
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, Episode

__all__ = ["Replay"]

LAYOUT = "layout.json"


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
                that is there already is continued.
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
        arrays = {name: np.zeros(*what) for name, what in layout.items()} if folder is None else _open(folder, layout)
        self.observation, self.action = arrays["observation"], arrays["action"]
        self.achieved = arrays.get("achieved", self.observation)
        self.length, self.goal, self._count = arrays["length"], arrays["goal"], arrays["count"]
        self._fields = [name for name in layout if name != "count"]

    @property
    def added(self) -> int:
        """How many episodes were ever stored."""
        return int(self._count[0])

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

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which `restore` makes an equal ring; only what is filled.

        Of a replay in files it is the number of episodes alone; the files hold the rest.
        """
        count = {"added": np.array([self.added])}
        if self.folder is not None:
            for name in (*self._fields, "count"):
                flush(self.folder / f"{name}.raw")
            return count
        view = self.view()
        return {name: getattr(view, name) for name in self._fields} | count

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Become the ring that `state` described.

        A replay in files goes back exactly unless it has since overwritten old episodes: then newer ones, also
        whole, stand in their place.
        """
        added = int(state["added"][0])
        if self.folder is not None:
            if self.added < added:
                raise ValueError(f"the replay in {self.folder} holds {self.added} episodes; {added} were stored")
        else:
            for name in self._fields:
                array, stored = getattr(self, name), state[name]
                if stored.shape[1:] != array.shape[1:] or len(stored) > len(array):
                    raise ValueError(f"the stored replay does not fit: {name} has shape {list(stored.shape)}")
                array[: len(stored)] = stored
        self._count[:] = added


def _open(folder: Path, layout: dict[str, tuple[tuple[int, ...], type]]) -> dict[str, np.ndarray]:
    """Map one file for each array; a folder that holds another layout is refused."""
    wanted = {name: [*shape, np.dtype(kind).name] for name, (shape, kind) in layout.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / LAYOUT
        if note.exists():
            if json.loads(note.read_text(encoding="utf-8")) != wanted:
                raise UserError(f"{folder} holds a replay of another size or environment; name another folder")
        elif any(folder.iterdir()):
            raise UserError(f"{folder} holds something else than a replay; name another folder")
        else:
            note.write_text(json.dumps(wanted) + "\n", encoding="utf-8")
        return {name: mapped(folder / f"{name}.raw", *what) for name, what in layout.items()}
    except (OSError, ValueError) as error:
        size = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in layout.values()) / 2**30
        raise UserError(f"cannot keep a replay of {size:.1f} GiB in {folder}: {error}") from error
