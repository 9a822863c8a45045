"""The offline experiments: valid cells, smoke on a machine without data, the paper's table, missing data sets."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("h5py")
pytest.importorskip("gymnasium_robotics")

from helpers import planned
from tdinfonce import agents, experiments
from tdinfonce.agents._goals import actor_goals
from tdinfonce.analysis import grid as draw
from tdinfonce.analysis import interpolation
from tdinfonce.cli import main
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.experiments import _data, antmaze
from tdinfonce.seeding import seed_list
from tdinfonce.types import EnvSpec


def test_the_default_antmaze_grid_is_the_promised_one() -> None:
    experiment = experiments.load("antmaze")
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["default"], seed_list(experiment.seeds["default"]))
    count = {(c.env, c.agent): sum((d.env, d.agent) == (c.env, c.agent) for d in cells) for c in cells}
    assert {env for env, _ in count} == {"antmaze-umaze", "antmaze-medium-diverse"}
    assert len(count) == 2 * 8
    several = {"td-infonce", "contrastive-rl", "gcbc"}
    assert all(n == (2 if agent in several else 1) for (_, agent), n in count.items())
    assert len({setting for cell in cells for setting in cell.settings if setting.startswith("updates=")}) == 1


def test_the_paper_budget_of_antmaze_is_the_papers() -> None:
    experiment = experiments.load("antmaze")
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["paper"], seed_list(experiment.seeds["paper"]))
    assert len(cells) == 6 * 8 * 5
    for cell in cells:
        if cell.agent == "td-infonce":
            plan = planned(cell.env, cell.agent, cell.preset, cell.seed, data="data")
            large = "large" in cell.env
            assert plan.training.updates == 500_000
            assert plan.training.batch_size == (1024 if large else 256)
            assert plan.agent_config.hidden == plan.agent_config.goal_hidden == ((1024 if large else 512),) * 4
            assert plan.agent_config.cloning_share == 0.1


def test_agents_start_from_the_same_layers_and_rates() -> None:
    for env in ("antmaze-umaze", "pointmaze-medium-far"):
        for agent in ("td-infonce", "contrastive-rl", "gcbc", "gc-iql", "hiql", "qrl", "iql", "td3-bc"):
            config = planned(env, agent, "fast", 0, data="data").agent_config
            rates = {config.actor_rate, getattr(config, "critic_rate", config.actor_rate)}
            assert (config.layer_norm, config.hidden, rates) == (True, (256, 256), {1e-3}), (env, agent)


def test_far_goals_are_learned_from_where_the_maze_is_large() -> None:
    """Of walks that reach their goal early, future states are where the ant already is; where they were sent is not."""
    steps, walks = 1000, 20
    place = np.minimum(np.arange(steps + 1) / 150, 1)[:, None] * np.full((walks, 1, 2), 20.0)
    observation = np.concatenate([place, np.zeros((walks, steps + 1, 27))], axis=2).reshape(-1, 29).astype(np.float32)
    episodes = Episodes(
        observation=observation,
        achieved=observation[:, :2],
        action=np.zeros((walks * (steps + 1), 8), np.float32),
        start=np.arange(walks) * (steps + 1),
        length=np.full(walks, steps),
        goal=np.full((walks, 2), 20.0, np.float32),
    )
    share = {}
    for env in ("antmaze-umaze", "antmaze-medium-diverse"):
        config = planned(env, "td-infonce", "fast", 0, data="data").agent_config
        batch = sample(episodes, np.random.default_rng(0), (20_000,), config.sampling)
        goal = actor_goals(config).of(batch)
        share[env] = float(np.mean(np.linalg.norm(goal - batch.observation[:, :2], axis=1) > 24))
    assert share["antmaze-medium-diverse"] > 2 * share["antmaze-umaze"], share


@pytest.mark.parametrize("name", ["gcbc", "contrastive-rl", "qrl", "gc-iql"])
def test_policies_fitted_by_likelihood_act_by_their_mean(name: str) -> None:
    spec = EnvSpec("maze", 4, action_size=2, goal_size=2, episode_length=20)
    config = planned("antmaze-umaze", name, "fast", 0, data="data").agent_config
    agent = agents.load(name).Agent.create(jax.random.PRNGKey(0), spec, config)
    state, goal = np.ones(4, np.float32), np.ones(2, np.float32)
    action = agent.act(state, goal, jax.random.PRNGKey(1), greedy=True)
    actor = agent.actor.average
    np.testing.assert_allclose(action, actor.mean(state, goal), rtol=1e-5)
    assert np.abs(actor.mean(state, goal) - actor.mode(state, goal)).max() > 1e-4, "else nothing is told"


def test_values_reach_the_whole_maze_within_the_default_budget() -> None:
    """A backup goes one step (or n), through a target that lags: after T moves of rate r they have come r·T steps."""
    experiment = experiments.load("antmaze")
    assert experiment.grid is not None
    for cell in experiment.grid(experiment.budgets["default"], (0,)):
        plan = planned(cell.env, cell.agent, cell.preset, 0, settings=cell.settings, data="data")
        c = plan.agent_config
        if hasattr(c, "target_rate"):
            moves = plan.training.updates / getattr(c, "policy_delay", 1)
            assert c.target_rate * moves * getattr(c, "n_step", 1) >= 400, (cell.env, cell.agent)


def test_stitching_is_compared_at_one_budget() -> None:
    experiment = experiments.load("pointmaze-stitch")
    assert experiment.grid is not None
    cells = experiment.grid(experiment.budgets["default"], seed_list(experiment.seeds["default"]))
    assert len({cell.settings for cell in cells}) == 1
    assert {cell.env for cell in cells} == {"pointmaze-medium-far"}
    assert {cell.dataset for cell in cells} == {"tdinfonce/pointmaze-medium-stitch-v0"}
    assert {cell.seed for cell in cells} == {0, 1, 2}
    for agent in ("td-infonce", "contrastive-rl", "qrl"):
        plan = planned("pointmaze-medium-far", agent, "fast", 0, data="data")
        assert plan.agent_config.actor_future_share == 0.5, "far goals are nobody's future"
    assert planned("pointmaze-medium-far", "hiql", "fast", 0, data="data").agent_config.high_random_share == 0.5
    for env, ahead, cloning in (("pointmaze-medium-far", 25, 0.5), ("antmaze-umaze", 25, 0.1)):
        config = planned(env, "td-infonce", "fast", 0, data="data").agent_config
        assert (config.n_step, config.cloning_share) == (ahead, cloning)


def test_the_table_shows_the_papers_numbers_beside_ours(tmp_path: Path) -> None:
    for agent, success in (("td-infonce", 0.9), ("gc-iql", 0.5)):
        folder = tmp_path / f"antmaze-umaze--{agent}--0"
        folder.mkdir()
        config = {"kind": "offline", "env": "antmaze-umaze", "agent": agent, "seed": 0}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "metrics.jsonl").write_text("")
        summary = {"success_any": success, "success_final": 0.0, "min_distance": 1.0, "updates": 5}
        (folder / "summary.json").write_text(json.dumps(summary | {"training_seconds": 60.0}))
    antmaze.report(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| antmaze-umaze | TD InfoNCE | 90.0 | 1 | 84.9 ± 1.2 |" in text
    assert "| antmaze-umaze | goal-conditioned IQL | 50.0 | 1 | not in the paper |" in text
    assert "D4RL's recipe" in text


@pytest.mark.parametrize("name", ["antmaze", "interpolation"])
def test_missing_data_is_one_line_before_anything_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "none"))
    assert main(["reproduce", name, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    first = experiments.load(name).budgets["default"]
    task = first.tasks[0] if name == "antmaze" else first.env
    assert "make it first, with a policy that walks:" in said
    assert task in said.partition("walks:")[2]
    assert not (tmp_path / "out").exists()


def test_stitch_data_are_made_only_if_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    _data.make_missing("pointmaze-umaze", "stitch", 200)
    file = tmp_path / "tdinfonce" / "pointmaze-umaze-stitch-v0" / "data" / "main_data.hdf5"
    stamp = file.stat().st_mtime_ns
    _data.make_missing("pointmaze-umaze", "stitch", 500)
    assert file.stat().st_mtime_ns == stamp


def shrunk(name: str, agents: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The smoke budget with some agents only."""
    experiment = experiments.load(name)
    grid = experiment.grid
    assert grid is not None
    few = dataclasses.replace(experiment, grid=lambda c, s: [cell for cell in grid(c, s) if cell.agent in agents])
    monkeypatch.setattr(experiments, "load", lambda _: few)


@pytest.mark.parametrize(
    ("name", "agents"), [pytest.param("antmaze", ("td3-bc",), marks=pytest.mark.slow), ("pointmaze-stitch", ("gcbc",))]
)
def test_smoke_needs_no_data(
    name: str, agents: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "none"))
    shrunk(name, agents, monkeypatch)
    words = ["reproduce", name, "--budget", "smoke", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert all(draw.label(agent) in text for agent in agents)
    assert (tmp_path / "out" / "figure.png").is_file()
    assert not (tmp_path / "none").exists()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/summary.json")}
    assert len(done) == len(agents)
    assert main(words) == 0, "the same command continues a grid"
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["antmaze", "pointmaze-stitch"])
def test_smoke_of_every_agent(name: str, tmp_path: Path) -> None:
    assert main(["reproduce", name, "--budget", "smoke", "--out", str(tmp_path / "out")]) == 0


@pytest.mark.slow
def test_smoke_of_interpolation_on_a_small_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "interpolation", "--budget", "smoke", "--out", str(out)]) == 0
    with np.load(out / "representations.npz", allow_pickle=False) as file:
        assert file["start"].shape == (2, 1, 32)
        assert np.allclose(np.linalg.norm(file["states"], axis=-1), 1, atol=1e-5)
        assert len(file["place"]) == file["states"].shape[1]
    text = (out / "table.md").read_text()
    assert "| 2 | non-parametric |" in text
    (out / "figure.png").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "figure.png").is_file()


def circle(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def test_interpolation_follows_the_arc() -> None:
    states = circle(np.linspace(0, np.pi, 181))
    share = np.linspace(0, 1, 4)
    middle = interpolation.slerp(states[0], states[90], share)
    assert np.allclose(middle, circle(share * np.pi / 2))
    assert interpolation.parametric(states[0], states[90], states, share).tolist() == [0, 30, 60, 90]
    found = interpolation.nonparametric(states[0], states[90], states, states, share)
    assert (found[0], found[-1]) == (0, 90)
    assert np.all(np.diff(found) > 0)


def test_the_share_on_a_shortest_way() -> None:
    # A corridor of three cells, and one beside it that leads nowhere.
    maze = {
        "walls": [[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 1, 0, 1, 1], [1, 1, 1, 1, 1]],
        "scale": 1.0,
        "first": [0, 0],
    }
    points = np.array([[1.0, -1.0], [2.0, -1.2], [2.0, -2.0], [3.0, -1.0]])
    assert interpolation.way_share(maze, points, points[0], points[3]) == 0.75
    assert interpolation.way_share(None, points, points[0], points[3]) is None
    ends = points[[0, 0, 3, 3]]
    assert interpolation.way_share(maze, ends, points[0], points[3]) == 1.0
    assert interpolation.visited(maze, ends, points[0], points[3]) == 0.0, "a jump is no way"
    assert interpolation.visited(maze, points, points[0], points[3]) == 1.0
    assert interpolation.visited(maze, points, points[0], points[1]) is None, "nothing is between neighbours"
    assert (interpolation.largest_jump(maze, ends), interpolation.largest_jump(maze, points)) == (2.0, 2.0)
    assert interpolation.largest_jump(maze, points[:2]) == 1.0
    assert interpolation.largest_jump(None, points) is None


def test_the_line_orders_states_that_the_arc_misses() -> None:
    """Half a circle at right angles to the line: no state between is near the arc, and all are in order along it."""
    turn = np.linspace(0, np.pi, 7)
    states = np.stack([np.cos(turn), np.zeros(7), np.sin(turn)], axis=1)
    start, goal = states[0], np.array([-np.cos(0.1), np.sin(0.1), 0.0])
    far = interpolation.along(start, goal, states)
    assert far[0] == pytest.approx(0.0)
    assert far[-1] == pytest.approx(1.0, abs=0.01)
    assert (np.diff(far) > 0).all()
    left = np.arange(6, -1, -1)
    assert interpolation._rank_correlation(left, far) == pytest.approx(-1.0)
    assert interpolation._rank_correlation(np.array([3, 1, 1, 0]), np.arange(4)) == pytest.approx(-0.9487, abs=1e-4)
    assert interpolation._rank_correlation(np.zeros(4), np.arange(4)) == 0.0
