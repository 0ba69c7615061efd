"""Features in a card's equations: the units of a transcoder or autoencoder.

The equations show them: ``pre = r W + b``, a nonlinear gate, the features that the gate makes, the
matrix that maps them to ``decoded``, and a sum ``decoded + error``. The names of these values do
not matter. Features are also found where an intervention changes them or gives the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viete.analysis.def_use import sums
from viete.analysis.linearity import ATOM, UNOPENED, linearity
from viete.graph.card import CardData, Equation, Loop, memoised
from viete.notation.tree import Apply, Expr, Pick, Ref, Symbol, refs, walk


@dataclass(frozen=True)
class FeatureEquations:
    """One kind of features, for each block of a loop.

    ``pre`` is the equation before the gate, ``source W_encoder + …``; ``gate`` is the equation of
    the gate, and ``feature`` the value that ``decoder`` decodes, with two slots if later blocks
    read the result too. ``error`` is added to the decoded value.
    """

    loop: Loop
    pre: Equation
    source: Expr
    encoder: Symbol
    gate: Equation
    feature: Symbol
    decoder: Symbol
    error: Symbol


@memoised
def features_of(card: CardData) -> tuple[FeatureEquations, ...]:
    """The kinds of features of a card, in the order of its equations."""
    return tuple(FeatureRecognition(card).found())


class FeatureRecognition:
    """Finds the features of one card."""

    def __init__(self, card: CardData) -> None:
        self.card = card

    def found(self) -> Iterator[FeatureEquations]:
        for e in self.card.equations:
            for total in sums(e.right) if e.loop is not None else ():
                # of its own turn of the loop
                terms = [x for x in total if isinstance(x, Ref) and x == x.symbol.member]
                pairs = [(a, b) for a in terms for b in terms if a is not b]
                yield from (f for a, b in pairs if (f := self.pair(e, a, b)) is not None)

    def made(self, name: str, e: Equation) -> Equation | None:
        """The equation of a value in the same loop as another equation."""
        return next((x for x in self.card.equations if x.name == name and x.loop == e.loop), None)

    def pair(self, e: Equation, decoded: Ref, error: Ref) -> FeatureEquations | None:
        """The features of a sum of their decoded value and its error."""
        first, second = self.made(decoded.key, e), self.made(error.key, e)
        computed = [] if second is None else refs(second.right)
        given = not any(x.symbol.kind in ("value", "input") for x in computed)
        taken = second is not None and decoded.key in second.reads
        known = second is not None or error.symbol.kind == "input"
        if first is None or e.loop is None or not (known and (given or taken)):
            return None
        for feature, decoder in self.products(first, {first.name}):
            if (gate := self.gate(feature, e)) is None:
                continue
            below = [x for x in refs(gate.right) if x.symbol.kind == "value"]
            pre = self.made(below[0].key, e) if len({x.key for x in below}) == 1 else None
            for x in walk(pre.right) if pre is not None else ():
                match x:
                    case Apply("prod", (source, Ref() as w)) if w.symbol.kind == "parameter":
                        assert pre is not None
                        return FeatureEquations(e.loop, pre, source, w.symbol, gate, feature.symbol,
                                        decoder.symbol, error.symbol)  # fmt: skip
        return None

    def products(self, e: Equation, seen: set[str]) -> Iterator[tuple[Ref, Ref]]:
        """The products of a value and a parameter among the terms of a value, or of its terms."""
        for term in next(sums(e.right), [e.right]):
            match term:
                case Apply("prod", (Ref() as a, Ref() as w)) if w.symbol.kind == "parameter":
                    yield a, w
                case Ref() if term.symbol.kind == "value" and term.key not in seen:
                    inner = self.made(term.key, e)
                    yield from () if inner is None else self.products(inner, seen | {term.key})

    def gate(self, feature: Ref, e: Equation) -> Equation | None:
        """The nonlinear equation from which a value comes through linear ones."""
        lines, here, seen = linearity(self.card), self.made(feature.key, e), set[str]()
        while here is not None and here.name not in seen:
            seen.add(here.name)
            parts = lines.parts(here.right)
            if any(p.kind == UNOPENED for p in parts):
                return here
            atoms = {value_key(p.focus) for p in parts if p.kind == ATOM}
            here = self.made(atoms.pop(), e) if len(atoms) == 1 else None
        return None


def value_key(e: Expr) -> str:
    """The key of a value, or of the value that a row or an entry is of."""
    while isinstance(e, Pick):
        e = e.value
    return e.key if isinstance(e, Ref) else ""


__all__ = ["FeatureEquations", "features_of"]
