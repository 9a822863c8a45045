"""Episodes, replay and goal relabelling in numpy alone; data sets from outside, checked."""

from tdinfonce.data.source import open_dataset, read_record

__all__ = ["open_dataset", "read_record"]
