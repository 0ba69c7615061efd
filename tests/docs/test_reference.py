"""The Python reference: what it names is there, public and documented; examples are code."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

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


def test_the_modules_of_the_index_are_public_and_documented() -> None:
    found = [(import_module(name), members, purpose) for name, members, purpose in MODULES]
    assert not [m.__name__ for m, _, purpose in found if not (m.__doc__ and purpose)]
    assert not [
        f"{module.__name__}.{x}" for module, members, _ in found for x in members
        if not getattr(module, x).__doc__ or x not in getattr(module, "__all__", [x])
    ]  # fmt: skip


def test_the_index_has_a_row_for_each_link_to_a_module() -> None:
    links = re.findall(r"\]\((viete\.[\w.]+)\.md\)", hook("modules").INDEX.read_text("utf-8"))
    assert set(links) == {module.name for module in MODULES}
    assert len(MODULES) == len({module.name for module in MODULES}) > 50


def test_the_methods_of_the_nouns_are_there_and_documented() -> None:
    def found(entry: str) -> object:
        room, _, rest = entry.removeprefix("viete.nouns.").partition(".")
        return reduce(getattr, rest.split("."), import_module(f"viete.nouns.{room}"))

    assert not [entry for entry in ENTRIES if not getattr(found(entry), "__doc__", None)]


def test_the_nouns_have_what_the_package_offers() -> None:
    import viete

    offered = set(viete.__all__) - {"VieteError", "__version__", "Card"}
    assert {entry.rpartition(".")[2] for entry in ENTRIES} >= offered


def test_an_example_of_a_docstring_becomes_a_block_of_code() -> None:
    fenced = hook("docstrings").fenced
    text = "What it does.\n\n>>> a = f(1)          # doctest: +SKIP\n>>> a\n2\n\nMore.\n"
    assert fenced(text) == "What it does.\n\n```pycon\n>>> a = f(1)\n>>> a\n2\n```\n\nMore.\n\n"
