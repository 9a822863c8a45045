"""What all tests share: compiled programs, fixed hypothesis settings, small random worlds."""

import os
import platform
import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

# A shell starts what runs in its background deaf to Ctrl-C, and children inherit that; the tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Most of the time goes into compiling, and often the same: workers, child processes and later runs share it. JAX reads
# these when it is imported, so they come first.
_version = f"{metadata.version('jaxlib')}-{platform.machine()}-{platform.node()}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / f"jax-{_version}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis
import numpy as np
import pytest

from tdinfonce.tabular.mdp import Mdp

MANY_MAPS = 20_000
"""The limit is 65,530 by default."""
hypothesis.settings.register_profile("tdinfonce", max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tdinfonce")


def random_mdp(rng: np.random.Generator, states: int = 6, actions: int = 3) -> tuple[Mdp, np.ndarray]:
    """A world where every move is possible, and a policy that takes every action."""
    transition = rng.dirichlet(np.ones(states), size=(states, actions))
    policy = rng.dirichlet(np.ones(actions), size=states)
    return Mdp(transition), policy


@pytest.fixture(autouse=True, scope="module")
def _few_memory_maps() -> Iterator[None]:
    """Let compiled programs go before a process has as many memory maps as Linux allows, where XLA aborts."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_text().count("\n") > MANY_MAPS:
        sys.modules["jax"].clear_caches()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
