"""Film the first steps of a trained arm towards six goals, as docs/images/reach.gif. After `make demo`:

python examples/reach_film.py [RUN] [FILE]
"""

import sys
from pathlib import Path

from PIL import Image

import tdinfonce as td
from tdinfonce.seeding import evaluation_seeds

EPISODES, STEPS, SIZE, MILLISECONDS = 6, 13, 240, 80
MARGIN = 0.1
"""Share of the picture that is cut off on each side: there is only floor."""


def main(run: Path, path: Path) -> None:
    policy = td.load(run)
    env = policy.plan.make_env(render=True)
    frames = []
    for seed in evaluation_seeds(EPISODES):
        act, start = policy.for_episodes(), env.reset(seed)
        observation = start.observation
        frames.append(env.render())
        for time in range(STEPS):
            observation = env.step(act(observation, start.goal, time)).observation
            frames.append(env.render())
    env.close()
    images = [picture(frame) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0, optimize=True)


def picture(frame) -> Image.Image:
    image = Image.fromarray(frame)
    left, top = int(MARGIN * image.width), int(MARGIN * image.height)
    image = image.crop((left, top, image.width - left, image.height - top)).resize((SIZE, SIZE))
    return image.quantize(48, dither=Image.Dither.NONE)


if __name__ == "__main__":
    source, target = [*sys.argv[1:], *("runs/demo", "docs/images/reach.gif")[len(sys.argv) - 1 :]]
    main(Path(source), Path(target))
