"""A trained policy for use: no environment, no replay, arrays in and out."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce import seeding
from tdinfonce.data import from_arrays, open_dataset
from tdinfonce.data.episodes import Episodes
from tdinfonce.errors import UserError
from tdinfonce.occupancy import Estimate, Information, Occupancy
from tdinfonce.plans.asking import (
    Places,
    checked_prior,
    checked_seed,
    embed,
    embed_goal,
    information,
    jax_key,
    log_ratios,
    refuse,
    rewards,
    takes_action,
)
from tdinfonce.plans.inputs import Question, as_user_error, check_finite, commanded, question, rows, state_and_goal
from tdinfonce.plans.plan import Plan, read_plan
from tdinfonce.runs import checkpoint
from tdinfonce.training.offline import check_fit
from tdinfonce.types import EnvSpec

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
        state, target = state_and_goal(self.spec, observation, goal)
        action = np.asarray(self._act(self.agent, state, target, jax_key(seed or 0), greedy=seed is None))
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
        return self._answer(self._question(observation, goal, action), self._places(candidates), prior, seed)

    def value(
        self,
        reward: Any,
        observation: Any,
        goal: Any = None,
        action: Any = None,
        *,
        of: str = "place",
        candidates: Any = None,
        prior: Any = None,
        seed: int = 0,
    ) -> Estimate:
        """The expected discounted sum of any reward of the states to come, beginning with the next one; no retraining.

        Args:
            reward: a function that is called with all candidate places at once, ``[N, goal_size]``, and returns
                ``[N]``, or ``[N, K]`` of K rewards; or a list of such functions. If it has two parameters, the second
                are the actions that the policy takes there, in the environment's own units. Many rewards cost little
                more than one.
            observation: as for `occupancy`.
            goal: likewise.
            action: likewise.
            of: "place", or "observation": then the reward sees the whole stored observation of each candidate. The
                critic knows places only, so this is right where the place tells all that the reward reads; otherwise
                the rest is as it was on average when the run was at such a place.
            candidates: as for `occupancy`; a reward of observations or actions needs the run's own.
            prior: as for `occupancy`.
            seed: of the draws of actions.

        Returns:
            The value, of one start or for each of a batch, and of several rewards for each; with a standard error,
            which knows the finite number of candidates only.
        """
        asked, places = self._question(observation, goal, action), self._places(candidates)
        if of not in ("place", "observation"):
            raise UserError(f'of must be "place" or "observation"; got {of!r}')
        state = places.observation
        seen = places.place if of == "place" else state
        if seen is None:
            raise UserError("a reward of the observation needs the run's own candidates: leave candidates out")
        occupancy = self._answer(asked, places, prior, seed)

        def worth(goal: np.ndarray) -> np.ndarray:
            act = None if state is None else lambda: self.act(state, goal, seed=seed)
            return rewards(reward, seen, act)

        if not takes_action(reward) or (asked.goal == asked.goal[:1]).all():
            values = worth(asked.goal[0])
            return occupancy.value(lambda _: values)
        each = []
        for weights, values in zip(occupancy.weights, map(worth, asked.goal), strict=True):
            each.append(replace(occupancy, weights=weights).value(lambda _, values=values: values))  # type: ignore[misc]
        return Estimate(*(np.stack(part) for part in zip(*each, strict=True)))

    def represent(self, observation: Any, goal: Any = None, action: Any = None) -> np.ndarray:
        """φ, what the critic makes of a state with its goal and first action (default: the policy's best).

        Its inner product with `represent_goal` of a place is the logit: how much likelier than by chance the place is
        in the discounted future, in the log, up to a constant for each φ. Of an ensemble the members stand one behind
        the other, and the product is the mean of their logits.
        """
        asked = self._question(observation, goal, action)
        first = asked.action
        if first is None:
            first = self._act(self.agent, asked.state, asked.goal, jax_key(0), greedy=True)
        found = np.asarray(embed(self.agent, asked.state, first, asked.goal))
        return found if asked.several else found[0]

    def represent_goal(self, goal: Any) -> np.ndarray:
        """ψ, what the critic makes of a place, or of each of a batch: see `represent`."""
        self._check_askable()
        place = self._place(goal)
        found = np.concatenate(embed_goal(self.agent, place.reshape(-1, *self.spec.goal_shape)), axis=-1)
        return found if place.ndim > len(self.spec.goal_shape) else found[0]

    def mutual_information(self, data: Any, goal: Any = None, *, candidates: int = 1024, seed: int = 0) -> Information:
        """How much a state and an action tell of their discounted future in these data, in nats: InfoNCE's lower bound.

        The bound cannot exceed log ``candidates``. It holds for any data that the run has not learned from (of others
        the critic may know too much), and is near the truth if the critic has learned to predict their process.

        Args:
            data: episodes, arrays, or a file, as for `tdinfonce.train`.
            goal: what the critic is told was commanded; default: what was commanded in each episode, which then counts
                as a part of the state. It matters to td-infonce only.
            candidates: among how many later places each row must find its own; fewer where there are fewer rows.
            seed: of the draws of pairs.
        """
        self._check_askable()
        if self.spec.image is not None:
            raise UserError("the mutual information of images cannot be asked: it is computed on vectors")
        if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 2:
            raise UserError(f"candidates must be a whole number, at least 2; got {candidates!r}")
        known: dict[str, Any] = {"default_bounds": self.spec.action_bounds, "default_goal": self.spec.data_goal or None}
        if isinstance(data, str | Path):
            episodes = open_dataset(data, goal=self.plan.goal, **known)
        else:
            space = None if isinstance(data, Episodes) else self.plan.goal
            episodes = from_arrays(data, goal=space, **known)
        check_fit(self.spec, episodes)
        told = None if goal is None else self._place(goal)
        last = episodes.achieved[episodes.start + episodes.length]
        if told is None and self.agent.told_goal and np.array_equal(episodes.goal, last):
            raise UserError("the data tell no commanded goals, and their last states give the future away: name a goal")
        rng = seeding.generator(checked_seed(seed), "mutual information")
        return information(self.agent, episodes, self.plan.agent_config.discount, told, candidates, rng)

    def _answer(self, asked: Question, places: Places, prior: Any, seed: int) -> Occupancy:
        weight = checked_prior(prior, len(places.place))
        with np.errstate(divide="ignore"):
            log_prior = np.log(weight / weight.sum()).astype(np.float32)
        found = log_ratios(self.agent, asked[:3], places.embedded, log_prior, jax_key(seed))
        ratio, total = (np.asarray(x, np.float64) for x in found)
        constant = self.agent.log_constant(self.plan.training.batch_size)
        ratio = ratio if constant is None else ratio + (total[:, None] + constant)
        ratio = ratio if asked.several else ratio[0]
        discount = self.plan.agent_config.discount
        return Occupancy.of_logits(places.place, ratio, discount, prior=weight, normalised=constant is not None)

    def _question(self, observation: Any, goal: Any, action: Any) -> Question:
        self._check_askable()
        if goal is None and action is not None and not self.agent.told_goal:
            goal = np.zeros(self.spec.goal_shape, self.spec.dtype)  # nobody looks at it
        return question(self.spec, observation, goal, action)

    def _place(self, goal: Any) -> np.ndarray:
        """A goal, or a batch, as the agent sees it."""
        with as_user_error():
            place = rows(self.spec, "goal", commanded(self.spec, goal), self.spec.goal_shape)
        check_finite("goal", place)
        return place

    def _check_askable(self) -> None:
        if not hasattr(self.agent, "logits"):
            raise refuse(self.plan.agent, self.agent)

    def _places(self, candidates: Any) -> Places:
        """The candidates, embedded; what was embedded last is kept."""
        if candidates is None:
            return self._stored
        with as_user_error():
            given = np.asarray(candidates)
            given = given[:, None] if given.ndim == 1 and self.spec.goal_shape == (1,) else given
            place = rows(self.spec, "candidates", given, self.spec.goal_shape)
        check_finite("candidates", place)
        if place.ndim == len(self.spec.goal_shape) or len(place) < 2:
            raise UserError("candidates must be two places or more")
        if self._given is None or not np.array_equal(self._given.place, place):
            self._given = Places(place.copy(), embed_goal(self.agent, place), None)
        return self._given

    @cached_property
    def _stored(self) -> Places:
        """The candidates of the run."""
        path = self.checkpoint
        if path is None or not checkpoint.has_part(path, checkpoint.CANDIDATES):
            whose = "this policy" if path is None else path.parent.parent
            raise UserError(f"{whose} has stored no candidates: give some (candidates), or train or continue the run")
        stored = checkpoint.read(path, checkpoint.CANDIDATES)[1][checkpoint.CANDIDATES]
        with checkpoint.understood(path):
            observation = rows(self.spec, "observation", stored["observation"], self.spec.observation_shape)
            place = rows(self.spec, "achieved", stored.get("achieved", observation), self.spec.goal_shape)
        return Places(place, embed_goal(self.agent, place), observation)

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
