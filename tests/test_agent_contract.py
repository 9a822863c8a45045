"""Every file in agents/ keeps the contract: a value, pure, compiled once, and no dead settings."""

import collections
import dataclasses
import functools
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import planned
from tdinfonce import agents
from tdinfonce.agents._goals import GoalMix, actor_goals, reached
from tdinfonce.agents._inputs import Inputs
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.networks.learner import polyak
from tdinfonce.settings import describe
from tdinfonce.training.compiled import update_many
from tdinfonce.training.offline import OfflineConfig
from tdinfonce.training.online import PRESETS, OnlineConfig
from tdinfonce.types import Batch, EnvSpec, Episode, InputScale

SPEC = EnvSpec("test", observation_size=5, action_size=2, goal_size=3, episode_length=10, tolerance=0.8)
every_agent = pytest.mark.parametrize("name", agents.names())
OCCUPANCY = ["c-learning", "contrastive-nce", "contrastive-rl", "td-infonce"]
"""Those that must have logits."""


def data() -> Episodes:
    rng = np.random.default_rng(0)
    episodes = Episodes.of(
        [
            Episode(
                rng.normal(1, 2, (11, 5)).astype(np.float32),
                rng.normal(1, 2, (11, 3)).astype(np.float32),
                rng.uniform(-1, 1, (10, 2)).astype(np.float32),
                rng.normal(1, 2, 3).astype(np.float32),
            )
            for _ in range(8)
        ]
    )
    return dataclasses.replace(episodes, reward=(rng.random(88) < 0.3).astype(np.float32))


def small(name: str, **changes: Any) -> Any:
    config = agents.load(name).Config()
    tiny = {"hidden": (8,), "width": 8, "context": 4}
    known = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **({k: v for k, v in tiny.items() if k in known} | changes))


def batch_for(config: Any, seed: int = 0, shape: tuple[int, ...] = (32,)) -> Batch:
    return jax.tree.map(jnp.asarray, sample(data(), np.random.default_rng(seed), shape, config.sampling))


SCALE = InputScale(*(np.full(n, v, np.float32) for n, v in ((5, 1.0), (5, 2.0), (3, 1.0), (3, 2.0))))


# Half the time of these tests is compiling; the tiny networks run fast enough without optimisation.
quick_jit = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})


@quick_jit
def _create(name: str, config: Any, key: jax.Array) -> Any:
    return agents.load(name).Agent.create(key, SPEC, config, SCALE)


def create(name: str, config: Any, seed: int = 0) -> Any:
    # A compiled function may return one buffer under two names (a model and its target): copy, as `create` does.
    return jax.tree.map(jnp.copy, _create(name, config, jax.random.PRNGKey(seed)))


traces: collections.Counter[str] = collections.Counter()


@quick_jit
def update(agent: Any, batch: Batch) -> tuple[Any, dict[str, jax.Array]]:
    traces[type(agent).__module__] += 1
    return agent.update(batch)


def arrays(agent: Any) -> list[np.ndarray]:
    return [np.array(leaf) for leaf in jax.tree.leaves(eqx.filter(agent, eqx.is_array))]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@every_agent
def test_update_is_pure_and_its_metrics_are_finite_scalars(name: str) -> None:
    config = small(name)
    agent, batch = create(name, config), batch_for(config)
    before = arrays(agent)
    new, metrics = update(agent, batch)
    again, _ = update(agent, batch)
    assert same(before, arrays(agent)), "the old agent changed"
    assert same(arrays(new), arrays(again)), "two updates of one agent on one batch differ"
    assert not same(before, arrays(new))
    assert metrics
    for key, value in metrics.items():
        assert key.split("/")[0] in ("critic", "actor")
        assert np.shape(value) == () and np.isfinite(value), key  # noqa: PT018


@every_agent
def test_three_batches_and_a_second_agent_are_one_trace(name: str) -> None:
    config = small(name)
    agent = create(name, config)
    for seed in range(3):
        agent, _ = update(agent, batch_for(config, seed))
    update(create(name, small(name), seed=5), batch_for(config))
    assert traces[type(agent).__module__] == 1


@every_agent
def test_many_updates_in_one_call_equal_single_updates(name: str) -> None:
    config = small(name)
    batches = batch_for(config, shape=(3, 32))
    alone = create(name, config)
    for index in range(3):
        alone, _ = update(alone, jax.tree.map(lambda x, i=index: x[i], batches))
    together, _ = update_many(create(name, config), batches)
    for one, two in zip(arrays(alone), arrays(together), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


@every_agent
def test_targets_move_by_the_target_rate(name: str) -> None:
    config = small(name)
    agent = create(name, config)
    pairs = {"target": "critic", "target_actor": "actor"}
    found = {t: o for t, o in pairs.items() if hasattr(agent, t)}
    assert bool(found) == hasattr(config, "target_rate")
    new, _ = update(agent, batch_for(config))
    for target, online in found.items():
        old = arrays(getattr(agent, target))
        followed = arrays(getattr(new, online).model)
        for was, now, goes_to in zip(old, arrays(getattr(new, target)), followed, strict=True):
            np.testing.assert_allclose(now, was + config.target_rate * (goes_to - was), rtol=1e-4, atol=1e-7)


@every_agent
def test_vmap_over_seeds(name: str) -> None:
    config = small(name)
    module, keys = agents.load(name), jax.random.split(jax.random.PRNGKey(1), 3)
    batch = batch_for(config)

    @quick_jit
    @eqx.filter_vmap
    def first_update(key: jax.Array) -> Any:
        return module.Agent.create(key, SPEC, config, SCALE).update(batch)

    many, metrics = first_update(keys)
    alone, _ = update(_create(name, config, keys[1]), batch)
    for stacked, one in zip(arrays(many), arrays(alone), strict=True):
        np.testing.assert_allclose(stacked[1], one, rtol=2e-3, atol=2e-4)
    assert all(value.shape == (3,) for value in metrics.values())


@every_agent
def test_act_takes_one_item_or_a_batch(name: str) -> None:
    agent, key = create(name, small(name)), jax.random.PRNGKey(0)
    states, goals = jax.random.normal(key, (4, 5)), jax.random.normal(key, (4, 3))
    greedy = quick_jit(lambda *inputs: agent.act(*inputs, greedy=True))
    batch = greedy(states, goals, key)
    assert batch.shape == (4, 2)
    assert np.all(np.abs(batch) <= 1)
    np.testing.assert_allclose(greedy(states[2], goals[2], key), batch[2], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(greedy(states, goals, jax.random.PRNGKey(9)), batch)


def recorder(kind: type) -> tuple[type, set[str]]:
    """A subclass of a config that notes which fields are read."""
    read: set[str] = set()
    fields = {field.name for field in dataclasses.fields(kind)}

    class Recorder(kind):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name in fields:
                read.add(name)
            return super().__getattribute__(name)

    return Recorder, read


@every_agent
def test_every_setting_is_read(name: str) -> None:
    """By one kind of policy or another, if there are several."""
    base = small(name)
    several = [{"actor": word} for word in ("clipped", "weighted")] if hasattr(base, "actor") else []
    read = set().union(*(settings_read(name, dataclasses.replace(base, **kind)) for kind in ({}, *several)))
    values = {field.name for field in dataclasses.fields(base)}
    assert read == values, f"{name}: read by nothing: {values - read}"


def settings_read(name: str, base: Any) -> set[str]:
    """What making an agent, its batch, its update and its acting look up in its config."""
    values = dataclasses.asdict(base)
    kind, read = recorder(type(base))
    batch = batch_for(base)

    def life(key: jax.Array) -> Any:
        agent = agents.load(name).Agent.create(key, SPEC, config, SCALE)
        read_at_creation = read.copy()
        read.clear()
        new, _ = agent.update(batch)
        new.act(jnp.zeros(5), jnp.zeros(3), key)
        read.update(read_at_creation)
        return eqx.filter(new, eqx.is_array)

    config = kind(**values)
    read.clear()  # it was checked
    assert config.sampling == base.sampling
    sampled = read.copy()
    jax.eval_shape(life, jax.random.PRNGKey(0))
    return {*read, *sampled}


def used_fields(agent: Any, batch: Batch) -> set[str]:
    """The fields of a batch that an update depends on, found by tracing it and walking back from its results."""
    arrays, static = eqx.partition(agent, eqx.is_array)

    def update(batch: Batch) -> Any:
        new, metrics = eqx.combine(arrays, static).update(batch)
        return eqx.filter(new, eqx.is_array), metrics

    program = jax.make_jaxpr(update)(batch).jaxpr
    alive = {id(variable) for variable in program.outvars}
    for equation in reversed(program.eqns):
        if alive & {id(variable) for variable in equation.outvars}:
            alive |= {id(variable) for variable in equation.invars}
    names = [name for name, value in batch._asdict().items() if value is not None]
    return {name for name, variable in zip(names, program.invars, strict=True) if id(variable) in alive}


def every_preset(name: str) -> list[Any]:
    module = agents.load(name)
    tables = [getattr(module, word, {}) for word in ("PRESETS", "OFFLINE")]
    return [config for table in tables for config in table.values()]


@every_agent
def test_a_batch_holds_what_an_agent_reads_and_nothing_else(name: str) -> None:
    """A field that is read but not declared is None, so the update fails."""
    tiny = {"hidden": (8,), "goal_hidden": (8,), "projector_hidden": (8,), "dynamics_hidden": (8,), "width": 8}
    mixed = [dataclasses.replace(agents.load("hiql").Config(), high_random_share=share) for share in (0.5, 1.0)]
    for preset in every_preset(name) + (mixed if name == "hiql" else []):
        known = {field.name for field in dataclasses.fields(preset)}
        config = dataclasses.replace(preset, **{k: v for k, v in tiny.items() if k in known})
        batch = batch_for(config)
        sampled = {field for field, value in batch._asdict().items() if value is not None}
        assert sampled == set(config.sampling.fields)
        assert len(sampled) == len(config.sampling.fields), "each once"
        assert used_fields(create(name, config), batch) == sampled


def test_a_field_that_nobody_reads_is_found() -> None:
    """The test above would fail: a field too many is seen, and one too few stops the update."""
    config = small("gcbc")
    batch, agent = batch_for(config), create("gcbc", config)
    more = batch._replace(random_goal=batch.future_goal)
    assert used_fields(agent, more) == set(config.sampling.fields)
    with pytest.raises((TypeError, AttributeError)):
        used_fields(agent, batch._replace(future_goal=None))


def questions() -> list[jax.Array]:
    """Observations, actions and goals of four rows, and six candidates."""
    keys = jax.random.split(jax.random.PRNGKey(3), 4)
    shapes = (4, 5), (4, 2), (4, 3), (6, 3)
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


@every_agent
def test_logits_have_a_row_for_each_question_and_a_column_for_each_candidate(name: str) -> None:
    """If there are any: where the critic is a model of the occupancy."""
    if hasattr(agents.load(name).Agent, "logits"):
        found = create(name, small(name)).logits(*questions())
        assert found.shape == (4, 6)
        assert np.isfinite(found).all()
    else:
        assert name not in OCCUPANCY


@pytest.mark.parametrize("name", OCCUPANCY)
def test_logits_are_those_of_the_networks(name: str) -> None:
    """The smaller of two critics', and not those of the target."""
    agent = create(name, small(name, goal_hidden=(8,), critics=2))
    if hasattr(agent, "target"):
        agent = eqx.tree_at(lambda a: a.target, agent, jax.tree.map(lambda x: x * 3, agent.target))
    state, action, goal, candidate = questions()
    found = agent.logits(state, action, goal, candidate)
    state, goal, candidate = (state - 1) / 2, (goal - 1) / 2, (candidate - 1) / 2  # SCALE; none is beyond the knee
    left = jnp.concatenate([state, action, *([goal] if name == "td-infonce" else [])], axis=1)
    critic = agent.critic.model
    members = []
    for one, two in zip(critic.left, critic.right, strict=True):
        phi, psi = one(left), two(candidate)
        if critic.normalise:
            phi, psi = (x / jnp.linalg.norm(x, axis=1, keepdims=True) for x in (phi, psi))
        members.append(jnp.einsum("ik,jk->ij", phi, psi) / jnp.exp(critic.log_temperature))
    np.testing.assert_allclose(found, np.minimum(*members), rtol=1e-3, atol=1e-4)
    assert (members[0] < members[1]).any()
    assert (members[0] > members[1]).any(), "else nothing is told"


@every_agent
def test_configs_are_frozen_documented_and_have_both_presets(name: str) -> None:
    module = agents.load(name)
    found = [presets for word in ("PRESETS", "OFFLINE") if (presets := getattr(module, word, None))]
    assert found[0]["fast"] == module.Config()
    assert all({"fast", "paper"} <= set(presets) for presets in found)
    for kind in (module.Config, OnlineConfig, OfflineConfig):
        assert kind.__dataclass_params__.frozen
        assert set(describe(kind)) == {field.name for field in dataclasses.fields(kind)}
    assert all(text.endswith(".") and "  " not in text for text in describe(module.Config).values())
    ours = {field.name for field in dataclasses.fields(module.Config)}
    assert not any(ours & {field.name for field in dataclasses.fields(kind)} for kind in (OnlineConfig, OfflineConfig))
    for table, kind in (("OFFLINE_TRAINING", OfflineConfig), ("ONLINE_TRAINING", OnlineConfig)):
        training = {field.name for field in dataclasses.fields(kind)}
        assert all(set(changes) <= training for changes in getattr(module, table, {}).values())


@every_agent
def test_a_number_out_of_its_range_is_refused_in_one_line(name: str) -> None:
    """Every number has two bounds, and no config can be made beyond them."""
    config = agents.load(name).Config()
    for field in dataclasses.fields(config):
        if isinstance(getattr(config, field.name), bool | str):
            continue
        pair = isinstance(getattr(config, field.name), tuple)
        for value in ((), (0,), (10**6,)) if pair else (-1, 10**13, "many"):
            with pytest.raises(UserError, match=rf"^{field.name} (must|names)[^\n]*got [^\n]*$"):
                dataclasses.replace(config, **{field.name: value})


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("td-infonce", {"average_rate": 5}, "average_rate must lie between 0 and 1; got 5"),
        ("td-infonce", {"target_rate": 0}, "target_rate must be positive; got 0"),
        ("gcbc", {"hidden": 64}, "hidden must be numbers like 256,256; got 64"),
        ("gcbc", {"scale_inputs": 1}, "scale_inputs must be true or false; got 1"),
        ("gcbc", {"torso": "con"}, "Did you mean 'conv'"),
        ("td-infonce", {"critic_future_share": 0.7}, "critic_future_share and commanded_share are shares of one batch"),
        ("qrl", {"commanded_share": 0.8}, "actor_uniform_share and commanded_share are shares of one batch"),
        ("gc-iql", {"next_share": 0.6}, "future_share and next_share are shares of one batch: together at most 1"),
        ("hiql", {"future_share": 0.9}, "future_share and present_share are shares of one batch: together at most 1"),
        ("hiql", {"subgoal_steps": 0}, "subgoal_steps must be at least 1; got 0"),
        ("iql", {"expectile_level": 1.0}, "expectile_level must be at least 0 and below 1; got 1.0"),
        ("dt", {"context": 1}, "context must be at least 2, the present step and one before it; got 1"),
        ("dt", {"heads": 3}, "the width of dt must be a multiple of its heads; got 64 and 3"),
    ],
)
def test_a_bad_setting_is_refused_wherever_a_config_is_built(name: str, changes: Any, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        dataclasses.replace(agents.load(name).Config(), **changes)


def test_paper_preset_is_the_table_of_the_paper() -> None:
    config, training = agents.load("td-infonce").PRESETS["paper"], PRESETS["paper"]
    assert (config.discount, config.target_rate, config.hidden) == (0.99, 0.005, (512, 512, 512, 512))
    assert (config.representation_size, config.normalise, config.temperature) == (16, True, 1.0)
    assert (config.actor_rate, config.critic_rate, config.critics) == (5e-5, 3e-4, 2)
    assert (config.n_step, config.monte_carlo_weight, config.learn_temperature) == (1, 0.0, False)
    assert (config.actor_future_share, config.critic_future_share, config.scale_inputs) == (0.0, 0.0, False)
    assert (training.batch_size, training.updates_per_env_step, training.warmup_steps) == (256, 1.0, 10_000)
    assert (training.replay_capacity, training.exploration_noise, training.exploration_uniform) == (1_000_000, 0, 0)


@pytest.mark.parametrize("name", [n for n in agents.names() if hasattr(agents.load(n), "PRESETS")])
def test_every_paper_preset_explores(name: str) -> None:
    """By a policy that samples, or by the collector in every episode."""
    plan = planned("fetch-push", name, "paper", 0, goal_space="full")
    agent, zeros = create(name, small(name)), (np.zeros(5, np.float32), np.zeros(3, np.float32))
    actions = [agent.act(*zeros, jax.random.PRNGKey(seed)) for seed in (0, 1)]
    noisy = plan.training.exploration_noise > 0 and plan.training.exploration_episodes == 1
    assert noisy or not np.array_equal(*actions)


def test_unknown_agent_is_a_user_error() -> None:
    assert agents.load("td_infonce") is agents.load("td-infonce")
    with pytest.raises(UserError, match="Did you mean 'td-infonce'"):
        agents.load("td-infonc")


def test_ddpg_her_reward_is_zero_only_within_the_tolerance() -> None:
    spec = dataclasses.replace(SPEC, success_coordinates=(0, 1), tolerance=0.5)
    agent = agents.load("ddpg-her").Agent.create(jax.random.PRNGKey(0), spec, small("ddpg-her"))
    goal = jnp.zeros((3, 3))
    achieved = jnp.array([[0.3, 0.3, 9.0], [0.5, 0.0, 0.0], [0.0, 0.49, 0.0]])
    np.testing.assert_array_equal(reached(agent.spec, achieved, goal), [True, False, True])
    with pytest.raises(UserError, match="distance_threshold"):
        agents.load("ddpg-her").Agent.create(
            jax.random.PRNGKey(0), dataclasses.replace(spec, tolerance=None), small("ddpg-her")
        )


def test_common_functions_by_hand() -> None:
    np.testing.assert_allclose(polyak(jnp.array([1.0]), jnp.array([3.0]), 0.25), [1.5])
    raw = batch_for(small("td-infonce"))
    scaled = Inputs.create(SPEC, SCALE, scaled=True).batch(raw)
    inside = np.abs((raw.observation - 1) / 2) < 5
    np.testing.assert_allclose(scaled.observation[inside], ((raw.observation - 1) / 2)[inside], rtol=1e-5)
    np.testing.assert_array_equal(scaled.action, raw.action)
    np.testing.assert_array_equal(scaled.bootstrap_discount, raw.bootstrap_discount)


def test_inputs_that_are_not_scaled_are_raw() -> None:
    config = small("gcbc", scale_inputs=False)
    far = batch_for(config)._replace(observation=jnp.full((32, 5), 30.0))
    seen = create("gcbc", config).inputs.batch(far)
    jax.tree.map(np.testing.assert_array_equal, seen, far)


def test_goals_of_the_rows_come_in_their_order() -> None:
    batch = batch_for(small("td-infonce"), shape=(8,))
    goal = actor_goals(small("td-infonce", commanded_share=0.5, actor_future_share=0.25)).of(batch)
    np.testing.assert_array_equal(goal[:4], batch.commanded_goal[:4])
    np.testing.assert_array_equal(goal[4:6], batch.future_goal[4:6])
    np.testing.assert_array_equal(goal[6:], batch.random_goal[6:])
    alone = GoalMix("random_goal", commanded_goal=0.0, future_goal=1.0)
    assert alone.fields == ("future_goal",), "a kind without rows is not read"
    np.testing.assert_array_equal(alone.of(batch), batch.future_goal)
    assert GoalMix("random_goal", future_goal=0.0).fields == ("random_goal",)
