"""Episodes, replay and goal relabelling in numpy alone."""

from tdinfonce.data.open import open_dataset

__all__ = ["open_dataset"]
