"""One integer becomes many independent, named streams.

Nothing random in a run depends on how far another stream has advanced: every draw is addressed by the run's seed,
a name and an index. That is why a run can continue exactly from counters alone.
"""

import zlib

import numpy as np

__all__ = ["derive", "evaluation_seeds", "generator"]


def _sequence(seed: int, name: str, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(entropy=seed, spawn_key=(zlib.crc32(name.encode()), index))


def generator(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """The numpy generator of stream ``name`` at ``index``.

    >>> generator(0, "sampler", 3).integers(100) == generator(0, "sampler", 3).integers(100)
    True
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, name, index)))


def derive(seed: int, name: str, index: int = 0) -> int:
    """A 31-bit integer of stream ``name`` at ``index``, for whoever wants an integer: JAX keys, simulators."""
    return int(_sequence(seed, name, index).generate_state(1)[0] >> 1)


def evaluation_seeds(episodes: int) -> list[int]:
    """The seeds of the evaluation episodes: the same for every run, and never those of a training episode."""
    return [derive(0, "evaluation", index) for index in range(episodes)]
