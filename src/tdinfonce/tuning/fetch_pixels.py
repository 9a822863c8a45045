"""The Fetch tasks on images; see docs/pixels.md."""

from typing import Any

__all__ = ["ONLINE"]

TASKS = tuple(f"fetch-{task}-image" for task in ("reach", "push", "pick-and-place", "slide"))
# An image batch is large: fewer updates in one program. The replay lies on disk, for not every machine has the memory.
COMMON: dict[str, Any] = {"replay_on_disk": True, "updates_per_call": 5}
ONLINE: dict[tuple[str, ...], dict[str, Any]] = {
    (name, preset): COMMON | ({"replay_capacity": 100_000, "batch_size": 128} if preset == "fast" else {})
    for name in TASKS
    for preset in ("fast", "paper")
}
ONLINE["fetch-reach-image", "fast"] |= {
    "env_steps": 15_000,
    "warmup_steps": 1_000,
    "eval_every": 1_000,
    "discount": 0.9,
    "average_rate": 0.005,
    "exploration_noise": 0.1,
    "exploration_uniform": 0.1,
}
ONLINE["fetch-reach-image", "fast", "td-infonce"] = {"n_step": 3, "temperature": 0.1}
ONLINE["fetch-reach-image", "paper"] |= {"env_steps": 500_000}
