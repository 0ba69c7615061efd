"""docs/reference/card-forms.md lists the headings and columns that the reader knows."""

from __future__ import annotations

import re
from pathlib import Path

from viete.cards.sections import COLUMNS, SECTIONS

PAGE = (Path(__file__).parents[2] / "docs/reference/card-forms.md").read_text("utf-8")


def table(title: str) -> list[tuple[str, ...]]:
    """The names in the second cell of each row of a section's table."""
    part = re.split(r"^## ", PAGE, flags=re.M)
    (section,) = (x for x in part if x.startswith(title))
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", section, re.M)[1:]
    return [tuple(x.strip().lower() for x in row.split(",")) for row in rows[1:]]


def test_headings_and_columns() -> None:
    assert table("Headings") == list(SECTIONS.values())
    assert table("Columns") == list(COLUMNS.values())
