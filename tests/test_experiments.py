"""Every tabular experiment runs from the command line and leaves a folder that explains itself."""

import json
import shutil
from pathlib import Path

import pytest

from tables import assert_same_numbers
from tdinfonce import experiments
from tdinfonce.cli import main
from tdinfonce.errors import UserError
from tdinfonce.seeding import seed_list

TABULAR = [name for name in experiments.names() if name.startswith("tabular-")]


LIKE_ANOTHER = {"tabular-occupancy", "tabular-efficiency", "tabular-c-learning-ablation", "tabular-shortcuts"}
"""They run the code of `tabular-known-model` and of `tabular-stitching`, and differ in what they draw."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LIKE_ANOTHER else ()) for name in TABULAR]
)
def test_smoke(name, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["reproduce", name, "--budget", "smoke", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert "done" in captured.err
    assert str(out / "figure.png") in captured.out
    config = json.loads((out / "config.json").read_text())
    assert (config["experiment"], config["budget"]) == (name, "smoke")
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figure.svg").read_text()
    assert "| " in (out / "table.md").read_text()
    assert "paper" in (out / "table.md").read_text().lower()
    assert (out / "COMPLETE").is_file()
    assert not list(out.glob("*partial*"))
    before = (out / "metrics.jsonl").read_text()
    assert main(["reproduce", name, "--budget", "smoke", "--out", str(out)]) == 2
    assert "earlier run" in capsys.readouterr().err
    (out / "figure.png").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "figure.png").is_file()
    assert (out / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize("name", TABULAR)
def test_the_table_in_the_repository_comes_from_the_figures_beside_it(name, tmp_path):
    stored = Path(__file__).parents[1] / "results" / "tabular" / name.removeprefix("tabular-")
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("config.json", "metrics.jsonl", "versions.json", "COMPLETE"):
        shutil.copy(stored / file, copy)
    assert main(["report", str(copy)]) == 0
    assert_same_numbers(copy / "table.md", stored / "table.md")
    assert (copy / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (copy / "figure.svg").read_text()


RUNS = sorted(
    path.parent
    for world in ("fetch", "maze")
    for path in (Path(__file__).parents[1] / "results" / world).glob("*/table.md")
)


@pytest.mark.parametrize("stored", RUNS, ids=lambda path: path.name)
def test_the_table_of_runs_in_the_repository_comes_from_the_runs_beside_it(stored, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(stored, copy, ignore=shutil.ignore_patterns("*.png", "*.svg", "table.md"))
    assert main(["report", str(copy)]) == 0
    assert_same_numbers(copy / "table.md", stored / "table.md")


@pytest.mark.parametrize("name", experiments.names())
def test_every_budget_is_declared(name):
    experiment = experiments.load(name)
    assert set(experiment.budgets) == set(experiment.duration) == set(experiment.seeds) == {"smoke", "default", "paper"}
    for budget, config in experiment.budgets.items():
        json.dumps(config.__dict__, default=lambda value: value.__dict__)
        work = experiment.work or (lambda config, seeds, grid=experiment.grid: len(grid(config, seeds)))
        assert work(config, seed_list(experiment.seeds[budget])) > 0


def test_the_paper_budget_has_the_size_of_the_paper():
    budgets = {name: experiments.load(name).budgets["paper"] for name in TABULAR}
    occupancy, efficiency = budgets["tabular-occupancy"], budgets["tabular-efficiency"]
    assert occupancy.steps == efficiency.steps == 50_000
    assert {discount for discount, _ in occupancy.sizes} == {0.9, 0.95, 0.99}
    assert all(sizes == (100_000,) for _, sizes in occupancy.sizes)
    headline = dict(efficiency.sizes)[0.95]
    assert (headline[0], headline[-1], len(headline)) == (1_000, 10_000_000, 9)
    assert budgets["tabular-stitching"].transitions == budgets["tabular-shortcuts"].transitions == 20_000
    drawn = [name for name in TABULAR if name != "tabular-n-step"]  # which is exact: nothing in it is random
    assert all(experiments.load(name).seeds["paper"] == 5 for name in drawn)


def test_wrong_arguments_name_parameters():
    for arguments, said in (
        ({"budget": "tiny"}, "unknown budget 'tiny'"),
        ({"seeds": 0}, "^seeds must be at least 1"),
        ({"seeds": 10_001}, "^seeds must be at least 1, and at most 10,000; got 10001"),
    ):
        with pytest.raises(UserError, match=said):
            experiments.reproduce("tabular-occupancy", **arguments)


def test_seeds_mean_the_same_as_in_training(tmp_path):
    """A number counts from 0; a list is itself, also where a task has fewer seeds than the others."""
    assert (
        main(["reproduce", "tabular-shortcuts", "--budget", "smoke", "--seeds", "3,7", "--out", str(tmp_path / "s")])
        == 0
    )
    rows = [json.loads(line) for line in (tmp_path / "s" / "metrics.jsonl").read_text().splitlines()]
    assert {row["seed"] for row in rows if row.get("phase", "evaluate") == "evaluate" and "seed" in row} == {3, 7}
    assert json.loads((tmp_path / "s" / "config.json").read_text())["seeds"] == [3, 7]
    for name in ("fetch-state", "antmaze"):
        experiment = experiments.load(name)
        cells = experiment.grid(experiment.budgets["default"], (3, 7))
        assert {cell.seed for cell in cells} == {3, 7}
        assert all(cell.name.endswith(f"--{cell.seed}") for cell in cells)
