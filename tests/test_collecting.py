"""What a run does between its updates: what is written down, how it explores, which data pay for which updates."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdinfonce import seeding
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.plans.policy import TrainedPolicy
from tdinfonce.runs.folder import RunFolder
from tdinfonce.training import online
from tdinfonce.training.collect import Exploration, Outcome, collect, uniform_policy
from tdinfonce.training.compiled import policy_of
from tdinfonce.training.evaluate import evaluate
from tdinfonce.training.offline import OfflineConfig, OfflineSession, with_task
from tdinfonce.training.online import OnlineConfig, OnlineSession
from tdinfonce.training.scale import scale_of
from tdinfonce.types import Batch, EnvSpec, Episode, GoalSampling, Start, Step

LENGTH = 20
SPEC = EnvSpec("clock", 4, 2, 1, LENGTH, tolerance=0.5)


class Clock:
    """The state says which episode it is, what time, and which action led here; the goal is its seed."""

    spec = SPEC

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def reset(self, seed: int) -> Start:
        self.seed, self.time = seed, 0
        return Start(np.array([seed, 0, 9, 9], np.float32), np.array([100.0]), np.array([seed], np.float32), 7.0)

    def step(self, action: np.ndarray) -> Step:
        self.time += 1
        state = np.array([self.seed, self.time, *action], np.float32)
        achieved, near = np.array([100.0 + self.time]), self.time == 3
        return Step(state, achieved, near, 1.0 if near else 5.0, self.time == self.length)

    def render(self) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        pass


def halves(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
    assert observation[1] == time
    assert observation[0] == goal[0]
    return np.array([time / 100, -time / 100], np.float32)


def test_an_episode_is_what_happened() -> None:
    episode, outcome = collect(Clock(6), halves, 11, np.random.default_rng(0))
    np.testing.assert_array_equal(episode.observation[:, 1], np.arange(7))
    np.testing.assert_array_equal(episode.achieved[:, 0], 100 + np.arange(7))
    np.testing.assert_array_equal(episode.action[:, 0], np.arange(6, dtype=np.float32) / 100)
    np.testing.assert_array_equal(episode.observation[1:, 2:], episode.action, "action t leads to state t + 1")
    assert episode.goal == 11
    assert outcome == Outcome(True, False, 1.0, 5.0, 6.0, 6)


def long(explore: Exploration, seed: int = 0) -> np.ndarray:
    def still(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        return np.array([0.25, -0.5], np.float32)

    return collect(Clock(20_000), still, 0, np.random.default_rng(seed), explore)[0].action


def test_noise_has_its_size_and_its_bounds() -> None:
    action = long(Exploration(noise=0.1))
    np.testing.assert_allclose(action.mean(0), [0.25, -0.5], atol=0.004)
    np.testing.assert_allclose(action.std(0), 0.1, atol=0.003)
    assert abs(np.corrcoef(action.T)[0, 1]) < 0.03
    wild = long(Exploration(noise=2.0))
    assert np.abs(wild).max() == 1
    assert 0.5 < (np.abs(wild) == 1).mean() < 0.8
    np.testing.assert_array_equal(long(Exploration()), np.tile(np.float32([0.25, -0.5]), (20_000, 1)))


def test_a_share_of_the_actions_is_uniform() -> None:
    action = long(Exploration(uniform=0.3))
    chosen = action[:, 0] != 0.25
    assert chosen.mean() == pytest.approx(0.3, abs=0.015)
    np.testing.assert_array_equal(chosen, action[:, 1] != -0.5)
    for column in action[chosen].T:
        np.testing.assert_allclose(np.histogram(column, 4, (-1, 1))[0] / chosen.sum(), 0.25, atol=0.025)
    noisy = long(Exploration(noise=0.001, uniform=0.3))
    assert (np.abs(noisy[:, 0] - 0.25) < 0.01).mean() == pytest.approx(0.7 + 0.3 * 0.01, abs=0.015)
    free = collect(Clock(20_000), uniform_policy(SPEC, np.random.default_rng(0)), 0, np.random.default_rng(1))[0].action
    for column in free.T:
        np.testing.assert_allclose(np.histogram(column, 4, (-1, 1))[0] / 20_000, 0.25, atol=0.015)


class Dice(Clock):
    """The same with one of three actions."""

    spec = dataclasses.replace(SPEC, action_size=3, discrete=True)

    def step(self, action: np.ndarray) -> Step:
        return super().step(np.array([np.argmax(action), 0], np.float32))


def test_discrete_actions_are_replaced_but_never_shaken() -> None:
    def second(observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
        return np.float32([0, 1, 0])

    for explore, shares in ((Exploration(2.0, 0.0), [0, 1, 0]), (Exploration(2.0, 0.3), [0.1, 0.8, 0.1])):
        action = collect(Dice(20_000), second, 0, np.random.default_rng(0), explore)[0].action
        assert {*action.ravel()} == {0, 1}
        np.testing.assert_array_equal(action.sum(1), 1)
        np.testing.assert_allclose(action.mean(0), shares, atol=0.015)


def test_actions_in_the_units_of_the_environment_and_back() -> None:
    spec = dataclasses.replace(SPEC, action_low=(0.0, -4.0), action_high=(5.0, 2.0))
    own = np.float32([[-1, -1], [1, 1], [0, 0], [0.5, -0.5], [7, -7]])
    native = np.float32([[0, -4], [5, 2], [2.5, -1], [3.75, -2.5], [5, -4]])
    np.testing.assert_allclose(spec.native_action(own), native, atol=1e-6)
    np.testing.assert_allclose(spec.own_action(native), np.clip(own, -1, 1), atol=1e-6)
    numbered = dataclasses.replace(Dice.spec, action_low=(2,))
    np.testing.assert_array_equal(numbered.native_action(np.eye(3)), [2, 3, 4])
    np.testing.assert_array_equal(numbered.own_action(np.array([4, 2])), [[0, 0, 1], [1, 0, 0]])


def told(index: int, steps: int) -> Episode:
    """Episode ``index``: states say which episode and what time it is, actions too."""
    time = np.arange(steps + 1, dtype=np.float32)
    state = np.stack([np.full_like(time, index), time, time, time], axis=1)
    return Episode(state, 100 * index + time[:, None], state[:-1, :2], np.array([1000 + index], np.float32))


@pytest.mark.parametrize("lengths", [[LENGTH] * 7, [3, 20, 1, 7, 15, 2, 9]])
def test_a_ring_is_sampled_as_the_episodes_it_holds(lengths: list[int]) -> None:
    """Of seven episodes the last four fit; nothing is drawn across their ends or from those that were overwritten."""
    replay = Replay(SPEC, 4 * LENGTH)
    for index, steps in enumerate(lengths):
        replay.append(told(index, steps))
    how = GoalSampling(0.9, n_step=4)
    b = sample(replay.view(), np.random.default_rng(0), (40_000,), how)
    which, time = b.observation[:, 0].astype(int), b.observation[:, 1].astype(int)
    held = {index: lengths[index] for index in range(3, 7)}
    for index, steps in held.items():
        counts = np.bincount(time[which == index], minlength=steps)
        assert counts.size == steps
        np.testing.assert_allclose(counts / 40_000, 1 / sum(held.values()), rtol=0.25)
    left = np.array([lengths[index] for index in which]) - time
    np.testing.assert_array_equal(b.action, b.observation[:, :2])
    np.testing.assert_array_equal(b.next_observation[:, :2], np.stack([which, time + 1], 1))
    np.testing.assert_array_equal(b.commanded_goal[:, 0], 1000 + which)
    np.testing.assert_array_equal(b.bootstrap_observation[:, :2], np.stack([which, time + np.minimum(left, 4)], 1))
    for goal in (b.next_goal, b.future_goal, b.near_goal):
        ahead = goal[:, 0] - (100 * which + time)
        assert ahead.min() == 1
        assert np.all(ahead <= left)
    random = b.random_goal[:, 0].astype(int)
    assert {*random} == {100 * index + later for index, steps in held.items() for later in range(1, steps + 1)}


def test_the_scale_is_that_of_the_stored_states() -> None:
    replay = Replay(SPEC, 4 * LENGTH)
    episodes = [told(index, steps) for index, steps in enumerate([4, 20, 1])]
    for episode in episodes:
        replay.append(episode)
    state = np.concatenate([e.observation for e in episodes])
    goal = np.concatenate([e.achieved for e in episodes])
    scale = scale_of(replay.view())
    for found, wanted in zip(scale, (state.mean(0), state.std(0), goal.mean(0), goal.std(0)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


class Recorder:
    """Stands in for an agent: it remembers what it was given."""

    def __init__(self, seed: int, scale: Any) -> None:
        self.scales, self.seed = [scale], seed

    def rescaled(self, scale: Any) -> "Recorder":
        self.scales.append(scale)
        return self


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An online session of 400 steps, of which 100 are the warm-up; the policy's action is (0.5, 0.5)."""
    calls: list[tuple[int, Batch]] = []

    def update_many(agent: Any, batches: Batch) -> tuple[Any, dict[str, float]]:
        if isinstance(agent, Recorder) and agent.seed:
            calls.append((session.env_steps, batches))
        return agent, {"critic/loss": 0.0}

    def policy_of(agent: Any, seed: int, steps: int, *, greedy: bool = False) -> Any:
        assert not greedy
        return lambda observation, goal, time: np.full(2, 0.5, np.float32)

    monkeypatch.setattr(online, "update_many", update_many)
    monkeypatch.setattr(online, "policy_of", policy_of)
    config = OnlineConfig(
        env_steps=4000,
        warmup_steps=100,
        updates_per_env_step=0.75,
        updates_per_call=10,
        batch_size=32,
        eval_every=10**6,
        scale_growth=2.0,
        exploration_noise=0.0,
        exploration_uniform=1.0,
        exploration_episodes=0.25,
    )
    folder = RunFolder.create(tmp_path / "run", {})
    session = OnlineSession(folder, Clock(), Recorder, GoalSampling(), config, 5)
    monkeypatch.setattr(session, "wait", lambda: None)
    while session.env_steps < 4000:
        session.iterate()
    session.close()
    return session, calls


def test_steps_pay_for_updates_after_the_warm_up(session: Any) -> None:
    run, calls = session
    steps = np.array([step for step, _ in calls])
    assert steps.min() > 100
    for now in range(LENGTH, 4001, LENGTH):
        paid = max(now - 100, 0) * 0.75
        assert 10 * (steps <= now).sum() == paid // 10 * 10
    assert run.updates == 10 * len(calls) == 2920
    assert all(batches.observation.shape == (10, 32, 4) for _, batches in calls)


def test_every_call_draws_anew_from_all_that_was_stored(session: Any) -> None:
    _, calls = session
    drawn = [batches.observation[..., :2].tobytes() for _, batches in calls]
    assert len({*drawn}) == len(drawn)
    last = {*calls[-1][1].observation[..., 0].ravel()}
    assert len(last) > 120, "of 200 episodes"


def test_the_warm_up_is_uniform_and_then_a_share_of_the_episodes_explores(session: Any) -> None:
    run, _ = session
    view = run.replay.view()
    actions = [view.episode(index).action for index in range(len(view))]
    explores = np.array([bool((action != 0.5).any()) for action in actions])
    assert explores[:5].all()
    assert len({*np.concatenate(actions[:5])[:, 0]}) == 100
    assert 0.15 < explores[5:].mean() < 0.36
    assert np.abs(np.concatenate(actions)).max() < 1, "uniform, not noise that is clipped"
    assert len({*view.goal[:, 0]}) == 200, "each episode starts anew"


def test_the_scale_follows_the_replay(session: Any) -> None:
    run, _ = session
    scales = run.agent.scales
    assert len(scales) == 6, "at the end of the warm-up, then beyond 128, 256, 512, 1024 and 2048 steps"
    assert [*np.round([scale.observation_mean[1] for scale in scales], 3)] == [10.0] * 6
    first = run.replay.view().chosen(np.arange(5))
    np.testing.assert_allclose(scales[0].observation_mean, scale_of(first).observation_mean, rtol=1e-5)


def test_offline_batches_are_of_what_is_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tdinfonce.training import offline

    calls: list[Batch] = []

    def update_many(agent: Any, batches: Batch) -> tuple[Any, dict[str, float]]:
        calls.append(batches)
        return agent, {"critic/loss": 0.0}

    monkeypatch.setattr(offline, "update_many", update_many)
    episodes = Episodes.of([told(index, 5) for index in range(40)])
    config = OfflineConfig(updates=35, updates_per_call=10, batch_size=64, held_out=0.25, eval_every=10**6)
    folder = RunFolder.create(tmp_path / "run", {})
    session = OfflineSession(folder, episodes, None, Recorder, GoalSampling(), config, 5)
    monkeypatch.setattr(session, "wait", lambda: None)
    while session.updates < 35:
        session.iterate()
    assert [batches.observation.shape[:2] for batches in calls] == [(10, 64)] * 3 + [(5, 64)]
    seen = [{*batches.observation[..., 0].ravel()} for batches in calls]
    assert len(seen[0]) == 30
    assert seen[0] == seen[1] == seen[2]
    goals = {*(calls[0].random_goal[..., 0].ravel() // 100)}
    assert goals == seen[0], "goals of episodes that are held out are held out too"
    np.testing.assert_array_equal(calls[0].commanded_goal[..., 0], 1000 + calls[0].observation[..., 0])
    assert len({batches.observation[:5].tobytes() for batches in calls}) == 4
    wanted = np.concatenate([told(index, 5).observation for index in sorted(seen[0])])
    np.testing.assert_allclose(session.agent.scales[0].observation_mean, wanted.mean(0), rtol=1e-5)


def test_a_task_has_a_reward_where_its_goal_is_near() -> None:
    episodes = Episodes.of([told(0, 6), told(1, 3)])
    spec = dataclasses.replace(SPEC, tolerance=1.5)
    tasked = with_task(episodes, [4.0], spec, 0.0)
    np.testing.assert_array_equal(tasked.reward, [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0])
    assert (tasked.goal == 4).all()
    np.testing.assert_array_equal(tasked.reward_to_come, [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    narrow = with_task(episodes, [4.0], spec, 0.5)
    assert narrow.reward.sum() == 1


class Echo(eqx.Module):
    """Its action says whether it was to be greedy, and draws a number; its size is one."""

    size: jax.Array

    def act(self, observation: jax.Array, goal: jax.Array, key: jax.Array, *, greedy: bool = False) -> jax.Array:
        chance = jax.random.uniform(key, observation[..., 0].shape)
        said = jnp.stack([0.5 * greedy + 0 * chance, chance], axis=-1)
        return self.size * said + 0 * goal


ECHO = Echo(jnp.ones(()))


def test_a_policy_draws_anew_at_each_step_and_in_each_episode() -> None:
    state, goal = np.zeros(4, np.float32), np.zeros(1, np.float32)
    answers = [[policy_of(ECHO, seed, 6)(state, goal, time) for time in range(6)] for seed in (1, 2)]
    assert len({float(answer[1]) for row in answers for answer in row}) == 12
    assert {float(answer[0]) for row in answers for answer in row} == {0.0}
    assert policy_of(ECHO, 1, 6, greedy=True)(state, goal, 0)[0] == 0.5


def test_a_loaded_policy_is_greedy_unless_it_is_given_a_seed() -> None:
    policy = TrainedPolicy(ECHO, SPEC, None, 0, 0)  # type: ignore[arg-type]
    state, goal = np.zeros(4, np.float32), np.zeros(1, np.float32)
    assert policy.act(state, goal, normalised=True)[0] == 0.5
    assert policy.for_episodes()(state, goal, 0)[0] == 0.5
    sampled = [policy.act(state, goal, seed=seed, normalised=True) for seed in (1, 1, 2)]
    assert [float(x[0]) for x in sampled] == [0, 0, 0]
    assert sampled[0][1] == sampled[1][1] != sampled[2][1]


class Diary(Clock):
    """Remembers its seeds and actions."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds: list[int] = []
        self.actions: list[float] = []

    def reset(self, seed: int) -> Start:
        self.seeds.append(seed)
        return super().reset(seed)

    def step(self, action: np.ndarray) -> Step:
        self.actions.append(float(action[0]))
        return super().step(action)


def test_an_evaluation_is_greedy_and_the_same_for_every_run(tmp_path: Path) -> None:
    seen = []
    for seed in (5, 6):
        env, folder = Diary(), RunFolder.create(tmp_path / str(seed), {})
        session = OnlineSession(folder, env, Recorder, GoalSampling(), OnlineConfig(), seed)
        session.agent = ECHO
        result = session.evaluate(4)
        assert {*env.actions} == {0.5}
        assert (result["episodes"], result["success_any"], result["success_final"]) == (4, 1.0, 0.0)
        assert (result["min_distance"], result["final_distance"], result["length"]) == (1.0, 5.0, LENGTH)
        seen.append(env.seeds)
    assert seen[0] == seen[1] == seeding.evaluation_seeds(4)
    assert len({*seen[0]}) == 4
    trained = {seeding.derive(seed, "episode", index) for seed in (0, 5, 6) for index in range(1000)}
    assert not trained & {*seen[0]}
    rested = evaluate(Diary(), lambda observation, goal, time: np.zeros(2, np.float32), 2)
    assert rested["episodes"] == 2
