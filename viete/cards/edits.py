"""A file of changes: equations that change a card, with the declarations that they need.

It is a Markdown page like a card: items ``- $A^{2,1} = 0$`` and, where needed, tables of Dimensions
and Parameters and a list of Functions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from viete.cards.declarations import Declarations
from viete.cards.reader import checked, text_of
from viete.cards.sections import EQUATION
from viete.document.markdown import read_markdown
from viete.errors import Text, VieteError
from viete.graph.card import CardData
from viete.notation.symbols import Scope


def read_edit(path: Path, card: CardData) -> tuple[CardData, list[Text]]:
    """The card with a file's declarations added, and the file's equations.

    Raises VieteError, with file and line, for a name that the card has, and for a file without an
    equation.
    """
    page = Declarations(read_markdown(checked(text_of(path), str(path)), str(path)), str(path))
    page.dimension_tables()
    page.shapes = Scope.of(d.symbol for d in (*card.dims, *page.dims))
    letters = {i.name for i in (*card.indices, *page.indices)} | card.loop_letters
    parameters, functions = page.parameters(letters), page.functions()
    new = [(d.name, d.text) for d in page.dims] + [(i.name, i.text) for i in page.indices]
    new += [(p.name, p.text) for p in parameters] + [(f.name, f.text) for f in functions]
    for name, text in new:
        if name in card.symbols or name in card.ranges or name in {f.name for f in card.functions}:
            raise text.error(f"{card.title} has a {name}; give this one another name")
    items = [b.text for b in (*page.items("forward"), *page.items("derived"))]
    items += [text for text, _ in page.loose if EQUATION.match(text.text)]
    if not items:
        raise VieteError(f"{path} has no equation, such as - $A^{{2,1}} = 0$")
    more = replace(
        card, dims=(*card.dims, *page.dims), indices=(*card.indices, *page.indices),
        parameters=(*card.parameters, *parameters), functions=(*card.functions, *functions),
    )  # fmt: skip
    return more, [page.split(text)[0] for text in sorted(items, key=lambda text: text.line)]


__all__ = ["read_edit"]
