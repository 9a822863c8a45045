"""docs/equations.md is true: every labelled equation of the paper is there, and what it names exists."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| label")
]
# The labels of equations, of the algorithm and of the tables in the paper's source.
LABELS = {
    "eq:infonce",
    "eq:arbitrary-func-est",
    "eq:discounted-state-occupancy-measure",
    "eq:discounted-state-occupancy-measure-recurrence",
    "eq:policy-obj",
    "eq:mc-infonce",
    "eq:opt-critic",
    "eq:importance-weight",
    "eq:td-infonce",
    "alg:td-infonce",
    "eq:actor-loss",
    "tab:offline-eval",
    "eq:classifier",
    "eq:td-infonce-expectation-ce",
    "eq:td-infonce-update",
    "eq:sr",
    "eq:ce-negative",
    "tab:hparams",
    "tab:hparams-offline",
}


def test_every_label_has_its_row():
    found = {row[0].strip("`") for row in ROWS if row[0].startswith("`")}
    assert found == LABELS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
def test_functions_and_tests_exist(row):
    _, _, function, test = row
    words = function.strip("`").split(".")
    found = importlib.import_module(words[0])
    for position, name in enumerate(words[1:], start=1):
        # A package may export a function of the same name as its module, as `tdinfonce.losses` does.
        found = getattr(found, name, None) or importlib.import_module(".".join(words[: position + 1]))
    assert callable(found)
    path, _, name = test.strip("`").partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
