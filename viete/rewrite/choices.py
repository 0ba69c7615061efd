"""Variations of equations, such as a temperature or a mask: what can be varied, and the result.

The rules of choices.md say what an equation becomes. A variation is made with numbers, as one would
write the equation by hand, or left open: then it is a dimension of the card, so one program serves
all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from viete.analysis.next_token import scores
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Dimension, Equation, memoised, with_right
from viete.graph.matching import put
from viete.graph.rules import Rule, table
from viete.library.functions import inlined
from viete.notation.printer import printer
from viete.notation.tree import Apply, Expr, Num, Ref, Slot, Symbol, num, rebuilt, walk
from viete.rewrite.adjoint.grad import forward_pass

OUTPUT = "output temperature"
OPENED = "a choice, which is open"  # the meaning of a dimension that leaves one
LETTERS = {"temperature": "tau", "mask": "m", OUTPUT: "tau"}


@dataclass(frozen=True)
class EquationChoice:
    """A choice that the equation of a value allows: a ``kind`` of choices.md."""

    equation: str
    kind: str
    symbol: Symbol

    @property
    def name(self) -> str:
        """Its name: ``temperature of A^{i,h}``."""
        return f"{self.kind} of {self.equation}"

    @cached_property
    def is_number(self) -> bool:
        """Whether it is a number, and not a part that can be left out."""
        return any(Ref(argument("tau")) in set(walk(f)) for r in rules(self.kind)
                   for _, f in r.formulas)  # fmt: skip

    def expression(self, value: Fraction | bool) -> Expr | None:
        """The expression for τ; None to leave a part out."""
        if not self.is_number:
            return None if not value else num(1)
        return Num(Fraction(value))


def argument(base: str) -> Symbol:
    """A letter of a rule."""
    return Symbol("argument", base)


def rules(kind: str) -> tuple[Rule, ...]:
    """The rules of a kind of choice."""
    return table("rewrite", "choices.md")[kind]


def choices(card: CardData) -> tuple[EquationChoice, ...]:
    """The choices that the equations of a card allow; none if it has backward equations."""
    if forward_pass(card) is not card:
        return ()
    out = list[EquationChoice]()
    for e in card.equations:
        for kind in LETTERS:
            if rewritten(card, e, kind, num(2)) != e.right:
                out.append(EquationChoice(e.name, kind, opening(card, e, kind)))
    return tuple(out)


def opening(card: CardData, e: Equation, kind: str) -> Symbol:
    """The new dimension for an open choice."""
    slots = (s.text for s in (*e.left.symbol.sub, *e.left.symbol.sup) if not s.index)
    labels = tuple(Slot(x) for x in (e.left.symbol.base, *slots))
    base = LETTERS[kind]
    while Symbol("dim", base, labels).key in card.names:
        base += "'"
    return Symbol("dim", base, labels)


def rewritten(card: CardData, e: Equation, kind: str, value: Expr) -> Expr:
    """The right side of an equation with the rules of a kind applied, with ``value`` for τ."""
    among = [rule.among(card.hidden) for rule in rules(kind)]

    def new(x: Expr) -> Expr | None:
        for rule in among:
            if found := rule.fits(x, card.function):
                letters = {**found.letters, "tau": value}
                return put(rule.formulas[0][1], replace(found, letters=letters))
        return None

    if kind == OUTPUT:
        scored = is_output(card, e) and new(e.right)
        return card.apart(scored) if scored else e.right
    return replaced(card, e.right, new)


def replaced(card: CardData, e: Expr, new: Callable[[Expr], Expr | None]) -> Expr:
    """A formula with each part replaced that a rule fits, calls written out if needed."""
    parts = rebuilt(e, [replaced(card, x, new) for x in e.children])
    if parts != e and isinstance(parts, Apply) and parts.op == "where":
        return parts.args[1] if parts.args[1] == parts.args[2] else parts
    e = parts
    if (found := new(e)) is not None:
        return card.apart(found)
    if isinstance(e, Apply) and any(f.name == e.op for f in card.functions):
        body = inlined(e, card.function, taken=card.names)
        if (found := new(body)) is not None:
            return card.apart(found)
    return e


def is_output(card: CardData, e: Equation) -> bool:
    """Whether an equation makes the scores of next tokens, and no equation takes their softmax."""
    try:
        if scores(card) != e.name:
            return False
    except VieteError:
        return False
    taken = (rule.fits(x, card.function) for other in card.equations for x in walk(other.right)
             for rule in rules("temperature"))  # fmt: skip
    return not any(m is not None and e.name in m.formulas["z"].keys and
                   isinstance(m.formulas["z"], Ref) for m in taken)  # fmt: skip


# -- carried out, and left open --------------------------------------------------------------------


def chosen(card: CardData, values: Mapping[EquationChoice, Fraction | bool]) -> CardData:
    """The card with its choices carried out, as if its equations were written by hand."""
    return changed(card, {c: c.expression(x) for c, x in values.items()})


@memoised
def opened(card: CardData, wanted: tuple[EquationChoice, ...], masked: bool = False) -> CardData:
    """The card with choices left open, each as a new dimension, which is 1.

    With ``masked`` a part is present where its dimension is 1; otherwise it is left out.
    """
    put: dict[EquationChoice, Expr | None] = {c: Ref(c.symbol) if c.is_number or masked else None
                                      for c in wanted}  # fmt: skip
    dims = tuple(Dimension(c.symbol, num(1), meaning=OPENED) for c in wanted if put[c] is not None)
    return changed(replace(card, dims=(*card.dims, *dims)), put)


def changed(card: CardData, put: Mapping[EquationChoice, Expr | None]) -> CardData:
    """The card with an expression for each choice: for τ, or for whether a part is present."""
    for c, value in put.items():
        if value == num(1):  # as the card has it
            continue
        equations = list(card.equations)
        for k, e in enumerate(equations):
            if e.name != c.equation:
                continue
            new = rewritten(card, e, c.kind, num(1) if value is None else value)
            if not c.is_number and value is not None:
                new = Apply("where", (Apply("eq", (value, num(1))), e.right, new))
            equations[k] = with_right(e, new)
        card = replace(card, equations=tuple(equations))
    return card


def texts(card: CardData, values: Mapping[EquationChoice, Fraction | bool]) -> list[Text]:
    """The changed equations as `put` reads them: ``A = softmax(causal(S) / 2)``."""
    write = printer("plain")
    write.numbered = card.scope.numbered
    pairs = zip(card.equations, chosen(card, values).equations, strict=True)
    return [Text(f"{write.show(e.left)} = {write.show(e.right)}") for old, e in pairs if e != old]


__all__ = ["EquationChoice", "choices", "chosen", "opened", "texts"]
