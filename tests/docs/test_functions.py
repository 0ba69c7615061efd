"""The page of named functions has each of them, and an example of each."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from viete.library.functions import library

HOOK = Path(__file__).parents[2] / "docs/.hooks/functions.py"


def test_every_function_has_an_entry_with_an_example() -> None:
    spec = spec_from_file_location("functions", HOOK)
    assert spec is not None and spec.loader is not None
    page = module_from_spec(spec)
    spec.loader.exec_module(page)
    entries = [part for part in page.listing() if part.startswith("### ")]
    assert [part.split()[1] for part in entries] == list(library())
    assert all("```text" in part and "shapes: " in part for part in entries)
