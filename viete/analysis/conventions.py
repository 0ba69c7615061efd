"""Conventions: how a question is read where the reader writes differently from the card.

A norm written without its parameters is one of the card's norms. A weight matrix to the left of a
vector is the card's map, whose vectors are rows, unless the card itself writes columns. A row of
the value that attention reads is that row in its context. ``θ`` with two vectors below it is the
angle between them; the card's own θ is one number. Each reading is reported to the user. Where
several norms fit, the question is refused and names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from viete.analysis.norms import Norms
from viete.analysis.shapes import Shapes
from viete.analysis.types import Mismatch
from viete.analysis.value_names import check_groups
from viete.analysis.weight_formulas import of_weights
from viete.errors import Text, VieteError
from viete.graph.card import CardData, memoised
from viete.library.functions import with_defaults
from viete.notation.printer import letters, show
from viete.notation.tree import CALL, Apply, Expr, Idx, Pick, Ref, rebuilt, transform, walk

THETA = "theta"
THROUGH = frozenset("add sub neg times div had T".split())  # of what a linear map still is one


@dataclass(frozen=True)
class Convention:
    """How part of a question was read: ``written`` as ``meant``, and a sentence about it.

    ``chosen``: the part as written has another value, which may have been meant.
    """

    written: Expr
    meant: Expr
    sentence: str
    chosen: bool = False


def understood(
    card: CardData, shapes: Shapes, source: Text, e: Expr
) -> tuple[Expr, tuple[Convention, ...]]:  # fmt: skip
    """A question as the card would write it, and the conventions used to read it.

    Raises VieteError, at its place, for a norm that could be several of the card's, and for a group
    of heads that there is not.
    """
    check_groups(card, e, source)
    if not any(isinstance(x, Apply | Pick) for x in walk(e)):
        return e, ()
    reading = QuestionReading(card, shapes, source)
    found = reading.of(e)
    return found, tuple(dict.fromkeys(reading.conventions))


class QuestionReading:
    """The reading of one question."""

    def __init__(self, card: CardData, shapes: Shapes, source: Text) -> None:
        self.card, self.shapes, self.source = card, shapes, source
        self.norms = Norms(card)
        self.conventions: list[Convention] = []

    def of(self, e: Expr, scored: bool = False, reader: Expr | None = None) -> Expr:
        """The meaning of a part; ``scored``: an unembedding is applied to it.

        ``reader`` is the function of the card whose argument it is.
        """
        if erased(e) in own_parts(self.card):  # as the card has it, and so it means that
            return e
        reads = e.children[0] if isinstance(e, Apply) and e.op == CALL else None
        parts = [self.of(x, part, reads) for x, part in zip(e.children, self.scores(e, scored),
                                                            strict=True)]  # fmt: skip
        new = rebuilt(e, parts)
        match new:
            case Apply(op, (_,)) if self.norms.is_norm(new):
                return self.norm(new, scored, e, reader)
            case Apply("prod"):
                return self.product(new)
            case Apply(op, (f, Pick(value, (place,)))) if op == CALL:
                return self.row(new, Apply(CALL, (f, value)), place)
            case Pick(Ref() as theta, (a, b)) if theta.key == THETA and self.shape(theta) == ():
                return self.angle(new, a, b)
            case Apply(op) if op in self.card.function:
                self.conventions += self.defaults(new)
        return new

    def scores(self, e: Expr, scored: bool) -> Iterator[bool]:
        """For each part of a formula, whether an unembedding is applied to it."""
        match e:
            case Apply("inner" | "prod", (a, b)):
                yield scored or self.norms.unembeds(b)
                yield scored or self.norms.unembeds(a)
            case Apply(op) if op in THROUGH:
                yield from (scored for _ in e.children)
            case Apply(op, (f, *_)) if op == CALL:
                yield from (self.norms.scores(f) for _ in e.children)
            case Pick():
                yield from (scored and k == 0 for k in range(len(e.children)))
            case _:
                yield from (False for _ in e.children)

    # -- norms -------------------------------------------------------------------------------------

    def norm(self, x: Apply, scored: bool, written: Expr, reader: Expr | None) -> Expr:
        """A norm without its parameters: that of its reader, else the only one that fits."""
        found = self.norms.of(x, scored)
        if reader is not None and (own := self.norms.of_reader(reader, x.args[0])) is not None:
            found = own, f"the norm before {show(reader, 'unicode')}"
        if not isinstance(found, list):
            bare = show(self.norms.bare(x), "unicode")
            meant, what = found
            shown = show(meant, "unicode")
            self.conventions.append(Convention(
                written, meant, f"{show(x, 'unicode')} means {shown}, {what}; without its "
                f"parameters the norm is {bare}",
            ))  # fmt: skip
            return meant
        ways = [show(y) for y in (*found, self.norms.bare(x))]
        raise self.source.error(
            f"{show(x)} could be several norms: write {', '.join(ways[:-1])}, or {ways[-1]} for "
            f"the norm without parameters", *self.source.place(written),
        )  # fmt: skip

    # -- rows and columns --------------------------------------------------------------------------

    def product(self, e: Apply) -> Expr:
        """Weights on the left of a vector, as the map that they are in the card."""
        *matrices, v = factors(e)
        shape = self.shape(v)
        if shape is None or not all(self.is_map(m) for m in matrices):
            return e
        if len(shape) == 1 and self.shape(e) is not None and self.columns():
            return e
        if len(shape) == 2 and (of_weights(self.card, v) or self.shape(e) is not None):
            return e
        turned = [Apply("T", (m,)) for m in reversed(matrices)]
        for maps in (matrices[::-1], turned if len(shape) == 2 else []):
            rows = reduce(lambda a, m: Apply("prod", (a, m)), maps, v)
            if rows is not v and self.shape(rows) is not None:
                other = Apply("prod", (v, Apply("T", (matrices[-1],))))
                both = self.shape(e) is not None
                more = f"; the product with its transpose is {show(other, 'unicode')}" if (
                    both and len(matrices) == 1) else ""  # fmt: skip
                self.conventions.append(Convention(
                    e, rows, f"{show(e, 'unicode')} means {show(rows, 'unicode')}: the card's "
                    f"vectors are rows, and its weights map them{more}", both,
                ))  # fmt: skip
                return rows
        return e

    def columns(self) -> bool:
        """Whether the card itself has a matrix of weights on the left of a vector."""
        found = (factors(x) for e in (*self.card.equations, *self.card.derived)
                 for x in walk(e.right) if isinstance(x, Apply) and x.op == "prod")  # fmt: skip
        return any(len(self.shape(v) or ()) == 1 and all(map(self.is_map, matrices))
                   for *matrices, v in found)  # fmt: skip

    def is_map(self, m: Expr) -> bool:
        """Whether a formula is a matrix of weights."""
        shape = self.shape(m)
        return shape is not None and len(shape) == 2 and of_weights(self.card, m)

    def row(self, call: Apply, whole: Apply, place: Expr) -> Expr:
        """The row of a function that needs all rows: that row of its value on all of them."""
        if self.shape(call) is not None or self.shape(whole) is None:
            return call
        meant = Pick(whole, (place,))
        if self.shape(meant) is None:
            return call
        self.conventions.append(Convention(
            call, meant, f"{show(call, 'unicode')} means {show(meant, 'unicode')}, the row in its "
            f"context: attention reads all positions",
        ))  # fmt: skip
        return meant

    def shape(self, e: Expr) -> tuple[object, ...] | None:
        """The shape of a formula; None where its parts do not fit."""
        try:
            return self.shapes.of(e, self.shapes.asking(e)[0]).shape
        except (Mismatch, VieteError):
            return None

    # -- angles ------------------------------------------------------------------------------------

    def angle(self, written: Pick, a: Expr, b: Expr) -> Expr:
        """The angle between two vectors, for an index of two vectors on a single number."""
        meant = self.card.library("angle", a, b)
        own, *vectors = (show(x, "unicode") for x in (written.value, a, b))
        self.conventions.append(Convention(
            written, meant, f"{own}_{{{', '.join(vectors)}}} means {show(meant, 'unicode')}, the "
            f"angle between two vectors; {own} alone is a number of the card",
        ))  # fmt: skip
        return meant

    # -- other functions ---------------------------------------------------------------------------

    def defaults(self, x: Apply) -> Iterator[Convention]:
        """Notes that a function's defaults are used, where the card gives it other arguments."""
        if self.card.library_name(x) in Norms.NAMES or (own := with_more(self.card, x)) is None:
            return
        rest = zip(self.card.function[x.op].arguments[len(x.args) :],
                   with_defaults(x, self.card.function)[len(x.args) :], strict=True)  # fmt: skip
        taken = ", ".join(
            f"{letters(a.symbol.key, 'unicode')} = {show(value, 'unicode')}" for a, value in rest
        )
        yield Convention(
            x, x, f"{show(x, 'unicode')} takes {taken}, as its definition does; the card has "
            f"{show(own, 'unicode')}: give those too if they are meant", True,
        )  # fmt: skip


def factors(e: Expr) -> list[Expr]:
    """The factors of a product, from the left."""
    if isinstance(e, Apply) and e.op == "prod":
        return [*factors(e.args[0]), e.args[1]]
    return [e]


@memoised
def own_parts(card: CardData) -> frozenset[Expr]:
    """The norms and calls in a card's equations, whatever their indices are."""
    every = (x for e in (*card.equations, *card.derived) for x in walk(e.right))
    return frozenset(erased(x) for x in every if isinstance(x, Apply) and x.op in card.function)


def erased(e: Expr) -> Expr:
    """A formula with the index letters of its names as these have them in general."""
    return transform(e, lambda x: Ref(x.symbol, tuple(map(Idx, x.symbol.slots)))
                     if isinstance(x, Ref) else None)  # fmt: skip


def with_more(card: CardData, x: Apply) -> Apply | None:
    """The card's call of the same function, where ``x`` leaves arguments to their defaults.

    The call on the same value, if one exists, else the last.
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


__all__ = ["Convention", "understood"]
