"""The estimator without an actor against exact occupancies: a chain where state = time, and a policy that is not the
one that made the data.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import random_mdp
from tdinfonce.estimate.predictor import Config, Predictor, Steps, fit
from tdinfonce.tabular.mdp import Mdp, exact_occupancy

STATES, ROWS, SESSIONS = 16, 25, 8
LEARNER: dict[str, Any] = {"hidden": (64, 64), "discount": 0.9}


def steps_of(which: np.ndarray, states: int, action: np.ndarray | None = None, policy: Any = None) -> Steps:
    """Sessions ``[sessions, rows]`` of numbered states, one-hot."""
    sessions, rows = which.shape
    left = np.tile(np.arange(rows)[::-1], sessions)
    action = np.zeros((which.size, 0)) if action is None else action
    policy = action[None] if policy is None else policy
    moment = np.flatnonzero(left)
    eye = jnp.eye(states)
    return Steps(
        *(eye, eye, jnp.array(which.ravel()), jnp.array(action), jnp.array(policy)),
        *(jnp.array(moment), jnp.array(left[moment])),
    )


def probabilities(predictor: Predictor, steps: Steps, state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Of every numbered state, by the law that ratios are of."""
    count = np.bincount(np.asarray(steps.which)[np.asarray(steps.moment) + 1], minlength=len(steps.place))
    found = np.asarray(predictor.logits(jnp.array(state), jnp.array(action), steps.place), np.float64)
    weight = count * np.exp(found - found.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("how", [{"n_step": 1}, {"n_step": 5}, {"monte_carlo": True}], ids=str)
def test_a_chain_where_state_is_time(how: dict[str, Any]) -> None:
    """It moves on by one and stays at the last state. Monte Carlo sees the rest of a session only: it is asked where
    there is enough of it.
    """
    rows = 120 if "monte_carlo" in how else ROWS
    which = np.tile(np.minimum(np.arange(rows), STATES - 1), (SESSIONS, 1))
    steps = steps_of(which, STATES)
    predictor, loss = fit(Predictor.create(0, steps, Config(**LEARNER, **how, decay=4_000)), steps, 4_000)
    assert loss.shape == (4_000,)
    transition = np.eye(STATES)[np.minimum(np.arange(STATES) + 1, STATES - 1)][:, None]
    exact = exact_occupancy(Mdp(transition), np.ones((STATES, 1)), 0.9)[:, 0]
    found = probabilities(predictor, steps, np.eye(STATES, dtype=np.float32), np.zeros((STATES, 0)))
    assert np.max(np.abs(found - exact).sum(axis=1) / 2) <= 0.03


def test_another_policy_than_the_one_that_made_the_data(rng: np.random.Generator) -> None:
    mdp, policy = random_mdp(rng)
    states, actions, rows, draws = mdp.n_states, mdp.n_actions, 20_000, 4
    which, done = np.zeros(rows, int), rng.integers(actions, size=rows)
    chance = np.cumsum(mdp.transition, axis=2)
    for t, u in enumerate(rng.random(rows - 1)):
        which[t + 1] = np.searchsorted(chance[which[t], done[t]], u * chance[which[t], done[t], -1])
    would = np.stack(
        [np.argmax(rng.random((rows, 1)) < np.cumsum(policy, axis=1)[which], axis=1) for _ in range(draws)]
    )
    eye = np.eye(actions, dtype=np.float32)
    steps = steps_of(which[None], states, eye[done], eye[would])
    config = Config(discount=0.8, hidden=(64, 64), decay=4_000)
    predictor, _ = fit(Predictor.create(0, steps, config), steps, 4_000)
    pairs = np.indices((states, actions)).reshape(2, -1)
    found = probabilities(predictor, steps, np.eye(states, dtype=np.float32)[pairs[0]], eye[pairs[1]])
    exact = exact_occupancy(mdp, policy, 0.8).reshape(-1, states)
    error = np.abs(found - exact).sum(axis=1) / 2
    assert error.mean() <= 0.03
    behaviour = exact_occupancy(mdp, np.full_like(policy, 1 / actions), 0.8).reshape(-1, states)
    assert error.mean() < 0.5 * (np.abs(behaviour - exact).sum(axis=1) / 2).mean(), (
        "as if the data's own policy went on"
    )
