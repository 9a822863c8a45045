"""The worked examples of CONTRIBUTING: each is one file, and nothing else has to be edited."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tdinfonce

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TRAIN = """
import tdinfonce as td
run = td.train(env="corridor", agent="inverse-model", env_steps=2_000, out="runs/corridor", eval_episodes=5)
print(run.summary["success_any"])
data = td.open_dataset("walks.csv", goal="0:1")
print(len(data), data.transitions)
run = td.train(data="walks.csv", goal="0:1", agent="inverse-model", env="corridor", updates=500, out="runs/walks")
print(run.summary["success_any"])
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the three files added, and nothing else changed."""
    root = tmp_path_factory.mktemp("stranger")
    package = Path(tdinfonce.__file__).parent
    shutil.copytree(package, root / "src" / "tdinfonce", ignore=shutil.ignore_patterns("__pycache__"))
    blocks = re.findall(r"```python\n# (src/tdinfonce/\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert [Path(name).parent.name for name, _ in blocks] == ["agents", "envs", "formats"]
    for name, text in blocks:
        assert not (root / name).exists(), f"{name} is an example, and not in the package"
        (root / name).write_text(text, encoding="utf-8")
    return root


def python(root: Path, *words: str) -> str:
    where = {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(ROOT / "tests")])}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=os.environ | where, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_agent_passes_the_contract(copied: Path) -> None:
    words = ["-m", "pytest", str(ROOT / "tests" / "test_agent_contract.py"), "-k", "inverse-model", "-rA"]
    said = python(copied, *words, "-p", "no:cacheprovider", f"--rootdir={copied}", "-c", os.devnull)
    assert len(re.findall(r"^PASSED .*inverse-model", said, re.MULTILINE)) >= 10, said


def test_the_agent_learns_in_the_environment_and_from_the_data(copied: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["observation_0,action_0,episode"]
    for episode in range(40):
        place = rng.uniform(-1, 1)
        for _ in range(21):
            action = rng.uniform(-1, 1)
            lines.append(f"{place:.5f},{action:.5f},{episode}")
            place = float(np.clip(place + 0.2 * action, -1, 1))
    (copied / "walks.csv").write_text("\n".join(lines) + "\n")
    online, sizes, offline = python(copied, "-c", TRAIN).strip().splitlines()
    assert sizes == "40 800"
    assert float(online) >= 0.9
    assert float(offline) >= 0.9
    listed = python(copied, "-m", "tdinfonce", "list")
    assert "inverse-model" in listed
    assert "corridor" in listed


def test_the_examples_are_clean(copied: Path) -> None:
    names = ["agents/inverse_model.py", "envs/corridor.py", "data/formats/csv.py"]
    files = [str(copied / "src" / "tdinfonce" / name) for name in names]
    python(ROOT, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), *files)
    python(ROOT, "-m", "ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), *files)
