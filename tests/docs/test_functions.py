"""The page of named functions has each of them, and an example of each."""

from __future__ import annotations

from tests.docs.hooks import hook
from viete.library.functions import library


def test_every_function_has_an_entry_with_an_example() -> None:
    entries = [part for part in hook("functions").listing() if part.startswith("### ")]
    assert [part.split()[1] for part in entries] == list(library())
    assert all("```text" in part and "shapes: " in part for part in entries)
