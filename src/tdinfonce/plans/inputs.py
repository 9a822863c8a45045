"""What somebody gives, as an agent sees it: observations, goals and actions, one or a batch, each checked."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, flatten

__all__ = [
    "Question",
    "as_user_error",
    "check_finite",
    "commanded",
    "own_actions",
    "question",
    "rows",
    "state_and_goal",
]


def state_and_goal(spec: EnvSpec, observation: Any, goal: Any) -> tuple[np.ndarray, np.ndarray]:
    """A state and a goal, or a batch of as many, as the agent sees them."""
    if isinstance(observation, Mapping) and "observation" in observation and "desired_goal" in observation:
        goal = observation["desired_goal"] if goal is None else goal
        observation = observation["observation"]
    if goal is None:
        raise ValueError("name a goal, or give the whole dict of a goal environment as observation")
    state = rows(spec, "observation", observation, spec.observation_shape)
    target = rows(spec, "goal", commanded(spec, goal), spec.goal_shape)
    if state.ndim != target.ndim:  # one for all
        count = (len(state) if state.ndim > target.ndim else len(target),)
        state = np.broadcast_to(state, count + state.shape[-len(spec.observation_shape) :])
        target = np.broadcast_to(target, count + target.shape[-len(spec.goal_shape) :])
    elif state.shape[: -len(spec.observation_shape)] != target.shape[: -len(spec.goal_shape)]:
        raise ValueError(f"one goal for each observation; got shapes {list(state.shape)} and {list(target.shape)}")
    return state, target


def commanded(spec: EnvSpec, goal: Any) -> Any:
    """A goal of the environment's as one of the run's goal space."""
    if not spec.command:
        return goal
    given = np.asarray(goal, np.float32)
    wanted = max(spec.command) + 1
    if given.shape[-1:] == (spec.goal_size,):
        return given
    if given.shape[-1:] != (wanted,):
        raise ValueError(f"goal must have length {wanted} or {spec.goal_size}; got shape {list(given.shape)}")
    return spec.goal(given)


def rows(spec: EnvSpec, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One item, or a batch of them, as the agent sees it."""
    array = flatten(value) if isinstance(value, Mapping) else np.asarray(value)
    if spec.image is not None and array.dtype != np.uint8:
        raise ValueError(f"images must be uint8, from 0 to 255; the {name} is {array.dtype}")
    array = array.astype(spec.dtype, copy=False)
    size = int(np.prod(shape))
    if array.shape[-len(shape) :] != shape and array.size == size:
        array = array.reshape(shape)  # what the environment gives in another shape
    elif array.shape[-len(shape) :] != shape and array.ndim > 1 and np.prod(array.shape[1:]) == size:
        array = array.reshape(-1, *shape)
    if array.ndim - len(shape) not in (0, 1) or array.shape[-len(shape) :] != shape:
        wanted = f"length {shape[0]}" if len(shape) == 1 else f"shape {list(shape)}"
        raise ValueError(f"{name} must have {wanted}, or be a batch of such; got shape {list(array.shape)}")
    return array


class Question(NamedTuple):
    """Where to start, and how to go on; one row for each start."""

    state: np.ndarray
    goal: np.ndarray
    action: np.ndarray | None
    """The first action as the agent sees it; None: the policy's own."""
    several: bool
    """Whether a batch was asked for, or one start."""


def question(spec: EnvSpec, observation: Any, goal: Any, action: Any) -> Question:
    """What is asked, checked, with a row for each start."""
    with as_user_error():
        state, target = state_and_goal(spec, observation, goal)
    check_finite("observation", state)
    check_finite("goal", target)
    given = None if action is None else own_actions(spec, action)
    several = state.ndim > len(spec.observation_shape) or (given is not None and given.ndim > 1)
    starts = [state.reshape(-1, *spec.observation_shape), target.reshape(-1, *spec.goal_shape)]
    if given is not None:
        starts.append(given.reshape(-1, spec.action_size))
        count = max(map(len, starts))
        if any(len(x) not in (1, count) for x in starts):
            raise UserError(f"one action for each observation; got {len(starts[2])} and {len(starts[0])}")
        starts = [np.broadcast_to(x, (count, *x.shape[1:])) for x in starts]
    return Question(starts[0], starts[1], starts[2] if given is not None else None, several)


def own_actions(spec: EnvSpec, action: Any) -> np.ndarray:
    """Actions in the environment's units, one or a batch, as the agent sees them; UserError if they are none."""
    with as_user_error():
        given = np.asarray(action, np.float64)
    check_finite("action", given)
    if spec.discrete:
        first = int(spec.action_low[0] if spec.action_low else 0)
        inside = (given == np.round(given)) & (given >= first) & (given < first + spec.action_size)
        if given.ndim > 1 or not inside.all():
            raise UserError(f"action must be a whole number from {first} to {first + spec.action_size - 1}, or several")
        return spec.own_action(given)
    shape = spec.action_shape or (spec.action_size,)
    if given.shape[-len(shape) :] != shape or given.ndim - len(shape) > 1:
        raise UserError(f"action must have shape {list(shape)}, or be a batch of such; got shape {list(given.shape)}")
    low, high = np.array(spec.action_low or (-1.0,)), np.array(spec.action_high or (1.0,))
    flat = given.reshape(*given.shape[: given.ndim - len(shape)], spec.action_size)
    slack = 1e-5 * (high - low)  # of float32
    if (flat < low - slack).any() or (flat > high + slack).any():
        raise UserError(f"action must lie between {low.tolist()} and {high.tolist()}")
    return spec.own_action(given)


@contextlib.contextmanager
def as_user_error() -> Iterator[None]:
    """What is wrong with arrays that somebody gave, in one line."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from None


def check_finite(name: str, rows: np.ndarray) -> None:
    """Raise UserError unless there is something, and all of it is a number."""
    if not rows.size:
        raise UserError(f"{name} is empty")
    if not np.isfinite(rows).all():
        raise UserError(f"{name} holds numbers that are not finite")
