"""RatInABox's successor features of real tracks, learned by a program of its own in an environment of its own.

As a program it is run by that environment's Python: its one argument is a plan as JSON.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["fit", "main"]


def fit(
    python: Path, place: np.ndarray, velocity: np.ndarray, bins: np.ndarray, starts: Sequence[int], **settings: Any
) -> np.ndarray:
    """Weights ``[checkpoints, bins, cells · velocities]`` from basis features to the discounted sum of bins.

    Args:
        python: of the environment that has RatInABox.
        place: ``[rows, cells]``, rates of place cells.
        velocity: ``[rows, velocities]``; the basis is each place cell times each of these.
        bins: ``[rows]``, the bin that each row lies in.
        starts: the rows that begin a piece, 0 first; nothing is learned of the step that leads there.
        settings: ``count`` of bins, ``dt`` and ``tau`` in seconds, ``rate`` of learning, ``visits`` (rows seen until
            each checkpoint, ascending; after the last row comes the first).
    """
    from tdinfonce.errors import UserError
    from tdinfonce.system import venv

    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npy"
        np.savez(given, place=place, velocity=velocity, bins=bins, starts=np.array(starts))
        venv.run("RatInABox", python, __file__, settings | {"given": str(given), "found": str(found)})
        weights: np.ndarray = np.load(found)
    if not np.isfinite(weights).all():
        raise UserError(f"RatInABox's successor features diverge at rate {settings['rate']:g}; use a smaller one")
    return weights


def main(plan: dict[str, Any]) -> None:
    """Learn and write, as `fit` asks."""
    from ratinabox import Agent, Environment
    from ratinabox.contribs.SuccessorFeatures import SuccessorFeatures
    from ratinabox.Neurons import Neurons

    with np.load(plan["given"]) as file:
        place, velocity, bins, starts = (file[name] for name in ("place", "velocity", "bins", "starts"))
    rat = Agent(Environment(), {"dt": plan["dt"], "save_history": False})
    # Their rates are set by hand, row by row: the rat does not move by RatInABox's law, and is asked for its step only.
    basis = Neurons(rat, {"n": place.shape[1] * velocity.shape[1], "name": "basis"})
    features = Neurons(rat, {"n": plan["count"], "name": "features"})
    learner = SuccessorFeatures(
        rat,
        {
            "features": features,
            "input_layers": [basis],
            "tau": plan["tau"],
            "eta": plan["rate"],
            "activation_function": {"activation": "linear"},
            "save_history": False,
        },
    )
    layer = learner.inputs["basis"]
    layer["w"][:] = 0  # its own random beginning says more than the data for long, and rectified it stays so
    first, one_hot, found = set(starts.tolist()), np.eye(plan["count"]), []
    for visit in range(plan["visits"][-1]):
        row = visit % len(place)
        if row in first:
            learner.reset()
        basis.firingrate = np.outer(place[row], velocity[row]).ravel()
        features.firingrate = one_hot[bins[row]]
        learner.update()
        if row not in first:
            learner.update_weights()
        if visit + 1 in plan["visits"]:
            found.append(layer["w"].astype(np.float32))
    np.save(plan["found"], np.stack(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
