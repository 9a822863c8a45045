"""Data that are in memory already: arrays as D4RL names them, a table of columns, or a list of episodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdinfonce.data.actions import ActionBounds
from tdinfonce.data.check import FEWEST_STEPS, Raw, check_field, refuse, row_in_episode
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.finish import finish
from tdinfonce.data.flat import Field, assemble
from tdinfonce.data.store import MEMORY_LIMIT, empty
from tdinfonce.errors import UserError
from tdinfonce.types import Episode

__all__ = ["from_arrays"]

Arrays = dict[str, np.ndarray]
PAIR = ("observations", "actions")
FILE = "data"
"""What messages call data that have no file."""
VECTORS = ("observations", "actions", "achieved_goals", "desired_goals", "goals")
ENDS = ("timeouts", "terminals", "truncations", "terminations")
TERMINAL = ("terminals", "terminations")
"""True on the last row of an episode: its state is one that is never left."""
IDS = "episodes"
NAMES = (*VECTORS, *ENDS, IDS)
"""What arrays are called; without the s, too."""
KINDS = (
    "episodes, a dict of arrays (observations, actions, timeouts), a table with a column for each coordinate, or a "
    "list of episodes (dicts or pairs of arrays)"
)


def from_arrays(
    data: Any,
    *,
    goal: str | None = None,
    action_bounds: ActionBounds | None = None,
    default_bounds: ActionBounds | None = None,
    default_goal: str | None = None,
    fewest_steps: int = FEWEST_STEPS,
) -> Episodes:
    """Check data in memory and make episodes of them. Nothing that is given is changed or kept.

    Args:
        data: one of

            - `Episodes`, which are returned as they are;
            - a dict of arrays with a row for each state, as D4RL has them: ``observations`` ``[rows, n]``, ``actions``
              ``[rows, m]`` (or whole numbers, ``[rows]``: discrete ones), and what says where episodes end:
              ``episodes``, a number or name that the rows of one episode share, or else ``timeouts`` or ``terminals``
              (or Gymnasium's ``truncations``, ``terminations``), true on the last row of each; any of them that is
              there ends an episode. Optionally ``achieved_goals`` and ``desired_goals`` (or ``goals``), ``[rows, k]``;
            - a table (a DataFrame) of the same, with a column for each coordinate: ``observation_0``,
              ``observation_1``, …, ``action_0``, …, ``episode``;
            - a list of episodes: dicts with ``observations``, ``actions`` and optionally ``achieved_goals`` and
              ``desired_goal`` (``[k]``, or ``[rows, k]`` of which the first is read), or pairs
              ``(observations, actions)``. T actions go with T + 1 observations, or with T: then the last action leads
              nowhere. Observations may be a dict as Gymnasium's goal environments give it.
        goal: as for `open_dataset`.
        action_bounds: likewise.
        default_bounds: likewise.
        default_goal: likewise.
        fewest_steps: likewise.

    Raises:
        UserError: one line with key and row.

    Example:
        >>> import numpy as np
        >>> walk = np.cumsum(np.ones((5, 2)), axis=0)
        >>> from_arrays([(walk, np.zeros((4, 2)))], goal="0:2").transitions
        4
    """
    if isinstance(data, Episodes):
        if goal is not None or action_bounds is not None:
            raise UserError("episodes have their goals and action bounds already; leave goal and action_bounds out")
        return data
    if isinstance(data, Mapping):
        raw = _flat(data, fewest_steps)
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        raw = _flat(_table(data), fewest_steps)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes | Episode):
        raw = _listed(data, fewest_steps)
    else:
        raise UserError(f"data must be {KINDS}; got {type(data).__name__}")
    return finish(raw, goal, action_bounds, default_bounds, MEMORY_LIMIT, fewest_steps, default_goal)


def _table(frame: Any) -> dict[str, Any]:
    """The columns of a table as arrays; columns that are numbered stand side by side in the order of their numbers."""
    columns: dict[str, dict[int, np.ndarray]] = {}
    for column in frame.columns:
        label = "_".join(map(str, column)) if isinstance(column, tuple) else str(column)
        name, _, number = label.rpartition("_")
        numbered = number.isdecimal() and (f"{name}s" in VECTORS or name in VECTORS)
        columns.setdefault(name if numbered else label, {})[int(number) if numbered else -1] = np.asarray(frame[column])
    arrays: dict[str, Any] = {}
    for name, found in columns.items():
        vector = name in VECTORS or f"{name}s" in VECTORS
        parts = [found[number] for number in sorted(found)]
        arrays[name] = np.stack(parts, axis=1) if vector and parts[0].ndim == 1 else parts[0]
    return arrays


def _named(values: Mapping[str, Any], where: str = "") -> Arrays:
    """The arrays that are known, by the name that we have for them; a dict of observations is taken apart."""
    values = {str(name): value for name, value in values.items()}
    for name in ("observations", "observation"):
        if isinstance(values.get(name), Mapping):
            values |= values.pop(name)
    found: Arrays = {}
    for name in NAMES:
        given = [key for key in (name, name.removesuffix("s")) if values.get(key) is not None]
        if len(given) > 1:
            raise refuse(FILE, given[0], f"is there twice: as {given[1]}, too", where)
        if given:
            found[name] = _array(values[given[0]], given[0], where)
    return found


def _array(value: Any, name: str, where: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:  # lists of different lengths, or no numbers at all
        raise refuse(FILE, name, f"is no array ({error})", where) from error
    if name.startswith(IDS.removesuffix("s")):
        return array.astype(str) if array.dtype.hasobject else array
    if array.dtype.hasobject:
        raise refuse(FILE, name, f"must hold plain numbers; its type is {array.dtype}", where)
    return array


def _flat(values: Mapping[str, Any], fewest: int) -> Raw:
    """Arrays with a row for each state."""
    arrays = _named(values)
    marks = [arrays[name] for name in TERMINAL if name in arrays]
    if IDS in arrays:
        ended = _last_rows(arrays.pop(IDS))
        arrays = {name: array for name, array in arrays.items() if name not in ENDS} | {ENDS[0]: ended}
    ends = [name for name in ENDS if name in arrays]
    if not ends and "observations" in arrays and "actions" in arrays:
        problem = "nothing says where episodes end: number them (episodes), or set timeouts on the last row of each"
        raise refuse(FILE, "", problem)
    fields = {name: _field(array) for name, array in arrays.items()}
    raw = assemble(FILE, fields, MEMORY_LIMIT, ends=ends, held=map(str, values), fewest_steps=fewest)
    if marks:
        last = raw.start + raw.length
        raw = raw._replace(terminal=np.any([_flags(mark, len(raw.observation))[last] for mark in marks], axis=0))
    short = np.nonzero(raw.length < fewest)[0]
    if len(ends) > 1 and len(short):
        problem = f"end an episode of less than {fewest} steps; leave out the one that does not end episodes"
        raise refuse(FILE, " and ".join(ends), problem, f"row {raw.start[short[0]]}")
    return raw


def _flags(mark: np.ndarray, rows: int) -> np.ndarray:
    check_field(FILE, "terminals", mark.shape, mark.dtype, sizes=(rows,))
    return mark == 1


def _last_rows(ids: np.ndarray) -> np.ndarray:
    """``[rows]``, true on the last row of each run of equal ids; an id that comes again later is refused."""
    if ids.ndim != 1 or not len(ids):
        raise refuse(FILE, IDS, f"must have shape [any]; it has {list(ids.shape)}")
    last = np.append(ids[1:] != ids[:-1], True)
    begun = np.flatnonzero(np.append(True, last[:-1]))
    _, first = np.unique(ids[begun], return_index=True)
    again = np.setdiff1d(np.arange(len(begun)), first)
    if len(again):
        row = int(begun[again[0]])
        raise refuse(FILE, IDS, f"{ids[row]} was there before; rows of one episode must be adjacent", f"row {row}")
    return last


def _field(array: np.ndarray) -> Field:
    def read(first: int, out: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            out[...] = array[first : first + len(out)]

    return Field(array.shape, array.dtype, read)


def _listed(values: Sequence[Any], fewest: int) -> Raw:
    """Episodes one after the other."""
    if not len(values):
        raise refuse(FILE, "", "there is no episode")
    episodes = [_episode(value, f"episode {index}") for index, value in enumerate(values)]
    whole = all(e["actions"].dtype.kind in "iub" and e["actions"].shape[1:] in ((), (1,)) for e in episodes)
    if whole:
        episodes = [e | {"actions": e["actions"].reshape(-1, 1)} for e in episodes]
    length = np.array([_steps(episode, f"episode {index}", fewest) for index, episode in enumerate(episodes)])
    start = np.cumsum(length + 1) - length - 1
    observation, action = (_joined(episodes, name, start, length) for name in ("observations", "actions"))
    achieved, goals = (
        _joined(episodes, name, start, length) if name in episodes[0] else None
        for name in ("achieved_goals", "desired_goals")
    )
    names = ("observations", "actions", "observations" if achieved is None else "achieved_goals", "desired_goals")
    goals = None if goals is None else goals[start]
    terminal = [any(np.ravel(e[name])[-1:].any() for name in TERMINAL if name in e) for e in episodes]
    marked = any(name in e for name in TERMINAL for e in episodes)
    raw = Raw(FILE, observation, action, achieved, start, length, goals, names, row_in_episode(start), whole=whole)
    return raw._replace(terminal=np.array(terminal)) if marked else raw


def _episode(value: Any, where: str) -> Arrays:
    """The arrays of one episode by name; goals with a row for each state."""
    if isinstance(value, Episode):
        value = dict(zip(("observations", "achieved_goals", "actions", "desired_goals"), value, strict=True))
    elif isinstance(value, list | tuple) and len(value) == len(PAIR):
        value = dict(zip(PAIR, value, strict=True))
    if not isinstance(value, Mapping):
        raise refuse(FILE, where, f"must be a dict, or a pair (observations, actions); it is a {type(value).__name__}")
    arrays = _named(value, where)
    for name in PAIR:
        if name not in arrays:
            raise refuse(FILE, name, f"is missing; there is: {', '.join(map(str, value)) or 'nothing'}", where)
        if not arrays[name].ndim:
            raise refuse(FILE, name, "must have a row for each step", where)
    if "goals" in arrays:
        arrays["desired_goals"] = arrays.pop("goals")
    goal = arrays.get("desired_goals")
    if goal is not None and goal.ndim == 1:
        arrays["desired_goals"] = np.repeat(goal[None], len(arrays["observations"]), axis=0)
    return arrays


def _steps(episode: Arrays, where: str, fewest: int) -> int:
    """How many steps have a state before and behind them."""
    states, actions = (len(episode[name]) for name in PAIR)
    if states - actions not in (0, 1):
        problem = f"{actions} actions go with {actions + 1} observations, or with {actions}; there are {states}"
        raise refuse(FILE, "observations", problem, where)
    if states - 1 < fewest:
        raise refuse(FILE, "observations", f"has {states} rows; at least {fewest} steps are needed", where)
    return states - 1


def _joined(
    episodes: Sequence[Mapping[str, np.ndarray]], name: str, start: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """One array of all episodes, with a row for each state; each must have it, in one width."""
    width = episodes[0][name].shape[1] if episodes[0][name].ndim > 1 else None
    joined = empty((int(length.sum()) + len(length), width or 1), mapped=False)
    for index, (episode, first, steps) in enumerate(zip(episodes, start, length, strict=True)):
        where = f"{name}, episode {index}"
        if name not in episode:
            raise refuse(FILE, where, "is missing, but the first episode has it")
        found = episode[name]
        rows = len(found) if name == "actions" else steps + 1
        check_field(FILE, where, found.shape, found.dtype, sizes=(rows, width))
        taken = min(rows, steps + 1)
        with np.errstate(over="ignore"):
            joined[first : first + taken] = found[:taken]
    return joined
