"""Draw start and goal images of the four Fetch image tasks side by side, as docs/images/fetch-images.png:

python examples/fetch_images.py [FILE] [EPISODES]
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tdinfonce import envs
from tdinfonce.envs.fetch_pixels import NAMES
from tdinfonce.seeding import evaluation_seeds

PAPER = 215
"""Grey, because tables are white."""


def main(path: Path, episodes: int) -> None:
    figure, axes = plt.subplots(len(NAMES), episodes, figsize=(2.4 * episodes, 1.45 * len(NAMES)), squeeze=False)
    for name, row in zip(NAMES, axes, strict=True):
        env = envs.make(name)
        for seed, axis in zip(evaluation_seeds(episodes), row, strict=True):
            start = env.reset(seed)
            gap = np.full((64, 4, 3), PAPER, np.uint8)
            axis.imshow(np.concatenate([start.observation, gap, start.goal], axis=1))
            axis.set(xticks=[], yticks=[], xlabel=f"start, goal at {100 * start.distance:.0f} cm")
            axis.spines[:].set_visible(False)
        env.close()
        row[0].set_ylabel(name.removeprefix("fetch-").removesuffix("-image"))
    figure.set_facecolor(f"#{PAPER:02x}{PAPER:02x}{PAPER:02x}")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    target, count = [*sys.argv[1:], *("docs/images/fetch-images.png", "4")[len(sys.argv) - 1 :]]
    main(Path(target), int(count))
