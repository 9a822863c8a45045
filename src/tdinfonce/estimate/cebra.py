"""CEBRA's representation of a series, learned by a program of its own in an environment of its own.

As a program it is run by that environment's Python: its one argument is a plan as JSON.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["REQUIREMENTS", "embed", "main"]

# torch by itself and by this version is the build without CUDA; asked for in any other way it takes gigabytes.
REQUIREMENTS = (("torch==2.13.0",), ("cebra==0.6.1", "numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1"))


def embed(python: Path, training: np.ndarray, rows: np.ndarray, **settings: Any) -> np.ndarray:
    """Fit on ``training`` by time alone; the representation of ``rows``, ``[checkpoints, rows, dim]``.

    Args:
        python: of the environment that has CEBRA.
        training: ``[rows, features]``, scaled.
        rows: ``[rows, features]``, scaled alike.
        settings: ``dim``, ``hidden``, ``offset`` (rows between a positive and its anchor), ``batch_size``,
            ``iterations`` until each
            checkpoint, ascending, ``seed``.
    """
    from tdinfonce.system import venv

    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npy"
        np.savez(given, training=training.astype(np.float32), rows=rows.astype(np.float32))
        venv.run("CEBRA", python, __file__, settings | {"given": str(given), "found": str(found)})
        representation: np.ndarray = np.load(found)
    return representation.astype(np.float64)


def main(plan: dict[str, Any]) -> None:
    """Fit and write, as `embed` asks."""
    import cebra
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(plan["seed"])
    np.random.seed(plan["seed"])  # noqa: NPY002 - CEBRA draws by it
    model = cebra.CEBRA(
        model_architecture="offset1-model",
        conditional="time",
        time_offsets=plan["offset"],
        output_dimension=plan["dim"],
        num_hidden_units=plan["hidden"],
        batch_size=plan["batch_size"],
        learning_rate=1e-3,
        device="cpu",
    )
    done, found = 0, []
    with np.load(plan["given"]) as given:
        for iterations in plan["iterations"]:
            model.max_iterations, done = iterations - done, iterations
            model.partial_fit(given["training"])
            found.append(model.transform(given["rows"]))
    np.save(plan["found"], np.stack(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
