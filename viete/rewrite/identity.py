"""Proves identities: a card and two formulas in, the facts that make them equal out.

Both sides are brought into normal form. If these differ, the name that the card defines last is
replaced by its equation, and so on until the forms agree or no name is left. A proof is about real
numbers, so a formula that may contain an infinity has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.library.functions import inlined
from viete.notation.printer import show
from viete.notation.tree import CALL, Apply, Bind, Expr, Idx, Ref, Table, replaced, transform, walk
from viete.rewrite.index_forms import moved
from viete.rewrite.normal_form import NormalForms, TooLarge
from viete.rewrite.opening import without_calls
from viete.rewrite.proof_rules import DEFINITION, ProofRule

MOST_STEPS, MOST_NODES = 25, 800
BOUNDED = ("softmax", "where")  # of which no infinity comes, or none by itself


def identity(card: CardData, left: Expr, right: Expr) -> tuple[str, ...] | None:
    """The facts that make two formulas equal, for all values of their letters.

    These are rules (`ProofRule`), and definitions of names. None if no proof is found; the formulas
    may still be equal.
    """
    try:
        e = without_calls(card, Apply("sub", (left, right)))
    except VieteError:  # of too many blocks, one after the other
        return None
    if may_be_infinite(card, e):
        return None
    for functions in (False, True):
        try:
            found = Search(card, functions).proof(e)
        except (TooLarge, RecursionError):
            continue
        if found is not None:
            names = (f"{DEFINITION}{x}" for x in (*called(left, right), *found[1]))
            return (*sorted(found[0]), *dict.fromkeys(names))
    return None


def called(*formulas: Expr) -> tuple[str, ...]:
    """The functions of a card's values that formulas call."""
    found = [x.args[0] for e in formulas for x in walk(e) if isinstance(x, Apply) and x.op == CALL]
    names = (show(x.symbol.member, "unicode") for x in found if isinstance(x, Ref))
    return tuple(dict.fromkeys(names))


class Search:
    """A search for a proof that a difference is 0, with the equations used so far.

    With ``functions`` their definitions are put in before those of names; otherwise not at all.
    """

    def __init__(self, card: CardData, functions: bool) -> None:
        self.card, self.forms, self.functions = card, NormalForms(card), functions
        self.known = definitions(card)
        self.first = {e.left: e.right for e in card.equations
                      if e.left.index and not e.left.free and e.name in self.known}  # fmt: skip
        self.order = {name: k for k, name in enumerate(self.known)}
        self.names: list[str] = []

    def proof(self, e: Expr) -> tuple[set[str], list[str]] | None:
        """The rules, and the names whose equations reduce a formula to 0; None if none do."""
        form = self.forms.of(e)
        for _ in range(MOST_STEPS):
            if not form:
                return self.forms.used, self.names
            e = self.forms.formula(form)
            made = (self.functions and self.function(e)) or self.definition(e)
            if made is None or len(list(islice(walk(made), MOST_NODES))) == MOST_NODES:
                return None
            form = self.forms.of(self.card.apart(made))
        return None

    def definition(self, e: Expr) -> Expr | None:
        """The formula with the equation put in of the name that the card defines last."""
        parts = [x for x in outside(self.card, e) if isinstance(x, Ref)]
        if (x := next((x for x in parts if x in self.first), None)) is not None:
            self.names.append(show(x, "unicode"))
            return replaced(e, {x: self.first[x]})
        found = {x for x in parts if x.key in self.known}
        for x in sorted(found, key=lambda x: (-self.order[x.key], show(x))):
            equation = self.known[x.key]
            slots = [s.name for s in equation.left.index if isinstance(s, Idx)]
            put = dict(zip(slots, x.index, strict=True))
            right = self.unrolled(x, equation)
            if right is None and all(member(self.card, s, at) for s, at in put.items()):
                right = self.card.substitute(equation.right, letters=put)
            if right is None:
                continue
            self.names.append(show(equation.left, "unicode"))
            if equation.loop is not None:  # x^{i-1} is not followed to the first block
                del self.known[x.key]
            return replaced(e, {x: right})
        return None

    def unrolled(self, x: Ref, equation: Equation) -> Expr | None:
        """``x^N`` as ``x^0 + sum_{i=1}^N (x^i - x^{i-1})``, where a block adds to a stream."""
        loop = equation.loop
        if loop is None or loop.down or x.index != (loop.upper,):
            return None
        before = Ref(x.symbol, (moved(Idx(loop.index), -1),))
        form = self.forms.of(equation.right)
        for _ in range(MOST_STEPS):
            if form.get(((before, Fraction(1)),)) == 1:
                added = self.forms.formula(
                    {t: c for t, c in form.items() if t != ((before, Fraction(1)),)}
                )
                if before in set(walk(added)):
                    return None  # the sum would have the stream itself in it, as it must
                first = Ref(x.symbol, (moved(loop.lower, -1),))
                total = Bind("sum", loop.index, loop.lower, loop.upper, added)
                self.forms.used.add(ProofRule.TELESCOPE)
                return Apply("add", (first, total))
            bare = [t[0][0] for t, c in form.items() if len(t) == 1 and c == t[0][1] == 1]
            inner = [y for y in bare if isinstance(y, Ref) and y.key in self.known
                     and self.known[y.key].loop == loop and y == self.known[y.key].left
                     and y.key != x.key]  # fmt: skip
            if not inner:
                return None
            y = min(inner, key=lambda y: self.order[y.key])
            form = self.forms.of(replaced(self.forms.formula(form), {y: self.known[y.key].right}))
        return None

    def function(self, e: Expr) -> Expr | None:
        """The formula with the definition of a function put in wherever it is called."""
        calls = [x for x in walk(e) if isinstance(x, Apply) and x.op in self.card.function]
        plain = [x for x in calls if not isinstance(self.card.function[x.op].body, Table)
                 and self.card.library_name(x) != "softmax"]  # fmt: skip
        if not plain:
            return None
        name = plain[0].op
        self.names.append(name)

        def rule(x: Expr) -> Expr | None:
            if not isinstance(x, Apply) or x.op != name:
                return None
            return inlined(x, self.card.function, taken=self.card.names)

        return transform(e, rule)


def definitions(card: CardData) -> dict[str, Equation]:
    """The values with a single equation, the same for every block, in order.

    The value before the first block, such as x^0, may have a separate equation.
    """
    every = (*card.equations, *card.derived)
    out = {e.name: e for e in every if all(isinstance(x, Idx) for x in e.left.index)}
    for e in every:
        family = out.get(e.name)
        loop = None if family is None else family.loop
        before = loop is not None and e.left.index == (moved(loop.lower, -1),)
        if family is not None and e is not family and not before:
            del out[e.name]
    return out


def outside(card: CardData, e: Expr) -> Iterator[Expr]:
    """The parts of a formula, except sums over blocks with bounds of their own."""

    def other(x: Expr) -> bool:
        return (
            isinstance(x, Bind)
            and x.index in card.loop_letters
            and (x.ranges is not None and x.ranges != card.ranges.get(x.index))
        )

    return (x for x in walk(e, other) if not other(x))


def member(card: CardData, letter: str, at: Expr) -> bool:
    """Whether an equation with this letter covers an index."""
    if letter not in card.loop_letters:
        return True
    return at == Idx(letter) or at in card.ranges[letter]


def may_be_infinite(card: CardData, e: Expr, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a formula, its functions or the values it reads contain a written infinity."""

    def bounded(x: Expr) -> bool:
        return card.library_name(x) in BOUNDED[:1]

    known = definitions(card)
    for x in walk(e, bounded):
        if bounded(x):
            continue
        if isinstance(x, Apply):
            if x.op == "inf":
                return True
            if x.op in card.function and has_infinity(card, x.op):
                return True
        if (isinstance(x, Ref) and x.key in known and x.key not in seen
                and may_be_infinite(card, known[x.key].right, seen | {x.key})):  # fmt: skip
            return True
    return False


def has_infinity(card: CardData, name: str) -> bool:
    """Whether a function's definition contains a written infinity."""
    for x in walk(card.function[name].body):
        if not isinstance(x, Apply) or card.library_name(x) == "softmax":
            continue
        if x.op == "inf" or (x.op in card.function and has_infinity(card, x.op)):
            return True
    return False


__all__ = ["identity"]
