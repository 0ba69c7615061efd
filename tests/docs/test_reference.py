"""The Python reference: what it names is there, public and documented; examples are code."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.hooks import hook

DOCS = Path(__file__).parents[2] / "docs"
NOUNS = ("card", "model", "run")


MODULES = hook("modules").modules()
ENTRIES = [
    entry for page in NOUNS
    for entry in re.findall(
        r"^::: (\S+)$", (DOCS / f"reference/python/{page}.md").read_text("utf-8"), re.M
    )
]  # fmt: skip


@pytest.mark.parametrize("entry", MODULES, ids=lambda entry: entry.name)
def test_a_module_of_the_index_is_public_and_documented(entry: tuple[str, list[str], str]) -> None:
    name, members, purpose = entry
    module = import_module(name)
    assert module.__doc__ and purpose
    for member in members:
        assert getattr(module, member).__doc__, member
        assert member in getattr(module, "__all__", [member]), member


def test_the_index_has_a_row_for_each_link_to_a_module() -> None:
    links = re.findall(r"\]\((viete\.[\w.]+)\.md\)", hook("modules").INDEX.read_text("utf-8"))
    assert set(links) == {module.name for module in MODULES}
    assert len(MODULES) == len({module.name for module in MODULES}) > 50


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_method_of_the_nouns_is_there_and_documented(entry: str) -> None:
    room, _, rest = entry.removeprefix("viete.nouns.").partition(".")
    found = reduce(getattr, rest.split("."), import_module(f"viete.nouns.{room}"))
    assert getattr(found, "__doc__", None)


def test_the_nouns_have_what_the_package_offers() -> None:
    import viete

    offered = set(viete.__all__) - {"VieteError", "__version__", "Card"}
    assert {entry.rpartition(".")[2] for entry in ENTRIES} >= offered


def test_an_example_of_a_docstring_becomes_a_block_of_code() -> None:
    fenced = hook("docstrings").fenced
    text = "What it does.\n\n>>> a = f(1)          # doctest: +SKIP\n>>> a\n2\n\nMore.\n"
    assert fenced(text) == "What it does.\n\n```pycon\n>>> a = f(1)\n>>> a\n2\n```\n\nMore.\n\n"
