"""The value of a policy from logged data, held against exact linear algebra."""

from typing import Any

import numpy as np
import pytest

import tdinfonce as td
from tdinfonce import experiments
from tdinfonce.estimate import evaluations, off_policy, sepsis
from tdinfonce.estimate._importance import weighted_doubly_robust

STATES, ACTIONS, DISCOUNT = 8, 3, 0.8
Table = np.ndarray


def process(seed: int, absorbing: bool = False) -> tuple[Table, Table, Table, Table, Table]:
    """Transitions, behaviour, target policy, first states and rewards (of state and action)."""
    rng = np.random.default_rng(seed)
    model = rng.dirichlet(np.full(STATES, 0.3), (STATES, ACTIONS))
    if absorbing:
        model[:2] = np.eye(STATES)[:2, None]
    behaviour, policy = rng.dirichlet(np.full(ACTIONS, 2.0), STATES), rng.dirichlet(np.full(ACTIONS, 0.4), STATES)
    first = np.r_[0, 0, rng.dirichlet(np.ones(STATES - 2))]
    return model, behaviour, policy, first, rng.random((STATES, ACTIONS, 4))


def walk(model: Table, policy: Table, first: Table, episodes: int, steps: int, seed: int, ends: int = 0) -> list[Any]:
    """Episodes; those that come to a state below ``ends`` are over there."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(episodes):
        state, action = [int(rng.choice(STATES, p=first))], []
        while len(action) < steps and (state[-1] >= ends):
            action.append(int(rng.choice(ACTIONS, p=policy[state[-1]])))
            state.append(int(rng.choice(STATES, p=model[state[-1], action[-1]])))
        flags = np.array([False] * len(action) + [state[-1] < ends])
        found.append({"observations": np.array(state), "actions": np.array(action), "terminals": flags})
    return found


def exact(model: Table, policy: Table, first: Table, reward: Table) -> Table:
    chain, mean = np.einsum("sa,sat->st", policy, model), np.einsum("sa,sak->sk", policy, reward)
    return first @ np.linalg.solve(np.eye(STATES) - DISCOUNT * chain, mean)  # type: ignore[no-any-return]


def starts(data: list[Any]) -> Table:
    return np.bincount([e["observations"][0] for e in data], minlength=STATES) / len(data)


def counted(data: list[Any], absorbing: int = 0) -> Table:
    """Certainty equivalence: transitions as they were counted."""
    count = np.full((STATES, ACTIONS, STATES), 1e-9)
    for e in data:
        np.add.at(count, (e["observations"][:-1], e["actions"], e["observations"][1:]), 1)
    count[:absorbing] = np.eye(STATES)[:absorbing, None]
    return count / count.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def plain() -> tuple[Any, ...]:
    model, behaviour, policy, first, reward = process(0)
    data = walk(model, behaviour, first, 500, 20, seed=1)
    estimate = td.estimate(data, lambda s: policy[s], discount=DISCOUNT, updates=3_000)
    return model, behaviour, policy, first, reward, data, estimate


def test_a_small_process_is_as_exact_as_counting(plain: Any) -> None:
    model, behaviour, policy, first, reward, data, estimate = plain
    value = estimate.value(lambda s, a: reward[s, a])
    truth, own = exact(model, policy, first, reward), exact(model, behaviour, first, reward)
    by_counting = exact(counted(data), policy, starts(data), reward)
    assert value.mean.shape == value.standard_error.shape == (4,)
    assert np.abs(value.mean - by_counting).max() < 0.05
    assert np.abs(value.mean - truth).max() < 0.08
    assert np.abs(own - truth).max() > 0.2  # so the two policies are told apart


def test_the_behaviour_is_estimated_without_a_policy(plain: Any) -> None:
    model, behaviour, _, first, reward, data, _ = plain
    own = td.estimate(data, discount=DISCOUNT, updates=2_000, n_step=3)
    truth = exact(model, behaviour, first, reward)
    assert np.abs(own.value([lambda s, a, k=k: reward[s, a, k] for k in range(4)]).mean - truth).max() < 0.1
    with pytest.raises(td.UserError, match="without actions"):
        own.occupancy(2, 1)


def test_the_occupancy_is_that_of_the_policy(plain: Any) -> None:
    _, _, policy, _, _, data, estimate = plain
    chain = np.einsum("sa,sat->st", policy, counted(data))
    law = (1 - DISCOUNT) * np.linalg.inv(np.eye(STATES) - DISCOUNT * chain)  # k = 0 included
    found = estimate.occupancy(np.arange(STATES))
    wanted = chain @ law
    assert np.abs(found.weights - wanted[:, found.candidates]).sum(axis=1).max() / 2 < 0.08
    one = estimate.occupancy(3, 2)
    assert np.abs(one.weights - (counted(data)[3, 2] @ law)[one.candidates]).sum() / 2 < 0.08
    assert estimate.occupancy().weights.sum() == pytest.approx(1)


def test_several_rewards_are_one_pass_and_starts_may_be_given(plain: Any) -> None:
    _, _, policy, _, reward, data, estimate = plain
    many, one = estimate.value(lambda s, a: reward[s, a]), estimate.value(lambda s, a: reward[s, a, 2])
    assert isinstance(one.mean, float)
    assert one.mean == pytest.approx(many.mean[2])
    from_three = estimate.value(lambda s: reward[s, 0], start=3)
    wanted = exact(counted(data), policy, np.eye(STATES)[3], np.repeat(reward[:, :1], ACTIONS, axis=1))
    assert from_three.mean == pytest.approx(wanted, abs=0.08)


@pytest.mark.parametrize("terminal", ["absorbing", "continue"])
def test_a_terminal_state_is_never_left(terminal: str) -> None:
    model, behaviour, policy, first, reward = process(3, absorbing=True)
    data = walk(model, behaviour, first, 600, 30, seed=2, ends=2)
    assert min(len(e["actions"]) for e in data) == 1
    found = td.estimate(data, lambda s: policy[s], discount=DISCOUNT, updates=3_000, terminal=terminal)
    value = found.value(lambda s: reward[s, 0]).mean
    truth = exact(model, policy, first, np.repeat(reward[:, :1], ACTIONS, axis=1))
    wrong = np.abs(value - truth).max()
    assert wrong < 0.1 if terminal == "absorbing" else wrong > 0.15
    if terminal == "absorbing":
        by_function = td.estimate(data, lambda s: policy[s], discount=DISCOUNT, updates=3_000, terminal=lambda s: s < 2)
        assert by_function.value(lambda s: reward[s, 0]).mean == pytest.approx(value)


def test_where_an_action_was_never_taken_what_was_done_there_stands_for_it() -> None:
    """Everywhere else 1 leads to place 2, so a critic would guess that; in 1 nobody did anything but 0, which stays.

    The reward of the action itself is the policy's.
    """
    others = (0, 3, 4, 5, 6, 7, 8, 9)
    data = [(np.array([s, 2, 2]), np.array([1, a])) for s in others for a in (0, 1)]
    data += [(np.array([s, s, s]), np.array([0, 0])) for s in (1, *others)]
    estimate = td.estimate(20 * data, lambda s: np.ones(len(s), int), discount=0.5, updates=1_000)
    rewards = [lambda s: s == 1, lambda s: s == 2, lambda s, a: 1.0 * a]
    assert estimate.value(rewards, start=[1]).mean == pytest.approx([2, 0, 2], abs=0.05)
    assert estimate.value(rewards, start=[0]).mean == pytest.approx([0, 1, 2], abs=0.05)
    assert estimate.occupancy(1).weights[1] == pytest.approx(1, abs=0.05)


def test_doubly_robust_is_right_where_the_critic_is_not(plain: Any) -> None:
    _, behaviour, policy, first, reward, _, _ = plain
    model = plain[0]
    data = walk(model, behaviour, first, 3_000, 6, seed=4)
    ignorant = td.estimate(data, lambda s: 0.5 * (policy[s] + behaviour[s]), discount=DISCOUNT, updates=1)
    truth = exact(model, 0.5 * (policy + behaviour), first, reward)

    def rewards(s: Any, a: Any) -> Any:
        return reward[s, a]

    alone = np.abs(ignorant.value(rewards).mean - truth).max()
    given = np.abs(ignorant.value(rewards, doubly_robust=True, behaviour=lambda s: behaviour[s]).mean - truth).max()
    fitted = np.abs(ignorant.value(rewards, doubly_robust=True).mean - truth).max()
    # Behind the last recorded step the critic is all there is, so a part γ^6 of its error stays.
    assert given < 0.5 * alone
    assert fitted < 0.5 * alone


def test_doubly_robust_arithmetic_by_hand() -> None:
    length = np.array([2, 1])
    ratio, advantage = np.array([2.0, 0.5, 1.0]), np.array([[1.0], [2.0], [3.0]])
    value = np.array([[10.0], [20.0], [30.0], [40.0], [50.0]])
    # Weights: t = 0: 2, 1 with mean 1.5; t = 1: 1, 1 (the second is over) with mean 1.
    first = 10 + 2 / 1.5 * 1 + 0.5 * 2 / 1.5 * 20 - 0.5 * 0 + 0.5 * 1 * 2 + 0.25 * 1 * 30
    second = 40 + 1 / 1.5 * 3 + 0.5 * 1 / 1.5 * 50
    found = weighted_doubly_robust(length, ratio, advantage, value, 0.5)
    assert found[:, 0] == pytest.approx([first, second])


def test_an_interval_is_as_wide_as_the_choice_of_first_states_makes_it() -> None:
    """With one step and exact values, resampling episodes is all the uncertainty there is."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 2_000)
    data = [(np.array([s, 2, 2]), np.array([a, 0])) for s, a in zip(rng.integers(0, 2, 2_000), action, strict=True)]
    estimate = td.estimate(data, lambda s: np.zeros(len(s), int), discount=0.5, updates=300)
    low, high = estimate.interval(lambda s: s == 1)
    assert low < estimate.value(lambda s: s == 1).mean < high
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / 2_000**0.5, rel=0.2)


def test_refits_widen_the_interval(plain: Any) -> None:
    _, _, policy, _, reward, data, _ = plain
    again = td.estimate(data[:100], lambda s: policy[s], discount=DISCOUNT, updates=500, refits=3)
    low, high = again.interval(lambda s: reward[s, 0, 0])
    assert high - low == pytest.approx(2 * 1.96 * again.value(lambda s: reward[s, 0, 0]).standard_error, rel=1e-3)
    assert len(again.members) == 4


def test_continuous_observations_and_actions() -> None:
    """s' = 0.5 s + a + noise: the policy a = 0.3 goes to 0.6, and the behaviour stays about 0."""
    rng = np.random.default_rng(0)
    data = []
    for _ in range(150):
        action = rng.uniform(-1, 1, (20, 1)).astype(np.float32)
        state = np.zeros((21, 1), np.float32)
        state[0] = rng.uniform(-1, 1)
        for t in range(20):
            state[t + 1] = 0.5 * state[t] + action[t] + 0.2 * rng.normal()
        data.append((state, action))
    found = td.estimate(data, lambda s: np.full((len(s), 1), 0.3), discount=0.7, updates=3_000)
    start, wanted, gone = 0.0, 0.0, 0.0
    for t in range(60):
        wanted, gone, start = wanted + 0.7**t * start, gone + 0.7**t * 0.3, 0.5 * start + 0.3
    both = found.value([lambda s: s[:, 0], lambda s, a: a[:, 0]], start=[[0.0]]).mean
    assert both[0] == pytest.approx(wanted, abs=0.2)
    assert both[1] == pytest.approx(gone, rel=1e-4)


WALK = [(np.arange(4) % 3, np.array([0, 1, 0])) for _ in range(20)]
SMOOTH = [(np.random.default_rng(k).normal(size=(6, 2)), np.full((5, 1), 0.5)) for k in range(30)]
UNIFORM: Any = lambda s: np.full((len(s), 2), 0.5)  # noqa: E731
QUICK = {"discount": 0.5, "updates": 5}

BAD: list[tuple[str, Any, dict[str, Any], str]] = [
    ("discount 1", WALK, {"discount": 1.0}, "discount must be at least 0 and below 1"),
    ("unknown policy", WALK, {"policy": "best"}, "there is no folder best"),
    ("policy of another kind", WALK, {"policy": 3}, "policy must be a function"),
    ("policy of another shape", WALK, {"policy": lambda s: np.zeros((len(s), 5))}, "shape"),
    ("policy that gives NaN", WALK, {"policy": lambda s: np.full((len(s), 2), np.nan)}, "do not sum to 1"),
    ("probabilities beyond 1", WALK, {"policy": lambda s: np.ones((len(s), 2))}, "do not sum to 1"),
    ("an action that is not there", WALK, {"policy": lambda s: np.full(len(s), 7)}, "have 2 actions"),
    ("half an action", WALK, {"policy": lambda s: np.full(len(s), 0.5)}, "whole numbers"),
    ("actions beyond bounds", SMOOTH, {"policy": lambda s: np.full((len(s), 1), 9.0)}, "beyond the bounds"),
    ("NaN for an action", SMOOTH, {"policy": lambda s: np.full((len(s), 1), np.nan)}, "not finite"),
    ("a goal for a function", WALK, {"policy": UNIFORM, "goal": [1.0]}, "a goal is what a run is told"),
    ("a goal for the behaviour", WALK, {"goal": [1.0]}, "takes none"),
    ("n steps of another policy", WALK, {"policy": UNIFORM, "n_step": 3}, "n_step must be 1"),
    ("unknown method", WALK, {"method": "sarsa"}, "method must be td or mc"),
    ("one refit", WALK, {"refits": 1}, "refits must be 0, or at least 2"),
    ("no updates", WALK, {"updates": 0}, "updates must be a whole number above 0"),
    ("unknown setting", WALK, {"learning_rat": 0.1}, "learning_rate"),
    ("a setting that follows", WALK, {"monte_carlo": True}, "leave it out"),
    ("unknown ends", WALK, {"terminal": "often"}, "terminal must be absorbing"),
    ("ends of other episodes", WALK, {"terminal": [True]}, "each of the 20 episodes"),
    ("no actions", {"observations": np.zeros((9, 1)), "timeouts": np.arange(9) == 8}, {}, "actions: is missing"),
    ("not finite", [(np.full((4, 1), np.nan), np.zeros((3, 1)))], {}, "nan"),
    ("no data", [], {}, "no episode"),
]


@pytest.mark.parametrize(("data", "options", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused_in_one_line(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(td.UserError) as caught:
        td.estimate(data, **QUICK | options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


QUESTIONS: list[tuple[str, Any, str]] = [
    ("reward of another shape", lambda e: e.value(lambda s: np.zeros(2)), "one number for each of"),
    ("reward that gives NaN", lambda e: e.value(lambda s: np.full(len(s), np.nan)), "not finite"),
    ("no reward", lambda e: e.value([]), "reward must be a function"),
    ("reward that is a number", lambda e: e.value(1.0), "reward must be a function"),
    ("level of 95", lambda e: e.interval(lambda s: s, level=95), "level must lie between 0 and 1"),
    ("a start nobody saw", lambda e: e.value(lambda s: s, start=[77]), "never in the state"),
    ("an observation nobody saw", lambda e: e.occupancy(77), "never in the state"),
    ("an action that is not there", lambda e: e.occupancy(1, 9), "have 2 actions"),
    ("an action without a state", lambda e: e.occupancy(action=1), "name the observation"),
    ("behaviour for nothing", lambda e: e.value(lambda s: s, behaviour=UNIFORM), "set doubly_robust"),
    ("other starts", lambda e: e.value(lambda s: s, start=[1], doubly_robust=True), "leave start out"),
    (
        "probabilities of others",
        lambda e: e.value(lambda s: s, doubly_robust=True, behaviour=[0.5]),
        "one probability for each of the 60 transitions",
    ),
    (
        "impossible actions",
        lambda e: e.value(lambda s: s, doubly_robust=True, behaviour=np.zeros(60)),
        "probability above 0",
    ),
]


@pytest.fixture(scope="module")
def quick() -> off_policy.PolicyEstimate:
    found: off_policy.PolicyEstimate = td.estimate(WALK, UNIFORM, **QUICK)
    return found


@pytest.mark.parametrize(("ask", "message"), [row[1:] for row in QUESTIONS], ids=[row[0] for row in QUESTIONS])
def test_bad_questions_are_refused_in_one_line(quick: off_policy.PolicyEstimate, ask: Any, message: str) -> None:
    with pytest.raises(td.UserError) as caught:
        ask(quick)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_continuous_actions_have_no_doubly_robust_estimate() -> None:
    found = td.estimate(SMOOTH, lambda s: np.zeros((len(s), 1)), **QUICK)
    with pytest.raises(td.UserError, match="needs discrete actions"):
        found.value(lambda s: s[:, 0], doubly_robust=True)


def test_the_rivals_are_right_where_data_are_plenty() -> None:
    """Fitted Q evaluation, importance sampling and counting against linear algebra: else they would be no rivals."""
    model = sepsis.small_model(DISCOUNT, states=10, actions=3)
    data, config = sepsis.record(model, 6_000, seed=1), evaluations.Evaluations("small", DISCOUNT, updates=2_000)
    policy = model.policies["mixture"]
    truth = sepsis.exact_value(model, policy, DISCOUNT)
    for method, bound in {"fqe": 0.1, "importance": 0.1, "counting": 0.05, "td": 0.05}.items():
        values = evaluations.evaluate_by(method, config, model, policy, data, 0)
        assert np.median(np.abs(values - truth) / truth) < bound, method


@pytest.mark.parametrize("name", ["policy-evaluation", "policy-evaluation-continuous"])
def test_the_experiment_runs_without_what_must_be_installed(name: str, tmp_path: Any) -> None:
    folder = experiments.reproduce(name, "smoke", out=tmp_path / "run")
    assert "TD InfoNCE" in (folder / "table.md").read_text(encoding="utf-8")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
