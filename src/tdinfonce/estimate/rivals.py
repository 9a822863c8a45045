"""Other ways to evaluate a policy: fitted Q evaluation; of states known by number, importance sampling and counting."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tdinfonce.estimate._importance import weighted_doubly_robust
from tdinfonce.estimate._logged import Logged
from tdinfonce.estimate.predictor import Config, Steps

__all__ = ["counting", "fitted_q", "fitted_q_smooth", "importance_sampling"]

STRIDE = 10.0
"""As `tdinfonce.networks.critic.TableCritic` has it."""


def fitted_q(
    steps: Steps, policy: np.ndarray, rewards: np.ndarray, config: Config, updates: int, seed: int
) -> np.ndarray:
    """``[states, rewards]``, values by fitted Q evaluation: for each reward a network of its own, from its own start.

    The networks have the table, the hidden layer, the batches, the target, the decay and the average of our critic;
    all rewards are fitted side by side, which takes less time than one after the other. They learn (1 - γ) Q.

    Args:
        steps: the transitions, with draws of the policy's next actions.
        policy: ``[states, actions]``.
        rewards: ``[states, rewards]``.
        config: of our critic.
        updates: of each network.
        seed: of the networks and the batches.
    """
    first, key = jax.random.split(jax.random.PRNGKey(seed))
    network = _table_networks(first, rewards.shape[1], len(rewards), policy.shape[1], config.hidden[-1])
    network = _fit(network, steps, None, jnp.asarray(rewards.T, jnp.float32), key, _q, config, updates)
    numbers, choices = jnp.arange(len(rewards)), np.eye(policy.shape[1], dtype=np.float32)
    value = np.zeros(rewards.T.shape)
    for action, chance in zip(choices, policy.T, strict=True):
        value += chance * np.asarray(_q(None, network, numbers, jnp.tile(action, (len(rewards), 1))))
    return value.T / (1 - config.discount)


def _q(_: None, network: Any, state: Any, action: Any) -> Any:
    """``[rewards, rows]``."""
    layer = jnp.einsum("ba,kah->kbh", action, network["action"]) + network["state"][:, state]
    layer = jax.nn.relu(STRIDE * layer + network["bias"][:, None])
    return jnp.einsum("kbh,kh->kb", layer, network["out"]) + network["base"][:, None]


def fitted_q_smooth(
    steps: Steps, rewards: np.ndarray, config: Config, updates: int, seed: int, rows: np.ndarray
) -> np.ndarray:
    """``[rows, rewards]``, the same for states that are coordinates: networks with two hidden layers as ours.

    Args:
        steps: the transitions, a state for each row, with draws of the policy's actions.
        rewards: ``[states, rewards]``. They are learned as deviations from their mean.
        config: of our critic.
        updates: of each network.
        seed: of the networks and the batches.
        rows: those whose values are wanted.
    """
    mean, spread = rewards.mean(axis=0), np.maximum(rewards.std(axis=0), 1e-6)
    sizes = (steps.state.shape[1] + steps.action.shape[1], *config.hidden, 1)
    first, key = jax.random.split(jax.random.PRNGKey(seed))
    network = [
        {
            "weight": jax.random.normal(k, (rewards.shape[1], low, high)) * (2 / low) ** 0.5,
            "bias": jnp.zeros((rewards.shape[1], 1, high)),
        }
        for k, low, high in zip(jax.random.split(first, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True)
    ]
    reward = jnp.asarray(((rewards - mean) / spread).T, jnp.float32)
    # A batch then says which states it has, by which rewards and coordinates are found.
    numbered = steps._replace(state=jnp.arange(len(rewards)))
    network = _fit(network, numbered, steps.state, reward, key, _smooth_q, config, updates)
    found = [_smooth_q(steps.state, network, jnp.asarray(rows), draw[rows]) for draw in steps.policy_action]
    return np.asarray(np.mean(found, axis=0).T * spread + mean) / (1 - config.discount)


def _smooth_q(coordinates: Any, network: Any, state: Any, action: Any) -> Any:
    x = jnp.concatenate([coordinates[state], action], axis=-1)[None]
    for layer in network[:-1]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return (x @ network[-1]["weight"] + network[-1]["bias"])[..., 0]


def _table_networks(key: Any, count: int, states: int, actions: int, hidden: int) -> Any:
    return {
        "state": jax.random.normal(key, (count, states, hidden)) / STRIDE,
        "action": jnp.zeros((count, actions, hidden)),
        "bias": jnp.zeros((count, hidden)),
        "out": jnp.zeros((count, hidden)),
        "base": jnp.zeros(count),
    }


@partial(jax.jit, static_argnames=("q", "config", "updates"))
def _fit(
    network: Any, steps: Steps, coordinates: Any, reward: Any, key: Any, q: Any, config: Config, updates: int
) -> Any:
    """The averaged networks of all rewards, ``[rewards, states]``; ``q`` says what they give for states and actions."""
    gamma = config.discount
    optimiser = optax.adam(optax.cosine_decay_schedule(config.learning_rate, updates))

    def step(carry: Any, key: Any) -> tuple[Any, None]:
        network, target, average, state, index = carry
        batch = steps.draw(key, config)
        later = q(coordinates, target, batch.later_state, batch.later_action)
        goal = (1 - gamma) * reward[:, batch.state] + gamma * later

        def loss(network: Any) -> Any:
            return jnp.mean(jnp.square(q(coordinates, network, batch.state, batch.action) - goal), axis=1).sum()

        change, state = optimiser.update(jax.grad(loss)(network), state)
        network = optax.apply_updates(network, change)
        target = optax.incremental_update(network, target, config.target_rate)
        average = optax.incremental_update(network, average, 4 / (index + 4))
        return (network, target, average, state, index + 1), None

    start = (network, network, network, optimiser.init(network), jnp.float32(0))
    (_, _, average, _, _), _ = jax.lax.scan(step, start, jax.random.split(key, updates))
    return average


def importance_sampling(
    logged: Logged, policy: np.ndarray, behaviour: np.ndarray, rewards: np.ndarray, discount: float
) -> np.ndarray:
    """``[rewards]``, per-decision and self-normalised, with the true probabilities of the behaviour.

    Args:
        logged: the data.
        policy: ``[states, actions]``, of the states of the data.
        behaviour: likewise.
        rewards: ``[states, rewards]``, likewise.
        discount: γ.
    """
    rows = logged.taken
    states, chosen = logged.which[rows], np.argmax(logged.action[rows], axis=1)
    value = np.zeros((len(logged.which), rewards.shape[1]))
    last = (logged.start + logged.length)[logged.terminal]
    value[last] = rewards[logged.which[last]] / (1 - discount)
    ratio = policy[states, chosen] / behaviour[states, chosen]
    return weighted_doubly_robust(logged.length, ratio, rewards[states], value, discount).mean(axis=0)


def counting(logged: Logged, policy: np.ndarray, rewards: np.ndarray, discount: float) -> np.ndarray:
    """``[rewards]``, certainty equivalence: the counted model, solved. Where an action was never taken in a state, what
    was done there stands for it.

    Args:
        logged: the data.
        policy: ``[states, actions]``, of the states of the data.
        rewards: ``[states, rewards]``, likewise.
        discount: γ.
    """
    rows = logged.taken
    states, chosen, later = logged.which[rows], np.argmax(logged.action[rows], axis=1), logged.which[rows + 1]
    count = np.zeros(policy.shape)
    np.add.at(count, (states, chosen), 1)
    unseen = (policy * (count == 0)).sum(axis=1)
    share = policy[states, chosen] / count[states, chosen] + (unseen / np.maximum(count.sum(axis=1), 1))[states]
    chain = np.zeros((len(policy), len(policy)))
    np.add.at(chain, (states, later), share)
    still = count.sum(axis=1) == 0
    chain[still] = np.eye(len(policy))[still]
    value = np.linalg.solve(np.eye(len(policy)) - discount * chain, rewards)
    return value[logged.which[logged.start]].mean(axis=0)
