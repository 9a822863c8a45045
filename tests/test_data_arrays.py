"""Arrays in memory become the episodes that files of the same arrays become, and are refused in the same words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataset_files import flat_arrays, some_episodes, write_npz
from tdinfonce.data import Episodes, from_arrays, open_dataset
from tdinfonce.errors import UserError
from tdinfonce.types import Episode

EPISODES = some_episodes([4, 6, 5])


def rows(**changes: Any) -> dict[str, Any]:
    """A dict of arrays; None leaves one out."""
    arrays: dict[str, Any] = flat_arrays(EPISODES) | {"terminals": None} | changes
    return {name: array for name, array in arrays.items() if array is not None}


def one(index: int, **changes: Any) -> dict[str, Any]:
    """An episode as a dict."""
    episode = EPISODES[index]
    arrays: dict[str, Any] = {
        "observations": episode.observation,
        "actions": episode.action,
        "achieved_goals": episode.achieved,
        "desired_goal": episode.goal,
    }
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def same(found: Episodes, wanted: list[Episode] = EPISODES) -> None:
    assert len(found) == len(wanted)
    for index, episode in enumerate(wanted):
        for name, a, b in zip(Episode._fields, found.episode(index), episode, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert not found.action[found.start + found.length].any()


def test_a_dict_is_what_its_file_is(tmp_path: Path) -> None:
    same(from_arrays(rows(), goal="0:2"))
    file = open_dataset(write_npz(tmp_path / "a.npz", rows()), goal="0:2")
    memory = from_arrays(rows(), goal="0:2")
    for name in ("observation", "achieved", "action", "start", "length", "goal"):
        assert getattr(file, name).tobytes() == getattr(memory, name).tobytes()


def test_names_may_be_singular_and_goals_stored() -> None:
    arrays = {name.removesuffix("s"): array for name, array in rows(goals=None).items()}
    arrays["desired_goal"] = rows()["goals"]
    arrays["achieved_goal"] = rows()["observations"][:, :2]
    same(from_arrays(arrays))
    same(from_arrays(arrays, goal="0:2"))


@pytest.mark.parametrize("name", ["timeouts", "terminals", "truncations", "terminations", "terminal"])
def test_any_flag_ends_episodes(name: str) -> None:
    same(from_arrays(rows(timeouts=None) | {name: ENDS}, goal="0:2"))


def test_two_flags_end_episodes_together() -> None:
    ends = rows()["timeouts"]
    first, others = ends.copy(), ends.copy()
    first[5:], others[:5] = False, False
    same(from_arrays(rows(timeouts=first, terminals=others), goal="0:2"))


def test_a_list_of_episodes() -> None:
    same(from_arrays([one(0), one(1), one(2)]))
    same(from_arrays(EPISODES))
    same(from_arrays(tuple(EPISODES)))
    same(from_arrays([one(i, achieved_goals=None) for i in range(3)], goal="0:2"))
    pairs = from_arrays([(e.observation, e.action) for e in EPISODES], goal="0:2")
    same(pairs, [e._replace(goal=e.achieved[-1]) for e in EPISODES])


def test_goals_may_be_given_for_each_state_and_observations_as_a_dict() -> None:
    nested = {"observation": EPISODES[0].observation, "achieved_goal": EPISODES[0].achieved}
    nested["desired_goal"] = np.repeat(EPISODES[0].goal[None], 5, axis=0)
    same(from_arrays([{"observations": nested, "actions": EPISODES[0].action}]), EPISODES[:1])


def test_as_many_actions_as_observations_lose_the_last_action() -> None:
    cut = [one(i, actions=np.concatenate([e.action, e.action[:1]])) for i, e in enumerate(EPISODES)]
    same(from_arrays(cut))


def test_episodes_are_returned_as_they_are() -> None:
    episodes = Episodes.of(EPISODES)
    assert from_arrays(episodes) is episodes
    with pytest.raises(UserError, match="leave goal and action_bounds out"):
        from_arrays(episodes, goal="0:2")


def test_nothing_that_is_given_is_changed_or_kept() -> None:
    arrays = rows(actions=10 * rows()["actions"])
    before = {name: array.copy() for name, array in arrays.items()}
    found = from_arrays(arrays, goal="0:2", action_bounds=(-10, 10))
    found.observation[:] = 0
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_lists_of_numbers_and_other_types_are_converted() -> None:
    plain = [{"observations": [[0, 1], [1, 2], [2, 3]], "actions": [[0.5], [1]]}]
    found = from_arrays(plain, goal="1")
    assert found.observation.dtype == np.float32
    np.testing.assert_array_equal(found.achieved, [[1], [2], [3]])


def test_discrete_actions_in_memory() -> None:
    found = from_arrays([one(i, actions=np.arange(len(e.action)) % 3) for i, e in enumerate(EPISODES)])
    assert found.actions == 3
    np.testing.assert_array_equal(found.episode(0).action, np.eye(3)[[0, 1, 2, 0]])
    assert from_arrays(rows(actions=np.zeros(18, bool)), goal="0:2", action_bounds=2).actions == 2


def test_bounds_are_measured_in_memory_too() -> None:
    with pytest.warns(RuntimeWarning, match=r"^data: actions leave \[-1, 1\]"):
        found = from_arrays([(e.observation, 3 * e.action + 9) for e in EPISODES], goal="0:2")
    assert 6 <= min(found.action_low) < max(found.action_high) <= 12


def put(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = np.array(array, np.float64 if isinstance(value, float) else None)
    array[index] = value
    return array


class Table:
    """What tables of every library have: columns, and the values of one."""

    def __init__(self, values: dict[Any, Any]) -> None:
        self.columns, self._values = [*values], values

    def __getitem__(self, column: Any) -> Any:
        return self._values[column]


IDS = [name for name, episode in zip("abc", EPISODES, strict=True) for _ in episode.observation]
COLUMNS: dict[Any, Any] = {
    ("action", 1): rows()["actions"][:, 1],
    "action_0": rows()["actions"][:, 0],
    "reward_0": [0.0] * len(IDS),
    "episode": np.array(IDS, object),
    **{f"observation_{i}": rows()["observations"][:, i] for i in (3, 1, 2, 0)},
    **{f"desired_goal_{i}": rows()["goals"][:, i] for i in (0, 1)},
}


def test_ids_say_where_episodes_end() -> None:
    number = np.repeat([7, 3, 5], [5, 7, 6])
    for ids in (IDS, number, number.astype(float), np.array(IDS, object)):
        same(from_arrays(rows(timeouts=None) | {"episode": ids}, goal="0:2"))
    same(from_arrays(rows(episodes=IDS, terminals=ENDS | True), goal="0:2"))


def test_a_table_has_a_column_for_each_coordinate() -> None:
    same(from_arrays(Table(COLUMNS), goal="0:2"))
    plain = {name: column for name, column in COLUMNS.items() if "action" not in str(name)}
    found = from_arrays(Table(plain | {"action": np.arange(18) % 3}), goal="0:2")
    assert found.actions == 3
    found = from_arrays(Table(plain | {"action": np.linspace(-1, 1, 18)}), goal="0:2")
    np.testing.assert_allclose(found.episode(0).action, np.linspace(-1, 1, 18)[:4, None], atol=1e-6)
    twelve = {f"observation_{i}": np.full(18, float(i)) for i in range(12)}
    np.testing.assert_array_equal(
        from_arrays(Table(plain | twelve | {"action": [0] * 18}), goal="0:2").observation[0], range(12)
    )


RAGGED = [[0.0, 1.0], [2.0]]
OBS, ACT, ENDS = rows()["observations"], rows()["actions"], rows()["timeouts"]
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, "data must be episodes, a dict of arrays"),
    "a number": (lambda: 3, "got int"),
    "text": (lambda: "walks.npz", "got str"),
    "one array": (lambda: OBS, "got ndarray"),
    "one episode": (lambda: EPISODES[0], "got Episode"),
    "an empty dict": (dict, "observations: is missing; there is: nothing"),
    "no observations": (
        lambda: rows(observations=None),
        "is missing; there is: actions, goals, timeouts",
    ),
    "no actions": (lambda: rows(actions=None), "actions: is missing"),
    "no ends": (lambda: rows(timeouts=None), "nothing says where episodes end: number them"),
    "ids of two axes": (lambda: rows(episodes=OBS), "episodes: must have shape [any]; it has [18, 4]"),
    "no ids": (lambda: rows(episodes=[]), "episodes: must have shape [any]; it has [0]"),
    "fewer ids": (lambda: rows(episodes=IDS[1:]), "timeouts: must have shape [18]; it has [17]"),
    "an id again": (
        lambda: rows(episodes=[*IDS[:12], *["a"] * 6]),
        "episodes, row 12: a was there before; rows of one episode must be adjacent",
    ),
    "columns of words": (lambda: Table(COLUMNS | {"observation_0": ["a"] * 18}), "must hold plain numbers"),
    "no known column": (lambda: Table({"x": OBS[:, 0]}), "observations: is missing; there is: x"),
    "two names": (lambda: rows(action=ACT), "actions: is there twice: as action, too"),
    "ragged": (lambda: rows(observations=RAGGED), "observations: is no array"),
    "objects": (lambda: rows(actions=np.array([{}] * 18)), "actions: must hold plain numbers; its type is object"),
    "words": (lambda: rows(actions=np.array([["a"]] * 18)), "actions: must hold plain numbers"),
    "complex": (lambda: rows(observations=OBS + 1j), "observations: must hold plain numbers"),
    "flat observations": (
        lambda: rows(observations=OBS[:, 0]),
        "must have shape [any, any]; it has [18]",
    ),
    "deep observations": (lambda: rows(observations=OBS[:, None]), "observations: must have shape [any, any]"),
    "no rows": (lambda: {name: array[:0] for name, array in rows().items()}, "observations: must have shape"),
    "flat actions": (lambda: rows(actions=ACT[:, 0]), "actions: must have shape [18, any]"),
    "fewer actions": (lambda: rows(actions=ACT[1:]), "actions: must have shape [18, any]; it has [17, 2]"),
    "fewer ends": (lambda: rows(timeouts=ENDS[1:]), "timeouts: must have shape [18]; it has [17]"),
    "ends of two": (lambda: rows(timeouts=2 * ENDS.astype(int)), "timeouts, row 4: is 2.0; it must be true or false"),
    "no end": (lambda: rows(timeouts=0 * ENDS), "timeouts: marks no end"),
    "one step": (lambda: rows(timeouts=put(ENDS, 6, True)), "observations, row 5: episode 1 has one step"),
    "goals that end": (lambda: rows(terminals=ENDS | True), "timeouts and terminals, row 0: end an episode of less"),
    "nan observation": (
        lambda: rows(observations=put(OBS, (7, 1), np.nan)),
        "row 7: coordinate 1 is nan",
    ),
    "overflow": (lambda: rows(observations=put(OBS, (9, 2), 1e300)), "observations, row 9: coordinate 2 is inf"),
    "infinite action": (lambda: rows(actions=put(ACT, (2, 0), np.inf)), "actions, row 2: coordinate 0 is inf"),
    "nan goal": (lambda: rows(goals=put(OBS[:, :2], (5, 0), np.nan)), "goals, row 5:"),
    "wide goals": (lambda: rows(goals=OBS), "goals: has 4 coordinates; a goal has 2"),
    "fewer goals": (lambda: rows(goals=OBS[1:, :2]), "goals: must have shape [18, any]"),
    "other achieved goals": (lambda: rows(achieved_goals=OBS[:, 1:3]), "achieved_goals, row 0: is not what goal cuts"),
    "fewer achieved goals": (lambda: rows(achieved_goals=OBS[1:, :2]), "achieved_goals: must have shape [18, any]"),
    "no episode": (list, "there is no episode"),
    "a list of arrays": (lambda: [OBS, ACT], "episode 0: must be a dict, or a pair"),
    "a list of numbers": (lambda: [1, 2], "episode 0: must be a dict, or a pair"),
    "a triple": (lambda: [(OBS, ACT, OBS)], "episode 0: must be a dict, or a pair"),
    "no actions in a list": (
        lambda: [one(0), one(1, actions=None)],
        "actions, episode 1: is missing; there is: o",
    ),
    "a ragged episode": (lambda: [one(0), (RAGGED, [[1]])], "observations, episode 1: is no array"),
    "an episode of one number": (lambda: [(3, 4)], "observations, episode 0: must have a row for each step"),
    "too many actions": (
        lambda: [one(0), one(1, actions=ACT[:9])],
        "observations, episode 1: 9 actions go with 10 observations, or with 9; there are 7",
    ),
    "a short episode": (lambda: [one(0), (OBS[:2], ACT[:1])], "observations, episode 1: has 2 rows; at least 2 steps"),
    "an empty episode": (lambda: [(OBS[:0], ACT[:0])], "observations, episode 0: has 0 rows"),
    "flat actions in a list": (
        lambda: [one(0), one(1, actions=ACT[:6, 0])],
        "actions, episode 1: must have shape [6, 2]",
    ),
    "another width": (
        lambda: [one(0), one(1, observations=OBS[:7, :3])],
        "observations, episode 1: must have shape [7, 4]",
    ),
    "no achieved goals": (
        lambda: [one(0), one(1, achieved_goals=None)],
        "achieved_goals, episode 1: is missing, but the first episode has it",
    ),
    "no desired goal": (lambda: [one(0), one(1, desired_goal=None)], "desired_goals, episode 1: is missing, but"),
    "fewer achieved": (
        lambda: [one(0, achieved_goals=OBS[:3, :2])],
        "achieved_goals, episode 0: must have shape",
    ),
    "a wide goal": (lambda: [one(0, desired_goal=OBS[0])], "desired_goals: has 4 coordinates; a goal has 2"),
    "nan in a list": (
        lambda: [one(0), one(1, observations=put(EPISODES[1].observation, (2, 3), np.nan))],
        "observations, episode 1, row 2: coordinate 3 is nan",
    ),
    "nan action in a list": (
        lambda: [one(0), one(1), one(2, actions=put(EPISODES[2].action, (4, 1), np.nan))],
        "actions, episode 2, row 4: coordinate 1 is nan",
    ),
}


@pytest.mark.parametrize("flaw", BAD)
def test_bad_data_get_one_line(flaw: str) -> None:
    make, expected = BAD[flaw]
    with pytest.raises(UserError) as caught:
        from_arrays(make(), goal="0:2")
    said = str(caught.value)
    assert expected in said
    assert said.startswith("data")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("goal", "said"),
    [(None, "say which of its 4 coordinates make the goal, for example goal 0:2"), ("7", "coordinate 7"), ("x", "0:2")],
)
def test_wrong_goals(goal: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        from_arrays(rows(), goal=goal)
