"""Every agent learns to reach points, and training as a whole does what it says."""

import json
import time
from pathlib import Path

import pytest

from helpers import planned, run_online
from tdinfonce import agents
from tdinfonce.runs.folder import RunFolder


def train(name: str, out: Path, seed: int, **settings: object) -> dict:
    words = [f"{key}={value}" for key, value in settings.items()]
    plan = planned("point", name, "fast", seed, settings=words)
    env = plan.make_env()
    folder = RunFolder.create(out, plan.as_json(env.spec))
    return run_online(
        folder,
        env,
        lambda seed, scale: plan.create_agent(env.spec, seed, scale),
        plan.agent_config.sampling,
        plan.training,
        plan.seed,
    )


ONLINE = [name for name in agents.names() if hasattr(agents.load(name), "PRESETS")]
QUICK = {"qrl": 1_500, "ddpg-her": 2_000, "gcbc": 2_000, "c-learning": 4_000, "td-infonce": 4_000}
"""Environment steps of the agents that need fewer than the preset has."""


@pytest.mark.parametrize("name", ONLINE)
def test_agent_reaches_points(name: str, tmp_path: Path) -> None:
    before = time.process_time()
    steps = {"env_steps": QUICK[name]} if name in QUICK else {}
    result = train(name, tmp_path / "run", seed=101, eval_every=100_000, **steps)
    assert result["success_any"] >= 0.9, result
    assert time.process_time() - before < 60, "processor time, so that a busy machine does not matter"
    stored = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert stored["success_any"] == result["success_any"]
    assert (tmp_path / "run" / "COMPLETE").is_file()


def test_an_untrained_policy_does_not_reach_points(tmp_path: Path) -> None:
    """The learning test can fail: without updates success stays at chance."""
    result = train("td-infonce", tmp_path / "run", seed=101, env_steps=600, updates_per_env_step=0)
    assert result["success_any"] < 0.6
    assert result["updates"] == 0
