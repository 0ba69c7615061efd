"""The table of settings in docs/guides/training.md is what the settings say of themselves."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from viete.train.settings import Settings, option


def table() -> str:
    """A row for each option of ``viete train``, with its heading where that begins."""
    rows, before = ["| | option | |", "| --- | --- | --- |"], ""
    for field in fields(Settings):
        if "words" in field.metadata:
            panel = field.metadata["panel"]
            begins, before = panel if panel != before else "", panel
            words = field.metadata["words"].replace("<", "&lt;").replace("|", "\\|")
            rows.append(f"| {begins} | `{option(field.name)}` | {words} |")
    return "\n".join(rows)


def test_the_table_of_settings_is_theirs() -> None:
    assert table() in Path("docs/guides/training.md").read_text("utf-8")
