"""A whole backward pass: the equations in reverse order, with block loops counting down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from viete.graph.card import Equation, Loop
from viete.graph.dependence import FURTHEST, offset
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, Slot, Symbol, num, refs, walk
from viete.rewrite.adjoint.double_where import Doubled
from viete.rewrite.adjoint.equations import BACK
from viete.rewrite.adjoint.shares import UNSAID, Context, Reason, Share, because, partial
from viete.rewrite.adjoint.vjp import Passing
from viete.rewrite.simplify import simplified

CARRIED = Reason(said="carried")
MOST = 50  # terms of a sum in a row


class Backward(Passing):
    """The derivation of ∂X for every value X between ``loss`` and the ``wanted`` names."""

    def __init__(self, double: Doubled, loss: Ref, wanted: frozenset[str]) -> None:
        super().__init__(double, wanted)
        self.loss = loss
        self.steps: dict[str, list[int]] = {}  # how far back the blocks of a loop read a value
        self.to_all: set[str] = set()  # values of which all of a loop's blocks read the same one
        self.places = {e: k for k, e in reversed([*enumerate(self.model.equations)])}
        self.first_read: dict[str, int] = {}  # the place of the first equation that reads a name
        for k, e in enumerate(self.model.equations):
            for name in e.reads:
                self.first_read.setdefault(name, k)

    def derive(self) -> list[Equation]:
        """The backward equations, with a name for every part that is read twice."""
        self.shares[self.loss.key] = [(None, Share((), num(1), UNSAID))]
        for loop, equations in reversed(self.segments()):
            if loop is None:
                for e in reversed(equations):
                    self.back(e, None)
            elif any(self.shares.get(e.name) or self.passed.get(e.name) for e in equations):
                self.back_through(loop, equations)
            else:  # nothing that the loss depends on reads it
                for e in reversed(equations):
                    self.finished(e, loop)
            self.parameters(equations[0])
        self.complete_or_refused()
        return self.out

    def complete_or_refused(self) -> None:
        """Check that every share was used."""
        for key, pairs in (*self.shares.items(), *self.passed.items()):
            if pairs and key != self.loss.key and key in self.active:
                e = self.model.equations[max(1, pairs[0][1].reason.equation) - 1]
                at = ", ".join(map(show, pairs[0][1].index))
                raise e.text.error(
                    f"the derivative with respect to the block {at} of {key} is not derived"
                )

    def segments(self) -> list[tuple[Loop | None, list[Equation]]]:
        out: list[tuple[Loop | None, list[Equation]]] = []
        for e in self.model.equations:
            if not out or out[-1][0] != e.loop:
                out.append((e.loop, []))
            out[-1][1].append(e)
        return out

    def back(self, e: Equation, loop: Loop | None) -> None:
        """Write ∂ of an equation's left side, and pass it on to the values on its right side."""
        if e.name in self.active and (e.name in self.shares or e.name in self.passed):
            self.part = e.part
            back = self.complete(e, loop)
            if back is not None:
                self.pass_right(e, back, loop)
        self.finished(e, loop)

    def pass_right(self, e: Equation, back: Expr, loop: Loop | None) -> None:
        """Pass ∂ of a left side to the values on the right side."""
        reason = Reason(self.places[e] + 1)
        self.pass_on(e.right, back, Context(loop, (), self.shapes.env, reason), e.left)

    def complete(self, e: Equation, loop: Loop | None) -> Expr | None:
        """Write ∂ of a left side as the sum of its shares; return the formula that replaces it."""
        if e.name == self.loss.key:
            return num(1)
        here, passed = (self.finish(shares, e, loop) for shares in (self.shares, self.passed))
        left = Ref(partial(e.left.symbol), e.left.index)
        if loop is None:
            above = self.from_above(e)
            if len(above) == 1 and not (here or passed):  # x^0, say: the loop has made it already
                return above[0].expr
            here += above
        if not passed:
            return self.state(left, here, loop) if here else None
        back = None
        if here:  # what goes on from here, beside what has gone on through the definition
            reason = Reason(said=because([s.reason for s in here]))
            back = self.simple(total(here), Context(loop, (), self.shapes.env, reason), "back")
            here = [Share((), back, reason)]
        self.state(left, [*here, *passed], loop)
        return back

    def finish(
        self, ledger: dict[str, list[tuple[Loop | None, Share]]], e: Equation, loop: Loop | None
    ) -> list[Share]:
        """Take out the shares of a left side, which are complete."""
        pairs, blocks = ledger.get(e.name, []), self.model.block_index(e.left)
        here = [s for at, s in pairs if at == loop and s.index == blocks]
        if e.name in ledger:
            ledger[e.name] = [p for p in pairs if p[1] not in here]
        return here

    def from_above(self, e: Equation) -> list[Share]:
        """The shares that a loop's blocks give to a value made before the loop."""
        symbol, out, steps = e.left.symbol, list[Share](), self.steps.get(e.name, ())
        made = {x.name for x in self.out} if steps else set()
        for step in steps:
            names = (above(symbol, step), partial(symbol))
            name = next((x for x in names if x.key in made), None)
            if name is not None and self.read_by(e, step):
                out.append(Share((), Ref(name, e.left.index), Reason(said="from the loop")))
        return out

    def read_by(self, e: Equation, step: int) -> bool:
        """Whether the block ``step`` later in a loop reads a value made before the loop."""
        loop = next(x.loop for x in self.model.equations if x.name == e.name and x.loop is not None)
        block = e.left.index[e.left.symbol.slots.index(loop.index)]
        return not self.below(Apply("add", (block, num(step))), loop.lower)

    def before(self, loop: Loop, block: Expr) -> bool:
        """Whether a block number is constant and lies before the loop's blocks."""
        return Idx(loop.index) not in walk(block) and self.below(block, loop.lower)

    def below(self, block: Expr, lower: Expr) -> bool:
        """Whether a block is known to lie before another one."""
        size = self.model.size(Apply("sub", (block, lower)))
        number = None if size is None else size.number()
        return number is not None and number < 0

    def state(self, left: Ref, shares: Sequence[Share], loop: Loop | None) -> Ref:
        """Write the equation ``left = the sum of the shares``."""
        self.write(left, total(shares), loop, because([s.reason for s in shares]))
        return left

    # -- loops -------------------------------------------------------------------------------------

    def back_through(self, loop: Loop, equations: list[Equation]) -> None:
        """Go back through a block loop, carrying derivatives from block i to block i − 1."""
        upper = loop.upper
        carried = self.carried(loop, equations)
        self.steps |= carried
        both = {k for k, steps in carried.items() if steps != [1] or k in self.to_all}
        both |= {k for k in carried if self.read_in_place(k, loop, equations)}
        both |= carried.keys() & self.named_beside()
        own = (Idx(loop.index),)
        both |= {k for k in carried if any(s.index == own for _, s in self.shares.get(k, []))}
        for key, steps in carried.items():
            e = next(x for x in equations if x.name == key)
            for step in steps:
                for k in range(step):  # the blocks that no block of the loop hands anything to
                    block = simplified(Apply("sub", (upper, num(k))))
                    top: list[Share] = []
                    if step == steps[0]:
                        top, self.shares[key] = self.at_top(key, block)
                    left = self.carry(e, key in both, block, step)
                    if not top:
                        why = Reason(said="nothing reads the last block's")
                        top = [Share((block,), self.zero(e, left), why)]
                    self.state(left, top, None)
                if key in both:
                    i = Idx(loop.index)
                    said = "from the block above" if step == 1 else f"from {step} blocks above"
                    why = Reason(said=said)
                    self.add(key, loop, Share((i,), self.carry(e, True, i, step), why))
            if key not in both:
                self.add(key, loop, Share((Idx(loop.index),), num(0), CARRIED))
        self.start = len(self.out)
        for e in reversed(equations):
            if e.name in carried and e.name not in both:
                below = Ref(partial(e.left.symbol), e.left.index)
                self.shares[e.name] = [p for p in self.shares[e.name] if p[1].reason != CARRIED]
                self.part = e.part
                self.pass_right(e, below, loop)
                self.finished(e, loop)
                continue
            if e.name not in both:  # of what is carried, what comes from above has it already
                self.outside(self.shares.get(e.name, []), e, loop)
            self.outside(self.passed.get(e.name, []), e, loop)
            self.back(e, loop)
        for key, steps in carried.items():
            e = next(x for x in equations if x.name == key)
            for step in steps:
                before = Apply("sub", (Idx(loop.index), num(step)))
                here = [s for at, s in self.shares[key] if at == loop and s.index == (before,)]
                others = [p for p in self.shares[key] if p[1] not in here]
                if step == steps[0]:
                    last = Apply("sub", (loop.lower, num(step)))
                    after = [
                        p for p in others if p[0] is None and not self.below(p[1].index[0], last)
                    ]
                    here += [s.only_at(before) for _, s in after]
                    others = [p for p in others if p not in after]
                self.shares[key] = others
                left = self.carry(e, key in both, before, step)
                none = Share((before,), self.zero(e, left), Reason(said="nothing passes there"))
                self.state(left, here or [none], loop)
        self.start = None
        for ledger in (self.shares, self.passed):
            for key, pairs in ledger.items():
                ledger[key] = [self.summed(p, loop) for p in pairs]

    def summed(self, pair: tuple[Loop | None, Share], loop: Loop) -> tuple[Loop | None, Share]:
        """The sum over all blocks of their shares in ∂ of a value outside the loop."""
        at, s = pair
        if at != loop or any(Idx(loop.index) in walk(x) for x in s.index):
            return pair
        expr = Bind("sum", loop.index, loop.lower, loop.upper, s.expr)
        return None, replace(s, expr=expr)

    def zero(self, e: Equation, left: Ref) -> Expr:
        """Zeros in the shape of a block's value."""
        return self.model.library("spread", num(0), Ref(e.left.symbol, left.index))

    def at_top(self, key: str, block: Expr) -> tuple[list[Share], list[tuple[Loop | None, Share]]]:
        """The uses after a loop of its values: of one of its last blocks, and of other blocks."""
        top: list[Share] = []
        rest: list[tuple[Loop | None, Share]] = []
        for at, s in self.shares.get(key, []):
            if at is not None:
                rest.append((at, s))
                continue
            size = self.model.size(Apply("sub", (block, s.index[0])))
            after = None if size is None else size.number()  # blocks that come after this one
            if after == 0:
                top.append(s)
            else:
                rest.append((at, s))
                if after is None:  # it may be this one: the dimensions can be bound later
                    top.append(s.only_at(block))
        return top, rest

    def outside(self, pairs: list[tuple[Loop | None, Share]], e: Equation, loop: Loop) -> None:
        """Restrict each use after the loop of one block's member to that block, in ``pairs``."""
        i = Idx(loop.index)
        firsts = [self.model.block_index(x.left) for x in self.model.equations
                  if x.name == e.name and x.loop is None]  # fmt: skip
        for k, (at, s) in enumerate(list(pairs)):
            if at is not None or not s.index or self.below(s.index[0], loop.lower):
                continue
            pairs[k] = loop, s.only_at(i)
            for first in firsts:  # x^N is x^0 where there are no blocks
                if not self.below(loop.lower, Apply("add", (s.index[0], num(1)))):
                    pairs.append((None, s.only_at(first[0])))

    def carried(self, loop: Loop, equations: list[Equation]) -> dict[str, list[int]]:
        """The loop's values that a block reads from earlier blocks, and how far back."""
        made = {e.name: e for e in equations}
        out: dict[str, set[int]] = {}
        for e in equations:
            for x in refs(e.right):
                if x.key in made and x.key in self.active:
                    for slot, index in zip(x.symbol.slots, x.index, strict=True):
                        if slot != loop.index:
                            continue
                        step = offset(index, loop.index)
                        if step is not None and -FURTHEST <= step < 0:
                            out.setdefault(x.key, set()).add(-step)
                        elif self.before(loop, index):
                            self.to_all.add(x.key)
                        elif step != 0:
                            raise e.text.error(
                                f"the derivative through {show(x)} is not derived: a block may "
                                f"read its own values and those of the {FURTHEST} blocks before"
                            )
        return {key: sorted(steps) for key, steps in out.items()}

    def named_beside(self) -> set[str]:
        """The values whose names were replaced by their definitions somewhere."""
        calls = (x for e in self.model.equations for x in walk(e.right) if isinstance(x, Apply))
        return {x.key for a in calls if a.op == self.beside for x in refs(a.args[1])}

    def read_in_place(self, key: str, loop: Loop, equations: list[Equation]) -> bool:
        """Whether a block also reads its own member of the value."""
        own = Idx(loop.index)
        return any(x.key == key and own in x.index for e in equations for x in refs(e.right))

    def carry(self, e: Equation, own: bool, at: Expr, step: int = 1) -> Ref:
        """∂x^{at}; if it has several parts, the part that comes from ``step`` blocks above."""
        symbol = above(e.left.symbol, step) if own else partial(e.left.symbol)
        return Ref(symbol, tuple(at if s == e.loop.index else Idx(s) for s in symbol.slots))  # type: ignore[union-attr]

    # -- parameters --------------------------------------------------------------------------------

    def parameters(self, first: Equation) -> None:
        """Write ∂ of the parameters (and other leaves) that no equation before ``first`` uses."""
        for key in [k for k in self.shares if k in self.wanted and not self.read_before(k, first)]:
            self.leaf(key, None)

    def finished(self, e: Equation, loop: Loop | None) -> None:
        """Write ∂ of every parameter whose last use (going back) was this equation."""
        for key in dict.fromkeys(x.key for x in refs(e.right)):
            if key in self.wanted and key in self.shares and not self.read_before(key, e):
                self.leaf(key, loop)

    def read_before(self, name: str, e: Equation) -> bool:
        """Whether an equation before this one reads a name."""
        return self.first_read.get(name, len(self.places)) < self.places[e]

    def leaf(self, key: str, loop: Loop | None) -> None:
        """Write ∂ of a parameter or an input, once all its uses are known."""
        if key in self.values:
            return
        symbol = self.model.symbols[key]
        pairs = self.shares[key]
        blocks = self.model.blocks_of(symbol)
        if blocks:
            later = next((at for at, _ in pairs if at is not None and at.order >= 2 * BACK), None)
            if key in self.one_for_all or not self.readers(key, blocks[0]):
                later = later or self.after(self.over(blocks[0])[0])  # there when all have added
            if (loop is None) == (later is None):
                return  # with its own block's equations, or when all blocks are done
            loop = loop or later
            assert loop is not None
            i = Idx(loop.index)
            inside = [s for at, s in pairs if at is not None]
            for at, s in pairs:
                if at is None:
                    if key in self.one_for_all:  # over blocks, which a block cannot sum over
                        outside = Context(None, (), self.shapes.env, s.reason)
                        s = replace(s, expr=self.simple(s.expr, outside, "back"))
                    inside.append(s.only_at(i))
            self.state(partial(symbol).member, inside, loop)
            del self.shares[key]
        elif loop is None:  # else it is summed over the blocks, after the loop
            self.state(partial(symbol).member, [s for _, s in pairs], None)
            del self.shares[key]


def above(symbol: Symbol, step: int = 1) -> Symbol:
    """The symbol of the part of ∂X^i that comes from block i + step."""
    out = partial(symbol)
    which = (Slot("next"),) if step == 1 else (Slot("next"), Slot(str(step)))
    return replace(out, sub=(*out.sub, *which))


def total(shares: Sequence[Share]) -> Expr:
    """The sum of several shares; very many are grouped into sums of sums, to limit the nesting."""
    terms = [simplified(s.expr) for s in shares]
    while len(terms) > 1:
        groups = (terms[k : k + MOST] for k in range(0, len(terms), MOST))
        terms = [reduce(lambda a, b: simplified(Apply("add", (a, b))), group) for group in groups]
    return terms[0]
