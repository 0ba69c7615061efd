"""A whole backward pass: the equations in reverse order, block loops run downwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viete.algebra.adjoint.passing import Context, Passing, Share, partial
from viete.algebra.adjoint.reasons import UNSAID, Reason, because
from viete.algebra.adjoint.simplify import simplified
from viete.algebra.adjoint.tidy import tidied
from viete.algebra.model import Equation, Loop, Model
from viete.algebra.order import offset
from viete.notation.expr import Apply, Bind, Expr, Idx, Ref, Slot, Symbol, num, walk
from viete.notation.printer import show

CARRIED = Reason(said="carried")


class Backward(Passing):
    """The derivation of ∂X for every value X between ``loss`` and what is ``wanted``."""

    def __init__(self, model: Model, loss: Ref, wanted: frozenset[str]) -> None:
        super().__init__(model, wanted)
        self.loss = loss

    def derive(self) -> Model:
        """The model with its backward equations."""
        self.shares[self.loss.key] = [(None, Share((), num(1), UNSAID))]
        for loop, equations in reversed(self.segments()):
            if loop is None:
                for e in reversed(equations):
                    self.back(e, None)
            else:
                self.back_through(loop, equations)
            self.parameters(equations[0])
        self.complete_or_refused()
        out = tidied(self.out, self.helpers)
        loops = dict.fromkeys(e.loop for e in out if e.loop is not None)
        first = len(self.model.loops)
        order = {loop: replace(loop, order=first + k) for k, loop in enumerate(loops)}
        out = [replace(e, loop=e.loop and order[e.loop]) for e in out]
        return replace(self.model, equations=(*self.model.equations, *out))

    def complete_or_refused(self) -> None:
        """That no share was left aside."""
        for key, pairs in self.shares.items():
            if pairs and key != self.loss.key and key in self.active:
                e = self.model.equations[max(1, pairs[0][1].reason.equation) - 1]
                at = ", ".join(map(show, pairs[0][1].index))
                raise e.text.error(f"the derivative by the block {at} of {key} is not derived")

    def segments(self) -> list[tuple[Loop | None, list[Equation]]]:
        out: list[tuple[Loop | None, list[Equation]]] = []
        for e in self.model.equations:
            if not out or out[-1][0] != e.loop:
                out.append((e.loop, []))
            out[-1][1].append(e)
        return out

    def back(self, e: Equation, loop: Loop | None) -> None:
        """One forward equation: ∂ of its left side is complete, and is handed on to its right."""
        if e.name not in self.active or e.name not in self.shares:
            return
        self.part = e.part
        back = self.complete(e, loop)
        if back is None:
            return
        env = self.shapes.env
        number = self.model.equations.index(e) + 1
        self.pass_on(e.right, back, Context(loop, (), env, Reason(number)), e.left)
        self.finished(e, loop)

    def complete(self, e: Equation, loop: Loop | None) -> Expr | None:
        """The equation of ∂ of a left side, from all shares; what stands for it from here on."""
        symbol = e.left.symbol
        pairs = self.shares[e.name]
        if e.name == self.loss.key:
            return num(1)
        blocks = self.blocks(e.left)
        here = [s for at, s in pairs if at == loop and s.index == blocks]
        if loop is None and not here and symbol.slots:
            # x^0, say: the loop has made its derivative already.
            made = {x.name for x in self.out}
            both = (above(symbol), partial(symbol))
            return next((Ref(s, e.left.index) for s in both if s.key in made), None)
        if not here:
            return None
        self.shares[e.name] = [p for p in pairs if p[1] not in here]
        return self.state(Ref(partial(symbol), e.left.index), here, loop)

    def blocks(self, left: Ref) -> tuple[Expr, ...]:
        return tuple(
            x for s, x in zip(left.symbol.slots, left.index, strict=True)
            if s in self.model.loop_letters
        )  # fmt: skip

    def state(self, left: Ref, shares: Sequence[Share], loop: Loop | None) -> Ref:
        """Write down ``left = the sum of the shares``."""
        total = simplified(shares[0].expr)
        for s in shares[1:]:
            total = simplified(Apply("add", (total, simplified(s.expr))))
        self.write(left, total, loop, because([s.reason for s in shares]))
        return left

    # -- loops -------------------------------------------------------------------------------------

    def back_through(self, loop: Loop, equations: list[Equation]) -> None:
        """A block loop, run downwards; what block i reads of block i − 1 is carried on."""
        upper = loop.upper
        carried = self.carried(loop, equations)
        both = {k for k in carried if self.read_in_place(k, loop, equations)}
        own = (Idx(loop.index),)
        both |= {k for k in carried if any(s.index == own for _, s in self.shares.get(k, []))}
        for key in carried:
            e = next(x for x in equations if x.name == key)
            top, rest = self.at_top(key, upper)
            self.shares[key] = rest
            left = self.carry(e, key in both, upper)
            if not top:
                zero = Apply("spread", (num(0), Ref(e.left.symbol, left.index)), 1)
                top = [Share((upper,), zero, Reason(said="nothing reads the last block's"))]
            self.state(left, top, None)
            if key in both:
                i = Idx(loop.index)
                above = Reason(said="from the block above")
                self.add(key, loop, Share((i,), self.carry(e, True, i), above))
            else:
                self.add(key, loop, Share((Idx(loop.index),), num(0), CARRIED))
        self.start = len(self.out)
        for e in reversed(equations):
            if e.name in carried and e.name not in both:
                below = Ref(partial(e.left.symbol), e.left.index)
                self.shares[e.name] = [p for p in self.shares[e.name] if p[1].reason != CARRIED]
                self.part = e.part
                number = self.model.equations.index(e) + 1
                self.pass_on(
                    e.right, below, Context(loop, (), self.shapes.env, Reason(number)), e.left
                )
                self.finished(e, loop)
                continue
            if e.name not in both:  # of what is carried, what comes from above has it already
                self.outside(e, loop)
            self.back(e, loop)
        for key in carried:
            e = next(x for x in equations if x.name == key)
            before = Apply("sub", (Idx(loop.index), num(1)))
            here = [s for at, s in self.shares[key] if at == loop and s.index == (before,)]
            others = [p for p in self.shares[key] if p[1] not in here]
            for p in others:
                if p[0] is None:
                    test = Apply("eq", (before, p[1].index[0]))
                    here.append(replace(p[1], expr=Apply("where", (test, p[1].expr, num(0)))))
            self.shares[key] = [p for p in others if p[0] is not None]
            self.state(self.carry(e, key in both, before), here, loop)
        self.start = None
        for key, pairs in self.shares.items():
            self.shares[key] = [self.summed(p, loop) for p in pairs]

    def summed(self, pair: tuple[Loop | None, Share], loop: Loop) -> tuple[Loop | None, Share]:
        """What every block adds to the derivative of something outside of the loop, in all."""
        at, s = pair
        if at != loop or any(Idx(loop.index) in walk(x) for x in s.index):
            return pair
        expr = Bind("sum", loop.index, loop.lower, loop.upper, s.expr)
        return None, replace(s, expr=expr)

    def at_top(self, key: str, upper: Expr) -> tuple[list[Share], list[tuple[Loop | None, Share]]]:
        """The uses after a loop of its last block's value, and those of other blocks."""
        top: list[Share] = []
        rest: list[tuple[Loop | None, Share]] = []
        for at, s in self.shares.get(key, []):
            if at is not None:
                rest.append((at, s))
                continue
            size = self.model.size(Apply("sub", (upper, s.index[0])))
            after = None if size is None else size.number()  # blocks that come after this one
            if after == 0:
                top.append(s)
            else:
                rest.append((at, s))
                if after is None:  # it may be the last one: the dimensions can be bound later
                    test = Apply("eq", (upper, s.index[0]))
                    top.append(replace(s, expr=Apply("where", (test, s.expr, num(0)))))
        return top, rest

    def outside(self, e: Equation, loop: Loop) -> None:
        """Uses after the loop of one block's member: they count for that block alone."""
        pairs = self.shares.get(e.name, [])
        for k, (at, s) in enumerate(pairs):
            if at is None and s.index:
                test = Apply("eq", (Idx(loop.index), s.index[0]))
                share = Share((Idx(loop.index),), Apply("where", (test, s.expr, num(0))), s.reason)
                pairs[k] = (loop, share)

    def carried(self, loop: Loop, equations: list[Equation]) -> list[str]:
        """The values of this loop that a block reads from the block before."""
        made = {e.name: e for e in equations}
        out: dict[str, None] = {}
        for e in equations:
            for x in walk(e.right):
                if isinstance(x, Ref) and x.key in made and x.key in self.active:
                    for slot, index in zip(x.symbol.slots, x.index, strict=True):
                        if slot != loop.index:
                            continue
                        step = offset(index, loop.index)
                        if step == -1:
                            out[x.key] = None
                        elif step != 0:
                            raise e.text.error(
                                f"the derivative through {show(x)} is not derived: a block may "
                                f"read its own values and those of the block before"
                            )
        return list(out)

    def read_in_place(self, key: str, loop: Loop, equations: list[Equation]) -> bool:
        """Whether a block also reads its own member."""
        return any(
            isinstance(x, Ref) and x.key == key and Idx(loop.index) in x.index
            for e in equations for x in walk(e.right)
        )  # fmt: skip

    def carry(self, e: Equation, own: bool, at: Expr) -> Ref:
        """∂x^{at}, or the part of it that comes from the block above, where there is more."""
        symbol = above(e.left.symbol) if own else partial(e.left.symbol)
        return Ref(symbol, tuple(at if s == e.loop.index else Idx(s) for s in symbol.slots))  # type: ignore[union-attr]

    # -- parameters --------------------------------------------------------------------------------

    def parameters(self, first: Equation) -> None:
        """∂ of the parameters (and other leaves) that no equation before ``first`` uses."""
        k = self.model.equations.index(first)
        earlier = {x.key for e in self.model.equations[:k] for x in walk(e.right)
                   if isinstance(x, Ref)}  # fmt: skip
        for key in [k for k in self.shares if k in self.wanted and k not in earlier]:
            self.leaf(key, None)

    def finished(self, e: Equation, loop: Loop | None) -> None:
        """Write ∂ of every parameter whose last use (going back) was this equation."""
        k = self.model.equations.index(e)
        earlier = {x.key for e in self.model.equations[:k] for x in walk(e.right)
                   if isinstance(x, Ref)}  # fmt: skip
        for key in dict.fromkeys(x.key for x in walk(e.right) if isinstance(x, Ref)):
            if key in self.wanted and key in self.shares and key not in earlier:
                self.leaf(key, loop)

    def leaf(self, key: str, loop: Loop | None) -> None:
        """∂ of a parameter or an input, all of whose uses have been met."""
        if any(e.name == key for e in self.model.equations):
            return
        symbol = next(s for g in self.model.scope.symbols.values() for s in g if s.key == key)
        pairs = self.shares[key]
        blocks = [s for s in symbol.slots if s in self.model.loop_letters]
        if blocks:
            if loop is None:
                return
            i = Idx(loop.index)
            inside = [s for at, s in pairs if at is not None]
            for at, s in pairs:
                if at is None:
                    test = Apply("eq", (i, s.index[0]))
                    inside.append(replace(s, expr=Apply("where", (test, s.expr, num(0)))))
            index = tuple(Idx(s) for s in symbol.slots)
            self.state(Ref(partial(symbol), index), inside, loop)
            del self.shares[key]
            return
        if loop is not None:
            return  # summed over the blocks, after the loop
        index = tuple(Idx(s) for s in symbol.slots)
        self.state(Ref(partial(symbol), index), [s for _, s in pairs], None)
        del self.shares[key]


def above(symbol: Symbol) -> Symbol:
    """The symbol of the part of ∂X^i that comes from block i + 1."""
    out = partial(symbol)
    return replace(out, sub=(*out.sub, Slot("next")))
