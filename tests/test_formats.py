"""What an earlier version has saved is loaded for ever, and goes on as it would have gone on then."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import safety
import tdinfonce
from tdinfonce import agents
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.plans.plan import read_plan
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.settings import from_json
from tdinfonce.types import EnvSpec, Episode

FIXTURES = Path(__file__).parent / "fixtures"
OLD_AGENTS = FIXTURES / "format-2-agents"
"""Of each agent that format 2 knew: its arrays after three updates, how it acted then and after one more."""
SINCE = ".critic.average", ".multiplier"
"""What agents did not have then, or not in the shape of today."""
PLACE = np.array([0.1, -0.2]), np.array([0.5, 0.5])
every_format = pytest.mark.parametrize("form", [1, 2, 3])


def fixture(form: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of the run of a format, and what is expected of it."""
    run = shutil.copytree(FIXTURES / f"format-{form}", folder / "run")
    return run, json.loads((run / "expected.json").read_text())


@every_format
def test_old_checkpoints_load_for_ever(form: int, tmp_path: Path) -> None:
    run, expected = fixture(form, tmp_path)
    policy = tdinfonce.load(str(run))
    np.testing.assert_allclose(policy.act(*PLACE), expected["action"], rtol=1e-5)
    replay = Replay(policy.spec, 100)
    loaded = checkpoint.load(run, "agent", "progress", replay=replay)
    assert (loaded.counters["env_steps"], replay.added, len(replay)) == (200, 10, 5)
    np.testing.assert_allclose(replay.observation.sum(), expected["observations"], rtol=1e-6)


@every_format
def test_old_checkpoints_are_continued(form: int, tmp_path: Path) -> None:
    """For a hundred steps, with the optimiser and the replay that were saved; then all is in the newest format."""
    run, expected = fixture(form, tmp_path)
    plan, _ = read_plan(run)
    plan = dataclasses.replace(plan, training=dataclasses.replace(plan.training, env_steps=300))
    safety.go(plan, plan.make_env(), RunFolder(run), resume=True)
    policy = tdinfonce.load(str(run))
    assert policy.updates == 240
    np.testing.assert_allclose(policy.act(*PLACE), expected["continued"], rtol=1e-3, atol=1e-4)
    assert checkpoint.read_manifest(checkpoint.list_checkpoints(run)[-1])["format"] == 3


def test_a_format_of_the_future_is_refused_in_one_line(tmp_path: Path) -> None:
    run, _ = fixture(3, tmp_path)
    safety.reseal(checkpoint.list_checkpoints(run)[-1], format=4)
    with pytest.raises(UserError, match=r"has format 4; this version reads formats 1 to 3$"):
        tdinfonce.load(str(run))


def batches(sampling: Any) -> Any:
    rng = np.random.default_rng(0)
    episodes = Episodes.of(
        [
            Episode(
                rng.normal(1, 2, (11, 5)).astype(np.float32),
                rng.normal(1, 2, (11, 3)).astype(np.float32),
                rng.uniform(-1, 1, (10, 2)).astype(np.float32),
                rng.normal(1, 2, 3).astype(np.float32),
            )
            for _ in range(8)
        ]
    )
    episodes = dataclasses.replace(episodes, reward=(rng.random(88) < 0.3).astype(np.float32))
    return jax.tree.map(jnp.asarray, sample(episodes, np.random.default_rng(0), (4, 8), sampling))


def check(agent: Any, expected: dict[str, Any]) -> None:
    state, goal = np.linspace(-1, 2, 5, dtype=np.float32), np.linspace(2, 0, 3, dtype=np.float32)
    for word, greedy in (("greedy", True), ("sampled", False)):
        action = agent.act(state, goal, jax.random.PRNGKey(1), greedy=greedy)
        np.testing.assert_allclose(action, expected[word], rtol=1e-4, atol=1e-5)
    arrays = checkpoint.agent_arrays(agent).items()
    known = [array for path, array in arrays if array.dtype.kind == "f" and not path.startswith(SINCE)]
    size = sum(np.abs(array.astype(np.float64)).sum() for array in known)
    np.testing.assert_allclose(size, expected["size"], rtol=1e-5)


@pytest.mark.parametrize("name", sorted(path.stem for path in OLD_AGENTS.glob("*.safetensors")))
def test_every_agent_of_format_2_acts_and_learns_on(name: str, tmp_path: Path) -> None:
    """Each array finds its place among model, optimiser and average."""
    expected = json.loads((OLD_AGENTS / "expected.json").read_text())[name]
    module = agents.load(name)
    config = from_json(module.Config, expected["config"])
    spec = EnvSpec("test", observation_size=5, action_size=2, goal_size=3, episode_length=10, tolerance=0.8)
    saved = checkpoint.save(tmp_path, 3, {"agent": load_file(OLD_AGENTS / f"{name}.safetensors")}, {"updates": 3})
    safety.reseal(saved, format=2)
    template = eqx.filter_jit(module.Agent.create)(jax.random.PRNGKey(5), spec, config)
    agent = checkpoint.restore_agent(template, checkpoint.load(tmp_path, "agent").parts["agent"])
    check(agent, expected["before"])
    fourth = jax.tree.map(lambda x: x[3], batches(config.sampling))
    check(eqx.filter_jit(lambda agent, batch: agent.update(batch)[0])(agent, fourth), expected["after"])


def test_constraints_go_on_from_the_multiplier_that_they_shared(tmp_path: Path) -> None:
    """With what Adam knew of it. The critic's next step is that of then: both weigh as they did."""
    old = load_file(OLD_AGENTS / "qrl.safetensors")
    config = from_json(
        agents.load("qrl").Config, json.loads((OLD_AGENTS / "expected.json").read_text())["qrl"]["config"]
    )
    spec = EnvSpec("test", observation_size=5, action_size=2, goal_size=3, episode_length=10, tolerance=0.8)
    template = eqx.filter_jit(agents.load("qrl").Agent.create)(jax.random.PRNGKey(5), spec, config)
    safety.reseal(checkpoint.save(tmp_path, 3, {"agent": old}, {"updates": 3}), format=2)
    stored = checkpoint.load(tmp_path, "agent").parts["agent"]
    paths = [f".multiplier.{name}" for name in ("model", "state[0].mu", "state[0].nu")]
    assert [stored[path].shape for path in paths] == [(2,)] * 3
    new = checkpoint.agent_arrays(checkpoint.restore_agent(template, stored))
    for path in paths:
        assert np.ptp(stored[path]) > 0, "two critics with a multiplier each"
        np.testing.assert_array_equal(new[path], np.stack([stored[path]] * 2, axis=1))
    assert new[".multiplier.state[0].count"] == stored[".multiplier.state[0].count"] == 3
    with pytest.raises(UserError, match=r"differs at \.multiplier\.model"):
        checkpoint.restore_agent(template, stored | {".multiplier.model": stored[".multiplier.model"][:1]})
