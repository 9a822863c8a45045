"""Reports cannot lie: runs that differ in more than their seed are never one line, and every line says of how many."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tables import assert_same_numbers, numbers
from tdinfonce import analysis
from tdinfonce.analysis import compare, groups, style, training
from tdinfonce.cli import main
from tdinfonce.errors import UserError

ROOT = Path(__file__).parents[1]


def write_run(
    folder: Path,
    *,
    seed: int = 0,
    success: float = 0.5,
    finished: bool = True,
    old: bool = False,
    agent: str = "td-infonce",
    agent_config: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    steps: tuple[int, ...] = (100, 200),
    **changes: Any,
) -> Path:
    """A run folder as a run leaves it, with the given success from the first evaluation on."""
    config = {"kind": "online", "env": "point", "agent": agent, "seed": seed, "noise": 0.0, "preset": "fast"}
    config |= {"agent_config": {"n_step": 1, "hidden": [8, 8]} | (agent_config or {})}
    config |= {"training": {"eval_every": 100} | (training or {}), "threads": 1, "spec": {"goal_size": 2}} | changes
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    result = {"success_any": success, "success_final": success / 2, "min_distance": 1 - success, "episodes": 10}
    losses = {"critic/loss": 1.0, "actor/loss": success, "heldout/critic_loss": 2.0, "heldout/actor_loss": 2 * success}
    online, rows = config["kind"] == "online", []
    for step in steps:
        axis = {"env_step": step, "updates": step // 2} if old else {"env_steps": step, "updates": step // 2}
        row = (axis if online else {"updates": step}) | losses | {"time/total": 9.0, "time/evaluate": 4.0}
        rows.append(row | ({f"eval/{name}": value for name, value in result.items()} if config["env"] else {}))
    if finished:
        end = {"env_step": steps[-1]} if old and online else {"env_steps": steps[-1] if online else 0, "updates": 7}
        final = {f"final/{name}": value for name, value in result.items()}
        rows += [({"updates": steps[-1]} if old and not online else end) | final] if config["env"] else []
        summary = (result if config["env"] else {}) | {"updates": 7, "training_seconds": 60.0}
        (folder / "summary.json").write_text(json.dumps(summary | ({"env_steps": steps[-1]} if online else {})))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def found(root: Path) -> dict[str, dict[str, list[int]]]:
    """Task → label → seeds."""
    tasks = compare.read(root).tasks
    return {task.name: {g.label: sorted(run.seed for run in g.runs) for g in task.groups} for task in tasks}


def test_runs_are_grouped_by_everything_but_the_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        for n_step in (5, 1, 10):
            write_run(tmp_path / f"n{n_step}-{seed}", seed=seed, agent_config={"n_step": n_step})
        write_run(tmp_path / f"gcbc-{seed}", seed=seed, agent="gcbc", training={"eval_every": 50})
    assert found(tmp_path) == {
        "point": {f"TD InfoNCE, n_step={n}": [0, 1] for n in (1, 5, 10)} | {"GCBC": [0, 1]},
    }


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"agent_config": {"hidden": [16]}}, "hidden=16"),
        ({"training": {"eval_every": 50}}, "eval_every=50"),
        ({"goal_space": "full", "spec": {"goal_size": 9}}, "goal_space=full"),
        ({"spec": {"goal_size": 9}}, "goal_size=9"),
        ({"agent_config": {"new": True}}, "new=true"),
        ({"module": "mine"}, "module=mine"),
    ],
)
def test_any_other_setting_makes_another_group(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1, **change)
    labels = [*found(tmp_path)["point"]]
    assert len(labels) == 2
    assert any(label.startswith("TD InfoNCE, ") and named in label for label in labels)


def test_what_cannot_matter_makes_none(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0, noise_kind="zeros", training={"keep_checkpoints": 3, "env_worker": True})
    write_run(tmp_path / "b", seed=1, threads=4, out="elsewhere", preset="other", goal=None, test_goal=[], data=None)
    spec = {"goal_size": 2, "discrete": False, "action_low": [], "action_high": [], "action_shape": []}
    write_run(tmp_path / "c", seed=2, action_low=[], action_high=[], actions=0, env_path="", spec=spec)
    assert found(tmp_path) == {"point": {"TD InfoNCE": [0, 1, 2]}}


def test_many_differences_are_counted_or_the_preset_says_them(tmp_path: Path) -> None:
    many = {f"setting_{letter}": 1 for letter in "abcde"}
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=0, preset="paper", agent_config=many)
    assert [*found(tmp_path)["point"]] == ["TD InfoNCE, preset=fast", "TD InfoNCE, preset=paper"]
    write_run(tmp_path / "c", seed=0, agent_config=many | {"setting_e": 2})
    labels = [*found(tmp_path)["point"]]
    assert len(set(labels)) == 3
    assert "TD InfoNCE, setting_a=not set, setting_b=not set, setting_c=not set, and 2 more" in labels
    assert all("setting_e" in label for label in labels if "setting_a=1" in label), "two that would sound the same"


def test_data_are_told_apart_by_what_they_are(tmp_path: Path) -> None:
    facts = {"checksum": 1, "episodes": 2, "transitions": 3}
    offline = {"kind": "offline", "env": "point"}
    write_run(tmp_path / "a", seed=0, dataset="/here/walks.npz", data=facts, **offline)
    write_run(tmp_path / "b", seed=1, dataset="/there/walks.npz", data=facts, **offline)
    assert found(tmp_path) == {"point": {"TD InfoNCE": [0, 1]}}
    write_run(tmp_path / "c", seed=2, dataset="/here/runs.npz", data=facts | {"checksum": 9}, **offline)
    assert found(tmp_path)["point"] == {"TD InfoNCE, data=runs.npz": [2], "TD InfoNCE, data=walks.npz": [0, 1]}
    write_run(tmp_path / "d", seed=3, dataset="/new/walks.npz", data=facts | {"checksum": 7}, **offline)
    assert any("checksum 7" in label for label in found(tmp_path)["point"])


def test_axes_and_noise_have_panels_of_their_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1, noise=0.1, noise_kind="zeros")
    write_run(tmp_path / "c", seed=2, kind="offline", dataset="walks.npz")
    write_run(tmp_path / "d", seed=3, kind="offline", dataset="walks.npz", env="")
    assert found(tmp_path) == {
        "point, online": {"TD InfoNCE": [0]},
        "point with 0.1 noise (zeros)": {"TD InfoNCE": [1]},
        "point, offline": {"TD InfoNCE": [2]},
        "walks.npz": {"TD InfoNCE": [3]},
    }
    units = {task.name: task.unit for task in compare.read(tmp_path).tasks}
    assert units["point, online"] == "environment steps"
    assert units["point, offline"] == "updates"


def test_the_name_that_folders_give_is_kept(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / f"push--far-ahead--{seed}", seed=seed, agent_config={"n_step": 9})
        write_run(tmp_path / f"push--td-infonce-noisy--{seed}", seed=seed, noise=0.1)
        write_run(tmp_path / f"push--td-infonce--{seed}", seed=seed)
    assert found(tmp_path) == {"push": {name: [0, 1] for name in ("TD InfoNCE", "TD InfoNCE, noisy", "far-ahead")}}
    write_run(tmp_path / "more" / "push--far-ahead--2", seed=2, agent_config={"n_step": 8})
    with pytest.raises(UserError) as error:
        compare.read(tmp_path)
    said = str(error.value)
    first, second = tmp_path / "more" / "push--far-ahead--2", tmp_path / "push--far-ahead--0"
    assert f"{first} and {second} are both called far-ahead, but n_step is 8 in one and 9 in the other" in said
    assert "\n" not in said


def test_a_seed_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", seed=3)
    write_run(tmp_path / "deep" / "b", seed=3, threads=2)
    assert main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert f"{tmp_path / 'a'} and {tmp_path / 'deep' / 'b'} are one run twice: the same settings and seed 3" in said[0]


def test_runs_are_found_however_deep_but_not_in_runs_or_behind_links(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "reach" / "seed-0", seed=0)
    write_run(runs / "reach" / "more" / "seed-1", seed=1)
    write_run(runs / "seed-2", seed=2)
    write_run(runs / "seed-2" / "checkpoints" / "seed-3", seed=3)
    (runs / "an-experiment").mkdir()
    (runs / "an-experiment" / "config.json").write_text('{"experiment": "fetch-state"}')
    write_run(runs / "an-experiment" / "point--td-infonce--4", seed=4)
    write_run(tmp_path / "elsewhere" / "seed-5", seed=5)
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    assert found(runs) == {"point": {"TD InfoNCE": [0, 1, 2, 4]}}
    assert main(["report", str(runs)]) == 0
    text = (runs / "table.md").read_text()
    assert "| TD InfoNCE | 4 |" in text
    assert "probability" not in text, "there is nothing to be better than"


def test_unfinished_runs_are_drawn_and_named_but_not_counted(tmp_path: Path) -> None:
    for seed, success in ((0, 0.25), (1, 0.75)):
        write_run(tmp_path / f"seed-{seed}", seed=seed, success=success)
    write_run(tmp_path / "seed-2", seed=2, success=1.0, finished=False, steps=(100,))
    compared = compare.report(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| TD InfoNCE | 2 | 0.500 ± 0.354 |" in text
    assert "Not finished, and in no number above: seed-2." in text
    (row,) = compared.table().rows
    assert (row["n"], row["unfinished"], row["success_any"]) == (2, 1, 0.5)
    figure = compared.figure()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["TD InfoNCE (n = 2, 1 unfinished)"]
    assert "± 1 standard deviation" in legend.get_title().get_text()
    assert "not finished" in legend.get_title().get_text()
    mean, unfinished = figure.axes[0].get_lines()
    np.testing.assert_allclose(mean.get_ydata(), [0.5, 0.5])
    assert (unfinished.get_linestyle(), list(unfinished.get_ydata())) == (":", [1.0])


def test_bands_of_success_end_at_zero_and_one(tmp_path: Path) -> None:
    for seed, success in ((0, 0.0), (1, 1.0)):
        write_run(tmp_path / f"seed-{seed}", seed=seed, success=success)
    figure = compare.read(tmp_path).figure()
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 1.0)
    distance = figure.axes[2].collections[0].get_paths()[0].vertices
    assert distance[:, 1].min() == 0.0
    assert distance[:, 1].max() == pytest.approx(0.5 + 0.5**0.5)


def test_one_run_has_no_band_and_is_said_to_have_none(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0")
    figure = compare.read(tmp_path).figure()
    assert not figure.axes[0].collections
    assert figure.legends[0].get_title().get_text() == "one run: no band"
    assert figure.legends[0].get_texts()[0].get_text() == "TD InfoNCE (n = 1)"


def test_evaluations_of_one_time_are_matched_though_episodes_end_anywhere(tmp_path: Path) -> None:
    write_run(tmp_path / "a", seed=0, success=0.0, steps=(103, 210, 305))
    write_run(tmp_path / "b", seed=1, success=1.0, steps=(101, 230))
    (group,) = compare.read(tmp_path).tasks[0].groups
    steps, values = group.mean_curve("success_any")
    np.testing.assert_allclose(steps, [102, 220])
    np.testing.assert_allclose(values, [[0, 0], [1, 1]])


def test_a_run_that_does_not_say_when_it_evaluates_does_so_twenty_times(tmp_path: Path) -> None:
    about = {"eval_every": 0, "env_steps": 2000}
    write_run(tmp_path / "a", seed=0, success=0.0, steps=(103, 210, 305), training=about)
    write_run(tmp_path / "b", seed=1, success=1.0, steps=(101, 290), training=about)
    (group,) = compare.read(tmp_path).tasks[0].groups
    np.testing.assert_allclose(group.mean_curve("success_any")[0], [102, 250])


def test_every_loss_of_a_run_on_data_is_drawn(tmp_path: Path) -> None:
    write_run(tmp_path / "a", kind="offline", env="", dataset="walks.npz", steps=(10, 20, 30, 120))
    (group,) = compare.read(tmp_path).tasks[0].groups
    np.testing.assert_allclose(group.mean_curve("critic_loss")[0], [10, 20, 30, 120])


def test_a_method_has_one_place_and_one_colour(tmp_path: Path) -> None:
    for name in ("zebra", "qrl", "gcbc", "td-infonce", "aardvark"):
        write_run(tmp_path / "a" / name, agent=name)
        if name != "gcbc":
            write_run(tmp_path / "b" / name, agent=name, env="other")
    one, two = (compare.read(tmp_path / part).tasks[0] for part in "ab")
    order = ["td-infonce", "gcbc", "qrl", "aardvark", "zebra"]
    assert [group.method for group in one.groups] == order
    assert [group.method for group in two.groups] == [name for name in order if name != "gcbc"]
    colours = {line.get_label(): line.get_color() for line in compare.read(tmp_path / "a").figure().axes[0].get_lines()}
    for line in compare.read(tmp_path / "b").figure().axes[0].get_lines():
        assert colours[line.get_label()] == line.get_color()
    assert colours["TD InfoNCE"] == style.COLOURS["td-infonce"]
    assert {colours["zebra"], colours["aardvark"]} <= set(style.OTHERS)


def test_settings_of_one_method_share_its_colour_and_differ_in_their_dashes(tmp_path: Path) -> None:
    for n_step in (1, 2, 3, 4, 5):
        write_run(tmp_path / str(n_step), agent_config={"n_step": n_step})
    lines = compare.read(tmp_path).figure().axes[0].get_lines()
    assert {line.get_color() for line in lines} == {style.COLOURS["td-infonce"]}
    assert len({repr(line._unscaled_dash_pattern) for line in lines}) == 5


def test_a_comparison_is_one_table_with_intervals(tmp_path: Path) -> None:
    for seed, success in enumerate((0.5, 0.625, 0.75, 1.0)):
        write_run(tmp_path / f"ours-{seed}", seed=seed, success=success)
        write_run(tmp_path / f"theirs-{seed}", seed=seed, success=success - 0.25, agent="gcbc")
    write_run(tmp_path / "once", agent="qrl", success=1.0)
    compared = compare.read(tmp_path)
    table = compared.table(tuning={"td-infonce": 12, "gcbc": 3})
    ours, theirs, once = table.rows
    assert (ours["method"], ours["n"], ours["success_any"], ours["success_any_mean"]) == (
        "TD InfoNCE",
        4,
        0.6875,
        0.71875,
    )
    assert 0.5 <= ours["success_any_low"] < 0.6875 < ours["success_any_high"] <= 1.0
    assert (ours["better"], ours["minutes"], ours["tuning"]) == (None, 1.0, 12)
    # Ours wins 2.5, 3, 3.5 and 4 of the 4 pairs of each of its runs, ties by half.
    assert theirs["better"] == 13 / 16
    assert (once["success_any_low"], once["better_low"], once["tuning"]) == (None, None, None)
    text = table.markdown()
    assert text == str(table) == table._repr_markdown_()
    assert "P(TD InfoNCE is better)" in text.splitlines()[0]
    assert "| QRL | 1 | 1.000 (no interval) | 1.000 |" in text
    assert text.splitlines()[-1].endswith("| unknown |")
    assert "tuning" not in compared.table().rows[0]
    assert compared.figure(tmp_path / "one.png")._repr_png_() == (tmp_path / "one.png").read_bytes()


def test_runs_without_an_environment_are_compared_by_their_losses(tmp_path: Path) -> None:
    offline = {"kind": "offline", "env": "", "dataset": "/data/walks.npz", "data": {"checksum": 1}}
    for seed, loss in ((0, 0.5), (1, 1.5)):
        write_run(tmp_path / f"seed-{seed}", seed=seed, success=loss, **offline)
    compared = compare.report(tmp_path)
    (row,) = compared.table().rows
    assert (row["actor_loss"], row["critic_loss"]) == (2.0, 2.0), "the held-out ones"
    assert "better" not in row
    text = (tmp_path / "table.md").read_text()
    assert "| TD InfoNCE | 2 | 2.000 ± 0.000 | 2.000 ± 1.414 | 1.0 ± 0.0 |" in text
    assert "success" not in text
    critic, actor = compared.figure().axes[:2]
    assert (critic.get_ylabel(), actor.get_ylabel(), actor.get_xlabel()) == ("critic loss", "actor loss", "updates")
    np.testing.assert_allclose(actor.get_lines()[0].get_ydata(), [2.0, 2.0])


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("kind", ["online", "offline"])
def test_metrics_have_one_schema_whichever_version_wrote_them(kind: str, old: bool, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", kind=kind, old=old, dataset="" if kind == "online" else "walks.npz")
    rows = training.metrics(folder)
    counted = [(row["step"], row["env_steps"], row["updates"]) for row in rows]
    if kind == "online":
        assert counted[:2] == [(100, 100, 50), (200, 200, 100)]
        assert counted[2] == (200, 200, 100 if old else 7)
    else:
        assert counted[:2] == [(100, 0, 100), (200, 0, 200)]
        assert counted[2] == ((200, 0, 200) if old else (7, 0, 7))
    assert all("env_step" not in row for row in rows)
    first, _, last = training.evaluations(folder)
    assert (first["step"], first["seconds"], first["final"], first["episodes"]) == (100, 5.0, False, 10)
    assert last["final"]
    assert "seconds" not in last


def test_a_runs_figure_can_be_had_without_saving_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    before = sorted(folder.iterdir())
    figure = training.draw(folder)
    assert sorted(folder.iterdir()) == before
    assert figure._repr_png_().startswith(b"\x89PNG")
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_xdata(), [100, 200, 200])
    analysis.report(folder)
    assert (folder / "figure.png").read_bytes() == figure._repr_png_()


def test_drawing_touches_no_window_system() -> None:
    """Neither the user's backend nor their current figure is ours to change."""
    code = """
import sys
from pathlib import Path
from tdinfonce import analysis
from tdinfonce.analysis import compare, datasets, interpolation, paths, tabular
compare.read(Path(sys.argv[1])).figure()._repr_png_()
assert "matplotlib.pyplot" not in sys.modules
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(ROOT / "results" / "fetch" / "reach")], check=True)


def test_committed_grids_keep_their_labels() -> None:
    grids = [path.parent for path in (ROOT / "results").glob("*/*/table.md") if any(groups.find_runs(path.parent))]
    assert len(grids) >= 10
    known = {*style.LABELS.values(), *(f"{label}, noisy" for label in style.LABELS.values())}
    for grid in grids:
        assert {label for labels in found(grid).values() for label in labels} <= known


def test_tables_are_read_back_as_numbers(tmp_path: Path) -> None:
    text = "# 3 words\n\n| a2 | n |\n|---|---:|\n| x | 1,200 ± 0.50 |\n| SR-2 | not finished |\n\nby 5\n\n"
    text += "| b |\n|---|\n| -1e-3 |\n"
    assert numbers(text) == [[[[], [1200.0, 0.5]], [[], []]], [[[-0.001]]]]
    shutil.copy(ROOT / "results" / "fetch" / "push" / "table.md", tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert numbers(text) == numbers(text.replace("TD InfoNCE", "ours"))
    assert numbers(text) != numbers(text.replace("0.723", "0.724"))
    (tmp_path / "mixed.md").write_text(text.replace("QRL", "?").replace("GCBC", "QRL").replace("?", "GCBC"))
    assert_same_numbers(tmp_path / "table.md", tmp_path / "table.md")
    with pytest.raises(AssertionError):
        assert_same_numbers(tmp_path / "mixed.md", tmp_path / "table.md")
