"""A trained run can be asked where it will be: what it stores, what it answers, and what it refuses."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce import agents
from tdinfonce.cli import main
from tdinfonce.data.candidates import draw_candidates, draw_futures
from tdinfonce.data.episodes import Episodes
from tdinfonce.runs import checkpoint
from tdinfonce.runs.manifest import MANIFEST, read_manifest, sealed
from tdinfonce.types import Episode, GoalSampling

STATES, DISCOUNT = 8, 0.8
OCCUPANCY = ["c-learning", "contrastive-nce", "contrastive-rl", "td-infonce"]
OTHERS = [name for name in agents.names() if name not in OCCUPANCY]
ANGLE = 2 * np.pi * np.arange(STATES) / STATES
RING = np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=1).astype(np.float32)
STEP = 0.7 * np.roll(np.eye(STATES), 1, axis=1) + 0.3 * np.roll(np.eye(STATES), -1, axis=1)
EXACT = (1 - DISCOUNT) * np.linalg.inv(np.eye(STATES) - DISCOUNT * STEP) @ STEP
"""The occupancy of a walk on a ring, on which actions have no influence."""
SMALL: Any = {"hidden": (32, 32), "goal_hidden": (32,), "loggers": ()}


def walks(episodes: int = 80, seed: int = 0, steps: int = 50) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(episodes):
        move = np.where(rng.random(steps) < 0.7, 1, -1)
        where = (rng.integers(STATES) + np.concatenate([[0], np.cumsum(move)])) % STATES
        action = rng.uniform(-2, 2, (steps, 1)).astype(np.float32)
        found.append({"observations": RING[where], "actions": action, "desired_goal": RING[rng.integers(STATES)]})
    return found


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of td-infonce on the ring; actions lie between -2 and 2."""
    out = tmp_path_factory.mktemp("ask") / "ring"
    settings = {
        "n_step": 1,
        "discount": DISCOUNT,
        "held_out": 0,
        "updates": 8000,
        "eval_every": 4000,
        "average_rate": 5e-4,
    }
    td.train(data=walks(400), goal="0:2", action_bounds=(-2, 2), out=out, **settings, **SMALL)
    return out


@pytest.fixture(scope="module")
def policy(ring: Path) -> td.TrainedPolicy:
    return td.load(ring)


def fresh(name: str, env: str = "point") -> td.TrainedPolicy:
    """An agent that has learned nothing."""
    spec = td.make_env(env).spec
    offline = not hasattr(agents.load(name), "PRESETS")
    plan = td.plan(env, agent=name, **({"data": walks(2), "goal": "0:2"} if offline else {}))
    return td.TrainedPolicy(plan.create_agent(spec, 0), spec, plan, 0, 0)


def by_state(occupancy: Any) -> np.ndarray:
    """The weights of the candidates of each state of the ring."""
    which = np.argmax(occupancy.candidates @ RING.T, axis=1)
    return np.stack([np.bincount(which, w, STATES) for w in np.atleast_2d(occupancy.weights)])


def test_the_occupancy_of_a_walk_on_a_ring_is_the_exact_one(policy: td.TrainedPolicy) -> None:
    found = by_state(policy.occupancy(RING, RING[0]))
    assert np.abs(found - EXACT).sum(axis=1).max() / 2 < 0.05
    given = by_state(policy.occupancy(RING, RING[0], [1.5]))
    assert np.abs(given - EXACT).sum(axis=1).max() / 2 < 0.07


def test_the_bound_of_the_mutual_information_is_near_the_exact_one(policy: td.TrainedPolicy) -> None:
    exact = float(np.mean(np.sum(EXACT * np.log(EXACT * STATES), axis=1)))
    found = policy.mutual_information(walks(seed=1), RING[0], candidates=512)
    assert exact - 0.1 < found.mean < exact + 4 * found.standard_error
    assert found.candidates == 512
    assert found.ceiling == pytest.approx(math.log(512))
    assert "cannot exceed log 512" in repr(found)
    assert found == policy.mutual_information(walks(seed=1), RING[0], candidates=512)


def test_weights_are_those_of_the_logits(policy: td.TrainedPolicy) -> None:
    """Normalised over the candidates, for an action in the units of the data."""
    found = policy.occupancy(RING[:3], RING[1], [-2.0])
    action = np.full((3, 1), -1, np.float32)
    logits = np.asarray(policy.agent.logits(RING[:3], action, RING[[1, 1, 1]], found.candidates), np.float64)
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.weights, wanted, rtol=1e-3)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1)
    assert found.discount == DISCOUNT
    assert found.mass is None, "InfoNCE leaves it free"


def test_a_batch_is_answered_as_its_rows_are(policy: td.TrainedPolicy) -> None:
    batch = policy.occupancy(RING, RING[::-1])
    for row, weights in enumerate(batch.weights):
        np.testing.assert_allclose(policy.occupancy(RING[row], RING[STATES - 1 - row]).weights, weights, rtol=1e-5)
    one = policy.occupancy(RING[0], RING[0], [[-1.0], [1.0]])
    assert one.weights.shape[0] == 2


def test_own_candidates_in_any_order_give_the_same_answers(policy: td.TrainedPolicy) -> None:
    stored = policy.occupancy(RING[0], RING[3])
    other = policy.occupancy(RING[0], RING[3], candidates=stored.candidates[::-1])
    assert other.probability(RING[1], 0.1) == pytest.approx(stored.probability(RING[1], 0.1), rel=1e-6)
    assert other.effective_candidates == pytest.approx(stored.effective_candidates, rel=1e-6)


def test_a_prior_stands_for_repeated_candidates(policy: td.TrainedPolicy) -> None:
    count = np.bincount(np.argmax(policy.occupancy(RING[0], RING[0]).candidates @ RING.T, axis=1), minlength=STATES)
    short = policy.occupancy(RING[0], RING[0], candidates=RING, prior=count)
    np.testing.assert_allclose(short.weights, by_state(policy.occupancy(RING[0], RING[0]))[0], rtol=1e-4)


def test_values(policy: td.TrainedPolicy) -> None:
    start, occupancy = RING[:2], policy.occupancy(RING[:2], RING[3])

    def near(place: np.ndarray) -> np.ndarray:
        return np.linalg.norm(place - RING[1], axis=1) < 0.1

    def first(place: np.ndarray) -> np.ndarray:
        return place[:, 0]

    one = policy.value(near, start, RING[3])
    np.testing.assert_allclose(one.mean, occupancy.probability(RING[1], 0.1) / (1 - DISCOUNT))
    centred = near(occupancy.candidates) - (1 - DISCOUNT) * one.mean[:, None]
    by_hand = np.sqrt(np.sum(np.square(occupancy.weights * centred), axis=1)) / (1 - DISCOUNT)
    np.testing.assert_allclose(one.standard_error, by_hand, rtol=1e-6)
    both = policy.value([near, first], start, RING[3])
    np.testing.assert_allclose(both.mean[:, 0], one.mean)
    np.testing.assert_allclose(both.mean[:, 1], policy.value(first, start, RING[3]).mean)
    seen = policy.value(first, start, RING[3], of="observation")
    np.testing.assert_allclose(seen.mean, both.mean[:, 1], err_msg="here a place is the whole observation")


def test_a_reward_may_read_the_actions_of_the_policy(policy: td.TrainedPolicy) -> None:
    seen = []

    def effort(place: np.ndarray, action: np.ndarray) -> np.ndarray:
        seen.append((place, action))
        return action[:, 0]

    found = policy.value(effort, RING[:2], RING[[3, 4]])
    (_, one), (place, two) = seen
    assert len(place) == len(one) == len(two)
    normalised = policy.act(place, RING[4], seed=0, normalised=True)
    np.testing.assert_allclose(two, 2 * normalised, rtol=1e-5, err_msg="in units of the data")
    for row, action in enumerate((one, two)):
        alone = policy.occupancy(RING[row], RING[3 + row]).value(lambda _, action=action: action[:, 0])
        assert found.mean[row] == pytest.approx(alone.mean, rel=1e-5)


def test_representations_multiply_to_logits(policy: td.TrainedPolicy) -> None:
    left, right = policy.represent(RING[:3], RING[2], [0.5]), policy.represent_goal(RING)
    wanted = policy.agent.logits(RING[:3], np.full((3, 1), 0.25, np.float32), RING[[2, 2, 2]], RING)
    np.testing.assert_allclose(left @ right.T, wanted, rtol=1e-4, atol=1e-4)
    best = policy.act(RING[0], RING[2])
    np.testing.assert_allclose(
        policy.represent(RING[0], RING[2]), policy.represent(RING[0], RING[2], best), rtol=1e-4, atol=1e-4
    )
    assert policy.represent_goal(RING[0]).shape == right.shape[1:]


@pytest.mark.parametrize("name", OCCUPANCY)
def test_every_occupancy_model_can_be_asked(name: str) -> None:
    policy, places = fresh(name), np.random.default_rng(0).uniform(-1, 1, (50, 2))
    found = policy.occupancy([0.0, 0.0], [0.5, 0.5], [1.0, 0.0], candidates=places)
    logits = np.asarray(policy.agent.logits(*(np.array([x], np.float32) for x in ([0, 0], [1, 0], [0.5, 0.5])), places))
    if name in ("c-learning", "contrastive-nce"):
        constant = {"c-learning": 1, "contrastive-nce": policy.plan.training.batch_size - 1}[name]
        assert found.mass == pytest.approx(constant * np.mean(np.exp(logits)), rel=1e-3)
    else:
        assert found.mass is None
    assert found.weights.sum() == pytest.approx(1)
    if name == "td-infonce":
        with pytest.raises(td.UserError, match="name a goal"):
            policy.occupancy([0.0, 0.0], action=[1.0, 0.0], candidates=places)
    else:
        alone = policy.occupancy([0.0, 0.0], action=[1.0, 0.0], candidates=places)
        np.testing.assert_allclose(alone.weights, found.weights)


def test_discrete_actions_are_weighed_by_their_chance() -> None:
    policy = fresh("td-infonce", "grid")
    places = np.random.default_rng(0).uniform(0, 5, (30, policy.spec.goal_size)).astype(np.float32)
    state, goal = places[:1, : policy.spec.observation_size], places[1:2]
    found = policy.occupancy(state[0], goal[0], candidates=places).weights
    each = [policy.occupancy(state[0], goal[0], action, candidates=places).weights for action in range(4)]
    inputs = policy.agent.inputs.observation(state), policy.agent.inputs.goal(goal)
    chance = np.exp(np.asarray(policy.agent.actor.model(*inputs), np.float64))[0]
    np.testing.assert_allclose(found, (chance / chance.sum()) @ np.stack(each), rtol=1e-3)


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_say_why_they_cannot_be_asked(name: str) -> None:
    policy = fresh(name)
    for ask in (
        lambda: policy.occupancy([0, 0], [0, 0]),
        lambda: policy.value(lambda x: x[:, 0], [0, 0], [0, 0]),
        lambda: policy.represent([0, 0], [0, 0]),
        lambda: policy.represent_goal([0, 0]),
        lambda: policy.mutual_information(walks()),
    ):
        with pytest.raises(td.UserError, match=f"^{name}.*: ask a run of c-learning, .* or td-infonce$"):
            ask()


def few() -> Episodes:
    rng = np.random.default_rng(0)
    made = []
    for steps in (3, 5, 2):
        state = rng.normal(size=(steps + 1, 3)).astype(np.float32)
        made.append(Episode(state, state[:, :2].copy(), np.zeros((steps, 1), np.float32), state[0, :2]))
    return Episodes.of(made)


def test_random_candidates_are_all_states_but_the_first_ones() -> None:
    episodes = few()
    found = draw_candidates(episodes, np.random.default_rng(0), "random_goal", GoalSampling())
    wanted = np.delete(episodes.observation, episodes.start, axis=0)
    assert sorted(map(tuple, found["observation"])) == sorted(map(tuple, wanted))
    np.testing.assert_array_equal(found["achieved"], found["observation"][:, :2])


def test_future_candidates_follow_the_geometric_law() -> None:
    episodes, seen = few(), []
    for seed in range(4000):
        which, row, later = draw_futures(episodes, np.random.default_rng(seed), 100, GoalSampling(0.5))
        assert sorted(row) == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11], "each transition once"
        seen.append(later[row == 0][0])
        assert (later > row).all()
        assert (later <= (episodes.start + episodes.length)[which]).all()
    np.testing.assert_allclose(np.bincount(seen)[1:] / 4000, np.array([4, 2, 1]) / 7, atol=0.03)
    found = draw_candidates(episodes, np.random.default_rng(3), "future_goal", GoalSampling(0.5))
    later = draw_futures(episodes, np.random.default_rng(3), 100, GoalSampling(0.5))[2]
    np.testing.assert_array_equal(found["observation"], episodes.observation[later])


def test_of_images_there_are_fewer_and_each_is_stored_once() -> None:
    image = np.zeros((1201, 64, 64, 3), np.uint8)
    episodes = Episodes.of([Episode(image, image, np.zeros((1200, 1), np.float32), image[0])])
    found = draw_candidates(episodes, np.random.default_rng(0), "random_goal", GoalSampling())
    assert [*found] == ["observation"]
    assert found["observation"].nbytes <= 1 << 23


def test_every_checkpoint_has_candidates_and_loading_leaves_them_alone(ring: Path) -> None:
    for path in checkpoint.list_checkpoints(ring):
        assert checkpoint.has_part(path, checkpoint.CANDIDATES)
    assert "_stored" not in vars(td.load(ring))


def test_an_online_run_and_its_best_policy_can_be_asked(tmp_path: Path) -> None:
    settings: Any = {"env_steps": 300, "warmup_steps": 100, "eval_episodes": 1, "final_episodes": 1}
    run = td.train("point", agent="contrastive-nce", out=tmp_path / "run", **settings, **SMALL)
    for best in (False, True):
        found = run.policy(best=best).occupancy([0.0, 0.0], [0.5, 0.5])
        assert 0 < found.effective_candidates <= len(found.candidates) <= 300
    assert run.policy().mutual_information(run.folder).candidates == 300


def test_a_run_without_candidates_says_what_to_do(ring: Path, tmp_path: Path) -> None:
    old = shutil.copytree(ring, tmp_path / "old")
    for path in checkpoint.list_checkpoints(old):
        manifest = read_manifest(path)
        del manifest["files"]["candidates.safetensors"], manifest["sha256"]
        (path / MANIFEST).write_bytes(sealed(manifest))
    policy = td.load(old)
    with pytest.raises(td.UserError, match=r"old has stored no candidates: give some \(candidates\), or train"):
        policy.occupancy(RING[0], RING[0])
    assert policy.occupancy(RING[0], RING[0], candidates=RING).weights.shape == (STATES,)


def test_damaged_candidates_are_named(ring: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(ring, tmp_path / "run")
    file = checkpoint.list_checkpoints(copy)[-1] / "candidates.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\0\1\2\3")
    with pytest.raises(td.UserError, match=r"candidates\.safetensors is damaged"):
        td.load(copy).occupancy(RING[0], RING[0])


def first(place: np.ndarray) -> np.ndarray:
    return place[:, 0]


BAD: dict[str, tuple[Any, str]] = {
    "observation too long": (lambda p: p.occupancy([0, 0, 0], [0, 0]), "observation must have length 2"),
    "observation not finite": (lambda p: p.occupancy([0, np.nan], [0, 0]), "observation holds numbers"),
    "observation of words": (lambda p: p.occupancy("here", [0, 0]), "could not convert"),
    "no observations": (lambda p: p.occupancy(np.zeros((0, 2)), [0, 0]), "observation is empty"),
    "no goal": (lambda p: p.occupancy([0, 0]), "name a goal"),
    "goal not finite": (lambda p: p.occupancy([0, 0], [0, np.inf]), "goal holds numbers"),
    "goal too short": (lambda p: p.occupancy([0, 0], [0]), "goal must have length 2"),
    "goals for other starts": (lambda p: p.occupancy(RING[:2], RING[:3]), "one goal for each observation"),
    "action too long": (lambda p: p.occupancy([0, 0], [0, 0], [0, 0]), r"action must have shape \[1\]"),
    "action beyond its bounds": (lambda p: p.occupancy([0, 0], [0, 0], [2.5]), "action must lie between"),
    "action not finite": (lambda p: p.occupancy([0, 0], [0, 0], [np.nan]), "action holds numbers"),
    "actions for other starts": (lambda p: p.occupancy(RING[:2], RING[0], np.zeros((3, 1))), "one action for each"),
    "candidates of another size": (lambda p: p.occupancy([0, 0], [0, 0], candidates=np.ones((9, 3))), "length 2"),
    "candidates not finite": (lambda p: p.occupancy([0, 0], [0, 0], candidates=RING * np.nan), "candidates hold"),
    "one candidate": (lambda p: p.occupancy([0, 0], [0, 0], candidates=RING[:1]), "two places or more"),
    "prior of another size": (lambda p: p.occupancy([0, 0], [0, 0], candidates=RING, prior=[1, 2]), "prior must be"),
    "prior of nothing": (lambda p: p.occupancy([0, 0], [0, 0], candidates=RING, prior=np.zeros(8)), "not all zero"),
    "seed": (lambda p: p.occupancy([0, 0], [0, 0], seed=-1), "a seed is a whole number"),
    "reward of another shape": (lambda p: p.value(lambda x: x[:3, 0], [0, 0], [0, 0]), "one number for each of the"),
    "reward not finite": (lambda p: p.value(lambda x: x[:, 0] / 0 * 0, [0, 0], [0, 0]), "not finite"),
    "no reward": (lambda p: p.value(3, [0, 0], [0, 0]), "reward must be a function"),
    "no rewards": (lambda p: p.value([], [0, 0], [0, 0]), "reward must be a function"),
    "many rewards of many": (lambda p: p.value([lambda x: x, first], [0, 0], [0, 0]), "each of several rewards"),
    "of what": (lambda p: p.value(first, [0, 0], [0, 0], of="state"), "of must be"),
    "observations of others": (
        lambda p: p.value(first, [0, 0], [0, 0], of="observation", candidates=RING),
        "needs the run's own candidates",
    ),
    "actions of others": (
        lambda p: p.value(lambda x, a: a[:, 0], [0, 0], [0, 0], candidates=RING),
        "needs the run's own candidates",
    ),
    "place of another size": (lambda p: p.represent_goal([0, 0, 0]), "goal must have length 2"),
    "few candidates": (lambda p: p.mutual_information(walks(2), candidates=1), "at least 2"),
    "no commanded goals": (
        lambda p: p.mutual_information([(w["observations"], w["actions"]) for w in walks(2)]),
        "give the future away: name a goal",
    ),
    "no such data": (lambda p: p.mutual_information("no-such.npz"), "no-such.npz"),
    "level": (lambda p: p.occupancy([0, 0], [0, 0]).quantile(2), "level must lie"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:divide by zero:RuntimeWarning")
def test_bad_input_gets_one_clear_line(policy: td.TrainedPolicy, case: str) -> None:
    ask, line = BAD[case]
    with pytest.raises(td.UserError, match=line) as error:
        ask(policy)
    assert "\n" not in str(error.value)


def test_the_command_prints_what_python_says(
    ring: Path, policy: td.TrainedPolicy, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["ask", str(ring), "--observation", "1", "0", "--goal", "-1", "0", "--radius", "0.3"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = policy.occupancy([1, 0], [-1, 0])
    assert found["probability"] == pytest.approx(asked.probability([-1, 0], 0.3))
    assert found["effective_candidates"] == pytest.approx(asked.effective_candidates)
    assert found["quantiles"]["0.5"] == pytest.approx(asked.quantile(0.5).tolist())
    np.save(tmp_path / "places.npy", RING)
    assert main([*words, "--near", "0", "1", "--action", "2", "--candidates", str(tmp_path / "places.npy")]) == 0
    wanted = policy.occupancy([1, 0], [-1, 0], [2], candidates=RING).probability([0, 1], 0.3)
    assert f"within 0.3 of (0, 1): {wanted:.3f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "name --observation (2 numbers) and --goal (2 numbers)"),
        (["--observation", "1"], "name --observation (2 numbers)"),
        (["--observation", "1", "--goal", "1", "0"], "observation must have length 2"),
        (["--observation", "1", "0", "--goal", "1", "0"], "name --radius"),
        (["--observation", "1", "0", "--goal", "1", "0", "--radius", "-1"], "radius must be positive"),
        (["--observation", "1", "0", "--goal", "1", "0", "--candidates", "no.npy"], "cannot read places from no.npy"),
        (["--observation", "x"], "--observation"),
    ],
)
def test_a_bad_command_gets_one_line(
    ring: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert main(["ask", str(ring), *words]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1
