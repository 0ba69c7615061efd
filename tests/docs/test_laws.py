"""The page of the laws names every test of a law, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/\S+\.py)`", (ROOT / "docs/reference/laws.md").read_text("utf-8"))


def test_every_test_that_it_names_exists() -> None:
    assert [path for path in NAMED if not (ROOT / path).exists()] == []


def test_it_names_every_test_of_a_law_once() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/laws").glob("test_*.py")]
    assert set(there) <= set(NAMED)
    assert len(NAMED) == len(set(NAMED))
