"""The four rooms: small networks and a horizon of five steps, for an action matters most to cells that are near."""

__all__ = ["OFFLINE", "ONLINE"]

COMMON = {
    "hidden": (128, 128),
    "goal_hidden": (128, 128),
    "discount": 0.8,
    "critic_rate": 1e-3,
    "actor_rate": 1e-3,
}
ONLINE = {
    ("grid", "fast"): COMMON
    | {"env_steps": 8_000, "warmup_steps": 1_000, "eval_every": 1_000, "updates_per_env_step": 1.0}
}
OFFLINE = {("grid", "fast"): COMMON | {"updates": 4_000, "eval_every": 1_000, "n_step": 1, "target_rate": 0.02}}
