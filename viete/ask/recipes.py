"""Recipes: the questions that interpretability asks most often, read from recipes.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from viete.graph.card import CardData

SCRIPT = re.compile(r"([A-Za-z]\w*)\^\{([^{},]+),h('*)\}")


@dataclass(frozen=True)
class Recipe:
    """A question by its name; ``verb`` is 'ask' or 'expand', ``into`` how far the latter goes."""

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


def recipes_of(card: CardData) -> Iterator[Recipe]:
    """The recipes with the letters that a card has for its heads."""
    slots = {s.base + "".join(f"_{x.text}" for x in s.sub if not x.index): card.heads_of(s)
             for s in card.symbols.values()}  # fmt: skip

    def own(m: re.Match[str]) -> str:
        letters = slots.get(m[1], ())
        said = ",".join(f"{x}{m[3]}" for x in letters) or f"h{m[3]}"
        return f"{m[1]}^{{{m[2]},{said}}}"

    for recipe in recipes():
        yield replace(recipe, question=SCRIPT.sub(own, recipe.question))


__all__ = ["Recipe", "recipes", "recipes_of"]
