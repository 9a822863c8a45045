"""What all tests share: no display, fixed hypothesis settings, small random worlds."""

import hypothesis
import numpy as np
import pytest

from tdinfonce.tabular.mdp import Mdp

hypothesis.settings.register_profile("tdinfonce", max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tdinfonce")


def random_mdp(rng: np.random.Generator, states: int = 6, actions: int = 3) -> tuple[Mdp, np.ndarray]:
    """A world where every move is possible, and a policy that takes every action."""
    transition = rng.dirichlet(np.ones(states), size=(states, actions))
    policy = rng.dirichlet(np.ones(actions), size=states)
    return Mdp(transition), policy


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
