"""Episodes, replay and goal relabelling in numpy alone; data sets from outside, checked."""

from tdinfonce.data.arrays import from_arrays
from tdinfonce.data.episodes import Episodes
from tdinfonce.data.journeys import cut_at_goals, trim_after_arrival
from tdinfonce.data.source import open_dataset, read_record

__all__ = ["Episodes", "cut_at_goals", "from_arrays", "open_dataset", "read_record", "trim_after_arrival"]
