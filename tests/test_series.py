"""Plain time series: right against exact answers, scikit-learn's conventions, files, and what is refused."""

import json
from collections.abc import Callable
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save as tensor_bytes
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import tdinfonce as td
from tdinfonce.cli import main
from tdinfonce.data.series import read_series
from tdinfonce.estimate._sessions import read_sessions
from tdinfonce.estimate.series import merge_samples
from tdinfonce.estimate.series_file import fit_series

STARTS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
TINY: dict[str, Any] = {"updates": 20, "hidden": (8,), "random_state": 0}
"""Enough to have a shape."""


def ornstein_uhlenbeck(rows: int, seed: int, rate: float = 0.1) -> np.ndarray:
    """Pulled back to 0, with a stationary variance of 1."""
    rng = np.random.default_rng(seed)
    keep = np.exp(-rate)
    x, noise = np.empty(rows), rng.normal(size=rows) * sqrt(1 - keep**2)
    x[0] = rng.normal()
    for t in range(1, rows):
        x[t] = keep * x[t - 1] + noise[t]
    return x[:, None]


def exact(start: float, place: float, radius: float, discount: float, rate: float = 0.1) -> float:
    """The chance of being near a place."""
    k = np.arange(1, 2_000)
    mean, spread = start * np.exp(-rate * k), np.sqrt(1 - np.exp(-2 * rate * k)) * sqrt(2)
    inside = [
        (erf((place + radius - m) / s) - erf((place - radius - m) / s)) / 2 for m, s in zip(mean, spread, strict=True)
    ]
    return float((1 - discount) * discount ** (k - 1) @ inside)


def error(model: td.TDInfoNCE) -> np.ndarray:
    truth = np.array([[exact(start, place, 0.3, model.discount) for place in STARTS] for start in STARTS])
    return np.abs(model.occupancy(STARTS[:, None]).probability(near=STARTS[:, None], radius=0.3) - truth)


@pytest.fixture(scope="module")
def walk() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.cumsum(rng.normal(size=(120, 2)), axis=0) * [1.0, 100.0]


@pytest.fixture(scope="module")
def fitted(walk: np.ndarray) -> td.TDInfoNCE:
    return td.TDInfoNCE(**TINY).fit(walk)


@pytest.fixture(scope="module")
def process() -> dict[str, td.TDInfoNCE]:
    x = ornstein_uhlenbeck(30_000, 5)
    how: dict[str, Any] = {"hidden": (64, 64), "updates": 4_000, "random_state": 0}
    return {method: td.TDInfoNCE(method=method, **how).fit(x) for method in ("td", "mc")}


@pytest.mark.parametrize("method", ["td", "mc"])
def test_a_known_process(process: dict[str, td.TDInfoNCE], method: str) -> None:
    """Half of the updates and of the width that are the default."""
    found = error(process[method])
    assert found.max() <= 0.05
    assert found.mean() <= 0.012


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_known_process_with_the_defaults(seed: int) -> None:
    assert error(td.TDInfoNCE(random_state=seed).fit(ornstein_uhlenbeck(50_000, seed))).max() <= 0.03


def test_td_and_monte_carlo_agree_on_a_whole_series(process: dict[str, td.TDInfoNCE]) -> None:
    found = [process[m].occupancy(STARTS[:, None]).probability(near=STARTS[:, None], radius=0.3) for m in ("td", "mc")]
    assert np.abs(found[0] - found[1]).max() <= 0.05


def test_values_of_rewards_need_no_new_fit(process: dict[str, td.TDInfoNCE]) -> None:
    """E[x] k steps ahead is x · keep^k: the value of the reward x is a geometric series."""
    keep = np.exp(-0.1)
    found = process["td"].value(STARTS[:, None], lambda x: np.stack([x[:, 0], np.ones(len(x))], axis=1))
    np.testing.assert_allclose(found.mean[:, 0], STARTS * keep / (1 - 0.9 * keep), atol=0.6)
    np.testing.assert_allclose(found.mean[:, 1], 10)
    assert (found.standard_error[:, 0] > 0).all()


def test_the_score_of_held_out_rows_is_near_the_mutual_information(process: dict[str, td.TDInfoNCE]) -> None:
    held_out = ornstein_uhlenbeck(10_000, 77)
    keep = np.exp(-0.1 * np.arange(1, 300))
    k_ahead = -0.5 * np.log1p(-(keep**2))  # of x and x k steps later; the mixture over k has less
    ceiling = float(0.1 * 0.9 ** np.arange(299) @ k_ahead)
    score = process["td"].score(held_out)
    assert 0.5 * ceiling < score < ceiling
    rng = np.random.default_rng(0)
    assert process["td"].score(rng.permutation(held_out)) < 0


def test_the_score_is_what_its_definition_says(fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    groups = np.repeat([3, 1], [50, 70])
    total = weight = 0.0
    for part in (walk[:50], walk[50:]):
        later, chance = fitted.predict_proba(part, part), fitted.predict_proba(part, fitted.candidates_)
        ratio = np.log(later / later[:, :1])  # up to a constant of each row
        every = fitted.predict_proba(part, np.concatenate([part[:1], fitted.candidates_]))
        constant = np.log(every[:, 0] / every[:, 1:].mean(axis=1))
        assert chance.shape[1] == len(fitted.candidates_)
        for t in range(len(part)):
            for k in range(1, len(part) - t):
                total += 0.9 ** (k - 1) * (ratio[t, t + k] + constant[t])
                weight += 0.9 ** (k - 1)
    assert fitted.score(walk, groups=groups) == pytest.approx(total / weight, abs=1e-5)
    assert fitted.score([walk[50:], walk[:50]]) == pytest.approx(total / weight, abs=1e-5)


def test_nothing_is_learned_across_sessions() -> None:
    """Two kinds of sessions take turns; each stays on its side, whatever stands in the next row."""
    rng = np.random.default_rng(0)
    side = np.repeat(np.tile([-1.0, 1.0], 100), 10)
    x = (side + 0.2 * rng.normal(size=len(side)))[:, None]
    groups = np.arange(len(x)) // 10
    order = np.argsort(rng.random(10 * 200).reshape(200, 10).argsort(axis=0).ravel(), kind="stable")
    how: dict[str, Any] = {"hidden": (32, 32), "updates": 1_500, "random_state": 0}
    for rows, labels in ((x, groups), (x[order], groups[order])):
        model = td.TDInfoNCE(**how).fit(rows, groups=labels)
        crossed = model.occupancy([[-1.0], [1.0]]).expectation(lambda place: place[:, 0] > 0)
        assert crossed[0] < 0.03
        assert crossed[1] > 0.97
    joined = td.TDInfoNCE(**how).fit(x).occupancy([[-1.0]]).expectation(lambda place: place[:, 0] > 0)
    assert joined[0] > 0.2


def test_groups_need_not_be_adjacent(walk: np.ndarray) -> None:
    groups = np.arange(120) % 3
    sessions = read_sessions(td.TDInfoNCE(), walk, groups, reset=True)
    np.testing.assert_array_equal(sessions.lengths, [40, 40, 40])
    np.testing.assert_array_equal(sessions.rows[40:80], walk[1::3])
    np.testing.assert_array_equal(sessions.left[[0, 39, 40, 119]], [39, 0, 39, 0])
    assert not set(sessions.moments) & {39, 79, 119}
    np.testing.assert_array_equal(sessions.next_rows, np.concatenate([walk[i::3][1:] for i in range(3)]))


def test_check_estimator() -> None:
    """Nothing is excluded. The one that is skipped wants a variable of SciPy's environment."""
    found = check_estimator(td.TDInfoNCE(updates=3, hidden=(8,)), on_skip=None, on_fail=None)
    assert len(found) > 40
    assert [f"{x['check_name']}: {x['exception']!r}" for x in found if x["status"] == "failed"] == []
    assert {x["check_name"] for x in found if x["status"] != "passed"} <= {"check_array_api_input"}


def test_the_same_random_state_gives_the_same_bits(fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    again = clone(fitted).fit(walk)
    np.testing.assert_array_equal(again.predict_proba(walk), fitted.predict_proba(walk))
    other = clone(fitted).set_params(random_state=1).fit(walk)
    assert np.abs(other.predict_proba(walk) - fitted.predict_proba(walk)).max() > 1e-6


def test_a_table_is_its_array(fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    table = pd.DataFrame(walk, columns=["a", "b"])
    model = clone(fitted).fit(table)
    assert list(model.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(model.predict_proba(table), fitted.predict_proba(walk))
    np.testing.assert_array_equal(model.predict_proba(walk[:1]), fitted.predict_proba(walk[:1]))
    shown = model.set_output(transform="pandas").transform(table)
    assert list(shown.columns) == list(model.get_feature_names_out()) == [f"tdinfonce{i}" for i in range(32)]
    with pytest.raises(td.UserError, match="feature names"):
        model.transform(table[["b", "a"]])
    sessions = clone(fitted).fit([table[:60], table[60:]])
    grouped = clone(fitted).fit(walk, groups=np.repeat(["x", "y"], 60))
    np.testing.assert_array_equal(sessions.transform(table), grouped.transform(walk))


def test_units_do_not_matter(fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    """Powers of two change no digit."""
    units = np.array([2.0**-20, 2.0**30])
    model = clone(fitted).fit(walk * units)
    np.testing.assert_allclose(model.predict_proba(walk * units), fitted.predict_proba(walk), rtol=1e-9)


def test_one_wild_value_and_a_constant_column_do_no_harm(walk: np.ndarray) -> None:
    wild = np.column_stack([walk, np.full(120, 7.0)])
    wild[60, 0] = 1e12
    model = td.TDInfoNCE(**TINY).fit(wild)
    scaled = model._model.scale(wild)
    assert 0.5 < scaled[:60, 0].std() < 2
    assert scaled[60, 0] > 10
    assert (scaled[:, 2] == 0).all()
    assert np.isfinite(model.predict_proba(wild)).all()


def test_answers(fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    chance = fitted.predict_proba(walk[:7])
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    assert chance.shape == (7, 119)
    np.testing.assert_array_equal(fitted.candidates_, walk[1:])
    np.testing.assert_array_equal(chance, fitted.occupancy(walk[:7]).weights)
    np.testing.assert_allclose(np.linalg.norm(fitted.transform(walk), axis=1), 1)
    assert fitted.transform(walk.astype(np.float32)).dtype == np.float32
    few = fitted.predict_proba(walk[:2], walk[5:8])
    np.testing.assert_allclose(few, chance[:2, 4:7] / chance[:2, 4:7].sum(axis=1, keepdims=True))
    assert fitted.n_step_ == 5
    assert fitted.loss_.shape == (1,)
    assert clone(fitted).set_params(discount=0.99).fit(walk).n_step_ == 50


def test_learning_goes_on(fitted: td.TDInfoNCE, walk: np.ndarray, tmp_path: Path) -> None:
    first = clone(fitted).partial_fit(walk)
    np.testing.assert_array_equal(first.transform(walk), fitted.transform(walk))
    first.save(tmp_path / "model.safetensors")
    second = td.TDInfoNCE.load(tmp_path / "model.safetensors").partial_fit(walk[:60])
    first.partial_fit(walk[:60])
    np.testing.assert_array_equal(first.transform(walk), second.transform(walk))
    assert np.abs(first.transform(walk) - fitted.transform(walk)).max() > 1e-3
    assert len(first.candidates_) == 119 + 59
    with pytest.raises(td.UserError, match="must stay as they were"):
        first.set_params(discount=0.5).partial_fit(walk)


def test_candidates_are_a_uniform_sample_of_all_that_was_seen() -> None:
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(400):
        first = merge_samples(np.zeros((0, 1)), 0, np.arange(300.0)[:, None], 50, rng)
        drawn.append(merge_samples(first, 300, np.arange(300.0, 400.0)[:, None], 50, rng))
    assert all(len(np.unique(x)) == 50 for x in drawn)
    assert np.mean(np.concatenate(drawn) >= 300) == pytest.approx(0.25, abs=0.02)


def test_save_and_load(fitted: td.TDInfoNCE, walk: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    model = td.TDInfoNCE.load(path)
    assert model.get_params() == fitted.get_params()
    np.testing.assert_array_equal(model.predict_proba(walk), fitted.predict_proba(walk))
    assert model.score(walk) == fitted.score(walk)
    assert [*tmp_path.iterdir()] == [path]


def broken_models(good: bytes) -> dict[str, bytes]:
    arrays, about = {"centre": np.zeros(2)}, {"tdinfonce.series": "{}"}
    return {
        "empty": b"",
        "text": b"not a model",
        "cut short": good[:-100],
        "no metadata": tensor_bytes(arrays),
        "other metadata": tensor_bytes(arrays, {"format": "pt"}),
        "no parameters": tensor_bytes(arrays, about),
        "metadata is no object": tensor_bytes(arrays, {"tdinfonce.series": "[1, 2]"}),
        "another format": good.replace(b'\\"format\\": 1', b'\\"format\\": 9'),
        "another parameter": good.replace(b'\\"updates\\"', b'\\"opdates\\"'),
        "discount out of range": good.replace(b'\\"discount\\": 0.9', b'\\"discount\\": 9.0'),
        "a weight is missing": good.replace(b"left.0.bias", b"left.9.bias"),
    }


def test_malformed_models_get_one_line(fitted: td.TDInfoNCE, tmp_path: Path) -> None:
    fitted.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    for name, data in broken_models(good).items():
        assert data != good, name
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(td.UserError, match="no model that TDInfoNCE") as caught:
            td.TDInfoNCE.load(tmp_path / "bad")
        assert "\n" not in str(caught.value), name
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(td.UserError, match="cannot read"):
            td.TDInfoNCE.load(path)
    with pytest.raises(td.UserError, match="cannot write"):
        fitted.save(tmp_path / "no" / "folder")


def hole(walk: np.ndarray, value: float = np.nan) -> np.ndarray:
    x = walk.copy()
    x[17, 1] = value
    return x


BAD: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "NaN": (lambda x: td.TDInfoNCE(**TINY).fit(hole(x)), "holds NaN in row 17, column 1"),
    "inf": (lambda x: td.TDInfoNCE(**TINY).fit(hole(x, np.inf)), "holds inf in row 17"),
    "NaN in a table": (
        lambda x: td.TDInfoNCE(**TINY).fit(pd.DataFrame(hole(x), columns=["a", "b"])),
        "row 17, column 'b'",
    ),
    "NaN in a session": (lambda x: td.TDInfoNCE(**TINY).fit([x, hole(x)]), "session 1 holds NaN in row 17"),
    "one row": (lambda x: td.TDInfoNCE(**TINY).fit(x[:1]), "1 row"),
    "two rows": (lambda x: td.TDInfoNCE(**TINY).fit(x[:2]), "at least 3"),
    "no rows": (lambda x: td.TDInfoNCE(**TINY).fit(x[:0]), "0 sample"),
    "one dimension": (lambda x: td.TDInfoNCE(**TINY).fit(x[:, 0]), "2D array"),
    "three dimensions": (lambda x: td.TDInfoNCE(**TINY).fit(x[None]), "dim 3"),
    "words": (lambda x: td.TDInfoNCE(**TINY).fit([["a", "b"]] * 9), "could not convert string"),
    "all rows equal": (lambda x: td.TDInfoNCE(**TINY).fit(np.ones((9, 2))), "all rows of X are equal"),
    "too large": (lambda x: td.TDInfoNCE(**TINY).fit(np.sign(x) * 1.7e308), "too large"),
    "a group of one row": (
        lambda x: td.TDInfoNCE(**TINY).fit(x, groups=["a"] * 119 + ["b"]),
        "group b has 1 row",
    ),
    "a session of one row": (lambda x: td.TDInfoNCE(**TINY).fit([x, x[:1]]), "session 1 has 1 row"),
    "too few groups": (lambda x: td.TDInfoNCE(**TINY).fit(x, groups=[1, 2]), "one label for each of the 120 rows"),
    "groups with a gap": (lambda x: td.TDInfoNCE(**TINY).fit(x, groups=hole(x)[:, 1]), "row 17 has none"),
    "groups with nothing": (lambda x: td.TDInfoNCE(**TINY).fit(x, groups=[None] * 120), "one is missing"),
    "groups of sessions": (lambda x: td.TDInfoNCE(**TINY).fit([x, x], groups=[1, 2]), "leave groups out"),
    "sessions of other widths": (lambda x: td.TDInfoNCE(**TINY).fit([x, x[:, :1]]), "1 features"),
    "discount 1": (lambda x: td.TDInfoNCE(1.0).fit(x), "discount must be at least 0 and below 1"),
    "discount a word": (lambda x: td.TDInfoNCE("high").fit(x), "discount must be a number"),  # type: ignore[arg-type]
    "dim 0": (lambda x: td.TDInfoNCE(dim=0).fit(x), "dim must be at least 1"),
    "method": (lambda x: td.TDInfoNCE(method="monte").fit(x), "'td' or 'mc'"),
    "n_step 0": (lambda x: td.TDInfoNCE(n_step=0).fit(x), "n_step must be at least 1"),
    "n_step of mc": (lambda x: td.TDInfoNCE(method="mc", n_step=3).fit(x), "never bootstraps"),
    "updates 0": (lambda x: td.TDInfoNCE(updates=0).fit(x), "updates must be a whole number"),
    "updates a float": (lambda x: td.TDInfoNCE(updates=1.5).fit(x), "updates must be"),  # type: ignore[arg-type]
    "n_candidates": (lambda x: td.TDInfoNCE(n_candidates=-1).fit(x), "n_candidates must be"),
    "hidden": (lambda x: td.TDInfoNCE(hidden=(0,)).fit(x), "hidden must name"),
    "batch_size": (lambda x: td.TDInfoNCE(batch_size=1).fit(x), "batch_size must be at least 2"),
    "learning_rate": (lambda x: td.TDInfoNCE(learning_rate=-1.0).fit(x), "learning_rate must be positive"),
}
ASKED: dict[str, tuple[Callable[[td.TDInfoNCE, np.ndarray], Any], str]] = {
    "another width": (lambda m, x: m.transform(x[:, :1]), "1 features"),
    "NaN": (lambda m, x: m.predict_proba(hole(x)), "holds NaN"),
    "candidates of another width": (lambda m, x: m.predict_proba(x, x[:, :1]), "candidates: X has 1 features"),
    "no candidates": (lambda m, x: m.predict_proba(x, x[:0]), "candidates"),
    "one state, not a row": (lambda m, x: m.occupancy([0.0, 1.0]), "2D array"),
    "reward of another shape": (lambda m, x: m.value(x, lambda s: 3.0), "one number for each"),
    "reward that is not finite": (lambda m, x: m.value(x, lambda s: s[:, 0] * np.nan), "not finite"),
    "score of one row": (lambda m, x: m.score(x[:1]), "1 row"),
    "score of a group of one row": (lambda m, x: m.score(x, groups=[0] * 119 + [1]), "group 1 has 1 row"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_to_fit_gets_one_line(name: str, walk: np.ndarray) -> None:
    call, said = BAD[name]
    with pytest.raises(td.UserError) as caught, np.errstate(over="ignore", invalid="ignore"):
        call(walk)
    assert isinstance(caught.value, ValueError)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ASKED)
def test_bad_questions_get_one_line(name: str, fitted: td.TDInfoNCE, walk: np.ndarray) -> None:
    call, said = ASKED[name]
    with pytest.raises(td.UserError) as caught:
        call(fitted, walk)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_into_memory_is_refused(
    fitted: td.TDInfoNCE, walk: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tdinfonce.estimate.series.memory", lambda: 100_000)
    with pytest.raises(td.UserError, match="ask for fewer"):
        fitted.occupancy(walk)
    assert fitted.value(walk, lambda s: s[:, 0]).mean.shape == (120,)


def test_before_fit_there_is_no_answer(walk: np.ndarray) -> None:
    for call in ("transform", "predict_proba", "occupancy", "score"):
        with pytest.raises(ValueError, match="not fitted yet"):
            getattr(td.TDInfoNCE(), call)(walk)


@pytest.fixture(scope="module")
def table(walk: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(walk, columns=["a", "b"])
    frame["session"] = np.repeat([1, 2, 3], 40)
    frame["t"] = np.tile(np.arange(40) * 0.02, 3)
    return frame


def write(path: Path, table: pd.DataFrame) -> Path:
    """By its ending."""
    import h5py

    columns = {name: table[name].to_numpy() for name in table}
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".npy":
        np.save(path, table.to_numpy(np.float64))
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy", "npz", "h5", "hdf5"])
def test_files_of_series(ending: str, table: pd.DataFrame, walk: np.ndarray, tmp_path: Path) -> None:
    path = write(tmp_path / f"walk.{ending}", table)
    a, b, session, t = "0123" if ending == "npy" else ("a", "b", "session", "t")
    found = read_series(path, group=session, time=t)
    np.testing.assert_array_equal(found.rows, walk)
    assert found.columns == (a, b)
    np.testing.assert_array_equal(np.asarray(found.groups, float), table["session"])
    some = read_series(path, [b], time=None)
    np.testing.assert_array_equal(some.rows, walk[:, 1:])
    assert some.groups is None


def test_an_array_of_several_columns_has_one_name(walk: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", position=walk, speed=walk[:, 0])
    assert read_series(tmp_path / "x.npz").columns == ("position_0", "position_1", "speed")
    assert read_series(tmp_path / "x.npz", ["position"]).columns == ("position_0", "position_1")
    assert read_series(tmp_path / "x.npz", ["speed", "position_1"]).rows[3].tolist() == [walk[3, 0], walk[3, 1]]


def test_dates_are_time_stamps(tmp_path: Path) -> None:
    stamps = pd.date_range("2024-05-01", periods=9, freq="h")
    for frame in (pd.DataFrame({"t": stamps, "x": range(9)}), pd.DataFrame({"t": stamps.strftime("%F %T"), "x": 1.5})):
        for ending in ("csv", "parquet"):
            path = write(tmp_path / f"x.{ending}", frame)
            assert read_series(path, time="t").columns == ("x",)
        path = write(tmp_path / "x.csv", frame.drop(index=[4]))
        with pytest.raises(td.UserError, match=r"row 4 \(line 6\): is irregular: 7200 after the one before"):
            read_series(path, time="t")


FILES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a gap": ("a,b\n1,2\n3,\n5,6\n", {}, "b, row 1 (line 3): is missing"),
    "NaN": ("a,b\n1,2\nnan,4\n5,6\n", {}, "a, row 1 (line 3): is missing"),
    "inf": ("a,b\n1,2\ninf,4\n5,6\n", {}, "is no finite number: 'inf'"),
    "a word": ("a,b\n1,2\n3,4\nfive,6\n", {}, "a, row 2 (line 4): is no finite number: 'five'"),
    "a missing column": ("speed,b\n1,2\n3,4\n", {"columns": ["sped"]}, "Did you mean 'speed'?"),
    "a missing group": ("a,session\n1,2\n3,4\n", {"group": "sesion"}, "Did you mean 'session'?"),
    "a missing time": ("a,time\n1,2\n3,4\n", {"time": "tiem"}, "Did you mean 'time'?"),
    "a column twice": ("a,b\n1,2\n3,4\n", {"columns": ["a", "a"]}, "named twice"),
    "a column that is the group": ("a,b\n1,2\n3,4\n", {"columns": ["a", "b"], "group": "b"}, "named twice"),
    "no column is left": ("a\n1\n3\n", {"group": "a"}, "no column to learn from"),
    "irregular": ("t,a\n0,1\n1,2\n2,3\n4,4\n", {"time": "t"}, "t, row 3 (line 5): is irregular: 2 after"),
    "falling": ("t,a\n0,1\n1,2\n2,3\n1,4\n", {"time": "t"}, "t, row 3 (line 5): does not rise"),
    "standing": ("t,a\n0,1\n0,2\n0,3\n", {"time": "t"}, "t, row 1 (line 3): does not rise"),
    "no time": ("t,a\n0,1\n,2\n2,3\n", {"time": "t"}, "t, row 1 (line 3): is missing"),
    "no date": ("t,a\n2024-01-01,1\nmonday,2\n", {"time": "t"}, "row 1 (line 3): is neither a number nor a date"),
    "no group": ("g,a\nx,1\n,2\n", {"group": "g"}, "g, row 1 (line 3): is missing"),
    "no names": ("1,2\n3,4\n5,6\n", {}, "must begin with a line of column names"),
    "names twice": ("a,a\n3,4\n5,6\n", {}, "each once"),
    "ragged": ("a,b\n1,2\n3\n", {}, "row 1 (line 3): has 1 cells, but 2 columns have names"),
    "only names": ("a,b\n", {}, "rows of numbers below it"),
    "empty": ("", {}, "rows of numbers below it"),
    "not text": ("\udcff\udcfe\udc80", {}, "is no CSV file"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_get_one_line(name: str, tmp_path: Path) -> None:
    text, how, said = FILES[name]
    path = tmp_path / "series.csv"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(td.UserError) as caught:
        read_series(path, **how)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_that_are_none_get_one_line(tmp_path: Path) -> None:
    for ending in ("parquet", "npy", "npz", "h5"):
        (tmp_path / f"x.{ending}").write_bytes(b"not a file of that kind")
        with pytest.raises(td.UserError) as caught:
            read_series(tmp_path / f"x.{ending}")
        assert "\n" not in str(caught.value)
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.savez(tmp_path / "uneven.npz", a=np.zeros(3), b=np.zeros(4))
    cases = {"pickle.npy": "no array of plain numbers", "cube.npy": "must be an array", "uneven.npz": "has 3 rows"}
    for name, said in (cases | {"none.csv": "no such file", "x.txt": "ends in .csv"}).items():
        with pytest.raises(td.UserError, match=said):
            read_series(tmp_path / name)


def test_the_command_line_fits_a_file(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "walk.csv", table)
    words = ["fit", "walk.csv", "--columns", "a", "b", "--group", "session", "--time", "t", "--updates", "20"]
    assert main([*words, "--discount", "0.8"]) == 0
    said = capsys.readouterr().out
    assert "learned from 80 rows of a, b" in said
    assert "held-out score: " in said
    assert "TDInfoNCE.load('walk.safetensors')" in said
    model = td.TDInfoNCE.load("walk.safetensors")
    assert model.discount == 0.8
    assert list(model.feature_names_in_) == ["a", "b"]
    part = table[table["session"] < 3]
    same = td.TDInfoNCE(0.8, updates=20, random_state=0).fit(part[["a", "b"]], groups=part["session"])
    np.testing.assert_array_equal(model.transform(part[["a", "b"]]), same.transform(part[["a", "b"]]))

    before = sorted(tmp_path.iterdir())
    for wrong, reason in {
        ("fit", "walk.csv"): "there already",
        ("fit", "none.csv"): "no such file",
        ("fit", "walk.csv", "--columns", "c", "--out", "new"): "unknown column 'c'",
        ("fit", "walk.csv", "--discount", "1", "--out", "new"): "discount",
        ("fit", "walk.csv", "--held-out", "1", "--out", "new"): "held_out",
        ("fit", "walk.csv", "--held-out", "0.001", "--out", "new"): "3 are needed",
        ("fit", "walk.csv", "--method", "x", "--out", "new"): "'td' or 'mc'",
        ("fit", "walk.csv", "--out", "no/folder/new"): "no folder",
    }.items():
        assert main([*wrong]) == 2
        line = capsys.readouterr().err
        assert reason in line
        assert line.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_the_last_rows_of_one_session_are_held_out(table: pd.DataFrame, tmp_path: Path) -> None:
    fitted = fit_series(write(tmp_path / "walk.csv", table), ["a"], updates=20, random_state=0)
    assert (fitted.rows, fitted.held_out) == (96, 24)
    assert fitted.score == fitted.model.score(table[["a"]][96:])
    everything = fit_series(tmp_path / "walk.csv", ["a"], held_out=0, updates=20)
    assert (everything.rows, everything.held_out, everything.score) == (120, 0, None)
    assert json.dumps(everything.columns) == '["a"]'
