"""Losses as functions of arrays: logits in, one loss for each row out; the caller averages.

They hold no parameters, know no networks and draw no random numbers, so they fit any model.
"""

from tdinfonce.losses.c_learning import c_learning
from tdinfonce.losses.contrastive import binary_nce, infonce, logsumexp_penalty, symmetric_infonce
from tdinfonce.losses.td_infonce import importance_weights, td_infonce

__all__ = [
    "binary_nce",
    "c_learning",
    "importance_weights",
    "infonce",
    "logsumexp_penalty",
    "symmetric_infonce",
    "td_infonce",
]
