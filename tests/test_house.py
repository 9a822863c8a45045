"""The house: what import-linter does not see."""

import ast
import dataclasses
import importlib.util
import sys
from pathlib import Path

import tdinfonce
from tdinfonce import agents, envs, tuning
from tdinfonce.training.offline import OfflineConfig
from tdinfonce.training.online import OnlineConfig

PACKAGE = Path(tdinfonce.__file__).parent
LONGEST_COMMAND = 100
LONGEST_FILE = 350


def imported(path: Path) -> set[str]:
    """Every dotted name of this package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("tdinfonce.")}


def test_nothing_private_is_imported_across_rooms() -> None:
    through_walls = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for name in imported(path):
            parts = name.split(".")[1:]
            if parts[0] != room and any(part.startswith("_") and not part.startswith("__") for part in parts):
                through_walls.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert not through_walls


def test_commands_are_thin_and_files_short() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not [str(path) for path, n in lines.items() if path.parent.name == "cli" and n > LONGEST_COMMAND]
    assert not [str(path) for path, n in lines.items() if n > LONGEST_FILE]


def test_lower_floors_do_not_speak_of_flags() -> None:
    """Errors name parameters; only the command line has options. (pip, gcc and Chrome have some of their own.)"""
    ours = {f"--{field.name.replace('_', '-')}" for kind in (OnlineConfig, OfflineConfig) for field in fields(kind)}
    ours |= {
        f"--{name}" for name in ("out", "env", "dataset", "goal", "test-goal", "seeds", "set", "overwrite", "resume")
    }
    spoken = []
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                text = ast.unparse(node)
                spoken += [f"{path.relative_to(PACKAGE)}: {text}" for flag in ours if f"{flag} " in f"{text} "]
    assert not spoken


def fields(kind: type) -> tuple[dataclasses.Field, ...]:  # type: ignore[type-arg]
    return dataclasses.fields(kind)


def test_every_key_of_the_tuning_is_a_setting() -> None:
    """A misspelt key would change nothing, silently."""
    for offline, training in ((False, OnlineConfig), (True, OfflineConfig)):
        for (env, preset, *agent), changes in tuning.tables(offline=offline).items():
            meant = agent or agents.names()
            known = {field.name for name in meant for field in fields(agents.load(name).Config)}
            known |= {field.name for field in fields(training)}
            assert set(changes) <= known, (env, preset, agent)
            assert env in envs.names(), env
            assert preset in ("fast", "paper", "release", "estimate"), preset


def test_every_fault_of_the_list_is_still_a_fault_of_the_sources() -> None:
    """The list of `tools/mutants.py` follows the sources: each text is there exactly once."""
    spec = importlib.util.spec_from_file_location("mutants", Path(__file__).parents[1] / "tools" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = tool
    spec.loader.exec_module(tool)
    texts = {mutant.file: (PACKAGE / mutant.file).read_text() for mutant in tool.mutants()}
    assert [m.name for m in tool.mutants() if m.applied(texts[m.file]) is None] == []
