"""Replay, relabelling and sampling: nothing leaks between episodes, and the laws are the stated ones."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdinfonce.data.episodes import Episodes
from tdinfonce.data.relabel import geometric_offset, uniform_offset
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.types import Batch, EnvSpec, Episode, GoalSampling

SPEC = EnvSpec("test", observation_size=2, action_size=1, goal_size=2, episode_length=6)


def numbered(number: int, steps: int) -> Episode:
    """States say which episode and time they are: (number, time)."""
    states = np.stack([np.full(steps + 1, number), np.arange(steps + 1)], axis=1).astype(np.float32)
    actions = np.arange(steps, dtype=np.float32)[:, None] / 10
    return Episode(states, states.copy(), actions, np.array([number, 100], np.float32))


def test_geometric_offset_follows_the_truncated_geometric_law() -> None:
    rng = np.random.default_rng(0)
    left = np.full(200_000, 4)
    offsets = geometric_offset(rng.random(left.size, dtype=np.float32), left, 0.7)
    law = 0.7 ** np.arange(1, 5)
    np.testing.assert_allclose(np.bincount(offsets, minlength=5)[1:] / left.size, law / law.sum(), atol=0.005)


@settings(deadline=None)
@given(
    left=st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    discount=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_offsets_never_leave_the_episode(left: list[int], discount: float, seed: int) -> None:
    bound = np.array(left)
    draws = np.random.default_rng(seed).random(bound.size, dtype=np.float32)
    draws[0] = np.float32(1) - np.finfo(np.float32).eps / 2  # the largest number below one
    for offset in (geometric_offset(draws, bound, discount), uniform_offset(draws, bound)):
        assert np.all((offset >= 1) & (offset <= bound))


def test_extreme_discounts() -> None:
    draws, left = np.array([0.0, 0.5, 0.99], np.float32), np.array([10, 10, 10])
    np.testing.assert_array_equal(geometric_offset(draws, left, 0.0), [1, 1, 1])
    np.testing.assert_array_equal(geometric_offset(draws, left, 1.0), [1, 6, 10])


def test_replay_fills_wraps_twice_and_every_slot_is_reachable() -> None:
    replay = Replay(SPEC, capacity=18)
    assert replay.slots == 3
    for number in range(8):
        replay.append(numbered(number, 6))
        kept = {int(replay.view().episode(i).observation[0, 0]) for i in range(len(replay))}
        assert kept == set(range(max(0, number - 2), number + 1))
    batch = sample(replay.view(), np.random.default_rng(0), (2000,), GoalSampling())
    seen = {(int(a), int(b)) for a, b in batch.observation}
    assert seen == {(e, t) for e in (5, 6, 7) for t in range(6)}
    goals = {(int(a), int(b)) for a, b in batch.random_goal}
    assert goals == {(e, t) for e in (5, 6, 7) for t in range(1, 7)}


def test_a_shorter_episode_leaves_nothing_of_the_longer_one_it_replaced() -> None:
    replay = Replay(SPEC, capacity=6)
    replay.append(numbered(1, 6))
    replay.append(numbered(2, 2))
    batch = sample(replay.view(), np.random.default_rng(0), (500,), GoalSampling(0.9, n_step=4))
    for name in ("observation", "next_observation", "future_goal", "random_goal", "bootstrap_observation"):
        assert set(getattr(batch, name)[:, 0]) == {2.0}


def test_replay_refuses_what_does_not_fit() -> None:
    replay = Replay(SPEC, capacity=12)
    with pytest.raises(ValueError, match="1 to 6 actions"):
        replay.append(numbered(0, 7))
    with pytest.raises(ValueError, match="one state more"):
        replay.append(numbered(0, 3)._replace(achieved=np.zeros((3, 2), np.float32)))


def copy(ring: Replay, other: Replay) -> None:
    other.put(ring.added - len(ring), ring.take(ring.added - len(ring), ring.added), newest=ring.added)
    other.added = ring.added


def test_the_slots_of_a_ring_make_an_equal_ring() -> None:
    replay, other = Replay(SPEC, capacity=18), Replay(SPEC, capacity=18)
    for number in range(5):
        replay.append(numbered(number, 2 + number))
    copy(replay, other)
    for ring in (replay, other):
        ring.append(numbered(9, 3))
    for name in ("observation", "achieved", "action", "start", "length", "goal"):
        np.testing.assert_array_equal(getattr(replay.view(), name), getattr(other.view(), name))


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    n_step=st.integers(1, 8),
    uniform=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_batch_stays_inside_its_episodes(lengths: list[int], n_step: int, uniform: bool, seed: int) -> None:
    episodes = Episodes.of([numbered(i, n) for i, n in enumerate(lengths)])
    batch = sample(episodes, np.random.default_rng(seed), (3, 20), GoalSampling(0.9, n_step, uniform))
    number, time = batch.observation[..., 0], batch.observation[..., 1]
    left = np.array(lengths)[number.astype(int)] - time
    np.testing.assert_array_equal(batch.next_observation, np.stack([number, time + 1], -1))
    np.testing.assert_array_equal(batch.next_goal, batch.next_observation)
    np.testing.assert_allclose(batch.action[..., 0], time / 10)
    np.testing.assert_array_equal(batch.future_goal[..., 0], number)
    ahead = batch.future_goal[..., 1] - time
    assert np.all((ahead >= 1) & (ahead <= left))
    np.testing.assert_array_equal(batch.commanded_goal, np.stack([number, np.full_like(number, 100)], -1))
    steps = np.minimum(n_step, left)
    near = batch.near_goal[..., 1] - time
    assert np.all(batch.near_goal[..., 0] == number)
    assert np.all((near >= 1) & (near <= steps))
    np.testing.assert_array_equal(batch.bootstrap_observation, np.stack([number, time + steps], -1))
    np.testing.assert_allclose(batch.bootstrap_discount, 0.9**steps, rtol=1e-5)


def test_fields_that_nobody_reads_are_not_drawn_and_change_nothing() -> None:
    episodes = Episodes.of([numbered(i, 5) for i in range(4)])
    whole = sample(episodes, np.random.default_rng(3), (8,), GoalSampling())
    part = sample(episodes, np.random.default_rng(3), (8,), GoalSampling(fields=("action", "near_goal")))
    assert [name for name, value in part._asdict().items() if value is not None] == ["action", "near_goal"]
    np.testing.assert_array_equal(part.action, whole.action)
    np.testing.assert_array_equal(part.near_goal, whole.near_goal)


def test_offsets_near_discount_one_are_near_uniform() -> None:
    left = np.full(100_000, 10)
    draws = np.random.default_rng(0).random(left.size, dtype=np.float32)
    assert np.mean(geometric_offset(draws, left, 1 - 1e-12) == uniform_offset(draws, left)) > 0.999


def test_transitions_are_uniform_over_steps_and_not_over_episodes() -> None:
    episodes = Episodes.of([numbered(0, 1), numbered(1, 6)])
    batch = sample(episodes, np.random.default_rng(0), (70_000,), GoalSampling())
    assert abs(np.mean(batch.observation[:, 0]) - 6 / 7) < 0.01


def test_same_generator_same_batch() -> None:
    episodes = Episodes.of([numbered(i, 5) for i in range(4)])
    first, second = (sample(episodes, np.random.default_rng(3), (8,), GoalSampling()) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_episodes_check_themselves() -> None:
    good = Episodes.of([numbered(0, 3)])
    with pytest.raises(ValueError, match="beyond the arrays"):
        Episodes(good.observation, good.achieved, good.action, np.array([0]), np.array([4]), good.goal)
    with pytest.raises(ValueError, match="same number of rows"):
        Episodes(good.observation, good.achieved[:2], good.action, np.array([0]), np.array([3]), good.goal)
    nothing = np.array([], int)
    empty = Episodes(good.observation, good.achieved, good.action, nothing, nothing, good.goal[:0])
    with pytest.raises(ValueError, match="no episodes"):
        sample(empty, np.random.default_rng(0), (2,), GoalSampling())


def test_data_needs_no_jax() -> None:
    import subprocess
    import sys

    code = "import tdinfonce.data.sampler, tdinfonce.data.replay, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


IMAGES = EnvSpec(
    "test", observation_size=48, action_size=1, goal_size=48, episode_length=6, goal_space="image", image=(4, 4, 3)
)


def pictured(number: int, steps: int) -> Episode:
    """Images of one brightness, which says which episode and time they are: 10 * number + time."""
    brightness = (10 * number + np.arange(steps + 1)).astype(np.uint8)
    images = np.broadcast_to(brightness[:, None, None, None], (steps + 1, 4, 4, 3))
    return Episode(images, images, np.zeros((steps, 1), np.float32), np.full((4, 4, 3), number, np.uint8))


def test_images_are_stored_once_and_stay_bytes() -> None:
    replay = Replay(IMAGES, capacity=18)
    for number in range(8):
        replay.append(pictured(number, 6))
    assert replay.achieved is replay.observation
    view = replay.view()
    assert view.achieved is view.observation
    batch = sample(replay.view(), np.random.default_rng(0), (2, 500), GoalSampling(0.9, n_step=3))
    for name, array in zip(batch._fields, batch, strict=True):
        if array is not None and name.endswith(("goal", "observation")):
            assert array.shape == (2, 500, 4, 4, 3), name
            assert array.dtype == np.uint8, name
            assert np.all(array == array[..., :1, :1, :1]), name
    now, later = batch.observation[..., 0, 0, 0].astype(int), batch.future_goal[..., 0, 0, 0].astype(int)
    assert set(now.ravel()) == {10 * e + t for e in (5, 6, 7) for t in range(6)}
    np.testing.assert_array_equal(batch.next_goal[..., 0, 0, 0], now + 1)
    np.testing.assert_array_equal(later // 10, now // 10)
    np.testing.assert_array_equal(batch.commanded_goal[..., 0, 0, 0], now // 10)
    assert np.all(later > now)


def test_an_image_as_a_goal_is_the_observation_itself() -> None:
    replay = Replay(IMAGES, capacity=18)
    good = pictured(1, 3)
    replay.append(good._replace(achieved=good.observation.copy()))
    with pytest.raises(ValueError, match="stored once"):
        replay.append(good._replace(achieved=good.observation + 1))
    assert len(replay) == 1


def test_a_hundred_thousand_images_fit_into_three_gibibytes() -> None:
    spec = EnvSpec("test", 12288, 4, 12288, 50, image=(64, 64, 3))
    replay = Replay(spec, capacity=100_000)  # untouched pages take no memory
    arrays = {id(a): a for a in vars(replay).values() if isinstance(a, np.ndarray)}
    assert sum(a.nbytes for a in arrays.values()) < 1.25 * 2**30
    assert "achieved" not in replay.take(0, 1)


def test_an_image_ring_is_restored() -> None:
    replay, other = Replay(IMAGES, capacity=18), Replay(IMAGES, capacity=18)
    for number in range(5):
        replay.append(pictured(number, 2 + number))
    copy(replay, other)
    for name in ("observation", "achieved", "action", "length", "goal"):
        np.testing.assert_array_equal(getattr(replay.view(), name), getattr(other.view(), name))
    with pytest.raises(ValueError, match="does not fit"):
        copy(replay, Replay(SPEC, capacity=18))


@pytest.mark.parametrize(("spec", "make"), [(SPEC, numbered), (IMAGES, pictured)])
def test_a_ring_in_files_is_the_ring_in_memory(
    spec: EnvSpec, make: Callable[[int, int], Episode], tmp_path: Path
) -> None:
    memory, disk = Replay(spec, capacity=18), Replay(spec, 18, tmp_path / "replay")
    for number in range(5):
        for ring in (memory, disk):
            ring.append(make(number, 2 + number))
    del disk
    again = Replay(spec, 18, tmp_path / "replay")
    assert (len(again), again.added) == (3, 5)
    for name in ("observation", "achieved", "action", "start", "length", "goal"):
        np.testing.assert_array_equal(getattr(again.view(), name), getattr(memory.view(), name))
    first, second = (sample(r.view(), np.random.default_rng(0), (64,), GoalSampling()) for r in (memory, again))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
        assert two is None or type(two) is np.ndarray
    again.restore({"added": np.array([4])})  # as of format 1
    assert again.added == 4


def test_files_of_another_replay_are_left_alone(tmp_path: Path) -> None:
    Replay(SPEC, 18, tmp_path / "replay")
    with pytest.raises(UserError, match="another size or environment"):
        Replay(SPEC, 24, tmp_path / "replay")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="something else"):
        Replay(SPEC, 18, tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot keep a replay of 0\.0 GiB"):
        Replay(SPEC, 18, tmp_path / "file")
    stale = Replay(SPEC, 18, tmp_path / "other")
    with pytest.raises(ValueError, match="holds 0 episodes; 3 were stored"):
        stale.restore({"added": np.array([3])})


def test_a_disk_without_room_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match="No space left"):
        Replay(EnvSpec("test", 12288, 4, 12288, 50, image=(64, 64, 3)), 1_000_000, tmp_path / "replay")


def test_a_context_ends_at_the_present_and_stays_in_its_episode() -> None:
    episodes = Episodes.of([numbered(1, 6), numbered(2, 3)])
    reward = (episodes.achieved[:, 1] == 2).astype(np.float32)  # arriving at time 2 is the task
    how = GoalSampling(context=4, fields=Batch._fields)
    batch = sample(dataclasses.replace(episodes, reward=reward), np.random.default_rng(0), (5, 40), how)
    assert batch.context_observation.shape == (5, 40, 4, 2)
    assert batch.context_action.shape == (5, 40, 4, 1)
    np.testing.assert_array_equal(batch.context_observation[..., -1, :], batch.observation)
    np.testing.assert_array_equal(batch.context_action[..., -1, :], batch.action)
    inside = batch.context_time >= 0
    now = batch.observation[..., 1:]
    np.testing.assert_array_equal(batch.context_time, np.maximum(now + np.arange(-3, 1), -1))
    np.testing.assert_array_equal(batch.context_observation[..., 1][inside], batch.context_time[inside])
    same = batch.context_observation[..., 0] == batch.observation[..., :1]
    assert same[inside].all()
    np.testing.assert_array_equal(batch.reward, batch.next_observation[..., 1] == 2)
    np.testing.assert_array_equal(batch.context_return[inside], batch.context_time[inside] < 2)
    plain = sample(episodes, np.random.default_rng(0), (3,), GoalSampling())
    assert plain.reward is None
    assert plain.context_observation is None


def test_chosen_episodes_are_views() -> None:
    episodes = Episodes.of([numbered(1, 6), numbered(2, 3), numbered(3, 2)])
    part = episodes.chosen(np.array([0, 2]))
    assert part.observation is episodes.observation
    np.testing.assert_array_equal(part.episode(1).observation, numbered(3, 2).observation)
    batch = sample(part, np.random.default_rng(0), (200,), GoalSampling())
    assert set(np.unique(batch.observation[:, 0])) == {1, 3}
    assert set(np.unique(batch.random_goal[:, 0])) == {1, 3}
