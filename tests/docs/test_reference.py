"""The reference: what it names is there, public and documented."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/reference/python.md").read_text("utf-8")
ENTRIES = re.findall(r"^::: (\S+)$(?:\n    options:\n      members: \[(.*)\])?", PAGE, re.M)


@pytest.mark.parametrize(("name", "members"), ENTRIES, ids=[name for name, _ in ENTRIES])
def test_what_it_names_is_public_and_documented(name: str, members: str) -> None:
    module = import_module(name)
    assert module.__doc__
    for member in filter(None, members.split(", ")):
        assert getattr(module, member).__doc__, member
        assert member in getattr(module, "__all__", [member]), member


def test_it_names_what_the_package_offers() -> None:
    import viete

    named = {
        m
        for name, members in ENTRIES
        if name.startswith("viete.nouns")
        for m in members.split(", ")
    }
    assert named >= set(viete.__all__) - {"VieteError", "__version__"}
