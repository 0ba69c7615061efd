"""Uses of a value: what each use adds to the value's derivative, and in which loop."""

from __future__ import annotations

from fractions import Fraction

from viete.errors import VieteError
from viete.graph.card import CardData, Loop
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, num, refs, walk
from viete.rewrite.adjoint.blocks import Readers, Reading, block_expr
from viete.rewrite.adjoint.equations import BackwardEquations
from viete.rewrite.adjoint.shares import Binder, Context, Share
from viete.rewrite.adjoint.single_where import Single
from viete.rewrite.simplify import simplified


class Uses(BackwardEquations):
    """Collects the shares of derivatives, one for each use of a value.

    ``shares`` lists them by the value's key, each with the loop of the use. Where a definition
    replaced a value's name, ``passed`` lists the shares that reach the value by its name.
    """

    def __init__(self, card: CardData, single: Single) -> None:
        super().__init__(card, single)
        self.shares: dict[str, list[tuple[Loop | None, Share]]] = {}
        self.passed: dict[str, list[tuple[Loop | None, Share]]] = {}
        self.one_for_all: set[str] = set()  # parameters of which a loop's blocks read one, W^1
        self.values = {e.name for e in card.equations}

    def share(self, e: Ref, back: Expr, c: Context) -> None:
        """Add ``back`` to ∂e: summed over letters that e lacks, or restricted to the member e."""
        index = dict(zip(e.symbol.slots, e.index, strict=True))
        blocks = self.model.block_index(e)
        pending = {b[0]: b for b in c.binders}
        for letter in self.order(self.type(back, c).family):
            pending.setdefault(letter, (letter, None, None))
        loop = c.loop
        members: list[Expr] = []
        for slot in self.model.heads_of(e.symbol):
            at = index[slot]
            if isinstance(at, Idx) and at.name in pending and at.name not in (
                x.name for s, v in index.items() if s != slot for x in walk(v) if isinstance(x, Idx)
            ):  # fmt: skip
                swap = {at.name: Idx(slot), slot: at}  # the sum over the slot's letter, if any
                back = self.model.substitute(back, letters=swap)
                index = {s: self.model.substitute(v, letters=swap) for s, v in index.items()}
                del pending[at.name]
                if slot in pending:
                    pending[at.name] = (at.name, *self.bounds(*pending.pop(slot)))
            else:
                test = Apply("eq", (Idx(slot), at))
                if not at.free:  # one member: what it gets is summed before it is put there
                    members.append(test)
                else:
                    if slot in pending:  # the letter is taken by the sum: that gets another
                        other = self.fresh(c, back, at)
                        bounds = self.bounds(*pending.pop(slot))
                        pending[other] = (other, *bounds)
                        back = self.renamed(back, slot, other)
                        index = {s: self.renamed(v, slot, other) for s, v in index.items()}
                        test = Apply("eq", (Idx(slot), index[slot]))
                    back = Apply("where", (test, back, num(0)))
        for slot, at in zip(self.model.blocks_of(e.symbol), blocks, strict=True):
            if {x.name for x in walk(at) if isinstance(x, Idx)}:
                back, loop = self.block_share(e, slot, at, back, c, pending)
                blocks = tuple(Idx(slot) if x == at and loop != c.loop else x for x in blocks)
            elif c.loop is not None and e.key not in self.values:
                self.one_for_all.add(e.key)
        for letter, lower, upper in reversed(list(pending.values())):
            if letter in back.free:
                back = Bind("sum", letter, lower, upper, back)
            elif lower is not None or letter in [b[0] for b in c.binders]:
                back = Apply("times", (self.count(letter, lower, upper), back))
        for member in members:
            back = Apply("where", (member, back, num(0)))
        self.add(e.key, loop, Share(blocks, back, c.reason))

    def block_share(
        self, e: Ref, slot: str, at: Expr, back: Expr, c: Context, pending: dict[str, Binder]
    ) -> tuple[Expr, Loop | None]:
        """The share of a family's block ``at``, and the loop that adds it."""
        made = [x.loop for x in self.model.equations if x.name == e.key and x.loop is not None]
        free = {x.name for x in walk(at) if isinstance(x, Idx)}
        here = c.loop in made or (not made and at == Idx(slot))
        if c.loop is not None and here and not free & pending.keys():
            return back, c.loop
        inside = self.readers(e.key, slot)
        home = made or inside or self.over(slot)
        reading = Reading.of(at, min(free), self.model) if len(free) == 1 else None
        if not home or reading is None:
            raise self.refused(e, c)
        (letter,), loop = free, home[0]
        if c.loop is None and letter in pending:  # a sum over blocks: each block's own share
            _, lower, upper = pending.pop(letter)
        elif c.loop is not None and letter == c.loop.index:
            lower, upper = c.loop.lower, c.loop.upper
        else:
            raise self.refused(e, c)
        assert lower is not None and upper is not None
        weights = any(x.symbol.kind == "parameter" and Idx(letter) in x.index for x in refs(back))
        readers = Readers(reading, letter, lower, upper, c.loop is not None or weights)
        start = self.model.size(loop.lower)
        first = reading.at(self.model.size(lower if reading.sign > 0 else upper))
        early = None if first is None or start is None else (start - first).number()
        if early is None and not made:
            early = Fraction(0)
        if early is None or early > 4 or early.denominator != 1:
            raise self.refused(e, c)
        for k in range(int(early)):  # x^0, which is made before the loop
            assert first is not None
            block = block_expr(first + Size.of(k), self.model)
            assert block is not None
            share = readers.share(back, block, (block, block), self.model)
            self.add(e.key, None, Share((block,), simplified(share), c.reason))
        if not made and (loop == c.loop or not inside):
            loop = self.after(loop)  # it comes from blocks on either side, or from outside
        ends = loop.lower, loop.upper
        return readers.share(back, Idx(slot), ends, self.model), loop

    def readers(self, key: str, letter: str) -> list[Loop]:
        """The loops over a letter that read a value, in order."""
        return [e.loop for e in self.model.equations
                if e.loop is not None and e.loop.index == letter and key in e.reads]  # fmt: skip

    def over(self, letter: str) -> list[Loop]:
        """The loops over a letter, in order."""
        return [x for x in self.model.loops if x.index == letter]

    def refused(self, e: Ref, c: Context) -> VieteError:
        text = self.model.equations[c.reason.equation - 1].text
        return text.error(
            f"the derivative through {show(e)} is not derived: the block number must be simple, "
            f"such as {e.key.partition('^')[0]}^{{i-2}} or ^{{N-i+1}}",
            *text.place(e),
        )

    def add(self, key: str, loop: Loop | None, share: Share) -> None:
        self.shares.setdefault(key, []).append((loop, share))


__all__ = ["Uses"]
