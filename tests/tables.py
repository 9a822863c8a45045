"""Tables in Markdown, read back as numbers."""

import re
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.-])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def cells(text: str) -> list[list[list[str]]]:
    """Every table of a text: its rows without the heading, and their cells."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif not inside:  # the heading
            inside = True
            tables.append([])
        elif set(line) - set("|-: "):
            tables[-1].append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return tables


def numbers(text: str) -> list[list[list[list[float]]]]:
    """The numbers in each cell of each row of each table, as they are written."""
    return [[[_numbers(cell) for cell in row] for row in table] for table in cells(text)]


def _numbers(cell: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(cell)]


def assert_same_numbers(found: Path, stored: Path) -> None:
    """Both have the same tables: the same rows by their first cells, and in each cell the same numbers, digit by
    digit.
    """
    ours, theirs = (path.read_text(encoding="utf-8") for path in (found, stored))
    assert any(number for table in numbers(theirs) for row in table for number in row)
    assert numbers(ours) == numbers(theirs)
    assert [[row[0] for row in table] for table in cells(ours)] == [
        [row[0] for row in table] for table in cells(theirs)
    ]
