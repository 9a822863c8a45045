"""The compiled programs of training: make an agent, ask it for an action, and run many updates at once."""

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tdinfonce.training.collect import Policy, remembering
from tdinfonce.types import Agent, Batch, EnvSpec, History, InputScale, Metrics

__all__ = ["create", "policy_of", "update_many"]


def policy_of(agent: Any, seed: int, steps: int, *, greedy: bool = False) -> Policy:
    """An agent as a function of numpy arrays; its keys are drawn for the whole episode at once.

    It is taken apart once for the episode: doing so at each step takes longer than the action.
    """
    keys = np.asarray(jax.random.split(jax.random.PRNGKey(seed), steps))
    arrays, static = eqx.partition(agent, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten(arrays)
    act = _acting(_Static((static, structure)), greedy)
    if getattr(agent, "context", 0) > 1:

        def remember(observation: np.ndarray, goal: np.ndarray, history: History | None) -> np.ndarray:
            return np.asarray(act(leaves, observation, goal, history, keys[0]))

        return remembering(agent.context, remember)
    return lambda observation, goal, time: np.asarray(act(leaves, observation, goal, None, keys[time % steps]))


@cache
def _acting(agent: "_Static", greedy: bool) -> Callable[..., Any]:
    """The program that acts for all agents of one make; their arrays are its first argument."""
    static, structure = agent.tree

    @jax.jit
    def act(leaves: list[Any], observation: Any, goal: Any, history: History | None, key: Any) -> Any:
        whole = eqx.combine(jax.tree_util.tree_unflatten(structure, leaves), static)
        past = {} if history is None else {"history": history}
        return whole.act(observation, goal, key, greedy=greedy, **past)

    return act


@eqx.filter_jit
def create(make: Callable[..., Agent], key: Any, spec: EnvSpec, config: Any, scale: InputScale) -> Agent:
    """A fresh agent. Its many small arrays are made by one program: compiling one for each takes seconds."""
    return make(key, spec, config, scale)


def update_many(agent: Any, batches: Batch) -> tuple[Any, Metrics]:
    """One update for each leading entry of ``batches``; the old agent's memory is reused, so drop it."""
    arrays, static = eqx.partition(agent, eqx.is_array)
    arrays, metrics = _scan(arrays, batches, _Static(static))
    return eqx.combine(arrays, static), metrics


class _Static:
    """Makes the array-free part of an agent hashable, as ``jit`` asks of its static arguments."""

    def __init__(self, tree: Any) -> None:
        leaves, self.structure = jax.tree_util.tree_flatten(tree)
        self.leaves = tuple(leaves)
        self.tree = tree

    def __hash__(self) -> int:
        return hash((self.leaves, self.structure))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and (self.leaves, self.structure) == (other.leaves, other.structure)


def _scan_body(arrays: Any, batches: Batch, static: _Static) -> tuple[Any, Metrics]:
    def step(arrays: Any, batch: Batch) -> tuple[Any, Metrics]:
        agent, metrics = eqx.combine(arrays, static.tree).update(batch)
        return eqx.filter(agent, eqx.is_array), metrics

    arrays, metrics = jax.lax.scan(step, arrays, batches)
    return arrays, jax.tree.map(lambda x: x.mean(), metrics)


_scan = jax.jit(_scan_body, static_argnums=2, donate_argnums=0)
