"""The point in the square: small networks, a short horizon, seconds."""

from typing import Any

__all__ = ["OFFLINE", "ONLINE"]

ONLINE = {
    ("point", "fast"): {
        "env_steps": 5_000,
        "warmup_steps": 500,
        "updates_per_env_step": 1.0,
        "hidden": (64, 64),
        "goal_hidden": (64, 64),
        "discount": 0.8,
        "critic_rate": 1e-3,
        "actor_rate": 1e-3,
    }
}
ONLINE["point", "estimate"] = {
    "env_steps": 5_000,
    "warmup_steps": 500,
    "updates_per_env_step": 3.0,
    "hidden": (128, 128),
    "goal_hidden": (128, 128),
    "discount": 0.8,
}
for preset in ("fast", "estimate"):
    ONLINE["point-one-goal", preset] = ONLINE["point", preset]
OFFLINE: dict[tuple[str, ...], dict[str, Any]] = {
    (name, "fast"): {
        "updates": 2_000,
        "hidden": (64, 64),
        "goal_hidden": (64, 64),
        "discount": 0.8,
        "n_step": 1,
        "target_rate": 0.02,
        "critic_rate": 1e-3,
        "actor_rate": 1e-3,
    }
    for name in ("point", "point-one-goal")
}
OFFLINE["point", "fast", "hiql"] = {"subgoal_steps": 5}
"""A goal is a dozen steps off at most, and a sub-goal nearer. No other number did better or worse."""
