"""A trained policy for use: no environment, no replay, arrays in and out."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.errors import UserError
from tdinfonce.occupancy import Occupancy, check_prior
from tdinfonce.plans.asking import Places, Question, embed_goal, log_ratios, refuse
from tdinfonce.plans.plan import Plan, read_plan
from tdinfonce.runs import checkpoint
from tdinfonce.types import EnvSpec, flatten

__all__ = ["TrainedPolicy", "load"]


class TrainedPolicy:
    """What `tdinfonce.load` returns: how to act, in the environment's own units."""

    def __init__(
        self, agent: Any, spec: EnvSpec, plan: Plan, env_steps: int, updates: int, checkpoint: Path | None = None
    ) -> None:
        """Wrap an agent of a plan.

        Args:
            agent: what acts.
            spec: of its environment.
            plan: what was trained.
            env_steps: how long it has trained; 0 offline.
            updates: likewise.
            checkpoint: where it was read from, and its candidates can be.
        """
        import equinox as eqx

        self.spec, self.plan, self.env_steps, self.updates = spec, plan, env_steps, updates
        self.agent, self.checkpoint = agent, checkpoint
        self._given: Places | None = None
        self._act = eqx.filter_jit(lambda agent, *inputs, greedy: agent.act(*inputs, greedy=greedy))

    def act(self, observation: Any, goal: Any = None, *, seed: int | None = None, normalised: bool = False) -> Any:
        """The action for a state and a goal, or one for each row of a batch of them.

        Args:
            observation: as the environment gives it: an array, a nested dict, or the whole dict of a goal environment,
                which also has the goal; or a batch.
            goal: as the environment gives its desired goal, or already in the run's goal space. One goal serves a
                whole batch of observations.
            seed: sample an action instead of taking the best one.
            normalised: give the action as the agent sees it: in [-1, 1], or one-hot where actions are discrete.

        Returns:
            The action in the environment's own units and shape; of discrete actions, its number.

        >>> import numpy as np, tdinfonce as td
        >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
        >>> policy = td.load("runs/first")
        >>> policy.act(np.zeros((5, 2)), goal=[0.5, 0.5]).shape
        (5, 2)
        """
        import jax

        state, target = self._inputs(observation, goal)
        key = jax.random.PRNGKey(seed or 0)
        action = np.asarray(self._act(self.agent, state, target, key, greedy=seed is None))
        return action if normalised else self.spec.native_action(action)

    def for_episodes(self) -> Callable[[Any, Any, int], np.ndarray]:
        """The best normalised actions as a function of observation, goal and the time in the episode, which starts at
        0: a policy for `GoalEnv`.

        An agent that reads sequences remembers the episode here; `act` alone answers as at the start of one.
        """
        from tdinfonce.training.compiled import policy_of

        return policy_of(self.agent, 0, self.spec.episode_length, greedy=True)

    def occupancy(
        self,
        observation: Any,
        goal: Any = None,
        action: Any = None,
        *,
        candidates: Any = None,
        prior: Any = None,
        seed: int = 0,
    ) -> Occupancy:
        """Where the policy will be: how likely each of many places is in the discounted future of a state.

        Args:
            observation: where to start, as for `act`; or a batch.
            goal: what the policy is told to reach, as for `act`.
            action: the first action, in the environment's own units; then the policy goes on. Default: the policy's
                own. Then probabilities are the mean over its actions: over all of them where they are discrete, over 16
                draws where they are not.
            candidates: the places to choose among, ``[N, goal_size]``, in the run's goal space. Default: about 10,000
                that the run has stored. Your own must be draws of what the run has stored, or come with a ``prior``.
            prior: ``[N]``, how much of what the run has stored each candidate stands for; default: as much each.
            seed: of the draws of actions.

        Returns:
            Probabilities near a place, means of functions, values of rewards, samples: see `Occupancy`.

        Raises:
            UserError: for an agent whose critic is no model of the occupancy, and for what cannot be meant.
        """
        question = self._question(observation, goal, action)
        return self._answer(question, self._places(candidates), prior, seed)

    def _answer(self, question: Question, places: Places, prior: Any, seed: int) -> Occupancy:
        count = len(places.place)
        given = np.ones(count) if prior is None else np.asarray(prior, np.float64)
        check_prior(given, count)
        with np.errstate(divide="ignore"):
            log_prior = np.log(given / given.sum()).astype(np.float32)
        ratio, total = map(np.asarray, log_ratios(self.agent, question, places.embedded, log_prior, seed))
        constant = self.agent.log_constant(self.plan.training.batch_size)
        if constant is not None:
            ratio = ratio + (total[:, None] + constant)
        ratio = ratio if question.several else ratio[0]
        discount = self.plan.agent_config.discount
        return Occupancy.of_logits(places.place, ratio, discount, prior=given, normalised=constant is not None)

    def _question(self, observation: Any, goal: Any, action: Any) -> Question:
        """What is asked, checked, with a row for each start."""
        self._check_askable()
        if goal is None and action is not None and not self.agent.told_goal and not isinstance(observation, Mapping):
            goal = np.zeros(self.spec.goal_shape, self.spec.dtype)  # nobody looks at it
        try:
            state, target = self._inputs(observation, goal)
            given = None if action is None else self._own_actions(action)
        except ValueError as error:
            raise UserError(str(error)) from None
        for name, value in (("observation", state), ("goal", target)):
            if not np.isfinite(value).all():
                raise UserError(f"{name} holds numbers that are not finite")
        shape = self.spec.observation_shape, self.spec.goal_shape
        several = state.ndim > len(shape[0]) or (given is not None and given.ndim > 1)
        state, target = state.reshape(-1, *shape[0]), target.reshape(-1, *shape[1])
        if given is not None:
            given = given.reshape(-1, self.spec.action_size)
            rows = max(len(state), len(given))
            if len(state) not in (1, rows) or len(given) not in (1, rows):
                raise UserError(f"one action for each observation; got {len(given)} and {len(state)}")
            state, target, given = (np.broadcast_to(x, (rows, *x.shape[1:])) for x in (state, target, given))
        return Question(state, target, given, several)

    def _check_askable(self) -> None:
        if not hasattr(self.agent, "logits"):
            raise refuse(self.plan.agent, self.agent)

    def _own_actions(self, action: Any) -> np.ndarray:
        """Actions in the environment's units, one or a batch, as the agent sees them."""
        spec, given = self.spec, np.asarray(action)
        if given.dtype.kind not in "iufb" or not np.isfinite(given).all():
            raise UserError(f"action must be finite numbers; got {action!r}")
        if spec.discrete:
            first = int(spec.action_low[0] if spec.action_low else 0)
            given = given[..., 0] if given.ndim and given.shape[-1] == 1 else given
            if (
                given.ndim > 1
                or (given != np.round(given)).any()
                or not ((given >= first) & (given < first + spec.action_size)).all()
            ):
                raise UserError(f"action must be a whole number from {first} to {first + spec.action_size - 1}")
            return spec.own_action(given)
        shape = spec.action_shape or (spec.action_size,)
        if given.shape[-len(shape) :] != shape or given.ndim - len(shape) > 1:
            raise UserError(f"action must have shape {list(shape)}, or be a batch; got {list(given.shape)}")
        low, high = (
            np.reshape(end or default, (-1,)) for end, default in ((spec.action_low, -1), (spec.action_high, 1))
        )
        flat = given.reshape(*given.shape[: given.ndim - len(shape)], spec.action_size)
        slack = 1e-5 * (high - low)
        if (flat < low - slack).any() or (flat > high + slack).any():
            raise UserError(f"action must lie between {low.tolist()} and {high.tolist()}")
        return spec.own_action(given)

    def _places(self, candidates: Any) -> Places:
        """The candidates, embedded; what was embedded last is kept."""
        self._check_askable()
        if candidates is None:
            return self._stored
        try:
            place = self._rows("candidates", candidates, self.spec.goal_shape)
        except (ValueError, TypeError) as error:
            raise UserError(f"candidates: {error}") from None
        if place.ndim == len(self.spec.goal_shape) or len(place) < 2:
            raise UserError("candidates must be two places or more")
        if not np.isfinite(place).all():
            raise UserError("candidates hold numbers that are not finite")
        if self._given is None or not np.array_equal(self._given.place, place):
            self._given = Places(place.copy(), embed_goal(self.agent, place), None)
        return self._given

    @cached_property
    def _stored(self) -> Places:
        """The candidates of the run."""
        path = self.checkpoint
        if path is None or not checkpoint.has_part(path, checkpoint.CANDIDATES):
            whose = "this policy" if path is None else path.parent.parent
            raise UserError(f"{whose} has stored no candidates: give some (candidates), or train it anew")
        stored = checkpoint.read(path, checkpoint.CANDIDATES)[1][checkpoint.CANDIDATES]
        with checkpoint.understood(path):
            observation = self._rows("observation", stored["observation"], self.spec.observation_shape)
            place = self._rows("achieved", stored.get("achieved", observation), self.spec.goal_shape)
        return Places(place, embed_goal(self.agent, place), observation)

    def _inputs(self, observation: Any, goal: Any) -> tuple[np.ndarray, np.ndarray]:
        """A state and a goal, or a batch of as many, as the agent sees them."""
        if isinstance(observation, Mapping) and "observation" in observation and "desired_goal" in observation:
            goal = observation["desired_goal"] if goal is None else goal
            observation = observation["observation"]
        if goal is None:
            raise ValueError("name a goal, or give the whole dict of a goal environment as observation")
        state = self._rows("observation", observation, self.spec.observation_shape)
        target = self._rows("goal", self._commanded(goal), self.spec.goal_shape)
        if state.ndim != target.ndim:  # one for all
            rows = (len(state) if state.ndim > target.ndim else len(target),)
            state = np.broadcast_to(state, rows + state.shape[-len(self.spec.observation_shape) :])
            target = np.broadcast_to(target, rows + target.shape[-len(self.spec.goal_shape) :])
        elif state.shape[: -len(self.spec.observation_shape)] != target.shape[: -len(self.spec.goal_shape)]:
            raise ValueError(f"one goal for each observation; got shapes {list(state.shape)} and {list(target.shape)}")
        return state, target

    def _commanded(self, goal: Any) -> Any:
        """A goal of the environment's as one of the run's goal space."""
        if not self.spec.command:
            return goal
        given = np.asarray(goal, np.float32)
        wanted = max(self.spec.command) + 1
        if given.shape[-1:] == (self.spec.goal_size,):
            return given
        if given.shape[-1:] != (wanted,):
            raise ValueError(f"goal must have length {wanted} or {self.spec.goal_size}; got shape {list(given.shape)}")
        return self.spec.goal(given)

    def _rows(self, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """One item, or a batch of them, as the agent sees it."""
        array = flatten(value) if isinstance(value, Mapping) else np.asarray(value)
        if self.spec.image is not None and array.dtype != np.uint8:
            raise ValueError(f"images must be uint8, from 0 to 255; the {name} is {array.dtype}")
        array = array.astype(self.spec.dtype, copy=False)
        size = int(np.prod(shape))
        if array.shape[-len(shape) :] != shape and array.size == size:
            array = array.reshape(shape)  # what the environment gives in another shape
        elif array.shape[-len(shape) :] != shape and array.ndim > 1 and np.prod(array.shape[1:]) == size:
            array = array.reshape(-1, *shape)
        if array.ndim - len(shape) not in (0, 1) or array.shape[-len(shape) :] != shape:
            wanted = f"length {shape[0]}" if len(shape) == 1 else f"shape {list(shape)}"
            raise ValueError(f"{name} must have {wanted}, or be a batch of such; got shape {list(array.shape)}")
        return array

    def __repr__(self) -> str:
        """What it is, and what it takes and gives."""
        spec, plan = self.spec, self.plan
        trained = f"{self.env_steps:,} steps" if self.env_steps else f"{self.updates:,} updates"
        if spec.discrete:
            action = f"one of {spec.action_size}"
        else:
            bounds = spec.action_low or (-1.0,), spec.action_high or (1.0,)
            low, high = (f"{end[0]:g}" if len(set(end)) == 1 else [round(x, 3) for x in end] for end in bounds)
            action = f"{spec.action_size} numbers from {low} to {high}"
        return (
            f"<TrainedPolicy {plan.agent} for {spec.name} after {trained}: observation {list(spec.observation_shape)}, "
            f"goal {list(spec.goal_shape)} → action, {action}>"
        )


def load(run: str | Path, *, best: bool = False) -> TrainedPolicy:
    """Load the newest policy of a run folder, or the one that did best in the evaluations during training.

    It needs no environment and no data.

    >>> import tdinfonce as td
    >>> run = td.train(env="point", agent="gcbc", env_steps=1_000, out="runs/first")
    >>> td.load("runs/first")
    <TrainedPolicy gcbc for point after 1,000 steps: observation [2], goal [2] → action, 2 numbers from -1 to 1>
    """
    folder = Path(run)
    if not folder.is_dir():
        raise UserError(f"there is no run folder {folder}")
    plan, spec = read_plan(folder)
    if spec is None:
        raise UserError(f"{folder} is a plan that was not trained: it has no policy")
    path, counters, parts = checkpoint.load(folder, "agent", best=best)
    with checkpoint.understood(path):
        agent = checkpoint.restore_agent(plan.create_agent(spec, 0), parts["agent"])
        return TrainedPolicy(agent, spec, plan, counters.get("env_steps", 0), counters["updates"], path)
