"""The Fetch tasks on states; docs/online-findings.md says how these were found."""

from typing import Any

__all__ = ["ONLINE"]

ONLINE: dict[tuple[str, ...], dict[str, Any]] = {
    ("fetch-reach", "fast"): {
        "env_steps": 3_000,
        "updates_per_env_step": 2.0,
        "batch_size": 128,
        "discount": 0.9,
        "actor_rate": 2e-3,
        "critic_rate": 2e-3,
        "average_rate": 0.02,
        "warmup_steps": 1_000,
        "eval_every": 500,
        "exploration_noise": 0.1,
        "exploration_uniform": 0.1,
    },
    ("fetch-reach", "fast", "td-infonce"): {"n_step": 3, "temperature": 0.1},
    ("fetch-reach", "estimate"): {
        "env_steps": 60_000,  # for the goals they cover: the critic knows nothing of places that nobody saw
        "updates_per_env_step": 0.25,
        "discount": 0.9,
        "warmup_steps": 1_000,
        "exploration_noise": 0.1,
        "exploration_uniform": 0.1,
    },
    ("fetch-push", "fast"): {"env_steps": 300_000, "warmup_steps": 5_000},
    ("fetch-pick-and-place", "fast"): {"env_steps": 300_000, "warmup_steps": 5_000},
    ("fetch-slide", "fast"): {"env_steps": 300_000, "warmup_steps": 5_000},
    ("fetch-reach", "paper"): {"env_steps": 500_000},
}
BLOCKS = "fetch-push", "fetch-pick-and-place", "fetch-slide"
ONLINE |= {(task, "fast", "td-infonce"): {"discount": 0.9} for task in BLOCKS}
"""Monte Carlo rows that end with the episode had shortened the horizon by stealth; now the discount says it."""
