"""ICU-Sepsis as a table: the model of its package, policies to evaluate, rewards, and data by the clinicians' policy.

The package itself is never imported: it is installed without what it needs, for its data files alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tdinfonce.data import Episodes
from tdinfonce.errors import UserError
from tdinfonce.system import venv

__all__ = ["PACKAGE", "POLICIES", "Model", "exact_value", "read_model", "record", "small_model"]

PACKAGE = "icu-sepsis==2.0.1"
POLICIES = ("optimal", "mixture", "worst")
REWARDS = 20


@dataclass(frozen=True)
class Model:
    """A Markov decision process whose last states are never left, with policies and rewards."""

    transition: np.ndarray
    """``[states, actions, states]``"""
    behaviour: np.ndarray
    """``[states, actions]``"""
    first: np.ndarray
    """``[states]``"""
    policies: dict[str, np.ndarray]
    rewards: np.ndarray
    """``[states, rewards]``; the first is survival."""
    absorbing: int
    """The first of the states that are never left."""


def data_file(folder: Path = Path("runs") / "icu-sepsis") -> Path:
    """The arrays of the package, which is installed into ``folder`` if it is not there."""
    python = venv.install(PACKAGE, folder, [("--no-deps", PACKAGE)])
    found = sorted(python.parents[1].rglob("icu_sepsis/envs/assets/dynamics.npz"))
    if not found:
        raise UserError(f"{PACKAGE} in {folder} has no model; remove that folder and try again")
    return found[0]


def read_model(discount: float) -> Model:
    """716 states, of which the last three are never left; 25 actions."""
    path = data_file()
    try:
        with np.load(path) as file:
            names = ("tx_mat", "expert_policy", "d_0", "sofa_scores", "state_cluster_centers")
            transition, behaviour, first, sofa, centres = (file[name].copy() for name in names)
        lines = path.with_name("admissible_actions.txt").read_text(encoding="utf-8").splitlines()[1:]
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    allowed = np.zeros(behaviour.shape, bool)
    for row, line in zip(allowed, lines, strict=True):
        row[[int(word) for word in line.split()]] = True
    return _complete(transition, behaviour, first, allowed, len(first) - 3, discount, sofa, centres)


def small_model(discount: float, states: int = 20, actions: int = 4) -> Model:
    """One of the same kind, drawn at random: for a quick look."""
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.full(states, 0.1), (states, actions))
    first = np.append(np.ones(states - 3), np.zeros(3)) / (states - 3)
    behaviour, allowed = rng.dirichlet(np.ones(actions), states), np.ones((states, actions), bool)
    centres = rng.normal(size=(states, 12))
    return _complete(transition, behaviour, first, allowed, states - 3, discount, rng.random(states) * 10, centres)


def _complete(
    transition: np.ndarray,
    behaviour: np.ndarray,
    first: np.ndarray,
    allowed: np.ndarray,
    absorbing: int,
    discount: float,
    sofa: np.ndarray,
    centres: np.ndarray,
) -> Model:
    states, actions, _ = transition.shape
    transition[absorbing:], behaviour[absorbing:] = np.eye(states)[absorbing:, None], 1 / actions
    uniform = allowed / allowed.sum(axis=1, keepdims=True)
    rng, rewards = np.random.default_rng(0), np.zeros((states, REWARDS))
    # Paid once on arriving in the state of survival is the same as this much in every step there.
    rewards[absorbing + 1, 0] = (1 - discount) / discount
    rewards[:absorbing, 1] = sofa[:absorbing] / 10
    rewards[:absorbing, 2:10] = rng.random((absorbing, 8)) < 0.3
    varied = centres[:absorbing][:, centres[:absorbing].std(axis=0) > 0][:, : REWARDS - 10]
    rewards[:absorbing, 10:] = varied > np.median(varied, axis=0)
    best, worst = (_greedy(sign * rewards[:, :1], transition, allowed, discount) for sign in (1, -1))
    optimal, worst = (0.8 * policy + 0.2 * uniform for policy in (best, worst))
    policies = dict(zip(POLICIES, (optimal, 0.5 * (behaviour + optimal), worst), strict=True))
    return Model(transition, behaviour, first, policies, rewards, absorbing)


def _greedy(reward: np.ndarray, transition: np.ndarray, allowed: np.ndarray, discount: float) -> np.ndarray:
    """``[states, actions]``, the best allowed actions, by policy iteration."""
    states = np.arange(len(transition))
    action = allowed.argmax(axis=1)
    for _ in range(50):
        value = np.linalg.solve(np.eye(len(states)) - discount * transition[states, action], reward[:, 0])
        ahead = np.where(allowed, transition @ value, -np.inf)
        # An action that is only as good as the present one does not replace it, or this might never end.
        better = ahead.max(axis=1) > ahead[states, action] + 1e-10
        if not better.any():
            break
        action = np.where(better, ahead.argmax(axis=1), action)
    return np.asarray(np.eye(transition.shape[1])[action])


def exact_value(model: Model, policy: np.ndarray, discount: float) -> np.ndarray:
    """``[rewards]``, by linear algebra."""
    chain = np.einsum("sa,sat->st", policy, model.transition)
    return model.first @ np.linalg.solve(np.eye(len(chain)) - discount * chain, model.rewards)


def record(model: Model, transitions: int, seed: int) -> Episodes:
    """So many transitions by the behaviour; every episode goes on until a state that is never left."""
    rng, first = np.random.default_rng(seed), np.cumsum(model.first)
    law, choice = np.cumsum(model.transition, axis=-1), np.cumsum(model.behaviour, axis=-1)
    states: list[int] = []
    actions: list[int] = []
    length: list[int] = []
    while len(actions) - len(length) < transitions:
        state, steps = int(np.searchsorted(first, rng.random() * first[-1])), 0
        states.append(state)
        while state < model.absorbing and steps < 500:
            action = int(np.searchsorted(choice[state], rng.random() * choice[state, -1]))
            state = int(np.searchsorted(law[state, action], rng.random() * law[state, action, -1]))
            states.append(state)
            actions.append(action)
            steps += 1
        actions.append(0)
        length.append(steps)
    size, count = model.behaviour.shape[1], np.array(length)
    start, observation = np.cumsum(count + 1) - count - 1, np.array(states, np.float32)[:, None]
    last = start + count
    action_rows = np.eye(size, dtype=np.float32)[actions]
    action_rows[last] = 0
    terminal = observation[last, 0] >= model.absorbing
    return Episodes(
        observation, observation, action_rows, start, count, observation[last], actions=size, terminal=terminal
    )
