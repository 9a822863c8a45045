"""D4RL's ant mazes from stored walks; docs/offline-findings.md says how these were found."""

from typing import Any

__all__ = ["OFFLINE"]

SETS = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
MAZES = tuple(f"antmaze-{name}" for name in SETS)
WIDE = {"hidden": (1024,) * 4, "goal_hidden": (1024,) * 4, "batch_size": 1024}
OFFLINE: dict[tuple[str, ...], dict[str, Any]] = {
    (f"antmaze-large-{name}", "paper", "td-infonce"): WIDE for name in ("play", "diverse")
}
"""The paper's larger networks and batches."""
OFFLINE |= {(name, "fast", "contrastive-rl"): {"cloning_share": 0.5} for name in MAZES}
OFFLINE |= {(name, "fast", "qrl"): {"cloning_weight": 2.0} for name in MAZES}
"""The best of what was tried; see docs/offline-findings.md."""
FAR = [name for name in MAZES if "umaze" not in name]
LONG_WAYS: dict[str, Any] = {
    "commanded_share": 0.5,
    "actor_future_share": 0.5,
    "cloning_share": 0.3,
    "monte_carlo_weight": 0.25,
}
OFFLINE |= {(name, "fast", "td-infonce"): LONG_WAYS for name in FAR}
OFFLINE |= {(name, "fast", agent): {"uniform_future": True} for name in FAR for agent in ("gcbc", "gc-iql")}
"""A stored walk is at its goal long before its episode ends, so nearly every future state is where the ant already is:
one in 1,300 is eight cells off or more, and the evaluation asks for ten. Where a walk was sent is far, and fits its
actions, which a random state does not. Contrastive RL and QRL did no better with it."""
