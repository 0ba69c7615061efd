"""Sums of a card along the residual stream, and their terms.

A *junction* is a value that adds up what several others wrote: the stream itself, or the heads that
a norm reads together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viete.analysis.streams import streams
from viete.ask.stream import Stream
from viete.errors import VieteError
from viete.evaluate.schedule import Program
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, num, refs, transform


@dataclass(frozen=True)
class StreamTerm:
    """A part of a sum: a value, or a formula in the equation of ``owner``, perhaps of one head."""

    formula: Expr
    owner: Ref
    heads: tuple[Expr, ...] = ()


class StreamSums:
    """The junctions among the values of a program's card, and their terms.

    Blocks and heads have numbers. Raises VieteError for a card without a residual stream.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.card = program, program.model
        found = streams(self.card)
        if not found:
            raise VieteError(
                f"{self.card.title} has no residual stream (no value to which its equations add), "
                f"so it has no edges"
            )
        self.added = {u.ref.key for u in found}
        self.values = Stream(program)
        self.junctions: dict[Expr, bool] = {}
        self.fixed: dict[Ref, bool] = {}
        self.opened: dict[Ref, Expr] = {}
        self.found: dict[Ref, tuple[StreamTerm, ...]] = {}  # the terms of a junction

    def right(self, ref: Ref) -> Expr:
        """The right side of the equation of a value, with numbers for blocks and heads."""
        if ref not in self.opened:
            self.opened[ref] = self.values.opened(ref)
        return self.opened[ref]

    def is_junction(self, e: Expr) -> bool:
        """Whether a formula is the stream, or a sum that continues it or adds up heads."""
        if e not in self.junctions:
            self.junctions[e] = False
            self.junctions[e] = self.joins(e)
        return self.junctions[e]

    def joins(self, e: Expr) -> bool:
        match e:
            case Ref():
                if e.symbol.kind != "value" or e.free:
                    return False
                return e.key in self.added or self.joins_in(self.right(e))
            case Apply("add" | "sub"):
                return self.joins_in(e)
        return False

    def joins_in(self, e: Expr) -> bool:
        """Whether the terms of a sum include a junction, or a sum over heads."""
        match e:
            case Apply("add", (a, b)):
                return self.joins_in(a) or self.joins_in(b)
            case Apply("sub", (a, _)):
                return self.joins_in(a)
            case Ref():
                return self.is_junction(e)
            case Bind():
                return e.op == "sum" and bool(self.counted(e))
        return False

    def counted(self, e: Bind) -> range | None:
        """The numbers of a fold's letter of heads."""
        own = any(letter == e.index for _, letter in e.body.standing)
        declared = any(i.name == e.index for i in self.card.indices)
        if not (own and declared) or e.index in self.card.loop_letters:
            return None
        if e.ranges is None:
            return self.program.range_of(e.index)
        first, last = (self.card.size(x) for x in e.ranges)
        ends = [None if x is None else x.value(self.program.sizes) for x in (first, last)]
        return None if None in ends else range(int(ends[0] or 0), int(ends[1] or 0) + 1)

    def member(self, e: Bind, k: int) -> Expr:
        """The body of a fold for one number of its letter; what it counts becomes a number, too."""

        def rule(x: Expr) -> Expr | None:
            if not isinstance(x, Ref) or not x.index:
                return None
            sizes = [None if isinstance(i, Idx) else self.card.size(i) for i in x.index]
            found = [None if n is None else n.value(self.program.sizes) for n in sizes]
            return Ref(x.symbol, tuple(i if n is None else num(n)
                                       for i, n in zip(x.index, found, strict=True)))  # fmt: skip

        body = self.card.substitute(e.body, letters={e.index: num(k)})
        return self.values.normal(transform(body, rule))

    def terms(self, e: Expr, owner: Ref, heads: tuple[Expr, ...] = ()) -> Iterator[StreamTerm]:
        """The terms of a sum; a junction in it gives those of its equation."""
        match e:
            case Apply("add", (a, b)):
                yield from self.terms(a, owner, heads)
                yield from self.terms(b, owner, heads)
            case Apply("sub", (a, b)):
                yield from self.terms(a, owner, heads)
                yield StreamTerm(Apply("neg", (b,)), owner, heads)
            case Ref() if self.is_junction(e) and not heads:
                if e not in self.found:
                    self.found[e] = tuple(self.terms(self.right(e), e))
                yield from self.found[e]
            case Ref() if self.is_junction(e):
                yield from self.terms(self.right(e), e, heads)
            case Bind("sum") if numbers := self.counted(e):
                for k in numbers:
                    body = self.member(e, k)
                    yield from self.terms(body, owner, (*heads, num(k)))
            case _:
                yield StreamTerm(e, owner, heads)

    def is_fixed(self, e: Expr) -> bool:
        """Whether a formula has the same value for all texts of a length."""
        found = list(refs(e))
        if any(x.symbol.kind == "input" for x in found):
            return False
        for x in found:
            if x.symbol.kind == "value" and x not in self.fixed:
                self.fixed[x] = not x.free and self.is_fixed(self.right(x))
        return all(self.fixed.get(x, True) for x in found)


__all__ = ["StreamSums", "StreamTerm"]
