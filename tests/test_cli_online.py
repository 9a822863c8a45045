"""train, eval, list and check-env, as a user calls them."""

import json
from pathlib import Path

import pytest

from tdinfonce.cli import main

SMALL = ["--set", "hidden=8", "env_steps=300", "warmup_steps=100", "eval_every=100", "batch_size=16"]
SMALL += ["eval_episodes=2", "final_episodes=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", "--env", "point", "--agent", "gcbc", "--seed", "4", "--out", str(out), *SMALL]) == 0
    return out


def test_train_then_eval_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--episodes", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["episodes"], result["env"], result["agent"], result["seed"]) == (3, "point", "gcbc", 4)
    assert 0 <= result["success_final"] <= result["success_any"] <= 1
    assert result["min_distance"] >= 0


def test_eval_prints_a_table_and_writes_a_film(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imageio")
    film = tmp_path / "film.gif"
    assert main(["eval", str(run), "--episodes", "2", "--video", str(film), "--video-episodes", "1"]) == 0
    assert "success_any" in capsys.readouterr().out
    assert film.read_bytes()[:3] == b"GIF"


def test_several_seeds_get_their_own_folders(tmp_path: Path) -> None:
    words = ["train", "--env", "point", "--agent", "gcbc", "--seeds", "1,2", "--out", str(tmp_path / "runs"), *SMALL]
    assert main(words) == 0
    seeds = [json.loads((tmp_path / "runs" / f"seed-{s}" / "config.json").read_text())["seed"] for s in (1, 2)]
    assert seeds == [1, 2]
    assert main(["report", str(tmp_path)]) == 0
    assert "| GCBC | 2 |" in (tmp_path / "table.md").read_text(), "found from above, and one group"


def test_resume_of_a_complete_run_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(RuntimeWarning, match="complete already, nothing was trained"):
        assert main(["train", "--resume", str(run)]) == 0
    assert "success_any" in capsys.readouterr().out


def test_list_names_agents_environments_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("td-infonce", "ddpg-her", "fetch-push", "point", "paper", "gripper+object"))
    assert main(["list", "--settings", "td-infonce"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("monte_carlo_weight", "updates_per_env_step", "paper 0.99"))
    assert "[fast 300000, paper 1000000, estimate 50000]" in out
    assert main(["list", "--settings", "td-infonce", "--env", "fetch-reach"]) == 0
    assert "[fast 3000, paper 500000, estimate 60000]" in capsys.readouterr().out


def test_check_env_on_a_built_in_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "point"]) == 0
    assert "ready" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--env", "poin"], "Did you mean 'point'"),
        (["train", "--env", "point", "--agent", "td"], "unknown agent"),
        (["train", "--env", "point", "--preset", "quick"], "unknown preset"),
        (["train", "--env", "point", "--seed", "-1"], "not negative"),
        (["train", "--env", "point", "--goal-space", "full"], "no goal space"),
        (["train", "--env", "point", "--set", "discount=fast"], "must be a number"),
        (["train", "--env", "point", "--set", "discount=1.5"], "discount"),
        (["train", "--env", "point", "--set", "batch_size=0"], "batch_size"),
        (["train", "--env", "point", "--env-steps", "0"], "env_steps"),
        (["train", "--env", "point", "--env-steps", "many"], "env-steps"),
        (["train", "--resume", "nowhere"], "not a run folder"),
        (["train", "--resume", "nowhere", "--seed", "3"], "leave out --seed"),
        (["train", "--env", "point", "--seeds", "1,1"], "once"),
        (["eval", "nowhere"], "no run folder"),
        (["eval"], "required"),
        (["train", "--env", "point", "--seeds", "1,2", "--seed", "3"], "without --seed"),
        (["train", "--dataset", "data.npz", "--noise", "0.1"], "data are taken as they are"),
        (["train", "--env", "point", "--noise-kind", "zeros"], "add noise=0.1"),
        (["list", "--settings", "foo"], "unknown agent"),
        (["list", "--settings", "gcbc", "--env", "foo"], "unknown environment"),
        (["list", "--env", "point"], "--settings AGENT"),
        (["check-env", "foo"], "unknown environment"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir()), "bad input must leave nothing behind"


def test_bad_input_about_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["eval", str(run), "--episodes", "0"], "at least one"),
        (["eval", str(run), "--video", "film.avi"], ".mp4 or .gif"),
        (["train", "--env", "point", "--agent", "gcbc", "--out", str(run)], "overwrite it"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert main(["eval", str(tmp_path)]) == 2
    assert "not a training run" in capsys.readouterr().err


def test_report_draws_the_learning_curve_and_eval_a_picture(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["report", str(run)]) == 0
    assert (run / "figure.png").read_bytes()[:4] == b"\x89PNG"
    assert "| 300 |" in (run / "table.md").read_text()
    assert main(["report", str(run.parent)]) == 0
    assert "GCBC on point" in (run.parent / "table.md").read_text()
    assert main(["eval", str(run), "--episodes", "1", "--picture", str(tmp_path / "a.png")]) == 0
    from tdinfonce.envs.point import PointEnv
    from tdinfonce.errors import UserError

    def broken(self: PointEnv) -> None:
        raise UserError("no graphics")

    monkeypatch.setattr(PointEnv, "render", broken)
    assert main(["eval", str(run), "--episodes", "1", "--picture", str(tmp_path / "b.png")]) == 0
    for name in ("a.png", "b.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    assert main(["eval", str(run), "--episodes", "1", "--picture", "a.jpg"]) == 2
