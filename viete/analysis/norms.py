"""Which of a card's norms a question means when it writes a norm without parameters."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from viete.analysis.token_vectors import unembedding_matrix
from viete.analysis.weight_formulas import of_weights
from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.graph.dependence import offset, stepped
from viete.graph.opening import body_of
from viete.library.functions import with_defaults
from viete.notation.substitution import substitute
from viete.notation.tree import CALL, Apply, Expr, Idx, Pick, Ref, num, walk

Norm = tuple[Equation, Apply]  # where it stands, and what it is


class Norms:
    """The norms that the equations of a card apply, with their parameters."""

    NAMES: ClassVar = ("LN", "RMSNorm")

    def __init__(self, card: CardData) -> None:
        self.card = card

    @cached_property
    def all(self) -> list[Norm]:
        """The norms of the equations, except those with default parameters."""
        return [
            (e, y) for e in self.card.equations for y in walk(e.right)
            if isinstance(y, Apply) and self.card.library_name(y) in self.NAMES
            and with_defaults(y, self.card.function)
            != with_defaults(Apply(y.op, y.args[:1]), self.card.function)
        ]  # fmt: skip

    def is_norm(self, x: Apply) -> bool:
        """Whether it is a norm of one argument, which may stand for a norm of the card.

        LN means layer norm, or, in a card without layer norm, the norms that it has instead.
        """
        name = self.card.library_name(x)
        names = {self.card.library_name(y) for _, y in self.all}
        return name in names or (name == "LN" and bool(names))

    def bare(self, x: Apply) -> Apply:
        """The norm explicitly without parameters: scale 1 and shift 0."""
        ones = (num(1), num(0)) if self.card.library_name(x) == "LN" else (num(1),)
        return Apply(x.op, (*x.args, *ones), 1)

    def of(self, x: Apply, scored: bool) -> tuple[Expr, str] | list[Expr]:
        """The norm that is meant and its description; else all candidates, or one of the card's."""
        (z,) = x.args
        value = z
        while isinstance(value, Pick):
            value = value.value
        last = self.last(z)
        readers = list(dict.fromkeys(self.readers(value, z)))
        if scored and last is not None:
            return last, "the norm before the unembedding"
        if len(readers) == 1 and (readers == [last] or not self.is_stream(value)):
            return readers[0], "the norm that the card applies to it"
        found = [*readers, *(y for y in [last] if y is not None and y not in readers)]
        y = self.all[-1][1]
        return found or [Apply(y.op, (z, *y.args[1:]), y.semi)]

    def of_reader(self, f: Expr, z: Expr) -> Expr | None:
        """The norm whose value a function of the card takes, applied to any formula.

        As in Attn^i(LN(y)), where Attn^i stands for a^i of u^i, and u^i is a norm.
        """
        operator = self.card.operator.get(f.symbol) if isinstance(f, Ref) else None
        if operator is None or not isinstance(f, Ref):
            return None
        match operator.definition:
            case Apply("with", (_, Ref() as target, _)):
                index = dict(zip(operator.symbol.slots, f.index, strict=True))
                for e, y in self.all:
                    if e.right is y and e.left == target:
                        at = {s: substitute(Idx(s), letters=index) for s in target.free}
                        return self.at(e, y, z, at)
        return None

    def at(self, e: Equation, y: Apply, z: Expr, at: dict[str, Expr]) -> Expr:
        """A norm in one turn of its equation's loop, applied to any formula."""
        rest = tuple(substitute(a, letters=at) for a in y.args[1:])
        return self.called(Apply(y.op, (z, *rest), y.semi), e, y, z, at)

    def last(self, z: Expr) -> Expr | None:
        """The norm before the unembedding, applied to any formula."""
        own = next((o.symbol for o in self.card.operators if o.name == f"norm{CALL}"), None)
        if own is not None:
            return Apply(CALL, (Ref(own), z))
        turns = [k for k, e in enumerate(self.card.equations) if e.loop is not None]
        behind = self.card.equations[turns[-1] + 1 if turns else 0 :]
        found = [y for e, y in self.all if e in behind]
        return Apply(found[-1].op, (z, *found[-1].args[1:]), found[-1].semi) if found else None

    def is_stream(self, value: Expr) -> bool:
        """Whether the last norm reads other members of the same family."""
        if self.last(value) is None or not isinstance(value, Ref):
            return False
        return any(e.loop is None and value.key in y.args[0].keys for e, y in self.all)

    def readers(self, value: Expr, z: Expr) -> Iterator[Expr]:
        """The norms that the card applies to a value, as formulas of ``z``, which is part of it."""
        for e, y in self.all:
            at = self.block_of(e, y.args[0], value)
            if at is not None:
                yield self.at(e, y, z, at)

    def block_of(self, e: Equation, read: Expr, value: Expr) -> dict[str, Expr] | None:
        """The turn of an equation's loop in which it reads this value."""
        if not (isinstance(read, Ref) and isinstance(value, Ref) and read.key == value.key):
            return {} if read is value and e.loop is None else None
        at: dict[str, Expr] = {}
        for slot, mine, its in zip(read.symbol.slots, value.index, read.index, strict=True):
            step = None if e.loop is None else offset(its, e.loop.index)
            if slot not in self.card.loop_letters:
                continue
            if step is None:
                if self.number(mine) is None or self.number(mine) != self.number(its):
                    return None
                continue
            assert e.loop is not None
            k, first, end = map(self.number, (mine, e.loop.lower, e.loop.upper))
            if k is None or first is None or end is None:
                at[e.loop.index] = stepped(mine, -step)
            elif first <= k - step <= end:
                at[e.loop.index] = num(k - step)
            else:
                return None
        return at

    def number(self, index: Expr) -> Fraction | None:
        """The number of a block, if it is known."""
        size = self.card.size(index)
        return None if size is None else size.value(self.card.sizes)

    def called(self, plain: Apply, e: Equation, y: Apply, z: Expr, at: dict[str, Expr]) -> Expr:
        """A norm as a call of the card's function for it, if the card has one."""
        own = sorted(self.card.operators, key=lambda o: e.name not in o.definition.keys)
        for o in own:  # first what is said of this very equation
            body = body_of(self.card, o)
            (*_, a) = body.arguments
            same = Apply(y.op, (Ref(a.symbol), *y.args[1:]), y.semi)
            if body.formula is same and set(o.letters) <= {*at}:
                index = tuple(at[s] for s in o.symbol.slots)
                return Apply(CALL, (Ref(o.symbol, index), z))
        return plain

    # -- the unembedding ---------------------------------------------------------------------------

    @cached_property
    def scoring(self) -> frozenset[str]:
        """The names of the matrix that makes the scores of tokens."""
        try:
            matrix, _ = unembedding_matrix(self.card)
        except VieteError:
            return frozenset()
        derived = {d.name: d.right.keys for d in self.card.derived}
        return matrix.keys.union(*(derived.get(key, ()) for key in matrix.keys))

    def unembeds(self, e: Expr) -> bool:
        """Whether a formula consists of the vectors that score tokens."""
        return bool(e.keys & self.scoring) and of_weights(self.card, e)

    def scores(self, f: Expr) -> bool:
        """Whether a function of the card is an unembedding of its only argument."""
        if not isinstance(f, Ref):
            return False
        body = body_of(self.card, self.card.operator[f.symbol]).formula
        return isinstance(body, Apply) and body.op == "inner" and self.unembeds_rows(body.args[0])

    def unembeds_rows(self, e: Expr) -> bool:
        """Whether a formula is a row of the unembedding, at a place that is an argument."""
        return isinstance(e, Pick) and self.unembeds(e.value)
