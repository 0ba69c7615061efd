"""A document without equations: the error says which shipped card it describes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import viete as vt
from tests.command_line import viete
from viete.cards.catalogue import shipped
from viete.cards.described import nearest

REFERENCES = Path(__file__).parents[3] / "shared" / "references"
DESCRIBES = {
    "simple-transformer.md": "simple-transformer",
    "dialog-transformer.md": "dialog-transformer",
    "exact-lesson.txt": "exact-lesson",
    "notation.md": "pre-norm-pythia",
}


@pytest.mark.skipif(not REFERENCES.exists(), reason="the reference documents are not here")
@pytest.mark.parametrize("name", DESCRIBES)
def test_a_reference_document_names_its_card(name: str) -> None:
    with pytest.raises(vt.VieteError, match=f"viete show {DESCRIBES[name]}"):
        vt.read(REFERENCES / name)


def test_prose_about_a_family_names_it() -> None:
    for card, path in shipped().items():
        parameters = path.read_text("utf-8").partition("## Parameters")[2].partition("\n## ")[0]
        if "checkpoint" in parameters and parameters.count("transformer.h.") > 8:
            assert nearest(f"# A note\n\nIt opens {parameters}"), card


@pytest.mark.parametrize("text", ["", "# Groceries\n\n- 12 eggs\n- 1 bread_roll\n", "x" * 999])
def test_other_prose_names_none(text: str) -> None:
    assert nearest(text) == ""


def test_what_the_terminal_shows_says_how_to_write_a_card(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    (tmp_path / "g.txt").write_text(viete("show", "gpt2").out, "utf-8")
    assert "write it by viete show gpt2 -f md" in " ".join(refused("show", "g.txt").split())
