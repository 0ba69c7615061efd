"""The tables of settings in docs/guides/training.md are what the settings say of themselves."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby
from pathlib import Path

from viete.train.settings import Settings, option


def tables() -> str:
    """A table for each group of the options of ``viete train``, under the group's heading."""
    out = []
    described = (x for x in fields(Settings) if "words" in x.metadata)
    for panel, options in groupby(described, lambda x: x.metadata["panel"]):
        out += [f"### {panel}", "", "| option | |", "| --- | --- |"]
        for field in options:
            words = field.metadata["words"].replace("<", "&lt;").replace("|", "\\|")
            out.append(f"| `{option(field.name)}` | {words} |")
        out.append("")
    return "\n".join(out).strip()


def test_the_tables_of_settings_are_theirs() -> None:
    assert tables() in Path("docs/guides/training.md").read_text("utf-8")
