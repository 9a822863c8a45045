"""The ball in the maze from stored walks; docs/offline-findings.md says how these were found."""

from typing import Any

__all__ = ["OFFLINE"]

MAZES = tuple(f"pointmaze-{size}{far}" for size in ("umaze", "medium", "large") for far in ("", "-far"))
OFFLINE: dict[tuple[str, ...], dict[str, Any]] = {(name, "fast"): {"actor_future_share": 0.5} for name in MAZES}
"""A goal that lies farther off than any stored walk is never a future state: half of the actor's goals are random."""
OFFLINE |= {(name, "fast", "hiql"): {"high_random_share": 0.5} for name in MAZES}
"""Likewise, as OGBench does where walks are short. Nothing else of it was tried."""
OFFLINE |= {(name, "fast", "td-infonce"): {"cloning_share": 0.5} for name in MAZES}
"""A policy that leaves the stored actions soon pushes against a wall, where no data say that this is useless."""
OFFLINE |= {(name, "fast", "contrastive-rl"): {"cloning_share": 0.2} for name in MAZES}
"""The best of what was tried with as many updates as TD InfoNCE gets; see docs/offline-findings.md."""
