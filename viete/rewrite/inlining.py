"""Inlining: removes names that are only definitions, by putting each in where it occurs.

``b_Q = 0`` turns ``u W_Q + b_Q`` into ``u W_Q``, ``W_U = {W_E}^⊤`` ties two matrices, ``d_w = d``
makes two widths one, and ``φ(z) = ReLU(z)`` makes every φ a ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viete.errors import Text
from viete.graph.card import CardData, Equation
from viete.graph.dependence import backward_slice, reachable
from viete.library.functions import Function, inlined
from viete.notation.tree import Apply, Expr, Idx, Ref, transform, walk
from viete.rewrite.simplify import simplified


def with_definitions(
    card: CardData, values: Sequence[Equation], functions: Sequence[Function],
    optional: Collection[str] = (),
) -> CardData:  # fmt: skip
    """The model without the names that ``values`` and ``functions`` define.

    A definition may use another, in any order. Its left side has plain index letters
    (``b_Q^{i,h}``). Names in ``optional`` that become unused are left out: parameters, dimensions,
    functions, and equations with the derived names and claims about them. Raises VieteError for
    definitions that lead back to themselves.
    """
    puts = Puts(card, {e.name: e for e in values}, {f.name: f for f in functions})
    out = replace(
        card.with_formulas(puts.into),
        parameters=tuple(
            replace(p, shape=tuple(map(puts.into, p.shape)))
            for p in card.parameters if p.name not in puts.values
        ),
        dims=tuple(d for d in card.dims if d.name not in puts.values),
    )  # fmt: skip
    return without_unused(without_unread(out, optional), optional)


class Puts:
    """The definition of each defined name."""

    def __init__(
        self, card: CardData, values: Mapping[str, Equation], functions: Mapping[str, Function]
    ) -> None:
        self.model, self.values, self.functions = card, values, functions
        self.open: list[str] = []

    def into(self, e: Expr) -> Expr:
        """A formula with every definition put in, simplified where one was."""
        new = transform(e, self.rule)
        if new == e:
            return e
        return self.model.apart(simplified(new))

    def rule(self, x: Expr) -> Expr | None:
        if isinstance(x, Ref) and x.key in self.values:
            definition = self.values[x.key]
            e = self.meanwhile(x.key, definition.right, definition.text)
            at = dict(zip(letters(definition), x.index, strict=True))
            return self.model.substitute(e, letters=at)
        if isinstance(x, Apply) and x.op in self.functions:
            # The arguments first: a name in the definition may be one of its arguments or sizes.
            body = inlined(x, self.functions, taken=self.model.names)
            return self.meanwhile(x.op, body, self.functions[x.op].text)
        return None

    def meanwhile(self, name: str, e: Expr, text: Text) -> Expr:
        """A definition with the others put in. Raises VieteError if it contains itself."""
        if name in self.open:
            raise text.error(f"{' and '.join(self.open)} define each other")
        self.open.append(name)
        e = transform(e, self.rule)
        self.open.pop()
        return e


def letters(definition: Equation) -> list[str]:
    """The index letters of a definition's left side."""
    return [x.name for x in definition.left.index if isinstance(x, Idx)]


def without_unread(card: CardData, optional: Collection[str]) -> CardData:
    """The card without the equations in ``optional`` that no other reads, and all about them."""
    roots = [e.name for e in card.equations if e.name not in optional]
    equations = tuple(backward_slice(card, roots))
    gone = {e.name for e in card.equations} - {e.name for e in equations}
    for e in card.derived:
        gone |= {e.name} if e.reads & gone else set()
    return replace(
        card,
        equations=equations,
        derived=tuple(e for e in card.derived if e.name not in gone),
        operators=tuple(o for o in card.operators if not o.definition.keys & gone),
        claims=tuple(c for c in card.claims if not c.keys & gone),
    )


def without_unused(card: CardData, optional: Collection[str]) -> CardData:
    """The card without the unused parameters, dimensions and functions in ``optional``."""

    def declaring(left: Callable[[str], bool]) -> dict[str, Any]:
        return {
            "parameters": tuple(p for p in card.parameters if left(p.name)),
            "dims": tuple(d for d in card.dims if left(d.name)),
            "indices": tuple(i for i in card.indices if left(i.name)),
            "functions": tuple(f for f in card.functions if left(f.name)),
        }

    def uses(name: str) -> set[str]:
        return names_used(CardData("", **declaring(name.__eq__))) if name in optional else set()

    first = names_used(replace(card, **declaring(lambda name: name not in optional)))
    used = reachable(first, uses)
    return replace(card, **declaring(lambda name: name not in optional or name in used))


def names_used(card: CardData) -> set[str]:
    """Every name in a formula of the card, and in the shapes of its parts."""
    formulas = [*card.formulas, *(f.body for f in card.functions)]
    formulas += [s for p in card.parameters for s in p.shape]
    formulas += [s for i in card.inputs for s in (*i.shape, i.low, i.high) if s is not None]
    formulas += [e for d in card.dims for e in (d.value, d.at_most) if e is not None]
    formulas += [e for i in card.indices for e in (i.lower, i.upper)]
    formulas += [e for loop in card.loops for e in (loop.lower, loop.upper)]
    lefts = [e.left.symbol for e in (*card.equations, *card.derived)]
    lefts += [o.symbol for o in card.operators]
    symbols = [*lefts, *(p.symbol for p in card.parameters)]
    return names_in(formulas) | {s for symbol in symbols for s in symbol.slots}


def names_in(formulas: Iterable[Expr]) -> set[str]:
    """The values, dimensions, index letters and functions in some formulas."""
    found = [x for e in formulas for x in walk(e)]
    out = {x.key for x in found if isinstance(x, Ref)}
    out |= {x.name for x in found if isinstance(x, Idx)}
    return out | {x.op for x in found if isinstance(x, Apply)}
