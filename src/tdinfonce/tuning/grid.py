"""The four rooms: small networks, small batches, much that is uniform, and a horizon of ten steps."""

__all__ = ["OFFLINE", "ONLINE"]

COMMON = {
    "hidden": (128, 128),
    "goal_hidden": (128, 128),
    "discount": 0.9,
    "critic_rate": 1e-3,
    "actor_rate": 1e-3,
    "batch_size": 128,
}
ONLINE = {
    ("grid", "fast"): COMMON
    | {"env_steps": 20_000, "warmup_steps": 1_000, "exploration_uniform": 0.6, "updates_per_env_step": 1.0}
    | {"n_step": 1, "monte_carlo_weight": 0.0}
}
OFFLINE = {("grid", "fast"): COMMON | {"updates": 10_000, "n_step": 1, "target_rate": 0.02}}
