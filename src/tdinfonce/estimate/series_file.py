"""From a file of series to a fitted `TDInfoNCE`, with its score on what was held out."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.data.series import Series, read_series
from tdinfonce.errors import UserError
from tdinfonce.estimate.series import TDInfoNCE

__all__ = ["Fitted", "fit_series"]


class Fitted(NamedTuple):
    """What `fit_series` made."""

    model: TDInfoNCE
    columns: tuple[str, ...]
    rows: int
    """How many it learned from."""
    held_out: int
    """How many rows were held out."""
    score: float | None
    """On those, in nats; None: nothing was held out."""


def fit_series(
    path: str | Path,
    columns: list[str] | None = None,
    *,
    group: str | None = None,
    time: str | None = None,
    held_out: float = 0.2,
    out: str | Path | None = None,
    **parameters: Any,
) -> Fitted:
    """Fit a series file, score it on its last part, and save it.

    Args:
        path: as for `tdinfonce.data.series.read_series`.
        columns: likewise.
        group: likewise.
        time: likewise.
        held_out: the share of the data to score on: the last sessions, or the last rows of a single one.
        out: where to save the model; default: nowhere.
        parameters: of `TDInfoNCE`.

    Raises:
        UserError: one line; nothing has been written then.
    """
    if not 0 <= held_out < 1:
        raise UserError(f"held_out must be at least 0 and below 1; got {held_out}")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise UserError(f"there is no folder {Path(out).absolute().parent} to write {Path(out).name} to")
    series = read_series(path, columns, group=group, time=time)
    last = _last_part(series, held_out)
    model = TDInfoNCE(**parameters)
    groups = [None, None] if series.groups is None else [series.groups[~last], series.groups[last]]
    model.fit(series.rows[~last], groups=groups[0])
    score = model.score(series.rows[last], groups=groups[1]) if last.any() else None
    model.feature_names_in_ = np.array(series.columns, dtype=object)
    if out is not None:
        model.save(out)
    return Fitted(model, series.columns, int((~last).sum()), int(last.sum()), score)


def _last_part(series: Series, share: float) -> np.ndarray:
    """True for the rows to hold out."""
    if series.groups is None:
        last = np.arange(len(series.rows)) >= round(len(series.rows) * (1 - share))
    else:
        names, first, which = np.unique(series.groups, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # sessions in the order of their first rows
        last = rank[which] >= round(len(names) * (1 - share))
    if share and (last.sum() < 3 or (~last).sum() < 3):
        raise UserError(
            f"held_out={share:g} leaves {(~last).sum()} rows to learn from and {last.sum()} to score on; 3 are needed"
        )
    return last
