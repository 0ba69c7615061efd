"""The incremental form whose shapes stay the same from step to step.

Where the form of `positions` has K of m earlier positions and n new ones stacked, this one has room
for c rows, into which the new ones are written; and where that one counts on from m, this one is
told the new positions as an input q. Rows beyond the last position are never read: a sum over
positions is allowed only under a mask that hides all later than a position's own.
"""

from __future__ import annotations

from viete.analysis.masks import SIGN
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx, Pick, Slice, num, walk
from viete.rewrite.positions import LATER, NEW, Env, Form, Positions, Sizes, Stuck

ROOM = "@@room"


class Fixed(Positions):
    """As `Positions`; ``own`` are the positions q of the new tokens and the room c."""

    every = Size.of(ROOM)
    suffix = "at"

    def shifted(self, e: Expr, size: Sizes, env: Env) -> Expr | None:
        """The position of an index letter; a size stands for no number here."""
        if size[0] == size[1]:
            return e
        return Pick(self.names(env)[0], (e,)) if isinstance(e, Idx) else None

    def spelled(self, size: Size, env: Env) -> Expr:
        """A sum of positions and numbers, such as ``q_j - k``."""
        letters = {SIGN + v.label: k for k, v in env.letters.items()}
        out: Expr | None = None
        for monomial, factor in sorted(size.terms, key=lambda t: (t[1] < 0, not t[0])):
            times = num(factor if factor > 0 else -factor)
            term: Expr = times
            if monomial:
                ((name, power),) = monomial if len(monomial) == 1 else (("", 0),)
                if power != 1 or name not in letters:
                    raise Stuck("a number of positions is made of more than positions")
                term = Idx(letters[name])
                if env.letters[letters[name]].kind == NEW:
                    term = Pick(self.names(env)[0], (term,))
                term = term if times == num(1) else Apply("times", (times, term))
            if out is None:
                out = term if factor > 0 else Apply("neg", (term,))
            else:
                out = Apply("add" if factor > 0 else "sub", (out, term))
        return out or num(0)

    def new_rows(self, start: Form | None, stop: Form | None, env: Env) -> Expr:
        """The new positions; with a start that `picked` takes out of the sum."""
        q = self.names(env)[0]
        if start is None:
            return q
        if start.whole is None:
            raise Stuck("a slice begins where the length of the text says")
        return Apply("add", (start.whole, q))

    def picked(self, e: Pick, value: Expr, items: list[Expr], env: Env) -> Expr:
        """Rows ``2 + q`` as the rows q of those from 2 on, since a sum is no index."""
        q = self.names(env)[0]
        cuts: list[Expr] = [Slice(None, None)] * len(items)
        for k, item in enumerate(items):
            match item:
                case Apply("add", (start, other)) if other == q:
                    cuts[k], items[k] = Slice(start, None), q
        if any(isinstance(x, Slice) and x.start is not None for x in cuts):
            value = Pick(value, tuple(cuts))
        return super().picked(e, value, items, env)

    def check_index(self, e: Expr, env: Env) -> None:
        """Whole numbers that are computed with are no indices any more."""
        if any(x == self.names(env)[0] for x in walk(e)):
            raise Stuck(f"{show(e)} is a place computed from a position")

    def all_rows(self, start: Form | None, stop: Form | None, env: Env) -> Expr:
        """As many as there is room for."""
        c = self.names(env)[1]
        if start is None:
            return Slice(None, c)
        if start.whole is None:
            raise Stuck("a slice begins where the length of the text says")
        return Slice(start.whole, Apply("add", (start.whole, c)))

    def new_size(self, f: Form, env: Env) -> Expr:
        if f.size is None or f.size[1] != LATER:
            raise Stuck(f"{show(f.expr)} counts all positions where the new ones are wanted")
        return f.expr

    def all_size(self, f: Form, env: Env) -> Expr:
        return f.expr if f.size is not None and f.size[1] == self.every else self.names(env)[1]

    def last(self, f: Form, env: Env) -> Expr:
        return Apply("sub", (self.names(env)[1], num(1)))


__all__ = ["Fixed"]
