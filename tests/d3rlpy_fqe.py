"""A program for a virtual environment of its own: d3rlpy's FQE of a deterministic policy, for `test_policy_rivals.py`.

Its argument is an .npz with ``states``, ``actions`` and ``rewards`` of episodes of one length, ``[episodes, steps]``,
``policy`` ``[states]`` and ``discount``; it prints V of all states as JSON.
"""

import json
import sys
from types import SimpleNamespace

REQUIREMENTS = (
    ("torch==2.13.0",),
    ("numpy<3", "gymnasium==1.0.0", "gym==0.26.2", "click", "structlog", "colorama", "dataclasses-json", "h5py"),
    ("tqdm", "scikit-learn", "typing-extensions"),
    ("--no-deps", "d3rlpy==2.8.1"),
)
"""Asked for in this way torch is the build without CUDA."""


def main(path: str) -> None:
    import d3rlpy
    import numpy as np
    import torch

    torch.set_num_threads(1)
    d3rlpy.seed(0)
    with np.load(path) as file:
        given = {name: file[name] for name in file.files}
    states, count = given["states"], len(given["policy"])
    ends = np.zeros(states.shape, bool)
    ends[:, -1] = True
    dataset = d3rlpy.dataset.MDPDataset(
        observations=np.eye(count, dtype=np.float32)[states.reshape(-1)],
        actions=given["actions"].reshape(-1, 1),
        rewards=given["rewards"].reshape(-1, 1).astype(np.float32),
        terminals=np.zeros(states.size, np.float32),
        timeouts=ends.reshape(-1).astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=int(given["actions"].max()) + 1,
    )
    told = torch.tensor(given["policy"])
    impl = SimpleNamespace(predict_best_action=lambda x: told[x.argmax(dim=1)])
    config = d3rlpy.ope.FQEConfig(
        learning_rate=1e-3, batch_size=256, gamma=float(given["discount"]), target_update_interval=100
    )
    fqe = d3rlpy.ope.DiscreteFQE(algo=SimpleNamespace(impl=impl), config=config)
    fqe.fit(
        dataset,
        n_steps=4_000,
        n_steps_per_epoch=4_000,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    value = fqe.predict_value(np.eye(count, dtype=np.float32), given["policy"])
    print(json.dumps(value.tolist()))


if __name__ == "__main__":
    main(sys.argv[1])
