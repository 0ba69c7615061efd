"""Recipes: the questions that interpretability asks most often, read from recipes.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Recipe:
    """A named question; ``verb`` is 'ask' or 'expand', ``into`` how far the latter goes."""

    name: str
    verb: str
    question: str
    into: str
    meaning: str


@cache
def recipes() -> tuple[Recipe, ...]:
    """The recipes in the order of the page."""
    page = resources.files("viete.ask").joinpath("recipes.md").read_text("utf-8")
    rows = [line.strip().strip("|") for line in page.splitlines() if line.startswith("|")]
    cells = ([cell.strip().strip("`") for cell in row.split("|")] for row in rows[2:])
    return tuple(Recipe(*(c.strip() for c in row)) for row in cells)


__all__ = ["Recipe", "recipes"]
