"""A ring of whole episodes: the oldest episode makes room for the newest."""

import numpy as np

from tdinfonce.data.episodes import Episodes
from tdinfonce.types import EnvSpec, Episode

__all__ = ["Replay"]

FIELDS = ("observation", "achieved", "action", "length", "goal")


class Replay:
    """Episodes in slots of equal size, so a new one overwrites exactly one old one."""

    def __init__(self, spec: EnvSpec, capacity: int) -> None:
        """Make room for ``capacity`` transitions (at least one episode)."""
        self.slots = max(1, capacity // spec.episode_length)
        self.slot = spec.episode_length + 1
        rows = self.slots * self.slot
        self.observation = np.zeros((rows, spec.observation_size), np.float32)
        self.achieved = np.zeros((rows, spec.goal_size), np.float32)
        self.action = np.zeros((rows, spec.action_size), np.float32)
        self.length = np.zeros(self.slots, np.int64)
        self.goal = np.zeros((self.slots, spec.goal_size), np.float32)
        self.added = 0

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
        index = self.added % self.slots
        first = index * self.slot
        self.observation[first : first + steps + 1] = episode.observation
        self.achieved[first : first + steps + 1] = episode.achieved
        self.action[first : first + steps] = episode.action
        self.action[first + steps] = 0.0
        self.length[index] = steps
        self.goal[index] = episode.goal
        self.added += 1

    def view(self) -> Episodes:
        """What is stored, without a copy."""
        n = len(self)
        rows = n * self.slot
        start = np.arange(n) * self.slot
        states = self.observation[:rows], self.achieved[:rows], self.action[:rows]
        return Episodes(*states, start, self.length[:n], self.goal[:n])

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which `restore` makes an equal ring; only what is filled."""
        view = self.view()
        arrays = {name: getattr(view, name) for name in FIELDS}
        return arrays | {"added": np.array([self.added])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Become the ring that `state` described."""
        for name in FIELDS:
            array = getattr(self, name)
            if state[name].shape[1:] != array.shape[1:] or len(state[name]) > len(array):
                raise ValueError(f"the stored replay does not fit: {name} has shape {list(state[name].shape)}")
            array[: len(state[name])] = state[name]
        self.added = int(state["added"][0])
