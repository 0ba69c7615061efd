"""Index letters that a question or claim introduces, and the range of each.

In ``A_{j,k+1}`` the letter j ranges over the rows of A; k + 1 ranges over its columns, so k begins
at -1. A letter that indexes several values takes the numbers that are valid in all of them: in
``logits_{j, t_{j+1}}``, j is any position but the last.
"""

from __future__ import annotations

from viete.analysis.card_sizes import CardSizes
from viete.analysis.types import Mismatch, Places, Type, TypeEnv
from viete.graph.sizes import ONE, ZERO, Size, size_of
from viete.notation.heads import head_of
from viete.notation.tree import Bind, Expr


class OwnLetters(CardSizes):
    """The ranges of letters that only a formula declares, found while it is typed."""

    env: TypeEnv

    def places_of(self, letter: str) -> Places:
        """The first value of a declared letter, and the number of its values."""
        declared = next((i for i in self.model.indices if i.name == letter), None)
        first = None if declared is None else self.model.size(declared.lower)
        return first or ZERO, self.env.ranges.get(letter) or ONE

    def count_places(self, index: Expr, first: Size, count: Size, env: TypeEnv) -> None:
        """Record the range of a letter, perhaps shifted, on an axis with ``count`` places."""
        if (head := head_of(index)) is not None and first == ONE:  # its group stands here
            each = size_of(head[1], lambda r: Size.of(r.key) if r.symbol.kind == "dim" else None)
            index, count = (head[0], count * each) if each is not None else (index, count)
        own = index.free - env.ranges.keys()
        if env.letters is None or len(own) != 1:
            return
        (name,) = own
        place = size_of(
            index, lambda r: Size.of(r.key) if r.symbol.kind == "dim" else None,
            lambda x: Size.of(x) if x == name else None,
        )  # fmt: skip
        shift = None if place is None else place - Size.of(name)
        if shift is None or name in shift.names():
            return  # as 2 j, which says nothing of j alone
        new = first - shift, first - shift + count
        start, end = new
        if (known := env.letters.places.get(name)) is not None:
            old = known[0], known[0] + known[1]
            starts, ends = self.ordered(old[0], new[0]), self.ordered(old[1], new[1])
            if starts is None or ends is None:
                raise Mismatch(
                    f"{name} counts {known[1]} places from {known[0]} elsewhere and {count} from "
                    f"{new[0]} here; take two letters", index,
                )  # fmt: skip
            start, end = starts[1], ends[0]
        env.letters.places[name] = start, end - start

    def ordered(self, a: Size, b: Size) -> tuple[Size, Size] | None:
        """Two sizes, the smaller first; None if neither is known to be smaller.

        A text is at most as long as the card says.
        """
        if self.same(a, b):
            return a, b
        for small, large in ((a, b), (b, a)):
            apart = large - small
            for length, limit in self.model.lengths.items():
                most = self.model.size(limit)
                if most is not None and len(most.names()) == 1:
                    apart = apart.substitute({next(iter(most.names())): Size.of(length)})
            number = apart.number()
            limited = number is not None and number >= 0
            if limited or self.is_limit(large, small):
                return small, large
        return None

    def is_limit(self, most: Size, length: Size) -> bool:
        """Whether a size is the greatest length of a text."""
        limit = next((e for n, e in self.model.lengths.items() if Size.of(n) == length), None)
        size = None if limit is None else self.model.size(limit)
        return size is not None and self.same(size, most)

    def over_own(self, e: Bind, env: TypeEnv) -> tuple[Type, Size]:
        """The type of the body of a binder without bounds, and the number of its turns."""
        if env.letters is None:
            raise Mismatch(
                f"the index {e.index} has no range; write {e.op}_{{{e.index}=1}}^{{…}} or declare "
                f"it under Dimensions", e,
            )  # fmt: skip
        outer = env.letters.places.pop(e.index, None)
        body = self.of(e.body, env)
        found = env.letters.places.pop(e.index, None)
        if outer is not None:
            env.letters.places[e.index] = outer
        if found is None:
            raise Mismatch(f"the letter {e.index} counts no rows, columns, heads or blocks here", e)
        env.letters.bounds[e] = found
        return body, found[1]

    def of(self, e: Expr, env: TypeEnv | None = None) -> Type:
        """The type of an expression; raises Mismatch."""
        raise NotImplementedError
