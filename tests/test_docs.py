"""README and docs are true: their Python runs, their commands parse, their links, paths and names lead somewhere."""

import doctest
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import tdinfonce as td
from tdinfonce import agents, envs, experiments
from tdinfonce.cli import command_names, main
from tdinfonce.settings import words

ROOT = Path(__file__).parents[1]
TEXTS = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n\n?)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(?P<code>[^`]+)`")
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<heading>[^)]*))?\)")
IN_THE_REPO = re.compile(r"(?:src|tests|docs|examples|tools|results)/[\w./-]+")
DOTTED = re.compile(r"tdinfonce(?:\.\w+)+")
PAGES = [page for page in TEXTS if "```python" in page.read_text(encoding="utf-8")]

LONGEST = {"env_steps": 1_000, "updates": 200, "seeds": 1}
"""Blocks say how long a reader should train; here they train no longer than this."""
PLACEHOLDERS = {
    "NAME": "tabular-occupancy",
    "S": "0",
    "A": "gcbc",
    "E": "point",
    "AGENT": "gcbc",
    "ENV": "point",
    "LOW": "0",
    "HIGH": "5",
    "…": "runs/some",
}
"""What stands for anything in a command."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shorter(code: str) -> str:
    """The code with step counts and seeds of at most LONGEST."""
    return re.sub(r"\b(env_steps|updates|seeds)=(\d[\d_]*)", lambda m: f"{m[1]}={min(int(m[2]), LONGEST[m[1]])}", code)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page share their names, as a reader who pastes one after the other has them."""
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    Path("results").symlink_to(ROOT / "results")
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python"), "a block that is indented would not be run"
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        line, code = text[: block.start("code")].count("\n"), shorter(block["code"])
        if block["reason"]:
            compile(code, name(page), "exec")
        elif code.startswith(">>>"):
            failures: list[str] = []
            example = doctest.DocTestParser().get_doctest(code, names, name(page), name(page), line)
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=failures.append, clear_globs=False)
            assert not failures, "".join(failures)
            names = example.globs
        else:
            exec(compile("\n" * line + code, name(page), "exec"), names)


def commands(text: str) -> Iterator[str]:
    """The command lines of a page: in blocks without a language, and in running text."""
    for fence in FENCE.finditer(text):
        if not fence["language"]:
            yield from (line for line in fence["text"].splitlines() if line.startswith("tdinfonce "))
    for inline in INLINE.finditer(FENCE.sub("", text)):
        code = " ".join(inline["code"].split())
        if code.startswith("tdinfonce "):
            yield code


def parse(given: list[str]) -> Any:
    """The command that the command line would run, without running it."""
    module = importlib.import_module(f"tdinfonce.cli.{command_names()[given[0]]}")
    seen: list[Any] = []

    def run(self: Any) -> int:
        seen.append(self)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Command, "run", run)
        assert main(given) == 0, f"{' '.join(given)} cannot be parsed"
    return seen[0]


def check_command(line: str) -> None:
    """Raise UserError or AssertionError unless the command line can be meant."""
    command, *given = (PLACEHOLDERS.get(word, word) for word in shlex.split(line, comments=True))
    assert command == "tdinfonce"
    if not given or given == ["--help"]:
        return
    assert given[0] in command_names(), f"{line}: there is no such command"
    if given[1:] in ([], ["make"], ["inspect"], ["list"]):  # the command is spoken of, not called
        return
    parsed = parse(given)
    if given[0] == "reproduce" and parsed.name:
        assert parsed.name in experiments.names(), f"{line}: there is no such experiment"
    if given[0] == "list" and parsed.settings:
        agents.load(parsed.settings)
    for agent in getattr(parsed, "agents", None) or filter(None, [getattr(parsed, "agent", None)]):
        agents.load(agent)
    world = getattr(parsed, "env", None)
    if world and ":" not in world:
        envs.resolve(world)
    if getattr(parsed, "set", None):
        wanted = {"data": "data.npz"} if parsed.dataset else {"env": world or "fetch-reach"}
        agent = parsed.agents[0] if given[0] == "compare" else parsed.agent
        td.plan(**wanted, agent=agent, **words(parsed.set))


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_the_commands_of_a_page_parse(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        try:
            check_command(line)
        except td.UserError as error:
            pytest.fail(f"{line}: {error}")


def test_there_are_commands_to_check() -> None:
    found = {line for page in TEXTS for line in commands(page.read_text(encoding="utf-8"))}
    assert {line.split()[1] for line in found} >= set(command_names())
    assert len(found) > 60


@pytest.mark.parametrize(
    "line",
    [
        "tdinfonce tarin --env point",
        "tdinfonce train --environment point",
        "tdinfonce train --env ponit",
        "tdinfonce train --env point --seeds 1 2",
        "tdinfonce train --env point --set discont=0.9",
        "tdinfonce train --env point --set discount=9",
        "tdinfonce train --agent td-infonse",
        "tdinfonce compare --env point --agents gcbc nobody",
        "tdinfonce reproduce fetch-states",
        "tdinfonce list --settings nobody",
    ],
)
def test_a_command_that_lies_is_found(line: str) -> None:
    with pytest.raises((td.UserError, AssertionError)):
        check_command(line)


def headings(page: Path) -> set[str]:
    """The anchors of a page as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*TEXTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_paths_and_names_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in LINK.finditer(text):
        target = page.parent / link["path"] if link["path"] else page
        assert target.exists(), link[0]
        assert not link["heading"] or link["heading"] in headings(target), link[0]
    prose = FENCE.sub("", text)
    for inline in INLINE.finditer(prose):
        code = inline["code"].split("::")[0]
        if IN_THE_REPO.fullmatch(code):
            assert (ROOT / code).exists(), code
        if DOTTED.fullmatch(code):
            assert resolves(code), code


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_page_of_the_docs_is_linked() -> None:
    linked = {
        (page.parent / link["path"]).resolve() for page in TEXTS for link in LINK.finditer(page.read_text("utf-8"))
    }
    assert set(TEXTS[3:]) <= linked


def test_every_public_name_is_in_the_docs() -> None:
    said = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    missing = [public for public in td.__all__ if f"td.{public}" not in said]
    assert not missing


def test_the_first_picture_moves_and_is_light() -> None:
    from PIL import Image

    page = (ROOT / "README.md").read_text(encoding="utf-8")
    path = ROOT / re.search(r"!\[[^\]]*\]\(([^)]+)\)", page)[1]  # type: ignore[index]
    assert path.stat().st_size < 1_000_000
    with Image.open(path) as film:
        assert film.n_frames > 20


def test_load_runs_no_foreign_code_and_evaluate_warns_before_it_does(tmp_path: Path) -> None:
    """As SECURITY.md says."""
    (tmp_path / "foreign_world.py").write_text("raise RuntimeError('foreign code ran')\n", encoding="utf-8")
    run = td.train(env="point", agent="gcbc", env_steps=600, out=tmp_path / "run")
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    config |= {"env": "foreign_world:World", "env_path": str(tmp_path)}
    (run.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert td.load(run.folder).act([0.0, 0.0], [0.5, 0.5]).shape == (2,)
    with (
        pytest.warns(RuntimeWarning, match="which runs the code there"),
        pytest.raises(td.UserError, match="foreign code ran"),
    ):
        td.evaluate(run.folder, episodes=1)
