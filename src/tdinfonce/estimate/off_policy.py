"""The value of another policy from logged data: its occupancy, fitted once, answers for any number of rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from tdinfonce import settings
from tdinfonce.data.actions import ActionBounds
from tdinfonce.errors import UserError
from tdinfonce.estimate._importance import Behaviour, behaviour_probability, weighted_doubly_robust
from tdinfonce.estimate._logged import Logged, Terminal, open_logged
from tdinfonce.estimate._members import Member, fit_member
from tdinfonce.estimate._rewards import Reward, Rewards
from tdinfonce.estimate._target import Choices, Policy, make_policy
from tdinfonce.estimate.predictor import Config
from tdinfonce.occupancy import Estimate, Occupancy

__all__ = ["PolicyEstimate", "Reward", "estimate"]

SMOOTH = {"learning_rate": 3e-3}
"""What changes in the defaults of a predictor."""
TABLE = {"learning_rate": 3e-3, "temperature": 0.2, "target_rate": 0.05, "representation_size": 64, "hidden": (256,)}
"""What changes where states are known by number."""
UPDATES = 5_000
RESAMPLES = 1_000


def estimate(
    data: Any,
    policy: Policy = "behaviour",
    *,
    discount: float,
    goal: Any = None,
    terminal: Terminal = "absorbing",
    method: str = "td",
    updates: int = UPDATES,
    refits: int = 0,
    table: bool | None = None,
    action_bounds: ActionBounds | None = None,
    seed: int = 0,
    **changes: Any,
) -> PolicyEstimate:
    """Learn from logged transitions where a fixed policy would go; the answer gives the value of any reward.

    Args:
        data: what `open_dataset` reads, `Episodes`, or arrays as `train` takes them. Observations may be whole numbers
            (``[rows]``): states by number. So few different observations that each comes often are numbered, too.
        policy: a function of a batch of observations, which returns actions in the units of the data, or of discrete
            actions their probabilities ``[rows, actions]``; a run (its folder, or what `load` returns), with ``goal``;
            or ``"behaviour"``: what the data did.
        discount: γ of the value Σ γ^t r(s_t, a_t).
        goal: what a run is told to reach.
        terminal: which last states of episodes are never left. ``"absorbing"``: those that the data call terminal,
            where rewards go on as those of that state; ``"continue"``: none, an episode only ceased to be recorded; a
            function of observations; or one bool for each episode.
        method: ``"td"``, or ``"mc"`` (Monte Carlo), which sees the behaviour's future, whatever the policy.
        updates: of the critic.
        refits: how many more critics are fitted, each on resampled episodes: what `PolicyEstimate.interval` then
            covers includes what the data leave open. At least 2 if any.
        table: whether to number states; default: by what is in the data.
        action_bounds: as for `open_dataset`.
        seed: of all that is random.
        **changes: settings of `tdinfonce.estimate.predictor.Config`.

    >>> import numpy as np, tdinfonce as td
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, (100, 20))  # on a ring of five places: stay or go on
    >>> place = np.concatenate([np.zeros((100, 1), int), np.cumsum(action, axis=1)], axis=1) % 5
    >>> data = [(s, a) for s, a in zip(place, action)]
    >>> go_on = td.estimate(data, policy=lambda s: np.ones(len(s), int), discount=0.5)
    >>> round(go_on.value(lambda s: s == 1).mean, 1)  # reached at time 1, 6, …: 0.5 + 0.5 ** 6 + …
    0.5
    """
    if type(refits) is not int or refits < 0 or refits == 1:
        raise UserError(f"refits must be 0, or at least 2; got {refits}")
    _config(discount, method, updates, changes)  # what is wrong there is said before data are read
    logged = open_logged(data, terminal, table, action_bounds)
    config = _config(discount, method, updates, (TABLE if logged.table else SMOOTH) | changes)
    choose = make_policy(policy, goal, logged)
    if choose is not None and config.n_step > 1:
        raise UserError("n_step must be 1 for another policy than the data's own: the next actions were not its own")
    rng = np.random.default_rng(seed)
    choices = None if choose is None else choose(logged.state)
    samples = [np.arange(len(logged.start))]
    samples += [rng.integers(len(logged.start), size=len(logged.start)) for _ in range(refits)]
    members = tuple(fit_member(logged, choices, config, updates, rng, s, seed + k) for k, s in enumerate(samples))
    return PolicyEstimate(discount, logged, choose, choices, members, seed)


def _config(discount: float, method: str, updates: int, changes: dict[str, Any]) -> Config:
    if method not in ("td", "mc"):
        raise UserError(f"method must be td or mc; got '{method}'")
    if type(updates) is not int or updates < 1:
        raise UserError(f"updates must be a whole number above 0; got {updates!r}")
    own = {"discount", "monte_carlo", "decay"} & set(changes)
    if own:
        raise UserError(f"{own.pop()} follows from other arguments; leave it out")
    start = Config(discount=discount, monte_carlo=method == "mc", decay=updates)
    return settings.apply([start], changes)[0]


@dataclass(frozen=True)
class PolicyEstimate:
    """Where a fixed policy goes, as far as logged data tell; values of rewards cost no fitting.

    A reward is a function of observations, or of observations and actions, in the units of the data. It returns one
    number for each row, or several: so many rewards. A list of functions is as good.
    """

    discount: float
    logged: Logged
    choose: Callable[[np.ndarray], Choices] | None
    choices: Choices | None
    members: tuple[Member, ...]
    seed: int

    def value(
        self,
        reward: Reward | Sequence[Reward],
        *,
        start: Any = None,
        doubly_robust: bool = False,
        behaviour: Behaviour | None = None,
    ) -> Estimate:
        """J = E[Σ_{t≥0} γ^t r(s_t, a_t)] of the policy, from the first states of the data's episodes.

        Args:
            reward: see the class.
            start: observations to start from instead; the value is their mean.
            doubly_robust: correct the critic by the logged rewards, weighted by how much likelier their actions are by
                the policy than by the behaviour (per-decision, self-normalised). Right for many episodes whatever the
                critic learned, if the behaviour's probabilities are; noisy where episodes are long and policies
                differ. For discrete actions.
            behaviour: a function of observations, the probabilities ``[rows, actions]`` by which the data were
                made; or one probability for each action taken. Default: counted, or fitted by softmax regression.

        Returns:
            The mean and its standard error: over resampled episodes with refitted critics if there are ``refits``;
            else of the first states alone (doubly robust: of whole episodes), with the critic as it is.
        """
        each = self._each(reward, start, doubly_robust, behaviour)
        if start is None and len(self.members) > 1:
            error = np.std([x.mean(axis=0) for x in each[1:]], axis=0, ddof=1)
        else:
            error = each[0].std(axis=0, ddof=len(each[0]) > 1) / len(each[0]) ** 0.5
        return Estimate(_number(each[0].mean(axis=0)), _number(error))

    def interval(
        self,
        reward: Reward | Sequence[Reward],
        *,
        level: float = 0.95,
        doubly_robust: bool = False,
        behaviour: Behaviour | None = None,
    ) -> tuple[Any, Any]:
        """The lower and the upper end of a bootstrap interval of the value; arguments as those of `value`.

        With ``refits`` episodes were resampled and critics refitted: mean ± z · deviation of the values they give.
        Without, percentiles over resampled episodes with the critic as it is: then it covers the choice of first states
        (doubly robust: of whole episodes), not what the critic has not learned.
        """
        if not 0 < level < 1:
            raise UserError(f"level must lie between 0 and 1; got {level}")
        each = self._each(reward, None, doubly_robust, behaviour)
        if len(self.members) > 1:
            spread = np.std([x.mean(axis=0) for x in each[1:]], axis=0, ddof=1) * NormalDist().inv_cdf(0.5 + level / 2)
            mean = each[0].mean(axis=0)
            return _number(mean - spread), _number(mean + spread)
        rng, count = np.random.default_rng(self.seed), len(each[0])
        means = [rng.multinomial(count, np.full(count, 1 / count)) @ each[0] / count for _ in range(RESAMPLES)]
        low, high = np.quantile(means, (0.5 - level / 2, 0.5 + level / 2), axis=0)
        return _number(low), _number(high)

    def occupancy(self, observation: Any = None, action: Any = None) -> Occupancy:
        """The law of a later state of the policy, k ≥ 1 steps ahead with chance (1 - γ) γ^(k - 1).

        Args:
            observation: one, or a batch: then one row of weights for each; None: the first states of the episodes,
                averaged.
            action: what is done first, in the units of the data; None: what the policy does.
        """
        member = self.members[0]
        if observation is None:
            if action is not None:
                raise UserError("name the observation in which the action is done")
            first, count = np.unique(self.logged.which[self.logged.start], return_counts=True)
            weights = count / count.sum() @ self._weights(member, self.logged.state[first])
        else:
            shape = self.logged.state.shape[1:]
            state = np.asarray(observation).reshape(-1, *shape) if np.size(observation) else np.zeros((0, *shape))
            weights = self._weights(member, state, action)
            weights = weights[0] if np.ndim(observation) == len(shape) else weights
        return Occupancy(self.logged.state[member.candidate], weights, self.discount)

    def _weights(self, member: Member, observation: np.ndarray, action: Any = None) -> np.ndarray:
        """``[states, candidates]``, averaged over the policy's actions."""
        state, place = self.logged.encode(observation), self._place(member)
        if self.choose is None:
            if action is not None:
                raise UserError("the data's own behaviour is estimated without actions; name a policy to ask by action")
            return member.weights(state, np.zeros((len(state), 0), np.float32), place)
        if action is not None:
            one = np.asarray(action)
            one = one.reshape(len(state), -1) if not self.logged.actions else one.reshape(-1)
            return member.weights(state, self.logged.encode_action(one, len(state), "action"), place)
        weights = np.zeros((len(state), len(member.candidate)))
        for on, one, chance in self._followed(member, observation).each():
            weights[on] += chance * member.weights(state[on], one, place)
        return weights

    def _followed(self, member: Member, observation: np.ndarray) -> Choices:
        """What the policy does, as far as the critic could follow it."""
        assert self.choose is not None
        if member.followed is None:
            return self.choose(observation)
        return member.followed.at(self.logged.encode(observation))

    def _each(
        self, reward: Reward | Sequence[Reward], start: Any, doubly_robust: bool, behaviour: Behaviour | None
    ) -> list[np.ndarray]:
        """For each critic ``[episodes, rewards]`` or ``[start, rewards]``, whose mean is the value."""
        logged, rewards = self.logged, Rewards(reward, self.logged)
        if behaviour is not None and not doubly_robust:
            raise UserError("behaviour is read by the doubly robust estimate alone: set doubly_robust")
        if start is not None:
            if doubly_robust:
                raise UserError("a doubly robust estimate starts where the data start; leave start out")
            number = logged.encode(start)
            state = logged.state[number] if logged.table else np.asarray(start).reshape(-1, *logged.state.shape[1:])
            return [rewards.shaped(self._values(m, rewards, state)) for m in self.members[:1]]
        if doubly_robust:
            ratio = self._ratios(behaviour)
            return [rewards.shaped(self._doubly_robust(m, rewards, ratio)[m.sample]) for m in self.members]
        first, which = np.unique(logged.which[logged.start], return_inverse=True)
        values = (self._values(m, rewards, logged.state[first], first)[which][m.sample] for m in self.members)
        return [rewards.shaped(v) for v in values]

    def _values(
        self, member: Member, rewards: Rewards, state: np.ndarray, which: np.ndarray | None = None
    ) -> np.ndarray:
        """``[states, rewards]``, V of the policy."""
        code, place, scale = self.logged.encode(state), self._place(member), self.discount / (1 - self.discount)
        later = self._candidate_rewards(member, rewards)
        if self.choose is None:
            now = rewards.logged(which, self.logged) if which is not None else rewards.of(state, None)
            return now + scale * member.expectation(code, np.zeros((len(code), 0), np.float32), place, later)
        total = np.zeros((len(state), later.shape[1]))
        for on, action, chance in self.choose(state).each():
            total[on] += chance * rewards.of(state[on], action)
        for on, action, chance in self._followed(member, state).each():
            total[on] += scale * chance * member.expectation(code[on], action, place, later)
        return total

    def _candidate_rewards(self, member: Member, rewards: Rewards) -> np.ndarray:
        """``[candidates, rewards]``, the mean over the policy's actions there."""
        state = self.logged.state[member.candidate]
        if self.choices is None:
            return rewards.logged(member.candidate, self.logged)
        if not rewards.of_action:
            return rewards.of(state, None)
        pairs = zip(self.choices.action[:, member.candidate], self.choices.chance[:, member.candidate], strict=True)
        return sum((chance[:, None] * rewards.of(state, action) for action, chance in pairs), start=np.zeros(1))

    def _ratios(self, behaviour: Behaviour | None) -> np.ndarray:
        """``[transitions]``, how much likelier each action taken is by the policy."""
        logged = self.logged
        if self.choices is None:
            raise UserError("the data's own behaviour needs no correction; name another policy")
        if not logged.actions:
            raise UserError("a doubly robust estimate needs discrete actions: others have no probabilities")
        rows = logged.taken
        states = logged.which[rows]
        same = np.stack([(a[states] * logged.action[rows]).sum(axis=1) for a in self.choices.action])
        return (same * self.choices.chance[:, states]).sum(axis=0) / behaviour_probability(logged, behaviour)

    def _doubly_robust(self, member: Member, rewards: Rewards, ratio: np.ndarray) -> np.ndarray:
        logged, rows, place = self.logged, self.logged.taken, self._place(member)
        later = self._candidate_rewards(member, rewards)
        pair = logged.which[rows] * logged.actions + np.argmax(logged.action[rows], axis=1)
        _, one, which = np.unique(pair, return_index=True, return_inverse=True)
        state, action = logged.state[logged.which[rows[one]]], logged.action[rows[one]]
        # r - Q, in which the reward of the action itself cancels.
        ahead = member.expectation(logged.encode(state), action, place, later)
        advantage = -self.discount / (1 - self.discount) * ahead[which]
        value = self._values(member, rewards, logged.state)[logged.which]
        last = (logged.start + logged.length)[logged.terminal]
        if len(last):  # known without a critic
            end = np.unique(logged.which[last], return_inverse=True)
            value[last] = self._stay(rewards, end[0])[end[1]]
        return weighted_doubly_robust(logged.length, ratio, advantage, value, self.discount)

    def _stay(self, rewards: Rewards, which: np.ndarray) -> np.ndarray:
        """What it is worth to stay in these states for ever."""
        assert self.choices is not None
        pairs = zip(self.choices.action[:, which], self.choices.chance[:, which], strict=True)
        state = self.logged.state[which]
        mean = sum((chance[:, None] * rewards.of(state, action) for action, chance in pairs), start=np.zeros(1))
        return mean / (1 - self.discount)

    def _place(self, member: Member) -> np.ndarray:
        return member.candidate if self.logged.table else self.logged.scale(self.logged.state[member.candidate])


def _number(x: Any) -> Any:
    """A float if it is one."""
    return float(x) if np.ndim(x) == 0 else x
