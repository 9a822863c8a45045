"""One integer becomes many independent, named streams.

Nothing random in a run depends on how far another stream has advanced: every draw is addressed by the run's seed,
a name and an index. That is why a run can continue exactly from counters alone.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from tdinfonce.errors import UserError

__all__ = ["derive", "evaluation_seeds", "generator", "seed_list"]

MOST_SEEDS = 10_000


def _sequence(seed: int, name: str, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy=seed, spawn_key=(zlib.crc32(name.encode()), index))


def generator(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """The numpy generator of stream ``name`` at ``index``.

    >>> bool(generator(0, "sampler", 3).integers(100) == generator(0, "sampler", 3).integers(100))
    True
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, name, index)))


def derive(seed: int, name: str, index: int = 0) -> int:
    """A 31-bit integer of stream ``name`` at ``index``, for whoever wants an integer: JAX keys, simulators."""
    return int(_sequence(seed, name, index).generate_state(1)[0] >> 1)


def evaluation_seeds(episodes: int, tasks: int = 0) -> list[int]:
    """The seeds of the evaluation episodes: the same for every run, and never those of a training episode.

    Where an environment has fixed tasks (`EnvSpec.tasks`), the seeds ask for one after the other.
    """
    found = [derive(0, "evaluation", index) for index in range(episodes)]
    return [seed - seed % tasks + index % tasks for index, seed in enumerate(found)] if tasks else found


def seed_list(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    """What a user means by seeds: a number N is 0 to N - 1, several numbers are themselves. The same everywhere.

    >>> seed_list(3), seed_list("3"), seed_list("3,7"), seed_list("7,"), seed_list([3, 7])
    ((0, 1, 2), (0, 1, 2), (3, 7), (7,), (3, 7))
    """
    try:
        if isinstance(seeds, str):
            parts = [int(part) for part in seeds.split(",") if part.strip()]
            found = tuple(parts) if "," in seeds else tuple(range(parts[0]))
        elif isinstance(seeds, int):
            found = tuple(range(seeds))
        else:
            found = tuple(int(seed) for seed in seeds)
    except (ValueError, TypeError, IndexError):
        raise UserError(f"seeds are a number of them, or a list such as 3,7; got {seeds!r}") from None
    if not 1 <= len(found) <= MOST_SEEDS:
        raise UserError(f"seeds must be at least 1, and at most {MOST_SEEDS:,}; got {seeds!r}")
    if len(set(found)) != len(found):
        raise UserError(f"each seed may be given once; got {seeds!r}")
    return found
