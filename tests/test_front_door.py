"""The front door: everything from Python in a few lines, as the architecture page has it."""

import doctest
import importlib
import inspect
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from matplotlib.figure import Figure

import tdinfonce as td
from tdinfonce.runs.checkpoint import load as load_checkpoint
from tdinfonce.runs.loggers import as_loggers

TINY: dict[str, Any] = {"hidden": 16, "env_steps": 400, "warmup_steps": 100, "eval_every": 100, "eval_episodes": 2}
TINY |= {"final_episodes": 4, "batch_size": 32, "updates_per_call": 10}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not told where to go goes to runs/ of the present folder."""
    monkeypatch.chdir(tmp_path)


class Line(gymnasium.Env[Any, Any]):
    """A walk on a line with actions from 0 to 5: 2.5 stands still."""

    def __init__(self) -> None:
        box = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = gymnasium.spaces.Box(0, 5, (1,), np.float32)
        self.closed = False

    def _seen(self) -> dict[str, np.ndarray]:
        place = np.array([self.place], np.float32)
        return {"observation": place, "achieved_goal": place, "desired_goal": np.array([self.goal], np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.place = float(np.clip(self.place + 0.1 * (float(action[0]) - 2.5), -2, 2))
        near = abs(self.place - self.goal) < 0.1
        return self._seen(), 0.0, False, False, {"is_success": near}

    def close(self) -> None:
        self.closed = True


def line() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(Line(), 20)


def parameters(run: td.Run) -> dict[str, bytes]:
    found = load_checkpoint(run.folder, "agent").parts["agent"]
    return {name: array.tobytes() for name, array in found.items()}


def test_the_script_of_the_architecture_page() -> None:
    """An environment object, settings by their names, a callback that stops, a second logger, and arrays in memory."""
    rows: list[dict[str, Any]] = []

    class Keeper:
        def open(self, folder: Path, config: dict[str, Any], step: int) -> None:
            rows.append({"opened": folder.name})

        def write(self, step: int, row: dict[str, Any]) -> None:
            rows.append(row)

        def close(self) -> None:
            rows.append({"closed": True})

    run = td.train(env="point", seed=0, env_steps=600, eval_episodes=5)
    assert (run.folder, run.complete) == (Path("runs/point-td-infonce-0"), True)

    my_env = line()
    run = td.train(
        env=my_env,
        agent="gcbc",
        env_steps=4_000,
        discount=0.9,
        out="runs/arm",
        callbacks=[td.stop_at_success(0.9)],
        loggers=["tensorboard", Keeper()],
    )
    assert run.summary["stopped"] == "success_any reached 0.9"
    assert run.summary["env_steps"] < 4_000
    assert run.summary["success_any"] >= 0.8
    assert run.metrics()[-1]["final/success_any"] == run.summary["success_any"]
    assert isinstance(run.figure(), Figure)
    assert rows[0] == {"opened": "arm"}
    assert rows[-1] == {"closed": True}
    assert rows[1:-1] == run.metrics()
    assert not my_env.unwrapped.closed, "an environment object belongs to its owner"  # type: ignore[attr-defined]

    policy = td.load("runs/arm")
    state, _ = my_env.reset(seed=3)
    action = policy.act(state["observation"], state["desired_goal"])
    assert my_env.action_space.contains(action)
    np.testing.assert_array_equal(policy.act(state), action)
    assert "gcbc for in-memory:Line" in repr(policy)
    assert "1 numbers from 0 to 5" in repr(policy)
    assert td.evaluate(policy, my_env, episodes=20)["success_any"] >= 0.8

    walks = [(np.cumsum(np.ones((6, 2)), axis=0), np.full((5, 2), 0.1 * k)) for k in range(8)]
    run = td.train(data=walks, goal="0:2", agent="gcbc", updates=20, hidden=8, out="runs/arrays")
    assert (run.summary["updates"], run.plan.dataset) == (20, "data in memory")
    assert "not evaluated" in str(run)


def test_the_action_a_user_feeds_back_does_what_evaluate_says() -> None:
    """Actions from 0 to 5: a hand-written loop with `load().act` succeeds as often as `td.evaluate`, on its seeds."""
    from tdinfonce.seeding import evaluation_seeds

    td.train(env=line, agent="gcbc", env_steps=3_000, out="runs/line", eval_episodes=5)
    policy, env = td.load("runs/line"), line()
    won = []
    for seed in evaluation_seeds(40):
        state, _ = env.reset(seed=seed)
        best, done = False, False
        while not done:
            state, _, terminated, truncated, info = env.step(policy.act(state))
            best, done = best or info["is_success"], terminated or truncated
        won.append(best)
    assert np.mean(won) == td.evaluate("runs/line", line, episodes=40)["success_any"]
    assert np.mean(won) >= 0.8
    low = policy.act(np.zeros((3, 1)), [0.5], normalised=True)
    assert np.all(np.abs(low) <= 1)
    np.testing.assert_allclose(policy.act(np.zeros((3, 1)), [0.5]), 2.5 + 2.5 * low, rtol=1e-5)


def test_a_plan_can_be_saved_sent_and_trained() -> None:
    plan = td.plan(env="point", agent="gcbc", seed=3, **TINY)
    plan.save("plan.json")
    one, two = td.train(plan, out="runs/a"), td.train("plan.json", out="runs/b")
    assert parameters(one) == parameters(two)
    assert one.plan == plan
    with pytest.raises(td.UserError, match="belongs to this process"):
        td.plan(env=line(), agent="gcbc").save("other.json")
    with pytest.raises(td.UserError, match="leave out seed"):
        td.train(plan, seed=4)


def test_a_folder_is_continued_returned_or_refused() -> None:
    straight = td.train(env="point", agent="gcbc", out="runs/straight", **TINY)

    class Interrupt(td.Callback):
        def on_log(self, row: dict[str, Any]) -> None:
            import signal

            signal.raise_signal(signal.SIGINT)

    with pytest.raises(td.Stopped, match=r"continue with: td.train\(out='runs/stopped'\)"):
        td.train(env="point", agent="gcbc", out="runs/stopped", callbacks=[Interrupt()], **TINY)
    begun = td.Run("runs/stopped")
    assert not begun.complete
    with pytest.raises(td.UserError, match="is not complete"):
        _ = begun.summary
    assert parameters(td.train(out="runs/stopped")) == parameters(straight)
    with pytest.warns(RuntimeWarning, match="nothing was trained"):
        assert td.train(env="point", agent="gcbc", out="runs/stopped", **TINY).complete
    with pytest.raises(td.UserError, match="holds a run with seed=0, not 1"):
        td.train(env="point", agent="gcbc", seed=1, out="runs/stopped", **TINY)
    again = td.train(env="point", agent="gcbc", seed=1, out="runs/stopped", overwrite=True, **TINY)
    assert again.plan.seed == 1


def test_at_a_prompt_an_interrupt_returns_a_run_that_can_be_continued(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)

    class Interrupt(td.Callback):
        def on_log(self, row: dict[str, Any]) -> None:
            import signal

            signal.raise_signal(signal.SIGINT)

    run = td.train(env="point", agent="gcbc", out="runs/cell", callbacks=[Interrupt()], **TINY)
    assert not run.complete
    assert "continue with: td.train(out='runs/cell')" in capsys.readouterr().out
    assert td.train(out=run.folder).complete


def test_a_callback_cannot_change_what_is_learned() -> None:
    class Vandal(td.Callback):
        def on_start(self, info: Any) -> None:
            info.config["agent_config"].clear()
            np.random.seed(0)  # noqa: NPY002 - what a careless callback does

        def on_log(self, row: dict[str, Any]) -> None:
            row.clear()
            np.random.random()  # noqa: NPY002

        def on_evaluation(self, result: dict[str, Any]) -> None:
            result["success_any"] = 1e9

        def on_end(self, summary: dict[str, Any]) -> None:
            summary.clear()

    plain = td.train(env="point", agent="td-infonce", out="runs/plain", **TINY)
    told = td.train(env="point", agent="td-infonce", out="runs/told", callbacks=[Vandal()], **TINY)
    assert parameters(plain) == parameters(told)
    assert {k: v for k, v in plain.summary.items() if "seconds" not in k} == {
        k: v for k, v in told.summary.items() if "seconds" not in k
    }


def test_callbacks_stop_runs_for_their_reasons() -> None:
    late = td.train(env="point", agent="gcbc", callbacks=[td.stop_at_wall_time(1e-9)], out="runs/late", **TINY)
    assert (late.summary["env_steps"], late.summary["stopped"]) == (100, "0 seconds are over")
    stuck = td.stop_when_stuck(2, metric="success_any", least=5)
    found = td.train(env="point", agent="gcbc", callbacks=[stuck], out="runs/stuck", **TINY)
    assert found.summary["env_steps"] == 300, "the first is the best, the second and third bring nothing"
    seen: list[tuple[int, int]] = []
    tell = td.progress_to(lambda done, total, row: seen.append((done, total)))
    td.train(env="point", agent="gcbc", callbacks=[tell], out="runs/seen", **TINY)
    assert seen == [(100, 400), (200, 400), (300, 400), (400, 400), (400, 400)]
    with pytest.raises(td.UserError, match="no 'reward'"):
        td.train(env="point", agent="gcbc", callbacks=[td.stop_at_success(0.5, "reward")], out="runs/bad", **TINY)
    with pytest.raises(td.UserError, match="between 0 and 1"):
        td.stop_at_success(95)


def test_a_wish_to_stop_survives_a_kill() -> None:
    """A run that was asked to end and was killed in its last evaluation ends when it is continued."""
    run = td.train(env="point", agent="gcbc", callbacks=[td.stop_at_success(0.0)], out="runs/done", **TINY)
    (run.folder / "COMPLETE").unlink()
    assert td.train(out=run.folder).summary["env_steps"] == run.summary["env_steps"] == 100


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "name an environment"),
        ({"env": "pint"}, "unknown environment 'pint'"),
        ({"env": "point", "agent": "td-info"}, "unknown agent"),
        ({"env": "point", "discont": 0.9}, "Did you mean 'discount'"),
        ({"env": "point", "average_rate": 5}, "average_rate must lie between 0 and 1"),
        ({"env": "point", "env_steps": 100, "warmup_steps": 100}, "warmup_steps must be below env_steps"),
        ({"env": "point", "exploration_noise": 1e9}, "exploration_noise must be at most 2"),
        ({"env": "point", "batch_size": "many"}, "batch_size must be a whole number"),
        ({"env": "point", "seed": -1}, "a seed is a whole number"),
        ({"env": "point", "updates": 5}, "belongs to a run on data"),
        ({"env": "point", "goal": "0:2"}, "goal belongs to data"),
        ({"env": 5}, "env must be a name"),
        ({"data": 5}, "data must be"),
        ({"env": "point", "preset": "slow"}, "unknown preset"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(how: dict[str, Any], message: str) -> None:
    with pytest.raises(td.UserError, match=message) as error:
        td.train(**how)
    assert "\n" not in str(error.value)
    assert not Path("runs").exists()


def test_loggers_are_named_or_refused() -> None:
    with pytest.raises(td.UserError, match=r"unknown logger 'tensorbord'. Did you mean 'tensorboard'"):
        as_loggers(["tensorbord"])
    with pytest.raises(td.UserError, match="has open, write and close"):
        as_loggers([object()])


def test_compare_trains_in_parallel_and_draws_one_table_and_figure() -> None:
    small = {name: value for name, value in TINY.items() if name != "hidden"}
    found = td.compare("point", agents=["gcbc", "td-infonce"], seeds=2, out="runs/both", **small)
    rows = found.table().rows
    assert [(row["name"], row["n"]) for row in rows] == [("td-infonce", 2), ("gcbc", 2)]
    for row in rows:
        finals = [
            json.loads((Path("runs/both") / f"{row['name']}--{seed}" / "summary.json").read_text())["success_any"]
            for seed in (0, 1)
        ]
        assert row["success_any_mean"] == pytest.approx(np.mean(finals))
    assert Path("runs/both/figure.png").is_file()
    more = td.compare("point", agents=["gcbc"], seeds="5,", out="runs/both", **small)
    assert [row["n"] for row in more.table().rows] == [2, 3], "what was there is kept"
    with pytest.raises(td.UserError, match="was made with"):
        td.compare("point", agents=["gcbc"], seeds=1, out="runs/both", **small | {"batch_size": 64})
    walks = [(np.cumsum(np.full((6, 2), k), axis=0), np.full((5, 2), 2.0 * k)) for k in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bounds of the actions are measured, and said
        data = td.compare(data=walks, goal="0:2", agents=["gcbc"], seeds=2, updates=20, hidden=8, out="runs/data")
    assert [row["n"] for row in data.table().rows] == [2]
    objects = td.compare(line(), agents=["gcbc"], seeds=[4], out="runs/object", **TINY)
    assert [row["n"] for row in objects.table().rows] == [1]


def test_what_is_public_is_documented_with_an_example() -> None:
    for name in td.__all__:
        value = getattr(td, name)
        assert inspect.getdoc(value), name
        if inspect.isfunction(value) or inspect.isclass(value):
            assert name in dir(td)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = td.trian  # type: ignore[attr-defined]


EXAMPLES = ["tdinfonce", *(f"tdinfonce.{name}" for name in ("seeding", "settings", "types", "envs", "data.source"))]
EXAMPLES += [f"tdinfonce.plans.{name}" for name in ("plan", "train", "run", "policy", "evaluate", "callbacks")]
EXAMPLES += [
    "tdinfonce.estimate.series",
    "tdinfonce.runs.loggers",
    "tdinfonce.scale.compare",
    "tdinfonce.data.arrays",
    "tdinfonce.errors",
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_run(module: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*complete already")  # one example's folder serves the next
        found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_importing_is_cheap() -> None:
    """No heavy library is imported before it is needed; how long it takes is for the bench to say."""
    heavy = "('jax', 'numpy', 'sklearn', 'matplotlib', 'gymnasium')"
    code = f"import sys, tdinfonce; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
