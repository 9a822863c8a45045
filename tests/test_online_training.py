"""Training as a whole: checkpoints that notice damage, runs that continue exactly, policies that load alone."""

import itertools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce
from helpers import planned, run_online
from run_state import state_of
from tdinfonce import agents
from tdinfonce.errors import Stopped, UserError
from tdinfonce.runs import checkpoint
from tdinfonce.runs.folder import RunFolder
from tdinfonce.runs.log import averages, pack, unpack
from tdinfonce.system.files import read_metrics
from tdinfonce.training import online
from tdinfonce.training.collect import Exploration, collect, uniform_policy
from tdinfonce.training.scale import growth, scale_of
from tdinfonce.types import InputScale

TINY = ["hidden=8", "env_steps=400", "warmup_steps=100", "eval_every=100", "eval_episodes=2", "final_episodes=3"]
TINY += ["batch_size=16", "updates_per_call=5"]


def start(out: Path, agent: str = "gcbc", settings: list[str] = TINY, seed: int = 3) -> Any:
    plan = planned("point", agent, "fast", seed, settings=settings)
    env = plan.make_env()
    return plan, env, RunFolder.create(out, plan.as_json(env.spec))


def go(plan: Any, env: Any, folder: RunFolder, *, resume: bool = False) -> dict[str, Any]:
    def create(seed: int, scale: Any) -> Any:
        return plan.create_agent(env.spec, seed, scale)

    return run_online(folder, env, create, plan.agent_config.sampling, plan.training, plan.seed, resume=resume)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("online") / "run"
    go(*start(out))
    return out


def test_a_run_folder_explains_itself(finished: Path) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert config["training"]["env_steps"] == 400
    assert config["spec"]["goal_size"] == 2
    rows = list(read_metrics(finished))
    assert [row["env_steps"] for row in rows] == [100, 200, 300, 400, 400]
    assert {"eval/success_any", "eval/success_final", "eval/min_distance", "collect/moved"} <= set(rows[0])
    assert "actor/loss" in rows[1]
    assert (finished / "COMPLETE").is_file()
    assert any((finished / "tensorboard").iterdir())


ONLINE = [name for name in agents.names() if hasattr(agents.load(name), "PRESETS")]


@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=[] if name in ("gcbc", "td-infonce") else pytest.mark.slow) for name in ONLINE]
)
def test_a_stopped_run_continues_bit_for_bit(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(*start(tmp_path / "straight", agent))
    plan, env, folder = start(tmp_path / "stopped", agent)
    episodes = 0
    original = online.OnlineSession.iterate

    def interrupted(self: Any) -> int:
        nonlocal episodes
        episodes += 1
        if episodes == 13:  # between two evaluations
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(online.OnlineSession, "iterate", interrupted)
        with pytest.raises(Stopped, match="SIGTERM"):
            go(plan, env, folder)
    assert not folder.complete
    go(plan, env, folder, resume=True)
    assert folder.complete
    assert state_of(tmp_path / "straight") == state_of(tmp_path / "stopped")


def test_load_acts_without_environment_or_replay(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    for replay in copy.glob("checkpoints/replay*"):
        shutil.rmtree(replay)
    policy = tdinfonce.load(str(copy))
    one = policy.act(np.zeros(2), np.array([0.5, 0.5]))
    many = policy.act(np.zeros((3, 2)), np.full((3, 2), 0.5))
    assert one.shape == (2,)
    np.testing.assert_allclose(many, np.stack([one] * 3), rtol=1e-5)
    assert not np.allclose(policy.act(np.zeros(2), np.zeros(2), seed=1), policy.act(np.zeros(2), np.zeros(2), seed=2))
    with pytest.raises(ValueError, match="observation must have length 2"):
        policy.act(np.zeros(3), np.zeros(2))
    np.testing.assert_array_equal(policy.act(np.zeros((3, 2)), np.array([0.5, 0.5])), many)
    np.testing.assert_array_equal(policy.act(np.zeros(2), np.full((3, 2), 0.5)), many)
    with pytest.raises(ValueError, match="one goal for each observation"):
        policy.act(np.zeros((3, 2)), np.zeros((2, 2)))


def damage(run: Path, tmp_path: Path, name: str) -> Path:
    copy = tmp_path / "damaged"
    shutil.copytree(run, copy)
    return checkpoint.list_checkpoints(copy)[-1] / name


def test_a_flipped_bit_is_noticed(finished: Path, tmp_path: Path) -> None:
    path = damage(finished, tmp_path, "agent.safetensors")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="SHA-256"):
        assert tdinfonce.load(str(tmp_path / "damaged")).env_steps == 300


def test_damaged_checkpoints_are_named_and_skipped(finished: Path, tmp_path: Path) -> None:
    damage(finished, tmp_path, "agent.safetensors").unlink()
    copy = tmp_path / "damaged"
    with pytest.warns(RuntimeWarning, match=r"agent.safetensors is missing; .*000000000300 is used instead"):
        assert tdinfonce.load(str(copy)).env_steps == 300
    (checkpoint.list_checkpoints(copy)[-2] / "manifest.json").write_text("{")
    with pytest.warns(RuntimeWarning) as seen:
        assert tdinfonce.load(str(copy)).env_steps == 200
    assert any("not a checkpoint" in str(warning.message) for warning in seen)
    shutil.rmtree(checkpoint.list_checkpoints(copy)[0])
    with pytest.raises(UserError, match=r"no checkpoint of .* is whole"):
        tdinfonce.load(str(copy))
    assert tdinfonce.load(str(copy), best=True).env_steps > 0
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(UserError, match="holds no checkpoint"):
        tdinfonce.load(str(copy))
    with pytest.raises(UserError, match="no run folder"):
        tdinfonce.load(str(tmp_path / "nowhere"))


def test_a_half_written_checkpoint_is_ignored(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    half = copy / "checkpoints" / "999999999999.partial"
    half.mkdir()
    assert checkpoint.list_checkpoints(copy)[-1].name == "000000000400"
    assert tdinfonce.load(str(copy)).env_steps == 400


def test_collect_is_decided_by_its_seeds() -> None:
    env = planned("point", "gcbc", "fast", 0).make_env()

    def episode(seed: int, chance: int) -> np.ndarray:
        rng = np.random.default_rng(chance)
        return collect(env, uniform_policy(env.spec, rng), seed, rng, Exploration(0.1, 0.5))[0].observation

    np.testing.assert_array_equal(episode(1, 1), episode(1, 1))
    assert not np.array_equal(episode(1, 1), episode(1, 2))
    assert not np.array_equal(episode(1, 1)[0], episode(2, 1)[0])


def test_statistics_have_floors() -> None:
    plan = planned("point", "gcbc", "fast", 0)
    env = plan.make_env()
    from tdinfonce.data.replay import Replay
    from tdinfonce.types import Episode

    replay = Replay(env.spec, 100)
    flat = np.stack([np.linspace(-1, 1, 21), np.zeros(21)], 1).astype(np.float32)
    replay.append(Episode(flat, flat, np.zeros((20, 2), np.float32), flat[0]))
    scale = scale_of(replay.view())
    np.testing.assert_allclose(scale.observation_std, [flat[:, 0].std(), 0.01], rtol=1e-5)
    np.testing.assert_allclose(scale.goal_std, [flat[:, 0].std(), flat[:, 0].std() / 4], rtol=1e-5)


def test_settings_are_parsed_by_their_type() -> None:
    words = ["hidden=32,16", "layer-norm=true", "actor_rate=0.5", "env_steps=1_000"]
    plan = planned("point", "gcbc", "paper", 0, settings=words)
    assert plan.agent_config.hidden == (32, 16)
    assert plan.agent_config.layer_norm is True
    assert plan.agent_config.actor_rate == 0.5
    assert plan.training.env_steps == 1000
    for word, message in (
        ("hidden=a", "numbers like"),
        ("env_steps=1.5", "whole number"),
        ("layer_norm=maybe", "true or false"),
        ("discount", "name=value"),
        ("discond=1", "Did you mean 'discount'"),
        ("goal_hidden=0", "at least one width"),
        ("commanded_share=0.9", "together at most 1"),
        ("commanded_share=2", "between 0 and 1"),
        ("n_step=0", "at least 1"),
    ):
        with pytest.raises(UserError, match=message):
            planned("point", "td-infonce", "fast", 0, settings=[word])


def test_the_scale_is_measured_anew_as_the_run_grows() -> None:
    turns = [n for n in range(1, 3000) if growth(n, 1.1) != growth(n - 1, 1.1)]
    later = [n for n in turns if n > 100]
    assert all(after / before < 1.12 for before, after in itertools.pairwise(later))
    assert growth(10, 1.0) == growth(10_000, 1.0)
    plan = planned("point", "gcbc", "fast", 0)
    spec = plan.make_env().spec
    agent = plan.create_agent(spec, 0)
    wide = InputScale(*(np.full_like(x, 3) for x in InputScale.identity(spec)))
    np.testing.assert_array_equal(agent.rescaled(wide).inputs.scale.goal_std, [3, 3])
    raw = planned("point", "gcbc", "paper", 0).create_agent(spec, 0)
    np.testing.assert_array_equal(raw.rescaled(wide).inputs.scale.goal_std, [1, 1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory in their own ways")
def test_freed_memory_is_kept() -> None:
    """In a process of its own, since it cannot be undone: only the first of many arrays are paged in."""
    program = """
import resource, sys
import numpy as np
from tdinfonce.system.machine import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        both = [np.ones(200_000, np.float32), np.ones(200_000, np.float32)]
        del both
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
    keep, leave = (
        int(subprocess.run([sys.executable, "-c", program, word], capture_output=True, check=True).stdout)
        for word in ("keep", "leave")
    )
    assert keep < leave / 10


def test_metrics_of_another_version_from_before_a_stop_do_not_end_the_run() -> None:
    earlier = unpack(pack([{"loss": np.float32(1.0), "gone": np.float32(5.0)}]))
    metrics = [*earlier, {"loss": np.float32(3.0), "new": np.float32(7.0)}]
    assert averages(metrics) == {"loss": 2.0}
    assert [list(row) for row in unpack(pack(metrics))] == [["loss"], ["loss"]]
