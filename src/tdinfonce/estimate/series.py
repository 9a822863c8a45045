"""Where will it go? TD InfoNCE for plain time series, with scikit-learn's conventions. Nobody acts here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tdinfonce import seeding
from tdinfonce.errors import UserError
from tdinfonce.estimate._model import Model, Scale
from tdinfonce.estimate._model_file import read_model, write_model
from tdinfonce.estimate._sessions import InvalidInput, Sessions, blocks, read_rows, read_sessions
from tdinfonce.occupancy import Estimate, Occupancy
from tdinfonce.system.machine import memory
from tdinfonce.system.progress import Progress

__all__ = ["TDInfoNCE"]

FIXED = ("discount", "dim", "method", "n_step", "hidden")
"""Parameters that the weights depend on."""
CHUNK = 250
"""Updates between two lines of progress."""


class TDInfoNCE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learns from series which states follow which, over a discounted horizon.

    The law that it learns is that of a later row: k rows ahead with chance (1 - discount) · discount ** (k - 1),
    k ≥ 1, hence 1 / (1 - discount) rows ahead in the mean. Whatever is asked is answered from it without fitting anew.
    A session is a window on a process that goes on: what lies behind its end is unknown, not nothing. Rows must tell
    all that matters for the future: of something that moves, place and velocity, or a few rows as one.

    Args:
        discount: at least 0 and below 1.
        dim: length of the representations.
        method: ``"td"`` bootstraps from the last row of n, so short sessions are stitched together; ``"mc"`` (Monte
            Carlo) learns only from rows that followed in the same session.
        n_step: how many real rows come before the bootstrap; default: about half the horizon.
        hidden: widths of the hidden layers.
        updates: gradient steps of a fit.
        batch_size: transitions of each.
        learning_rate: of Adam at first; it falls to 0.
        n_candidates: how many of the rows are kept to answer with.
        random_state: a number makes a fit repeatable.
        verbose: whether to show progress.

    Attributes:
        candidates_: ``[N, features]``, random rows of the data, as they were given.
        n_step_: what was used; None for ``"mc"``.
        loss_: the mean loss of each 250 updates.
        n_features_in_, feature_names_in_: as scikit-learn has them.

    Example:
        >>> import numpy as np
        >>> walk = np.sin(np.arange(400) / 10)[:, None]
        >>> model = TDInfoNCE(discount=0.8, updates=50, random_state=0).fit(walk)
        >>> model.predict_proba([[0.0], [1.0]]).shape
        (2, 399)
    """

    candidates_: np.ndarray
    loss_: np.ndarray
    _model: Model
    _right: np.ndarray
    """ψ of the candidates."""
    _seen: int
    """How many rows the candidates are a sample of."""
    _fixed: dict[str, Any]
    """The parameters that the weights were learned with."""

    def __init__(
        self,
        discount: float = 0.9,
        dim: int = 32,
        method: str = "td",
        n_step: int | None = None,
        *,
        hidden: tuple[int, ...] = (128, 128),
        updates: int = 10_000,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        n_candidates: int = 10_000,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        """Keep the parameters; `fit` checks them."""
        self.discount = discount
        self.dim = dim
        self.method = method
        self.n_step = n_step
        self.hidden = hidden
        self.updates = updates
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_candidates = n_candidates
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Learn from a series, or from several.

        Args:
            X: ``[rows, features]``, an array or a DataFrame, in the order of time and equally spaced; or a list of
                such sessions.
            y: is not read.
            groups: ``[rows]``, a label that the rows of one session share. They are taken in their order and need not
                be adjacent; no transition leads from one session to another.
        """
        return self._learn(X, groups, fresh=True)

    def partial_fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Make ``updates`` more gradient steps, on these rows alone. The scale of the columns stays that of the first
        rows; `candidates_` become a sample of all.
        """
        return self._learn(X, groups, fresh=not hasattr(self, "_model"))

    def transform(self, X: Any) -> np.ndarray:
        """φ of each row, ``[rows, dim]``, of length 1: rows with like futures are close."""
        check_is_fitted(self)
        rows = read_rows(self, X)
        found = np.concatenate([self._model.embed(rows[part]) for part in blocks(len(rows), 1, 10_000)])
        return found.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else found

    def predict_proba(self, X: Any, candidates: Any = None) -> np.ndarray:
        """The chance of each candidate in the discounted future of each row, ``[rows, N]``; rows sum to 1.

        Args:
            X: ``[rows, features]``.
            candidates: ``[N, features]``, draws from the data or from what is likely as in the data; default:
                `candidates_`.
        """
        return self.occupancy(X, candidates).weights

    def occupancy(self, X: Any, candidates: Any = None) -> Occupancy:
        """The law of a later row from each row of ``X``, to be asked for probabilities, means, values and draws."""
        check_is_fitted(self)
        rows = read_rows(self, X)
        places, right = self._candidates(candidates)
        if len(rows) * len(places) * 24 > (memory() or 2**40) // 2:
            raise InvalidInput(f"{len(rows):,} rows of {len(places):,} weights do not fit into memory; ask for fewer")
        return Occupancy.of_logits(places, self._model.embed(rows) @ right.T, self._fixed["discount"])

    def value(self, X: Any, reward: Callable[[np.ndarray], Any]) -> Estimate:
        """The expected discounted sum of a reward of the rows to come, beginning with the next, for each row of ``X``.

        Args:
            X: ``[rows, features]``.
            reward: called with rows ``[N, features]``; one number for each, or several: then as many values.
        """
        check_is_fitted(self)
        rows = read_rows(self, X)
        places, right = self._candidates(None)
        rewards = reward(places)
        parts = [
            Occupancy.of_logits(places, self._model.embed(rows[part]) @ right.T, self._fixed["discount"]).value(
                lambda _: rewards
            )
            for part in blocks(len(rows), len(places))
        ]
        return Estimate(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    def score(self, X: Any, y: Any = None, groups: Any = None) -> float:
        """How much better than chance it foresees held-out sessions, in nats.

        The mean of log p(later row | row) / p(later row), where a row that comes k later weighs discount ** (k - 1), up
        to the end of the session: rows near the end have fewer later ones and weigh less. 0 is chance; of the true law
        it is the mutual information. The normaliser is the mean over `candidates_`.

        Args:
            X: as for `fit`.
            y: is not read.
            groups: as for `fit`.
        """
        check_is_fitted(self)
        sessions = read_sessions(self, X, groups, reset=False)
        left, right = self._model.embed(sessions.rows), self._model.embed_place(sessions.rows)
        later, weight = np.zeros_like(right), np.zeros(len(right))
        for row in sessions.moments[::-1]:
            later[row] = right[row + 1] + self._fixed["discount"] * later[row + 1]
            weight[row] = 1 + self._fixed["discount"] * weight[row + 1]
        normaliser = np.concatenate([self._log_normaliser(left[p]) for p in blocks(len(left), len(self.candidates_))])
        return float((np.sum(left * later) - weight @ normaliser) / weight.sum())

    def save(self, path: str | Path) -> None:
        """Write what it answers by to one file: arrays (safetensors) and JSON, nothing that could run."""
        check_is_fitted(self)
        write_model(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What `save` wrote. It answers bit for bit as before; `partial_fit` begins with a fresh optimiser.

        Raises:
            UserError: the file is not one of these, or damaged.
        """
        return read_model(Path(path), cls)

    @property
    def _n_features_out(self) -> int:
        return int(self._model.left[-1][1].size)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model to answer by."""
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        """No target; answers in single precision if asked so."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _candidates(self, candidates: Any) -> tuple[np.ndarray, np.ndarray]:
        """Candidates and their ψ."""
        if candidates is None:
            return self.candidates_, self._right
        places = read_rows(self, candidates, "candidates")
        return places, self._model.embed_place(places)

    def _log_normaliser(self, left: np.ndarray) -> np.ndarray:
        logits = left.astype(np.float32) @ self._right.astype(np.float32).T
        top = logits.max(axis=1, keepdims=True)
        return (top[:, 0] + np.log(np.mean(np.exp(logits - top), axis=1))).astype(np.float64)

    def _learn(self, X: Any, groups: Any, *, fresh: bool) -> Self:
        from tdinfonce.estimate.predictor import Predictor

        sessions = read_sessions(self, X, groups, reset=fresh)
        config, n_candidates = self._config(), whole_number("n_candidates", self.n_candidates)
        fixed = {name: getattr(self, name) for name in FIXED}
        if not fresh and fixed != self._fixed:
            raise InvalidInput(f"{', '.join(FIXED)} must stay as they were; to change them call fit")
        scale = Scale.of(sessions.rows) if fresh else self._model.scale
        if not np.isfinite(scale.spread).all():
            raise InvalidInput("X holds numbers too large to be scaled; divide them first")
        if fresh and (sessions.rows == sessions.rows[0]).all():
            raise InvalidInput("all rows of X are equal: there is nothing to learn")
        seen = 0 if fresh else self._seen
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        steps, first = _steps(sessions, scale), seeding.derive(seed, "series", seen)
        predictor = Predictor.create(first, steps, config)
        if not fresh:
            predictor = Predictor.create(first, steps, config, self._model.fill(predictor.target))
        predictor, self.loss_ = self._run(predictor, steps, config.decay)
        self._model, self._fixed = Model.of_critic(scale, predictor.critic.average), fixed
        self.n_step_ = None if self.method == "mc" else config.n_step
        old = sessions.rows[:0] if fresh else self.candidates_
        rng = seeding.generator(seed, "candidates", seen)
        self.candidates_ = merge_samples(old, seen, sessions.next_rows, n_candidates, rng)
        self._seen = seen + len(sessions.moments)
        self._right = self._model.embed_place(self.candidates_)
        return self

    def _config(self) -> Any:
        """The predictor's settings, checked."""
        from tdinfonce.estimate.predictor import Config
        from tdinfonce.settings import apply

        if self.method not in ("td", "mc"):
            raise InvalidInput(f"method must be 'td' or 'mc'; got {self.method!r}")
        if self.method == "mc" and self.n_step is not None:
            raise InvalidInput("n_step belongs to method='td'; method='mc' never bootstraps")
        try:
            config = apply([Config()], {"discount": self.discount})[0]
            n_step = max(1, round(0.5 / (1 - config.discount))) if self.n_step is None else self.n_step
            settings = {"n_step": n_step, "hidden": self.hidden, "representation_size": self.dim}
            settings |= {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
            settings |= {"monte_carlo": self.method == "mc", "decay": whole_number("updates", self.updates)}
            return apply([config], settings)[0]
        except UserError as error:
            raise InvalidInput(str(error).replace("representation_size", "dim")) from error

    def _run(self, predictor: Any, steps: Any, updates: int) -> tuple[Any, np.ndarray]:
        from tdinfonce.estimate.predictor import fit

        losses, left = [], updates
        progress = Progress("fit", updates, unit="updates")
        if self.verbose:
            progress.__enter__()
        while left:
            predictor, loss = fit(predictor, steps, min(CHUNK, left))
            losses.append(float(loss.mean()))
            left -= len(loss)
            if self.verbose:
                progress.advance(len(loss), f"loss {losses[-1]:.3f}")
        if self.verbose:
            progress.__exit__(None, None, None)
        return predictor, np.array(losses)


def whole_number(name: str, number: Any) -> int:
    """A parameter that counts something."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or not 1 <= number <= 10**9:
        raise InvalidInput(f"{name} must be a whole number of at least 1; got {number!r}")
    return int(number)


def merge_samples(old: np.ndarray, seen: int, rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """A uniform sample of at most so many rows: of the new ones, and of those seen before, of which ``old`` is one."""
    count = min(most, len(old) + len(rows))
    new = int(rng.hypergeometric(len(rows), seen, count)) if seen else count
    new = min(max(new, count - len(old)), len(rows))
    kept, added = (np.sort(rng.choice(len(x), n, replace=False)) for x, n in ((old, count - new), (rows, new)))
    return np.concatenate([old[kept], rows[added]])


def _steps(sessions: Sessions, scale: Scale) -> Any:
    """Sessions as the predictor wants them: states that nobody acts on."""
    import jax.numpy as jnp

    from tdinfonce.estimate.predictor import Steps

    state = jnp.array(scale(sessions.rows), jnp.float32)
    action = jnp.zeros((len(state), 0))
    moment, left = jnp.array(sessions.moments, jnp.int32), jnp.array(sessions.left[sessions.moments], jnp.int32)
    return Steps(state, state, jnp.arange(len(state)), action, action[None], moment, left)
