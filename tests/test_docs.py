"""Every Python block of the README and of the docs runs, page by page, in an empty folder."""

import doctest
import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n\n?)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]+)(?:#[^)]*)?\)")
TEXTS = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in TEXTS if "```python" in page.read_text(encoding="utf-8")]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
        line = text[: block.start("code")].count("\n")
        if block["reason"]:
            compile(block["code"], name(page), "exec")
        elif block["code"].startswith(">>>"):
            failures: list[str] = []
            example = doctest.DocTestParser().get_doctest(block["code"], names, name(page), name(page), line)
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=failures.append, clear_globs=False)
            assert not failures, "".join(failures)
            names = example.globs
        else:
            exec(compile("\n" * line + block["code"], name(page), "exec"), names)


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    found = LINK.finditer(page.read_text(encoding="utf-8"))
    missing = [link["path"] for link in found if not (page.parent / link["path"]).exists()]
    assert not missing
