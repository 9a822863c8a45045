"""What a critic that is a model of the occupancy answers: compiled programs, arrays in and out."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tdinfonce import agents
from tdinfonce.data.candidates import draw_futures
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError
from tdinfonce.networks.critic import logits, smallest
from tdinfonce.occupancy import Information
from tdinfonce.types import GoalSampling

__all__ = ["Places", "Question", "embed", "embed_goal", "information", "log_ratios", "refuse", "rewards"]

DRAWS = 16
"""Actions of the policy that probabilities are averaged over, where actions are continuous."""
BLOCKS = 16
"""Of rows that a bound of the mutual information is averaged over."""


class Question(NamedTuple):
    """Where to start, and how to go on; one row for each start."""

    state: np.ndarray
    goal: np.ndarray
    action: np.ndarray | None
    """The first action as the agent sees it; None: the policy's own."""
    several: bool
    """Whether a batch was asked for, or one start."""


class Places(NamedTuple):
    """Candidates."""

    place: np.ndarray
    embedded: tuple[Any, ...]
    """ψ of each member."""
    observation: np.ndarray | None
    """The states that they were seen in, where they are the run's own."""


def refuse(name: str, agent: Any) -> UserError:
    """Say why a run of this agent cannot be asked, and which can."""
    can = [word for word in agents.names() if hasattr(agents.load(word).Agent, "logits")]
    why = "'s critic tells values or distances, not how likely places are" if hasattr(agent, "critic") else None
    return UserError(f"{name}{why or ' learns a policy only'}: ask a run of {', '.join(can[:-1])} or {can[-1]}")


@eqx.filter_jit
def log_ratios(agent: Any, question: Question, embedded: Any, log_prior: Any, seed: Any) -> tuple[Any, Any]:
    """How much likelier than by chance each candidate is, in the log, for each start ``[starts, N]``: the mean over the
    first action of the policy, normalised for each of them; and the log of the mean of what they summed to.
    """
    key = jax.random.PRNGKey(seed)  # the same for every start: a row of a batch is answered as if it were alone

    def one(row: Any) -> tuple[Any, Any]:
        state, goal, action = jax.tree.map(lambda x: x[None], row)
        if action is None:
            actions, chance = agent.choose(state, goal, key, DRAWS)
            actions, chance = actions[:, 0], chance[:, 0]
        else:
            actions, chance = action, jnp.ones(1)
        state, goal = (jnp.broadcast_to(x, (len(actions), *x.shape[1:])) for x in (state, goal))
        table = smallest(logits(agent.embed(state, actions, goal), embedded))
        total, chance = jax.nn.logsumexp(table + log_prior, axis=1), jnp.log(chance)
        ratio = jax.nn.logsumexp(table + (chance - total)[:, None], axis=0)
        return ratio, jax.nn.logsumexp(total + chance)

    return jax.lax.map(one, (question.state, question.goal, question.action))


@eqx.filter_jit
def embed(agent: Any, state: Any, action: Any, goal: Any) -> Any:
    """φ, the members one behind the other: its inner product with ψ is the mean of their logits."""
    left = agent.embed(state, action, goal)
    return jnp.concatenate(left, axis=-1) / len(left)


@eqx.filter_jit
def embed_goal(agent: Any, place: Any) -> tuple[Any, ...]:
    """ψ of each member."""
    return tuple(agent.embed_goal(place))


@eqx.filter_jit
def _gains(agent: Any, state: Any, action: Any, goal: Any, later: Any) -> Any:
    """By how much each row knows its own later place better than by chance, in nats: InfoNCE's bound in its parts."""
    table = agent.logits(state, action, goal, later)
    return jnp.diagonal(jax.nn.log_softmax(table, axis=1)) + math.log(len(table))


def information(
    agent: Any, episodes: Episodes, discount: float, goal: np.ndarray | None, count: int, rng: np.random.Generator
) -> Information:
    """InfoNCE's bound, over `BLOCKS` draws of ``count`` pairs. Its standard error takes episodes as independent."""
    gains, which = [], []
    for _ in range(BLOCKS):
        episode, row, later = draw_futures(episodes, rng, count, GoalSampling(discount))
        told = episodes.goal[episode] if goal is None else np.broadcast_to(goal, (len(row), *goal.shape))
        seen = episodes.observation[row], episodes.action[row], told, episodes.achieved[later]
        gains.append(np.asarray(_gains(agent, *seen), np.float64))
        which.append(episode)
    gain, episode = np.concatenate(gains), np.concatenate(which)
    rest = np.bincount(episode, gain - gain.mean(), len(episodes))
    clusters = len(np.unique(episode))
    error = math.sqrt(np.sum(np.square(rest)) * clusters / (clusters - 1)) / len(gain) if clusters > 1 else math.nan
    return Information(float(gain.mean()), error, len(gains[0]))


def rewards(reward: Any, seen: np.ndarray, action: Callable[[], Any] | None) -> np.ndarray:
    """What each candidate is worth: ``[N]``, or ``[N, K]`` of several rewards.

    Args:
        reward: a function of what is seen, or of that and the action; or several.
        seen: of each candidate.
        action: gives the actions that belong to them; None: nobody knows.
    """
    if isinstance(reward, Sequence) and not isinstance(reward, str) and len(reward):
        parts = [rewards(each, seen, action) for each in reward]
        if any(part.shape != (len(seen),) for part in parts):
            raise UserError("each of several rewards must return one number for each candidate")
        return np.stack(parts, axis=1)
    if not callable(reward):
        raise UserError(f"reward must be a function of the place, or a list of such; got {reward!r}")
    if not _takes_action(reward):
        return np.asarray(reward(seen))
    if action is None:
        raise UserError("a reward of the action needs the run's own candidates: leave candidates out")
    return np.asarray(reward(seen, action()))


def _takes_action(reward: Callable[..., Any]) -> bool:
    """Whether it must be given two arguments."""
    try:
        parameters = inspect.signature(reward).parameters.values()
    except (TypeError, ValueError):  # of functions that are not Python's
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in by_place and p.default is p.empty for p in parameters) == 2
