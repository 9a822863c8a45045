"""The law of everything that a batch holds, by counting against exact probabilities.

States are numbered, so that a batch says which rows it was drawn from.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tdinfonce import agents
from tdinfonce.agents._goals import GoalMix, actor_goals
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.types import Batch, Episode, GoalSampling

COUNT = 200_000
LENGTHS = {"equal": [5, 5, 5, 5], "ragged": [1, 7, 3, 4]}


def numbered(lengths: list[int]) -> Episodes:
    """Row r of the states is r, as a goal 100 + r; its action is r too; episode e was told to reach 1000 + e."""
    episodes, row = [], 0
    for index, steps in enumerate(lengths):
        rows = np.arange(row, row + steps + 1, dtype=np.float32)[:, None]
        goal = np.array([1000 + index], np.float32)
        episodes.append(Episode(rows, 100 + rows, rows[:-1], goal))
        row += steps + 1
    reward = (np.arange(row) % 3 == 0).astype(np.float32)
    return dataclasses.replace(Episodes.of(episodes), reward=reward)


@dataclasses.dataclass
class Draws:
    """A large batch as numbers: which row each transition is, and how far ahead each of its states lies."""

    batch: Batch
    row: np.ndarray
    which: np.ndarray
    time: np.ndarray
    left: np.ndarray

    def ahead(self, name: str) -> np.ndarray:
        value = getattr(self.batch, name)[:, 0]
        return (value - (100 if name.endswith("goal") else 0)).astype(int) - self.row


def draw(lengths: list[int], seed: int = 0, **how: Any) -> Draws:
    episodes = numbered(lengths)
    fields = tuple(name for name in Batch._fields if how.get("context") or not name.startswith("context"))
    how = {"discount": 0.7, "fields": fields} | how
    batch = sample(episodes, np.random.default_rng(seed), (COUNT,), GoalSampling(**how))
    row = batch.observation[:, 0].astype(int)
    which = np.searchsorted(episodes.start, row, side="right") - 1
    time = row - episodes.start[which]
    return Draws(batch, row, which, time, episodes.length[which] - time)


def follows(found: np.ndarray, law: np.ndarray) -> None:
    """Assert that numbers 0, 1, … were drawn by a law: by chi-square, five standard deviations wide."""
    assert law.sum() == pytest.approx(1)
    assert found.min() >= 0
    counts = np.bincount(found, minlength=law.size)
    assert counts.size == law.size
    assert counts[law.ravel() == 0].sum() == 0
    possible = law.ravel() > 0
    expected = counts.sum() * law.ravel()[possible]
    assert expected.min() > 20, "too few draws for so many numbers"
    freedom = possible.sum() - 1
    square = np.sum((counts[possible] - expected) ** 2 / expected)
    assert square < freedom + 5 * np.sqrt(2 * freedom) + 1e-6


def geometric(discount: float, left: int) -> np.ndarray:
    """Of 0, 1, …, left: nothing, then proportional to discount ** k."""
    mass = np.array([0.0, *(discount**k for k in range(1, left + 1))])
    return mass / mass.sum()


def uniform(left: int) -> np.ndarray:
    return geometric(1.0, left)


every_length = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)


def test_a_wrong_law_is_seen() -> None:
    """The test of the tests: each of these is near the true law and refused."""
    draws = draw([7])
    ahead = draws.ahead("future_goal")[draws.time == 0]
    follows(ahead, geometric(0.7, 7))
    for wrong in (0.49, 0.72, 0.68, 1.0):
        with pytest.raises(AssertionError):
            follows(ahead, geometric(wrong, 7))


@every_length
def test_transitions_are_uniform_over_steps(lengths: list[int]) -> None:
    draws = draw(lengths)
    law = np.concatenate([[1.0] * steps + [0.0] for steps in lengths])
    follows(draws.row, law / law.sum())
    np.testing.assert_array_equal(draws.batch.action, draws.batch.observation)


@every_length
def test_the_next_state_is_the_next_state(lengths: list[int]) -> None:
    draws = draw(lengths, n_step=3)
    assert (draws.ahead("next_observation") == 1).all()
    assert (draws.ahead("next_goal") == 1).all()
    np.testing.assert_array_equal(draws.batch.reward, (draws.row + 1) % 3 == 0)


@every_length
def test_future_goals_are_geometric_to_the_end_of_the_episode(lengths: list[int]) -> None:
    draws = draw(lengths)
    for left in range(1, max(lengths) + 1):
        follows(draws.ahead("future_goal")[draws.left == left], geometric(0.7, left))


@every_length
def test_uniform_future_goals_are_uniform_and_near_ones_stay_geometric(lengths: list[int]) -> None:
    draws = draw(lengths, uniform_future=True, n_step=3)
    for left in range(1, max(lengths) + 1):
        follows(draws.ahead("future_goal")[draws.left == left], uniform(left))
        follows(draws.ahead("near_goal")[draws.left == left], geometric(0.7, min(left, 3)))


@every_length
def test_later_goals_are_there_without_sub_goals_and_change_no_other_draw(lengths: list[int]) -> None:
    fields = tuple(name for name in Batch._fields[: Batch._fields.index("reward")])
    draws = draw(lengths, fields=(*fields, "later_goal"))
    for left in range(1, max(lengths) + 1):
        follows(draws.ahead("later_goal")[draws.left == left], uniform(left))
    without = draw(lengths, fields=fields).batch
    for name in fields:
        np.testing.assert_array_equal(getattr(without, name), getattr(draws.batch, name))


@every_length
@pytest.mark.parametrize("n_step", [1, 3, 50])
def test_near_goals_are_geometric_before_the_bootstrap(lengths: list[int], n_step: int) -> None:
    draws = draw(lengths, n_step=n_step)
    steps = np.minimum(draws.left, n_step)
    for left in range(1, max(lengths) + 1):
        follows(draws.ahead("near_goal")[draws.left == left], geometric(0.7, min(left, n_step)))
    np.testing.assert_array_equal(draws.ahead("bootstrap_observation"), steps)
    np.testing.assert_allclose(draws.batch.bootstrap_discount, 0.7**steps, rtol=1e-5)


@every_length
def test_whole_rows_bootstrap_at_the_end_of_their_episode(lengths: list[int]) -> None:
    """They are the first ones of each batch; the others keep to their steps."""
    episodes, how = numbered(lengths), GoalSampling(0.7, 2, whole_share=0.25)
    batch = sample(episodes, np.random.default_rng(0), (COUNT // 10, 10), how)
    row = batch.observation[..., 0].astype(int)
    which = np.searchsorted(episodes.start, row, side="right") - 1
    left = episodes.length[which] - (row - episodes.start[which])
    steps = np.where(np.arange(10) < 2, left, np.minimum(left, 2))
    np.testing.assert_array_equal(batch.bootstrap_observation[..., 0], row + steps)
    np.testing.assert_allclose(batch.bootstrap_discount, 0.7**steps, rtol=1e-5)
    ahead = batch.near_goal[..., 0].astype(int) - 100 - row
    for left_over in range(1, max(lengths) + 1):
        whole, other = ahead[:, :2][left[:, :2] == left_over], ahead[:, 2:][left[:, 2:] == left_over]
        follows(whole, geometric(0.7, left_over))
        follows(other, geometric(0.7, min(left_over, 2)))


@every_length
def test_random_goals_are_any_states_that_were_arrived_in(lengths: list[int]) -> None:
    """All stored states but the first of each episode: the law of the next states."""
    draws = draw(lengths)
    law = np.concatenate([[0.0] + [1.0] * steps for steps in lengths])
    follows(draws.batch.random_goal[:, 0].astype(int) - 100, law / law.sum())


@every_length
def test_random_goals_know_nothing_of_their_transition(lengths: list[int]) -> None:
    draws = draw(lengths)
    rows = sum(lengths) + len(lengths)
    start = np.concatenate([[1.0] * steps + [0.0] for steps in lengths])
    end = np.concatenate([[0.0] + [1.0] * steps for steps in lengths])
    law = np.outer(start, end) / (start.sum() * end.sum())
    random = draws.batch.random_goal[:, 0].astype(int) - 100
    follows(draws.row * rows + random, law)


def test_near_and_future_goals_know_nothing_of_each_other() -> None:
    draws = draw([6], n_step=4)
    for left in (4, 6):
        rows = draws.left == left
        pair = draws.ahead("future_goal")[rows] * 5 + draws.ahead("near_goal")[rows]
        follows(pair, np.outer(geometric(0.7, left), geometric(0.7, 4)))


def test_neighbouring_rows_know_nothing_of_each_other() -> None:
    draws = draw([3, 2])
    law = np.array([1, 1, 1, 0, 1, 1]) / 5
    follows(draws.row[0::2] * 6 + draws.row[1::2], np.outer(law, law))


@every_length
def test_the_commanded_goal_is_that_of_the_episode(lengths: list[int]) -> None:
    draws = draw(lengths)
    np.testing.assert_array_equal(draws.batch.commanded_goal[:, 0], 1000 + draws.which)


@every_length
def test_a_context_is_the_last_steps_with_what_is_still_to_come(lengths: list[int]) -> None:
    steps = 3
    draws = draw(lengths, context=steps)
    b, episodes = draws.batch, numbered(lengths)
    time = draws.time[:, None] + np.arange(1 - steps, 1)
    inside = time >= 0
    np.testing.assert_array_equal(b.context_time, np.where(inside, time, -1))
    rows = draws.row[:, None] + np.arange(1 - steps, 1)
    np.testing.assert_array_equal(b.context_observation[..., 0][inside], rows[inside])
    np.testing.assert_array_equal(b.context_action[..., 0][inside], rows[inside])
    last = (episodes.start + episodes.length)[draws.which]
    to_come = [
        any(later % 3 == 0 for later in range(row + 1, end + 1))
        for row, end in zip(rows.ravel(), last.repeat(3), strict=True)
    ]
    np.testing.assert_array_equal(b.context_return[inside], np.reshape(to_come, rows.shape)[inside])
    law = np.concatenate([[1.0] * n + [0.0] for n in lengths])
    follows(rows[:, -1], law / law.sum())


@every_length
def test_the_present_goal_is_the_present_state(lengths: list[int]) -> None:
    assert (draw(lengths).ahead("present_goal") == 0).all()


@every_length
@pytest.mark.parametrize("steps", [1, 3, 50])
def test_sub_goals_lie_so_many_steps_ahead_or_at_the_end(lengths: list[int], steps: int) -> None:
    draws = draw(lengths, subgoal_steps=steps)
    for name in ("subgoal", "subgoal_observation"):
        np.testing.assert_array_equal(draws.ahead(name), np.minimum(draws.left, steps))


@every_length
@pytest.mark.parametrize("steps", [1, 3, 50])
def test_later_goals_are_uniform_and_waypoints_lie_on_the_way_to_them(lengths: list[int], steps: int) -> None:
    """However future goals are drawn."""
    draws = draw(lengths, subgoal_steps=steps)
    later = draws.ahead("later_goal")
    for left in range(1, max(lengths) + 1):
        follows(later[draws.left == left], uniform(left))
    for name in ("waypoint_goal", "waypoint_observation"):
        np.testing.assert_array_equal(draws.ahead(name), np.minimum(later, steps))


@pytest.mark.parametrize("other", ["future_goal", "near_goal"])
def test_later_goals_know_nothing_of_the_other_goals(other: str) -> None:
    draws = draw([6], n_step=6, subgoal_steps=3)
    for left in (4, 6):
        rows = draws.left == left
        pair = draws.ahead("later_goal")[rows] * (left + 1) + draws.ahead(other)[rows]
        follows(pair, np.outer(uniform(left), geometric(0.7, left)))


def test_sub_goals_change_nothing_else_and_are_not_drawn_unasked() -> None:
    """Agents without them see the batches that they saw before there were any."""
    episodes, fields = numbered(LENGTHS["ragged"]), Batch._fields
    sub = [name for name in fields if name.startswith(("subgoal", "later", "waypoint"))]
    rngs = [np.random.default_rng(0) for _ in range(2)]
    without, with_them = (
        sample(episodes, rng, (3, 50), GoalSampling(0.7, subgoal_steps=steps, fields=asked, context=2))
        for rng, steps, asked in zip(rngs, (0, 4), ([n for n in fields if n not in sub], fields), strict=True)
    )
    assert len(sub) == 5
    for name in fields:
        assert (getattr(without, name) is None) == (name in sub)
        if name not in sub:
            np.testing.assert_array_equal(getattr(without, name), getattr(with_them, name))
    count = np.random.default_rng(0)
    count.integers(15, size=300)
    count.random((2, 150), dtype=np.float32)
    assert rngs[0].bit_generator.state == count.bit_generator.state
    assert rngs[1].bit_generator.state != count.bit_generator.state
    for name in sub:
        assert getattr(with_them, name).shape == (3, 50, 1)


LAWS = {"ddpg-her": "uniform", "iql": None, "td3-bc": None, "dt": None}
"""How agents want their futures: geometric but for these."""


@pytest.mark.parametrize("name", agents.names())
def test_each_agent_gets_the_futures_of_its_discount(name: str) -> None:
    config = agents.load(name).Config()
    known = {field.name for field in dataclasses.fields(config)}
    how = {"discount": 0.6, "n_step": 2, "cloning_weight": 0.1, "context": 7, "subgoal_steps": 4}
    config = dataclasses.replace(config, **{k: v for k, v in how.items() if k in known})
    assert ("future_goal" in config.sampling.fields) == (LAWS.get(name, "") is not None)
    laws = [(config, LAWS.get(name, "geometric"))]
    if "uniform_future" in known:
        laws.append((dataclasses.replace(config, uniform_future=True), "uniform"))
    for variant, law in laws:
        how = variant.sampling._replace(fields=Batch._fields[:11])._asdict()
        if "discount" in known:
            assert how["discount"] == 0.6
        if law:
            draws = draw([6], **how)
            for left in (2, 6):
                expected = uniform(left) if law == "uniform" else geometric(0.6, left)
                follows(draws.ahead("future_goal")[draws.left == left], expected)
        assert how["n_step"] == (2 if "n_step" in known else 1)
        assert how["context"] == (7 if "context" in known else 0)
        assert how["subgoal_steps"] == (4 if "subgoal_steps" in known else 0)


def tagged(rows: int) -> Batch:
    """A batch whose goals say only of which kind they are."""
    kinds = {name: np.full((rows, 1), index) for index, name in enumerate(Batch._fields)}
    return Batch(**kinds)


def kinds(mix: GoalMix, rows: int) -> dict[str, int]:
    found = np.bincount(np.asarray(mix.of(tagged(rows)))[:, 0], minlength=len(Batch._fields))
    assert found.sum() == rows
    return {name: int(count) for name, count in zip(Batch._fields, found, strict=True) if count}


@pytest.mark.parametrize("rows", [1, 7, 64, 256])
@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.4, 0.3), (0.25, 0.75), (1.0, 0.0), (0.0, 1.0), (0.1, 0.1)])
def test_a_mix_has_its_shares(rows: int, shares: tuple[float, float]) -> None:
    found = kinds(GoalMix("random_goal", commanded_goal=shares[0], future_goal=shares[1]), rows)
    names = "commanded_goal", "future_goal", "random_goal"
    for name, share in zip(names, (*shares, 1 - sum(shares)), strict=True):
        assert abs(found.get(name, 0) - share * rows) <= 1


def test_the_mixes_of_the_agents() -> None:
    def config(name: str, **changes: Any) -> Any:
        return dataclasses.replace(agents.load(name).Config(), **changes)

    actor = {"commanded_share": 0.1, "actor_future_share": 0.6}
    for name in ("td-infonce", "contrastive-rl", "contrastive-nce", "c-learning", "qrl"):
        shares = {"commanded_goal": 10, "future_goal": 60, "random_goal": 30}
        assert kinds(actor_goals(config(name, **actor)), 100) == shares
    td = config("td-infonce", **actor, critic_future_share=0.3, monte_carlo_weight=0.2)
    assert td.sampling.whole_share == 0.2
    assert kinds(td.critic_goals, 100) == {"commanded_goal": 10, "future_goal": 30, "random_goal": 60}
    assert kinds(config("ddpg-her", future_share=0.7).goals, 100) == {"future_goal": 70, "commanded_goal": 30}
    value = config("gc-iql", next_share=0.1, future_share=0.6)
    assert kinds(value.value_goals, 100) == {"next_goal": 10, "future_goal": 60, "random_goal": 30}
    value = config("hiql", present_share=0.1, future_share=0.6, high_random_share=0.25)
    assert kinds(value.value_goals, 100) == {"present_goal": 10, "future_goal": 60, "random_goal": 30}
    assert kinds(value.high_goals, 100) == {"random_goal": 25, "later_goal": 75}
    assert kinds(value.high_targets, 100) == {"subgoal": 25, "waypoint_goal": 75}
    assert kinds(value.high_target_observations, 100) == {"subgoal_observation": 25, "waypoint_observation": 75}
    assert "subgoal_observation" not in config("hiql", high_random_share=0.0).sampling.fields
    assert "later_goal" not in config("hiql", high_random_share=1.0).sampling.fields


def test_the_mixes_of_the_paper() -> None:
    """Random goals for the critic, online and offline; for the actor random ones online and futures offline."""
    module = agents.load("td-infonce")
    online, offline = module.PRESETS["paper"], module.OFFLINE["paper"]
    assert kinds(online.critic_goals, 256) == kinds(offline.critic_goals, 256) == {"random_goal": 256}
    assert online.sampling.whole_share == offline.sampling.whole_share == 0
    assert kinds(actor_goals(online), 256) == {"random_goal": 256}
    assert kinds(actor_goals(offline), 256) == {"future_goal": 256}
    half = {"future_goal": 128, "random_goal": 128}
    for name in ("contrastive-rl", "contrastive-nce", "c-learning"):
        assert kinds(actor_goals(agents.load(name).PRESETS["paper"]), 256) == half
    hiql = agents.load("hiql").OFFLINE["paper"]
    assert kinds(hiql.value_goals, 1000) == {"present_goal": 200, "future_goal": 500, "random_goal": 300}
    assert kinds(hiql.high_goals, 1000) == {"later_goal": 1000}
    assert kinds(agents.load("ddpg-her").PRESETS["paper"].goals, 250) == {"future_goal": 200, "commanded_goal": 50}
