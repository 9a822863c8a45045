"""Temporal-difference InfoNCE, its baselines, and the experiments of its paper.

Importing this package is cheap: JAX is imported only with the part that needs it,
for example ``from tdinfonce import losses``.
"""

__version__ = "0.1.0.dev0"
