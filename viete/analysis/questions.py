"""What a question may mean otherwise than it says: asked of a run as a formula of its own.

In a question a function's defaults stand, as in its definition, where the card may have scales and
shifts of its own; and a matrix on the left of a vector takes it for a column, where a card's
vectors are rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

from viete.analysis.shapes import Shapes
from viete.errors import VieteWarning
from viete.graph.card import CardData
from viete.library.functions import with_defaults
from viete.notation.printer import letters, show
from viete.notation.tree import Apply, Expr, Num, refs, walk


def warn_of_readings(card: CardData, shapes: Shapes, e: Expr) -> None:
    """A `VieteWarning` for each part of a question that the card would have written otherwise.

    Its place is where somebody outside asked.
    """
    for sentence in dict.fromkeys(readings(card, shapes, e)):
        frame, level = sys._getframe(), 1
        while frame.f_back and frame.f_globals.get("__name__", "").startswith("viete."):
            frame, level = frame.f_back, level + 1
        warnings.warn(sentence, VieteWarning, stacklevel=level)


def readings(card: CardData, shapes: Shapes, e: Expr) -> Iterator[str]:
    """The sentences."""
    for x in walk(e):
        if not isinstance(x, Apply):
            continue
        if x.op in card.function and (own := with_more(card, x)) is not None:
            function = card.function[x.op]
            rest = zip(function.arguments[len(x.args) :], with_defaults(x, card.function)[
                len(x.args) :], strict=True)  # fmt: skip
            taken = ", ".join(
                f"{letters(a.symbol.key, 'unicode')} = {show(value, 'unicode')}"
                for a, value in rest
            )
            yield (
                f"{show(x, 'unicode')} takes {taken}, as its definition does; the card has "
                f"{show(own, 'unicode')}: give those too if they are meant"
            )
        if x.op == "prod" and takes_column(card, shapes, x):
            other = show(Apply("prod", x.args[::-1]), "unicode")
            yield (
                f"{show(x, 'unicode')} takes {show(x.args[1], 'unicode')} for a column; the card's "
                f"vectors are rows: write {other} if what the matrix makes of it is meant"
            )


def with_more(card: CardData, x: Apply) -> Apply | None:
    """What the card applies of the same function, where ``x`` leaves arguments to their defaults.

    That to the same value, if there is one, else the last.
    """
    if len(x.args) == len(card.function[x.op].arguments):
        return None
    plain = with_defaults(x, card.function)[len(x.args) :]
    found = [
        y for equation in card.equations for y in walk(equation.right)
        if isinstance(y, Apply) and y.op == x.op
        and with_defaults(y, card.function)[len(x.args) :] != plain
    ]  # fmt: skip
    same = [y for y in found if x.args[0].keys & y.args[0].keys]
    return next(reversed(same or found), None)


def takes_column(card: CardData, shapes: Shapes, product: Apply) -> bool:
    """Whether a square matrix of weights stands on the left of a vector that is none."""
    matrix, vector = product.args
    if not of_weights(card, matrix) or of_weights(card, vector):
        return False
    env, _ = shapes.asking(product)
    sizes, other = (shapes.of(part, env).shape for part in product.args)
    return len(sizes) == 2 and len(other) == 1 and shapes.same_number(*sizes)


def of_weights(card: CardData, e: Expr) -> bool:
    """Whether a formula is made of weights alone, through derived names."""
    derived = {d.name: d.right for d in card.derived}
    names = [x for x in refs(e) if x.symbol.kind != "dim"]
    return not isinstance(e, Num) and all(
        x.symbol.kind == "parameter" or (x.key in derived and of_weights(card, derived[x.key]))
        for x in names
    )
