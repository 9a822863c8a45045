"""Our fitted Q evaluation beside that of d3rlpy, which `make test-slow` installs, and beside exact values."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import d3rlpy_fqe
from tdinfonce.data import Episodes
from tdinfonce.estimate import rivals
from tdinfonce.estimate._logged import open_logged
from tdinfonce.estimate._members import build_steps
from tdinfonce.estimate._target import Choices
from tdinfonce.estimate.predictor import Config
from tdinfonce.system import venv

STATES, ACTIONS, DISCOUNT, EPISODES, STEPS = 8, 3, 0.8, 300, 21
TOLERANCE = 0.08
"""Of values between 0 and 5; the value of the behaviour is more than three times as far."""


def case() -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """A log by a random behaviour, then exact values of a deterministic policy and of the behaviour."""
    rng = np.random.default_rng(0)
    model = rng.dirichlet(np.full(STATES, 0.3), (STATES, ACTIONS))
    behaviour, reward = rng.dirichlet(np.full(ACTIONS, 2.0), STATES), rng.random(STATES)
    policy = rng.integers(0, ACTIONS, STATES)
    state, action = np.zeros((2, EPISODES, STEPS), int)
    for episode in range(EPISODES):
        now = int(rng.integers(STATES))
        for step in range(STEPS):
            state[episode, step], action[episode, step] = now, rng.choice(ACTIONS, p=behaviour[now])
            now = int(rng.choice(STATES, p=model[now, action[episode, step]]))

    def value(chain: np.ndarray) -> np.ndarray:
        return np.linalg.solve(np.eye(STATES) - DISCOUNT * chain, reward)

    log = {"states": state, "actions": action, "rewards": reward[state], "policy": policy, "discount": DISCOUNT}
    return log, value(model[np.arange(STATES), policy]), value(np.einsum("sa,sat->st", behaviour, model))


def ours(log: dict[str, Any]) -> np.ndarray:
    """By `rivals.fitted_q`; rewards are of states, so the last action of an episode is not missed."""
    observation = log["states"].reshape(-1, 1).astype(np.float32)
    action, start = np.eye(ACTIONS, dtype=np.float32)[log["actions"].reshape(-1)], np.arange(EPISODES) * STEPS
    length, goal = np.full(EPISODES, STEPS - 1), observation[start]
    data = Episodes(observation, observation, action, start, length, goal, actions=ACTIONS)
    logged = open_logged(data, "continue", True, None)
    policy = np.eye(ACTIONS, dtype=np.float32)[log["policy"]]
    choices = Choices(policy[None], np.ones((1, STATES)))
    steps, _ = build_steps(logged, choices, np.random.default_rng(0), np.arange(EPISODES))
    reward = np.zeros((STATES, 1))
    reward[log["states"].reshape(-1), 0] = log["rewards"].reshape(-1)
    config = Config(discount=DISCOUNT, learning_rate=3e-3, target_rate=0.05, hidden=(64,))
    return rivals.fitted_q(steps, policy, reward, config, 2_000, 0)[:, 0]


def test_our_fitted_q_evaluation_is_right() -> None:
    log, truth, behaviour = case()
    assert np.abs(behaviour - truth).max() > 3 * TOLERANCE
    assert np.abs(ours(log) - truth).max() < TOLERANCE


@pytest.mark.slow
def test_our_fitted_q_evaluation_is_as_right_as_that_of_d3rlpy(tmp_path: Path) -> None:
    log, truth, _ = case()
    np.savez(tmp_path / "log.npz", **log)
    python = venv.install("d3rlpy", tmp_path, d3rlpy_fqe.REQUIREMENTS)
    words = [str(python), d3rlpy_fqe.__file__, str(tmp_path / "log.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, venv.complaint(done.stderr)
    theirs = np.array(json.loads(done.stdout.splitlines()[-1]))
    assert np.abs(theirs - truth).max() < TOLERANCE
    assert np.abs(ours(log) - theirs).max() < TOLERANCE
