"""Every agent takes images by the same contract as vectors, and bytes stay bytes until a torso sees them."""

import dataclasses
import functools
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import planned, run_online
from tdinfonce import agents
from tdinfonce.agents._goals import reached
from tdinfonce.data.replay import Replay
from tdinfonce.data.sampler import sample
from tdinfonce.errors import UserError
from tdinfonce.runs.folder import RunFolder
from tdinfonce.training.online import OnlineConfig
from tdinfonce.types import Batch, EnvSpec, Episode, Start, Step

SPEC = EnvSpec("dots", 768, 2, 768, 10, tolerance=0.2, goal_space="image", image=(16, 16, 3))
ONLINE = [name for name in agents.names() if hasattr(agents.load(name), "PRESETS")]
"""Agents that only learn from stored data see vectors only."""
every_agent = pytest.mark.parametrize("name", ONLINE)
quick_jit = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})


def small(name: str, **changes: Any) -> Any:
    return dataclasses.replace(agents.load(name).Config(), **({"hidden": (8,)} | changes))


def replay() -> Replay:
    rng = np.random.default_rng(0)
    ring = Replay(SPEC, 80)
    for _ in range(8):
        images = rng.integers(0, 256, (11, 16, 16, 3), dtype=np.uint8)
        goal = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        ring.append(Episode(images, images, rng.uniform(-1, 1, (10, 2)).astype(np.float32), goal))
    return ring


def batch_for(config: Any, shape: tuple[int, ...] = (32,)) -> Batch:
    return jax.tree.map(jnp.asarray, sample(replay().view(), np.random.default_rng(0), shape, config.sampling))


def create(name: str, config: Any) -> Any:
    return agents.load(name).Agent.create(jax.random.PRNGKey(0), SPEC, config)


def members(network: Any) -> tuple[Any, ...]:
    return network if isinstance(network, tuple) else (network,)


def moved(agent: Any, new: Any, part: str) -> bool:
    """Whether every layer of every torso of a network, or of an ensemble of them, has learned something."""
    torsos = [[member.torso.weights for member in members(getattr(a, part).model)] for a in (agent, new)]
    return all(
        not np.array_equal(old, now) for pair in zip(*torsos, strict=True) for old, now in zip(*pair, strict=True)
    )


@pytest.mark.parametrize(("name", "torso"), [*((name, "patches") for name in ONLINE), ("td-infonce", "conv")])
def test_an_update_on_images_moves_every_torso_and_stays_finite(name: str, torso: str) -> None:
    config = small(name, torso=torso)
    agent, batch = create(name, config), batch_for(config)
    new, metrics = quick_jit(lambda a, b: a.update(b))(agent, batch)
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(moved(agent, new, part) for part in ("actor", "critic") if hasattr(agent, part))


def test_hiql_refuses_images_in_one_line() -> None:
    with pytest.raises(UserError, match=r"^hiql learns from vectors, and dots shows images: choose [^\n]*$") as error:
        create("hiql", small("hiql"))
    assert all(name in str(error.value) for name in ONLINE)


@every_agent
def test_act_takes_one_image_or_a_batch(name: str) -> None:
    agent, key = create(name, small(name)), jax.random.PRNGKey(0)
    images, goals = np.random.default_rng(0).integers(0, 256, (2, 4, 16, 16, 3), dtype=np.uint8)
    greedy = quick_jit(lambda *inputs: agent.act(*inputs, greedy=True))
    batch = greedy(images, goals, key)
    assert batch.shape == (4, 2)
    np.testing.assert_allclose(greedy(images[2], goals[2], key), batch[2], rtol=1e-4, atol=1e-5)


@every_agent
def test_paper_preset_has_the_torso_of_the_paper(name: str) -> None:
    assert agents.load(name).PRESETS["paper"].torso == "conv"
    plan = planned("fetch-reach-image", name, "fast", 0, settings=["torso=conv"])
    assert plan.agent_config.torso == "conv"
    with pytest.raises(UserError, match="Did you mean 'conv'"):
        planned("fetch-reach-image", name, "fast", 0, settings=["torso=con"])


def test_images_are_bytes_from_the_replay_to_the_torso() -> None:
    ring, config = replay(), small("td-infonce")
    assert ring.observation.dtype == ring.goal.dtype == np.uint8
    batch = create("td-infonce", config).inputs.batch(batch_for(config))
    fields = {name: value for name, value in batch._asdict().items() if value is not None and np.ndim(value) == 4}
    assert set(fields) == {name for name in config.sampling.fields if "observation" in name or name.endswith("goal")}
    assert all(value.dtype == jnp.uint8 for value in fields.values())


def test_an_image_is_reached_when_it_is_equal() -> None:
    image = jnp.asarray(replay().observation[:3])
    other = image.at[1, 2, 3, 0].add(1)
    np.testing.assert_array_equal(reached(SPEC, image, other), [True, False, True])


def test_an_update_sees_each_image_of_a_critic_once() -> None:
    """The losses of actor and critic ask for the same features; the compiled program works them out once."""
    config = small("td-infonce")
    agent, batch = create("td-infonce", config), batch_for(config)
    arrays, static = eqx.partition(agent, eqx.is_array)

    def update(arrays: Any, batch: Batch) -> Any:
        return eqx.filter(eqx.combine(arrays, static).update(batch)[0], eqx.is_array)

    program = jax.jit(update).lower(arrays, batch).compile({"xla_backend_optimization_level": 0}).as_text()
    # The first layer of a torso: 32 filters on the 2x2 patches of each of 32 images, or of two batches joined.
    layer = re.compile(r"= f32\[(128|256),32\]\S* dot\(.*lhs_contracting_dims=\{1\}")
    critic = ["state", "goal", "positives and random states"]
    target = ["later state", "goal", "random states"]
    actor = ["state with goal", "later state with goal"]
    assert len(layer.findall(program)) == len(critic + target + actor)


class Dots:
    """A point on a plane, seen as a bright square: the smallest image task."""

    spec = SPEC

    def __init__(self) -> None:
        self.place = self.target = np.zeros(2)

    def _image(self, place: np.ndarray) -> np.ndarray:
        image = np.zeros((16, 16, 3), np.uint8)
        row, column = (7 * (place + 1)).astype(int)
        image[row : row + 2, column : column + 2] = 255
        return image

    def _distance(self) -> float:
        return float(np.linalg.norm(self.place - self.target))

    def reset(self, seed: int) -> Start:
        self.place, self.target = np.random.default_rng(seed).uniform(-1, 1, (2, 2))
        self.time = 0
        self.goal = self._image(self.target)
        return Start(self._image(self.place), self._image(self.place), self.goal, self._distance(), self.place)

    def step(self, action: np.ndarray) -> Step:
        self.place = np.clip(self.place + 0.3 * np.clip(action, -1, 1), -1, 1)
        self.time += 1
        gap, image = self._distance(), self._image(self.place)
        return Step(image, image, gap < 0.2, gap, self.time >= 10, self.place)

    def render(self) -> np.ndarray:
        return self._image(self.place)

    def close(self) -> None: ...


@pytest.mark.parametrize("on_disk", [False, True])
def test_td_infonce_trains_on_images(on_disk: bool, tmp_path: Any) -> None:
    config = OnlineConfig(
        env_steps=200, warmup_steps=50, updates_per_call=5, batch_size=16, replay_capacity=100, eval_every=100,
        eval_episodes=2, final_episodes=2, replay_on_disk=on_disk,
    )  # fmt: skip
    folder = RunFolder.create(tmp_path / "run", {"kind": "test"})
    seen = small("td-infonce")
    scales = []

    def make(seed: int, scale: Any) -> Any:
        scales.append(scale)
        return agents.load("td-infonce").Agent.create(jax.random.PRNGKey(seed), SPEC, seen, scale)

    result = run_online(folder, Dots(), make, seen.sampling, config, 0)
    assert result["updates"] == 75
    assert scales == [None, None], "one agent for the compiler, one to learn; neither with a scale"
    rows = [row for row in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines() if "critic/loss" in row]
    assert rows
    assert not any("NaN" in row or "Infinity" in row for row in rows)
    assert (tmp_path / "run" / "replay").exists() is on_disk
