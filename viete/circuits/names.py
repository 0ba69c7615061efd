"""Unique names for the nodes of a circuit: ``Q^{2,1}``, ``x_Q^{2,1}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, count

from viete.circuits.sums import StreamSums, StreamTerm
from viete.notation.printer import show
from viete.notation.tree import Expr, Num, Ref, Slot, Symbol

ADDED, PART = "add", "part"  # the labels of one of several parts of a sum, and of one head's


class NodeNames:
    """Names of writers and of readers' streams; ``written`` has the writers by their names.

    ``roots`` are read themselves, so no part of one has its name.
    """

    def __init__(self, sums: StreamSums, roots: Iterable[Ref]) -> None:
        self.sums, self.roots = sums, {literal(x) for x in roots}
        self.written: dict[Ref, StreamTerm] = {}
        self.streams: set[str] = set()
        self.several: dict[Ref, bool] = {}

    def named(self, terms: Iterable[StreamTerm]) -> Iterator[Ref]:
        """The names of the writers of a sum: each that of its value, or of its own sum."""
        alike: dict[tuple[Ref, tuple[Expr, ...]], list[StreamTerm]] = {}
        for term in (found := list(terms)):
            alike.setdefault((term.owner, term.heads), []).append(term)
        for term in found:
            if isinstance(term.formula, Ref) and term.formula.symbol.kind == "value":
                name = literal(term.formula)
            else:
                name = self.part(term, alike[term.owner, term.heads])
            self.written[name] = term
            yield name

    def part(self, term: StreamTerm, same: list[StreamTerm]) -> Ref:
        """The name of a term that has none: ``a^{2,1}`` of head 1 in the sum $a^2$."""
        symbol = literal(term.owner).symbol
        slots = tuple(Slot(show(k)) for k in term.heads)
        symbol = replace(symbol, sup=(*symbol.sup, *slots)) if symbol.sup else replace(
            symbol, sub=symbol.sub, sup=slots)  # fmt: skip
        whole = self.sums.right(term.owner) is term.formula
        alone = len(same) == 1 and (term.heads or whole or not self.continues(term.owner))
        power = len(slots) == 1 and not literal(term.owner).symbol.sup  # L^1 beside L reads so
        if not alone or power or Ref(symbol) in self.roots:
            label = (PART if power else ADDED) + str(same.index(term) + 1) * (len(same) > 1)
            symbol = replace(symbol, sub=(*symbol.sub, Slot(label)))
        return Ref(symbol)

    def continues(self, owner: Ref) -> bool:
        """Whether an equation has more than one part, besides constants."""
        if owner not in self.several:
            self.several[owner] = self.has_parts(owner)
        return self.several[owner]

    def has_parts(self, owner: Ref) -> bool:
        right = self.sums.right(owner)
        terms = list(self.sums.terms(right, owner))
        moving = [t for t in terms if not self.sums.is_fixed(t.formula)]
        return len(moving) > 1 or terms[0].formula is right

    def stream(self, reader: Ref, junction: Ref) -> Ref:
        """The name of a reader's stream: ``x_Q^{2,1}`` for $Q^{2,1}$."""
        own = reader.symbol
        word = re.sub(r"\W", "", own.base.rpartition("{")[2])
        label = (Slot(word), *own.sub) if own.base != junction.symbol.base else ()
        sup = own.sup or junction.symbol.sup
        words = (f"in{k}" if k > 1 else "in" for k in count(1))
        more = chain([()] if label else [], ((Slot(word),) for word in words))
        labels = ((*junction.symbol.sub, *label, *x) for x in more)
        names = (Symbol("value", junction.symbol.base, sub, sup) for sub in labels)
        symbol = next(s for s in names if s.key not in self.streams)
        self.streams.add(symbol.key)
        return Ref(symbol, reader.index)


def literal(ref: Ref) -> Ref:
    """A member with a separate name: $Q^{2,1}$, no longer of a family."""
    index = dict(zip(ref.symbol.slots, ref.index, strict=True))
    free = {s for s, x in index.items() if not isinstance(x, Num)}

    def slot(s: Slot) -> Slot:
        return s if not s.index or s.text in free else Slot(show(index[s.text]))

    sub, sup = (tuple(map(slot, slots)) for slots in (ref.symbol.sub, ref.symbol.sup))
    rest = tuple(x for s, x in index.items() if s in free)
    return Ref(Symbol(ref.symbol.kind, ref.symbol.base, sub, sup), rest)


def own_name(e: Expr) -> Expr | None:
    """A rule that gives a value, a parameter or an input a separate name."""
    if not isinstance(e, Ref) or e.symbol.kind not in ("value", "parameter", "input"):
        return None
    return literal(e)


__all__ = ["NodeNames", "literal", "own_name"]
