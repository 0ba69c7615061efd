"""Examples of docstrings as code: for griffe, which reads the docstrings of the Python pages."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\S.*(?:\n|\Z))*", re.M)
SKIPPED = re.compile(r"\s*# doctest: \+SKIP$|^\s*\.\.\.\s*# doctest: \+SKIP\n", re.M)


class Examples(griffe.Extension):
    """Puts the ``>>>`` lines of every docstring, and what they print, into a block of code."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """The docstrings of a package, once it is read."""
        examples_in(pkg)


def examples_in(thing: griffe.Object | griffe.Alias) -> None:
    """The docstrings of a module or class, and of what is in it."""
    if thing.is_alias:
        return
    if thing.docstring:
        thing.docstring.value = fenced(thing.docstring.value)
    for member in thing.members.values():
        examples_in(member)


def fenced(text: str) -> str:
    """A docstring with its examples in blocks of code."""
    return EXAMPLE.sub(lambda m: f"{m[1]}```pycon\n{SKIPPED.sub('', m[0])}{m[1]}```\n", f"{text}\n")
