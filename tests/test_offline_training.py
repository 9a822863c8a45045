"""Training on stored data: what is held out stays out, runs continue exactly, and every agent learns something."""

import contextlib
import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import tdinfonce
from helpers import planned, run_offline
from offline_data import half_aimed_walks, random_walks, write
from run_state import state_of
from tdinfonce import agents, envs
from tdinfonce.cli import main
from tdinfonce.data import from_arrays
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import Stopped, UserError
from tdinfonce.runs.folder import RunFolder
from tdinfonce.system.files import read_metrics
from tdinfonce.training import offline
from tdinfonce.training.collect import remembering
from tdinfonce.training.compiled import create
from tdinfonce.types import EnvSpec, Episode, History

TINY = ["hidden=8", "updates=40", "eval_every=20", "updates_per_call=10", "batch_size=16", "eval_episodes=2"]
TINY += ["final_episodes=3"]


def start(out: Path, agent: str, env: str, settings: list[str], seed: int = 3) -> tuple[Any, ...]:
    plan = planned(env, agent, "fast", seed, settings=settings, data="walks")
    world = plan.make_env()
    episodes = half_aimed_walks() if agent in ("td3-bc", "dt") else random_walks()
    if plan.agent_config.sampling.of_one_task:
        episodes = offline.with_task(episodes, offline.task_goal(world), world.spec, plan.training.reward_radius)
    return plan, world, episodes, RunFolder.create(out, plan.as_json(world.spec))


def go(plan: Any, env: Any, episodes: Episodes, folder: RunFolder, *, resume: bool = False) -> dict[str, Any]:
    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(env.spec, seed, scale)

    sampling = plan.agent_config.sampling
    return run_offline(folder, episodes, env, create, sampling, plan.training, plan.seed, resume=resume)


SHORT = ["held_out=0", "batch_size=128", "updates=1_500", "eval_every=1_500", "eval_episodes=1"]
SMALL_DT = ["batch_size=64", "updates=300", "width=32", "layers=1", "context=5"]
# Success at any step over 100 episodes, the data, and settings. Those on `point` are told the goal.
REACHED = {
    ("td-infonce", "point"): (0.9, ["updates=700"]),
    ("contrastive-rl", "point"): (0.75, ["updates=1_000"]),
    ("gc-iql", "point"): (0.9, []),
    ("hiql", "point"): (0.9, ["updates=800"]),
    ("gcbc", "point"): (0.9, ["updates=800"]),
    ("iql", "point-one-goal"): (0.8, []),
    ("td3-bc", "point-one-goal"): (0.8, ["updates=1500"]),
    ("dt", "point-one-goal"): (0.8, SMALL_DT),
}


@pytest.mark.parametrize(("agent", "env"), REACHED)
def test_agent_learns_from_stored_walks(agent: str, env: str, tmp_path: Path) -> None:
    """From aimless walks; TD3+BC and DT, which lean on the mean stored action, from walks of which half have an aim."""
    least, settings = REACHED[agent, env]
    result = go(*start(tmp_path / "run", agent, env, [*SHORT, *settings], seed=101))
    assert result["success_any"] >= least, result


@pytest.mark.parametrize("env", ["point", "point-one-goal"])
def test_an_untrained_policy_does_not_reach_points(env: str, tmp_path: Path) -> None:
    """The learning test can fail: with one update success stays at chance."""
    result = go(*start(tmp_path / "run", "gcbc", env, ["updates=1", "hidden=8", "held_out=0"]))
    assert result["success_any"] < 0.35


@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=[] if name == "td-infonce" else pytest.mark.slow) for name in agents.names()]
)
def test_a_stopped_run_continues_bit_for_bit(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {field.name for field in dataclasses.fields(agents.load(agent).Config)}
    settings = [setting for setting in TINY if "hidden" in fields or not setting.startswith("hidden")]
    one_task = agents.presets(agent, offline=True)["fast"].sampling.of_one_task
    parts = start(tmp_path / "straight", agent, "point-one-goal" if one_task else "point", settings)
    go(*parts)
    stopped = RunFolder.create(tmp_path / "stopped", parts[0].as_json(parts[1].spec))
    calls, original = 0, offline.OfflineSession.iterate

    def interrupted(self: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 4:  # between two evaluations
            os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(offline.OfflineSession, "iterate", interrupted)
        with pytest.raises(Stopped, match="SIGINT"):
            go(*parts[:3], stopped)
    assert not stopped.complete
    go(*parts[:3], stopped, resume=True)
    assert stopped.complete
    assert state_of(tmp_path / "straight") == state_of(tmp_path / "stopped")
    rows = list(read_metrics(tmp_path / "straight"))
    assert [row["updates"] for row in rows] == [20, 40, 40]
    assert {"heldout/actor_loss", "eval/success_any", "actor/loss"} <= set(rows[0])
    assert {"heldout/critic_loss", "critic/loss"} <= set(rows[0]) or agent in ("gcbc", "dt")


def test_what_is_held_out_is_whole_episodes() -> None:
    episodes = random_walks()
    train, held_out = offline.split(episodes, 0.1, seed=5)
    assert held_out is not None
    assert (len(train), len(held_out)) == (270, 30)
    assert not set(train.start) & set(held_out.start)
    np.testing.assert_array_equal(offline.split(episodes, 0.1, seed=5)[0].start, train.start)
    assert offline.split(episodes, 0.0, seed=5)[1] is None
    assert offline.split(episodes.chosen(np.array([0])), 0.5, seed=5)[1] is None
    tiny = offline.split(episodes.chosen(np.array([0, 1])), 0.01, seed=5)
    assert tiny[1] is not None
    assert len(tiny[0]) == len(tiny[1]) == 1


def test_a_task_rewards_the_states_near_its_goal() -> None:
    states = np.array([[0, 0], [0.5, 0], [1, 0]], np.float32)
    episodes = Episodes.of([Episode(states, states, np.zeros((2, 1), np.float32), states[0])])
    spec = EnvSpec("test", 2, 1, 2, 2, tolerance=0.6)
    task = offline.with_task(episodes, [1.0, 0.0], spec, 0.0)
    np.testing.assert_array_equal(task.reward, [0, 1, 1])
    np.testing.assert_array_equal(task.reward_to_come, [1, 1, 0])
    np.testing.assert_array_equal(task.goal, [[1, 0]])
    np.testing.assert_array_equal(offline.with_task(episodes, [1.0, 0.0], spec, 0.1).reward, [0, 0, 1])
    for goal, known, radius, message in (
        ([9.0, 9.0], spec, 0.0, "no state of the data"),
        ([1.0], spec, 0.0, "needs 2 numbers"),
        ([1.0, 0.0], dataclasses.replace(spec, tolerance=None), 0.0, "near enough"),
    ):
        with pytest.raises(UserError, match=message):
            offline.with_task(episodes, goal, known, radius)


def test_the_goal_of_a_task_is_the_environments_only_one() -> None:
    np.testing.assert_allclose(offline.task_goal(envs.make("point-one-goal")), [0.6, 0.6], rtol=1e-5)
    with pytest.raises(UserError, match="many goals"):
        offline.task_goal(envs.make("point"))


def test_a_remembering_policy_sees_the_steps_before() -> None:
    seen: list[History | None] = []

    def act(observation: np.ndarray, goal: np.ndarray, history: History | None) -> np.ndarray:
        seen.append(history)
        return 10 * observation

    policy = remembering(3, act)
    for episode in range(2):
        for time in range(4):
            policy(np.array([episode * 100.0 + time]), np.zeros(1), time)
    assert seen[0] is None
    assert seen[4] is None
    assert seen[1] is not None
    np.testing.assert_array_equal(seen[1].time, [-1, 0])
    np.testing.assert_array_equal(seen[1].action, [[0], [0]])
    assert seen[7] is not None
    np.testing.assert_array_equal(seen[7].time, [1, 2])
    np.testing.assert_array_equal(seen[7].observation, [[101], [102]])
    np.testing.assert_array_equal(seen[7].action, [[1010], [1020]])


def test_dt_looks_neither_at_padding_nor_ahead() -> None:
    config = dataclasses.replace(agents.load("dt").Config(), width=8, context=4)
    agent = create(agents.load("dt").Agent.create, jax.random.PRNGKey(0), EnvSpec("test", 3, 2, 2, 9), config, None)
    act, actor = eqx.filter_jit(type(agent).act), eqx.filter_jit(agent.actor.model)
    key, goal = jax.random.PRNGKey(1), jnp.zeros(2)
    observation, past = jax.random.normal(key, (3,)), jax.random.normal(key, (3, 3))
    alone = act(agent, observation, goal, key)
    padded = History(past, jnp.ones((3, 2)), jnp.full(3, -1))
    np.testing.assert_allclose(act(agent, observation, goal, key, history=padded), alone, rtol=1e-4, atol=1e-6)
    real = padded._replace(time=jnp.arange(3))
    assert not np.allclose(act(agent, observation, goal, key, history=real), alone, atol=1e-4)
    inputs = past, jnp.ones((3, 2)), jnp.ones(3), jnp.arange(3)
    before = actor(*inputs)
    later = actor(past.at[2].add(1), jnp.ones((3, 2)).at[1].add(1), *inputs[2:])
    np.testing.assert_allclose(later[:2], before[:2], rtol=1e-5)  # action 1 comes after its own prediction
    assert not np.allclose(later[2], before[2], atol=1e-4)


def test_td3_bc_moves_its_policy_every_second_time() -> None:
    config = dataclasses.replace(agents.load("td3-bc").Config(), hidden=(8,))
    spec = envs.make("point-one-goal").spec
    agent = create(agents.load("td3-bc").Agent.create, jax.random.PRNGKey(0), spec, config, None)
    update = eqx.filter_jit(type(agent).update)
    episodes = offline.with_task(random_walks(), [0.6, 0.6], spec, 0.0)
    batch = offline.sample(episodes, np.random.default_rng(0), (16,), config.sampling)
    weights = []
    for _ in range(3):
        agent, _ = update(agent, batch)
        weights.append(np.array(agent.actor.model.net.weights[0]))
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[1], weights[2])


def test_gc_iql_counts_a_goal_as_reached_only_at_the_next_state() -> None:
    module = agents.load("gc-iql")
    config = dataclasses.replace(module.Config(), hidden=(8,), next_share=0.25, future_share=0.5)
    batch = offline.sample(random_walks(), np.random.default_rng(0), (64,), config.sampling)
    goal = config.value_goals.of(batch)
    np.testing.assert_array_equal(goal[:16], batch.next_goal[:16])
    np.testing.assert_array_equal(goal[16:48], batch.future_goal[16:48])
    np.testing.assert_array_equal(goal[48:], batch.random_goal[48:])
    same = np.all(np.asarray(goal) == batch.next_goal, axis=1)
    assert same[:16].all()
    assert not same[48:].any()
    for shares, reached in (((0.25, 0.5), same.mean()), ((1.0, 0.0), 1), ((0.0, 0.0), 0)):
        config = dataclasses.replace(config, next_share=shares[0], future_share=shares[1])
        agent = module.Agent.create(jax.random.PRNGKey(0), envs.make("point").spec, config)
        assert agent.update(batch)[1]["critic/reached"] == reached


def test_the_offline_presets_are_those_of_the_paper_and_of_its_release() -> None:
    presets, training = agents.load("td-infonce").OFFLINE, offline.PRESETS
    paper, release = presets["paper"], presets["release"]
    assert (paper.cloning_share, paper.cloning_sum, paper.hidden) == (0.1, True, (512,) * 4)
    assert (release.cloning_share, release.cloning_sum, release.hidden) == (0.2, False, (1024,) * 4)
    assert (training["paper"].batch_size, training["release"].batch_size) == (256, 1024)
    for config in (paper, release):
        assert (config.actor_future_share, config.critic_future_share, config.discount) == (1.0, 0.0, 0.99)
        assert (config.actor_rate, config.critic_rate, config.critics) == (5e-5, 3e-4, 2)
    assert training["paper"].updates == 500_000
    crl = agents.load("contrastive-rl").OFFLINE["paper"]
    assert (crl.cloning_share, crl.critics, crl.hidden, crl.representation_size) == (0.05, 2, (1024, 1024), 16)
    built = planned("", "contrastive-rl", "paper", 0, data="x")
    assert built.training.batch_size == 1024
    iql = agents.load("iql").OFFLINE["paper"]
    assert (iql.expectile_level, iql.sharpness, iql.hidden, iql.actor_rate) == (0.9, 10.0, (256, 256), 3e-4)
    hiql = agents.load("hiql").OFFLINE["paper"]
    assert (hiql.hidden, hiql.activation, hiql.representation_size, hiql.critics) == ((512,) * 3, "gelu", 10, 2)
    assert (hiql.actor_rate, hiql.critic_rate, hiql.target_rate, hiql.discount) == (3e-4, 3e-4, 0.005, 0.99)
    assert (hiql.expectile_level, hiql.sharpness, hiql.high_sharpness, hiql.max_weight) == (0.7, 3.0, 3.0, 100.0)
    assert (hiql.subgoal_steps, hiql.present_share, hiql.future_share, hiql.high_random_share) == (25, 0.2, 0.5, 0.0)
    built = planned("", "hiql", "paper", 0, data="x")
    assert (built.training.batch_size, built.training.updates) == (1024, 1_000_000)


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "walks.npz", random_walks())


@pytest.fixture(scope="module")
def dt_run(walks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the agent that needs most: a task, sequences and a memory."""
    out = tmp_path_factory.mktemp("runs") / "dt"
    words = ["train", "--dataset", str(walks), "--goal", "0:2", "--env", "point-one-goal", "--agent", "dt"]
    words += ["--updates", "20"]
    words += ["--out", str(out), "--set", "width=8", "context=4", "eval_every=10", "updates_per_call=10"]
    assert main([*words, "batch_size=8", "eval_episodes=2", "final_episodes=2"]) == 0
    return out


def test_train_eval_load_and_report_of_an_offline_run(dt_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((dt_run / "config.json").read_text())
    assert config["kind"] == "offline"
    np.testing.assert_allclose(config["test_goal"], [0.6, 0.6], rtol=1e-5)
    assert config["data"]["episodes"] == 300
    assert (dt_run / "COMPLETE").is_file()
    for name in ("figure.png", "losses.svg", "table.md"):
        assert (dt_run / name).is_file()
    capsys.readouterr()
    assert main(["eval", str(dt_run), "--episodes", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["agent"], result["env"], result["updates"], result["env_steps"]) == ("dt", "point-one-goal", 20, 0)
    policy = tdinfonce.load(str(dt_run))
    assert policy.act(np.zeros((3, 2)), np.zeros((3, 2))).shape == (3, 2)
    assert main(["report", str(dt_run)]) == 0
    with pytest.warns(RuntimeWarning, match="complete already"):
        assert main(["train", "--resume", str(dt_run)]) == 0


def test_without_an_environment_the_losses_are_the_report(
    walks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["train", "--dataset", str(walks), "--goal", "0:2", "--agent", "gcbc", "--updates", "20", "--out", str(out)]
    assert main([*words, "--set", "hidden=8", "eval_every=10", "updates_per_call=10", "batch_size=8"]) == 0
    assert "not evaluated" in capsys.readouterr().out
    assert "heldout/actor_loss" in (out / "table.md").read_text()
    assert main(["eval", str(out), "--episodes", "2"]) == 2
    assert "name one (env)" in capsys.readouterr().err
    assert main(["eval", str(out), "--episodes", "2", "--env", "point"]) == 0
    (out / "COMPLETE").unlink()
    write(walks.with_name("other.npz"), random_walks().chosen(np.arange(10)))
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"dataset": str(walks.with_name("other.npz"))}))
    assert main(["train", "--resume", str(out)]) == 2
    assert "is not what the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agent", "iql"], "(test_goal)"),
        (["--agent", "iql", "--test-goal", "0.5", "0.5"], "reward_radius"),
        (["--agent", "iql", "--env", "point"], "many goals"),
        (["--agent", "iql", "--env", "point-one-goal", "--test-goal", "1"], "needs 2 numbers"),
        (["--agent", "gcbc", "--preset", "release"], "unknown preset"),
        (["--agent", "gcbc", "--env-steps", "10"], "how many updates"),
        (["--agent", "gcbc", "--updates", "0"], "updates"),
        (["--agent", "gcbc", "--goal", "0:1", "--env", "point"], "choose the goal's coordinates"),
        (["--agent", "td-infonce", "--set", "cloning_share=2"], "between 0 and 1"),
        (["--agent", "dt", "--env", "point-one-goal", "--set", "heads=3"], "multiple"),
        (["--agent", "iql", "--set", "expectile_level=1"], "below 1"),
        (["--agent", "gc-iql", "--set", "next_share=0.9"], "together at most 1"),
        (["--agent", "hiql", "--set", "present_share=0.9"], "together at most 1"),
        (["--agent", "hiql", "--set", "subgoal_steps=0"], "subgoal_steps must be at least 1"),
        (["--agent", "hiql", "--env-steps", "10"], "how many updates"),
        (["--set", "commanded_share=0.2", "actor_future_share=0", "monte_carlo_weight=0.1"], "set commanded_share=0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: list[str],
    message: str,
    walks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*words, *([] if "--goal" in words else ["--goal", "0:2"])]
    assert main(["train", "--dataset", str(walks), *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "nowhere.npz"], "nowhere.npz: there is no such file"),
        (["--updates", "5", "--env", "point"], "belongs to a run on data"),
        (["--env", "point", "--agent", "iql"], "stored data only"),
    ],
)
def test_bad_input_without_data(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err


LEAKING: dict[str, Any] = {"commanded_share": 0.2, "actor_future_share": 0.5, "monte_carlo_weight": 0.1}
FEW: dict[str, Any] = {"updates": 2, "updates_per_call": 1, "batch_size": 16, "hidden": (8,), "goal_hidden": (8,)}


@pytest.mark.parametrize(
    ("commanded", "settings", "leaks"),
    [
        (False, LEAKING, True),
        (True, LEAKING, False),
        (False, LEAKING | {"commanded_share": 0.0}, False),
        (False, LEAKING | {"monte_carlo_weight": 0.0}, False),
        (False, {}, False),
        (False, {"agent": "contrastive-rl", "commanded_share": 0.2, "actor_future_share": 0.5}, False),
    ],
)
def test_goals_that_nobody_commanded_do_not_tell_the_future(
    commanded: bool, settings: dict[str, Any], leaks: bool, tmp_path: Path
) -> None:
    """Their stand-ins are the ends of the episodes, which the Monte Carlo rows of a critic predict."""
    walks = random_walks().chosen(np.arange(20))
    names = "observations", "achieved_goals", "actions", "desired_goal"
    data = [dict(zip(names[: None if commanded else 3], walks.episode(i), strict=False)) for i in range(len(walks))]
    assert from_arrays(data).commanded == commanded

    said = r"name no commanded goals.*set commanded_share=0, or monte_carlo_weight=0$"
    with pytest.raises(UserError, match=said) if leaks else contextlib.nullcontext():
        tdinfonce.train(data=data, out=tmp_path / "run", loggers=(), **FEW | settings)
    assert (tmp_path / "run").exists() == (not leaks)


def test_a_run_that_was_begun_with_such_goals_goes_on(tmp_path: Path) -> None:
    walks = random_walks().chosen(np.arange(20))
    arguments = LEAKING | FEW | {"out": tmp_path / "run", "loggers": ()}
    tdinfonce.train(data=walks, **arguments)
    (tmp_path / "run" / "COMPLETE").unlink()
    tdinfonce.train(data=dataclasses.replace(walks, commanded=False), **arguments)
    assert (tmp_path / "run" / "COMPLETE").is_file()


@pytest.mark.parametrize("best", [(-1.0, -1.0), (2.0, 2.0)], ids=["to become the best", "not the best"])
def test_an_agent_that_is_not_finite_is_never_saved(
    best: tuple[float, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, env, episodes, folder = start(tmp_path / "run", "gcbc", "point", [*TINY, "held_out=0"])
    original = offline.OfflineSession.iterate
    spoil = [False]

    def iterate(self: Any) -> int:
        spoil[0], self.best = self.updates == 30, best if self.updates == 30 else self.best
        return original(self)

    def update(agent: Any, batches: Any, original: Any = offline.update_many) -> Any:
        agent, metrics = original(agent, batches)
        bad = eqx.tree_at(lambda a: a.actor.model.body.biases[0], agent, replace_fn=lambda x: x.at[0].set(jnp.nan))
        return (bad if spoil[0] else agent), metrics

    monkeypatch.setattr(offline.OfflineSession, "iterate", iterate)
    monkeypatch.setattr(offline, "update_many", update)
    with pytest.raises(UserError, match=r"actor.*not finite at update 40"):
        go(plan, env, episodes, folder)
    saved = sorted((folder.path / "checkpoints").rglob("*.safetensors"))
    assert saved
    assert all(np.isfinite(array).all() for path in saved for array in load_file(path).values())
