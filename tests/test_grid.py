"""Grids of training runs: finished cells are skipped, stopped ones continue, a failing one ends no other."""

import dataclasses
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tdinfonce import experiments
from tdinfonce.analysis import compare, grid
from tdinfonce.cli import main
from tdinfonce.errors import UserError
from tdinfonce.experiments._grid import GridRun
from tdinfonce.plans.plan import Plan
from tdinfonce.runs import checkpoint
from tdinfonce.scale.grid import run_grid
from tdinfonce.seeding import seed_list
from tdinfonce.system.signals import sigterm_as_ctrl_c

TINY = ("hidden=8", "env_steps=200", "warmup_steps=100", "eval_every=100", "eval_episodes=2", "final_episodes=2")
TINY += ("batch_size=16", "updates_per_call=5")


def plans(*cells: GridRun) -> dict[str, Plan]:
    return {cell.name: cell.plan() for cell in cells}


def test_a_grid_runs_skips_reports_and_survives_a_failure(tmp_path: Path) -> None:
    good = GridRun("point--gcbc--0", "point", "gcbc", 0, settings=TINY)
    bad = GridRun("point--gcbc--1", "no-such-module:Env-v0", "gcbc", 1, settings=TINY)
    counted: list[int] = []
    with pytest.raises(UserError, match=r"1 of 2 runs failed.*point--gcbc--1.*cannot import"):
        run_grid(tmp_path, plans(bad, good), advance=counted.append)
    assert sum(counted) == 2
    assert (tmp_path / good.name / "COMPLETE").is_file()
    stamp = (tmp_path / good.name / "summary.json").stat().st_mtime_ns
    run_grid(tmp_path, plans(good), advance=counted.append)
    assert (tmp_path / good.name / "summary.json").stat().st_mtime_ns == stamp, "a finished run was run again"
    changed = dataclasses.replace(good, settings=(*TINY, "hidden=16"))
    with pytest.raises(UserError, match=r"point--gcbc--0 was made with hidden=\(8,\), which is \(16,\) now; delete it"):
        run_grid(tmp_path, plans(changed), advance=counted.append)
    compare.report(tmp_path, "title")
    assert (tmp_path / "figure.png").is_file()
    final = json.loads((tmp_path / good.name / "summary.json").read_text())
    assert f"| {final['min_distance']:.3f} |" in (tmp_path / "table.md").read_text()


def test_a_stopped_grid_stops_its_runs(tmp_path: Path) -> None:
    """A scheduler's SIGTERM: every run saves and ends before the grid does."""
    cell = GridRun("point--gcbc--0", "point", "gcbc", 0, settings=(*TINY, "env_steps=100000000"))

    def stop() -> None:
        while not checkpoint.list_checkpoints(tmp_path / cell.name):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
        run_grid(tmp_path, plans(cell), advance=lambda _: None)
    assert signal.getsignal(signal.SIGTERM) is before
    assert "continue with: tdinfonce train --resume" in (tmp_path / f"{cell.name}.log").read_text()
    assert not (tmp_path / cell.name / "COMPLETE").exists()


def test_a_cell_is_the_plan_of_what_it_says(tmp_path: Path) -> None:
    cell = GridRun("a", "fetch-push", "gcbc", 3, settings=("hidden=8",), noise=0.1, goal_space="full", dataset="data")
    plan = cell.plan(tmp_path)
    assert (plan.env, plan.agent, plan.seed, plan.agent_config.hidden) == ("fetch-push", "gcbc", 3, (8,))
    assert (plan.noise, plan.goal_space, plan.dataset, plan.threads) == (0.1, "full", "data", 1)
    (tmp_path / "data").mkdir()
    assert cell.plan(tmp_path).dataset == str(tmp_path / "data"), "what lies in the folder of the grid goes first"


@pytest.mark.parametrize("name", [name for name in experiments.names() if experiments.load(name).grid is not None])
def test_every_cell_is_a_valid_plan(name: str) -> None:
    experiment = experiments.load(name)
    assert experiment.grid is not None
    for budget, config in experiment.budgets.items():
        cells = experiment.grid(config, seed_list(experiment.seeds[budget]))
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            plan = cell.plan()
            assert bool(plan.dataset) == (not name.startswith("fetch-"))
            assert len(cell.name.split("--")) == 3


def test_the_default_fetch_grid_is_the_promised_one() -> None:
    experiment = experiments.load("fetch-state")
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["default"], seed_list(experiment.seeds["default"]))
    count = {(c.env, c.agent): sum((d.env, d.agent) == (c.env, c.agent) for d in cells) for c in cells}
    assert len(count) == 14
    assert all(n == 3 for (env, _), n in count.items() if env == "fetch-reach")
    assert count["fetch-push", "td-infonce"] == count["fetch-push", "contrastive-rl"] == 3
    assert count["fetch-push", "gcbc"] == count["fetch-push", "ddpg-her"] == count["fetch-push", "qrl"] == 1


@pytest.mark.parametrize("name", ["fetch-state", "fetch-ablations", "fetch-noisy"])
def test_the_paper_budget_is_the_papers_setting(name: str) -> None:
    experiment = experiments.load(name)
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["paper"], seed_list(experiment.seeds["paper"]))
    assert {(cell.preset, cell.goal_space) for cell in cells} == {("paper", "full")}


def test_the_noisy_grid_pairs_each_run_with_a_clean_one() -> None:
    experiment = experiments.load("fetch-noisy")
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["default"], seed_list(experiment.seeds["default"]))
    noisy = {cell for cell in cells if cell.noise}
    assert len(noisy) == len(cells) // 2 == 2 * 2 * 3
    for cell in noisy:
        clean = dataclasses.replace(cell, noise=0.0, name=cell.name.replace("-noisy", ""))
        assert clean in cells


def test_the_drop_is_of_paired_seeds(tmp_path: Path) -> None:
    successes = {("qrl", 0): 0.9, ("qrl", 1): 0.7, ("qrl", 2): 0.1, ("qrl-noisy", 0): 0.6, ("qrl-noisy", 1): 0.2}
    for (variant, seed), success in successes.items():
        folder = tmp_path / f"point--{variant}--{seed}"
        folder.mkdir()
        (folder / "config.json").write_text(
            json.dumps({"kind": "online", "env": "point", "agent": "qrl", "seed": seed})
        )
        (folder / "metrics.jsonl").write_text("")
        (folder / "summary.json").write_text(json.dumps({"success_any": success, "success_final": success / 2}))
    (tmp_path / "table.md").write_text("# title\n")
    grid.write_drops(tmp_path, ["qrl"], "-noisy")
    # Drops 0.3 and 0.5; the third seed has no pair. The standard error is 0.1414 / sqrt(2).
    assert "| point | QRL | 2 | 0.400 ± 0.100 | 0.200 ± 0.050 |" in (tmp_path / "table.md").read_text()


def test_runs_with_noise_are_not_averaged_with_runs_without(tmp_path: Path) -> None:
    for name, noise in (("a", 0.0), ("b", 0.5)):
        words = ["--agent", "gcbc", "--set", "env_steps=300", "warmup_steps=200", "hidden=8", "eval_episodes=1"]
        call = ["train", "--env", "point", "--noise", str(noise), "--out", str(tmp_path / name), *words]
        assert main([*call, "final_episodes=2"]) == 0
    assert "with 0.5 noise (resampled)" in (tmp_path / "b" / "table.md").read_text().splitlines()[0]
    assert "noise" not in (tmp_path / "a" / "table.md").read_text()
    found = compare.read(tmp_path)
    assert {task.name: [(group.label, len(group.finals)) for group in task.groups] for task in found.tasks} == {
        "point": [("GCBC", 1)],
        "point with 0.5 noise (resampled)": [("GCBC", 1)],
    }


def test_the_image_grid_has_the_four_tasks_and_smoke_touches_each() -> None:
    experiment = experiments.load("fetch-image")
    assert experiment.grid is not None
    tasks = {f"fetch-{task}-image" for task in ("reach", "push", "pick-and-place", "slide")}
    for budget in ("smoke", "paper"):
        cells = experiment.grid(experiment.budgets[budget], seed_list(experiment.seeds[budget]))
        assert {cell.env for cell in cells} == tasks
        assert {cell.agent for cell in cells if cell.env == "fetch-reach-image"} >= {"td-infonce", "contrastive-rl"}
        assert all("td-infonce" in {cell.agent for cell in cells if cell.env == task} for task in tasks)
