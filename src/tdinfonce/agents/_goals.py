"""Which goals the rows of a batch are trained on, and when a goal is reached."""

import itertools
from typing import Any

import jax.numpy as jnp
from jax import Array

from tdinfonce.errors import UserError
from tdinfonce.types import Batch, EnvSpec

__all__ = ["GoalMix", "actor_goals", "check_shares", "first_rows", "reached", "reads"]


class GoalMix:
    """Goals of several kinds in one batch: the first rows get goals of the first kind, and so on.

    Rows are independent draws, so it does not matter which of them get which kind.
    """

    def __init__(self, rest: str, **shares: float) -> None:
        """Name the field of each kind with its share of the rows; what is left are goals of the kind ``rest``."""
        self._ends = dict(zip(shares, itertools.accumulate(shares.values()), strict=True)) | {rest: 1.0}
        kinds = [kind for kind, share in shares.items() if share > 0]
        self.fields = (*kinds, *([] if sum(shares.values()) >= 1 else [rest]))
        """The fields of a batch that are read: kinds without a share are not."""

    def of(self, batch: Batch) -> Array:
        """The goal of each row."""
        kinds = [getattr(batch, name) for name in self.fields]
        rows = len(kinds[0])
        ends = [first_rows(self._ends[name], rows) for name in self.fields]
        parts = [kind[start:end] for kind, start, end in zip(kinds, [0, *ends], ends, strict=False)]
        return jnp.concatenate(parts)


def first_rows(share: float, rows: int) -> int:
    """How many rows a share of a batch is."""
    return min(round(share * rows), rows)


def actor_goals(config: Any) -> GoalMix:
    """The goals that the actor is trained on: commanded ones, then future ones of either law, then random ones."""
    shares = {"commanded_goal": config.commanded_share, "future_goal": config.actor_future_share}
    return GoalMix("random_goal", **shares, later_goal=config.actor_uniform_share)


def reads(*sources: str | GoalMix) -> tuple[str, ...]:
    """The fields of a batch that an agent reads, each once: those named, and those of mixes of goals."""
    names = [[source] if isinstance(source, str) else source.fields for source in sources]
    return tuple(dict.fromkeys(itertools.chain.from_iterable(names)))


def check_shares(config: Any, *names: str) -> None:
    """Raise UserError if settings that are shares of one batch are more than the whole."""
    if sum(getattr(config, name) for name in names) > 1:
        raise UserError(f"{', '.join(names[:-1])} and {names[-1]} are shares of one batch: together at most 1")


def reached(spec: EnvSpec, achieved: Array, goal: Array) -> Array:
    """Which rows are near enough to their goals, judged by unscaled goals alone: of images, those that are equal."""
    if spec.image is not None:
        return jnp.all(achieved == goal, axis=(-3, -2, -1))
    index = jnp.array(spec.deciding)
    return jnp.linalg.norm(achieved[:, index] - goal[:, index], axis=-1) < spec.tolerance
