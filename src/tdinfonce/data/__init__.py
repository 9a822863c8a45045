"""Episodes, replay and goal relabelling in numpy alone."""
