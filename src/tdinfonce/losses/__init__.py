"""Losses as functions of arrays: logits in, one loss for each row out; the caller averages.

They hold no parameters, know no networks and draw no random numbers, so they fit any model.
"""

from tdinfonce.losses.c_learning import c_learning
from tdinfonce.losses.contrastive import binary_nce, infonce, logsumexp_penalty, symmetric_infonce
from tdinfonce.losses.policy import advantage_weighted, cloning, cloning_error, goal_infonce, maximise
from tdinfonce.losses.quasimetric import lagrangian, latent_dynamics, local_excess, push_apart
from tdinfonce.losses.td_infonce import importance_weights, td_infonce
from tdinfonce.losses.value import expectile, td_error

__all__ = [
    "advantage_weighted",
    "binary_nce",
    "c_learning",
    "cloning",
    "cloning_error",
    "expectile",
    "goal_infonce",
    "importance_weights",
    "infonce",
    "lagrangian",
    "latent_dynamics",
    "local_excess",
    "logsumexp_penalty",
    "maximise",
    "push_apart",
    "symmetric_infonce",
    "td_error",
    "td_infonce",
]
