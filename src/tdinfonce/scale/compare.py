"""Agents side by side: the same task, the same budget, the same seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.analysis.compare import Comparison, report
from tdinfonce.data import Episodes, from_arrays
from tdinfonce.errors import UserError
from tdinfonce.plans.plan import Plan, plan
from tdinfonce.scale.grid import train_many
from tdinfonce.system.files import write_npz_atomic

__all__ = ["compare"]

DATA = "data.npz"
"""Data in memory, written so that each process can read them."""


def compare(
    env: Any = None,
    data: Any = None,
    agents: Sequence[str] = ("td-infonce", "contrastive-rl", "gcbc"),
    seeds: int | str | Sequence[int] = 3,
    *,
    out: str | Path | None = None,
    **arguments: Any,
) -> Comparison:
    """Train several agents with several seeds, in parallel on the cores, and put them into one table and one figure.

    Call it again to continue what was stopped, or to add agents or seeds: what is complete is kept.

    Args:
        env: as for `tdinfonce.plan`. An environment object cannot be sent to other processes: its runs follow one
            another here.
        data: likewise; data in memory are written into the folder.
        agents: names of agents. Each gets the same settings and its own tuning; the table says what differs.
        seeds: a number N, for 0 to N - 1; or the seeds themselves, ``[3, 7]`` or ``"3,7"``.
        out: the folder; default: runs/compare-ENV. It gets the runs, ``figure.png``, ``figure.svg`` and ``table.md``.
        arguments: further ones of `tdinfonce.plan`; a setting that an agent does not have is refused.

    >>> import tdinfonce as td
    >>> both = td.compare("point", agents=["gcbc", "td-infonce"], seeds=2, env_steps=600, out="runs/both")
    >>> [row["name"] for row in both.table().rows]
    ['td-infonce', 'gcbc']
    """
    if not agents or isinstance(agents, str):
        raise UserError(f"agents are a list of names, such as ['td-infonce', 'gcbc']; got {agents!r}")
    if len(set(agents)) != len(agents):
        raise UserError(f"each agent may be named once; got {', '.join(agents)}")
    chosen = seeding.seed_list(seeds)
    plans = [plan(env, data, agent, seed=seed, **arguments) for agent in agents for seed in chosen]
    root = Path(out) if out is not None else Path("runs") / f"compare-{_name(plans[0])}"
    if plans[0].episodes is not None and not plans[0].env.startswith("in-memory:"):
        root.mkdir(parents=True, exist_ok=True)
        arguments |= _write(root / DATA, data, arguments)
        plans = [plan(env, root / DATA, agent, seed=seed, **arguments) for agent in agents for seed in chosen]
    train_many({f"{p.agent}--{p.seed}": p for p in plans}, root, title=f"{len(plans)} runs")
    return report(root)


def _name(plan: Plan) -> str:
    source = Path(plan.dataset).stem if plan.dataset else plan.env
    return source.replace(":", "-").replace("/", "-").replace(" ", "-")


def _write(path: Path, data: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write data in memory to a file; returns how to read them."""
    read: dict[str, Any] = {name: arguments.get(name) for name in ("goal", "action_bounds")}
    episodes: Episodes = from_arrays(data, **read)
    rows = np.concatenate([np.arange(s, s + n + 1) for s, n in zip(episodes.start, episodes.length, strict=True)])
    ends = np.cumsum(episodes.length + 1) - 1
    timeouts = np.zeros(len(rows), bool)
    timeouts[ends] = True
    actions = episodes.action[rows]
    bounds: Any = None
    if episodes.actions:
        first = int(episodes.action_low[0]) if episodes.action_low else 0
        actions, bounds = np.argmax(actions, axis=1) + first, episodes.actions
    elif episodes.action_low:
        low, high = np.array(episodes.action_low), np.array(episodes.action_high)
        actions, bounds = (high + low) / 2 + (high - low) / 2 * actions, (episodes.action_low, episodes.action_high)
    arrays = {
        "observations": episodes.observation[rows],
        "actions": actions,
        "achieved_goals": episodes.achieved[rows],
        "desired_goals": np.repeat(episodes.goal, episodes.length + 1, axis=0),
        "timeouts": timeouts,
    }
    write_npz_atomic(path, arrays)
    return {"goal": None, "action_bounds": bounds}
