"""Dependence: which values each value is computed from; program slices and reaching definitions.

A backward slice holds everything from which some values are computed, a forward slice everything
computed from them (Weiser 1981); there a name stands for a value in all blocks. `Definitions` tells
which equations may define the x^{i-1} that another equation reads: the same equation in the block
before, or one before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from viete.graph.card import CardData, Equation, Loop, memoised
from viete.graph.sizes import Size
from viete.library.functions import Function
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, num, refs, walk

T = TypeVar("T")
FURTHEST = 8  # how many blocks back a block may read for a derivative to pass


# -- fixpoints and slices --------------------------------------------------------------------------


def reachable(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """The least set that contains ``start`` and everything that follows, in the order found."""
    found = dict.fromkeys(start)
    waiting = list(found)
    for item in waiting:  # it grows as we go
        for other in following(item):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return found


def greatest(
    items: Iterable[T], fails: Callable[[T], bool], following: Callable[[T], Iterable[T]]
) -> set[T]:
    """The greatest set of items that do not fail and do not follow from an item outside it."""
    items = list(items)
    return set(items) - reachable(filter(fails, items), following).keys()


def names_read(equations: Iterable[Equation]) -> frozenset[str]:
    """All names to which some equations refer."""
    return frozenset[str]().union(*(e.reads for e in equations))


def backward_slice(card: CardData, names: Iterable[str]) -> list[Equation]:
    """The equations that these values need, including their own, in the card's order."""
    made = equations_by_name(card)
    needed = reachable(names, lambda name: names_read(made.get(name, ())))
    return [e for e in card.equations if e.name in needed]


def forward_slice(
    card: CardData, names: Iterable[str], passes: Callable[[Equation, str], bool] | None = None
) -> set[str]:
    """These names, and the names of all values computed from them.

    ``passes`` says whether an equation that reads a name hands it on; all do unless it is given.
    """
    readers: dict[str, list[Equation]] = {}
    for e in card.equations:
        for name in e.reads:
            readers.setdefault(name, []).append(e)
    return set(reachable(names, lambda name: (
        e.name for e in readers.get(name, ()) if passes is None or passes(e, name)
    )))  # fmt: skip


def equations_by_name(card: CardData) -> dict[str, list[Equation]]:
    """The equations that define each value: those of x^0 and x^i together."""
    made: dict[str, list[Equation]] = {}
    for e in card.equations:
        made.setdefault(e.name, []).append(e)
    return made


def functions_called(functions: Mapping[str, Function], formulas: Iterable[Expr]) -> list[str]:
    """The names of the functions that formulas call, directly or through each other."""

    def called(e: Expr) -> Iterable[str]:
        return (x.op for x in walk(e) if isinstance(x, Apply) and x.op in functions)

    first = (name for e in formulas for name in called(e))
    return list(reachable(first, lambda name: called(functions[name].body)))


# -- reaching definitions --------------------------------------------------------------------------


def offset(index: Expr, letter: str) -> int | None:
    """c where ``index`` is the loop letter plus a whole number c, else None."""
    match index:
        case Idx(name) if name == letter:
            return 0
        case Apply("sub", (Idx(name), Num(c))) if name == letter and c.denominator == 1:
            return -int(c)
        case Apply("add", (Idx(name), Num(c))) if name == letter and c.denominator == 1:
            return int(c)
    return None


def stepped(index: Expr, step: int) -> Expr:
    """A block's index some blocks later: i - 1 of i - 2."""
    for letter in index.free:
        if (own := offset(index, letter)) is not None:
            index, step = Idx(letter), step + own
            break
    if step == 0:
        return index
    return Apply("add" if step > 0 else "sub", (index, num(abs(step))))


@memoised
def reaching_definitions(card: CardData) -> Definitions:
    """The card's `Definitions`."""
    return Definitions(card)


class Definitions:
    """Which equations define what an equation reads; a card's equations are named by position."""

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.by_name: dict[str, list[int]] = {}
        for k, equation in enumerate(card.equations):
            self.by_name.setdefault(equation.name, []).append(k)
        self.ranges = {x.index: x for x in card.loops}
        self.checked: set[tuple[str, str, Expr, Loop | None]] = set()  # blocks that may be read

    def of(
        self, k: int, ref: Ref, bound: Collection[str] = frozenset()
    ) -> list[tuple[int, bool]]:  # fmt: skip
        """The equations that may define ``ref`` in equation k, and whether it goes around the loop.

        What goes around is of an earlier turn of the loop that both stand in. ``bound`` are the
        letters that a sum or the like around the reference runs over.
        """
        loop, at = self.card.equations[k].loop, self.block(ref)
        out: list[tuple[int, bool]] = []
        for j in self.by_name.get(ref.key, ()):
            m = self.card.equations[j]
            inside = loop is not None and m.loop == loop
            if at is None or not ref.index[at].free.isdisjoint(bound):
                reaches, around = j < k, False  # of any block
            elif any(x is not None and x.down for x in (loop, m.loop)):
                # Derived, not written by hand; a block's member is looked for when it is unrolled.
                reaches, around = j < k or inside, j >= k
            else:
                step = None if loop is None else offset(ref.index[at], loop.index)
                around = inside and step != 0 and (step is None or step < 0)
                reaches = around or (j < k and (
                    (inside and step == 0) or self.may_make(m, at, ref.index[at], step, loop)
                ))  # fmt: skip
            if reaches:
                out.append((j, around))
        return out

    def block(self, ref: Ref) -> int | None:
        """The index slot of a reference that names the block, if it has one."""
        slots = [n for n, s in enumerate(ref.symbol.slots) if s in self.card.loop_letters]
        return slots[0] if len(slots) == 1 else None

    def may_make(
        self, m: Equation, at: int, index: Expr, step: int | None, loop: Loop | None
    ) -> bool:
        """Whether an earlier equation may define block ``index`` = the loop's letter + step."""
        size, made = self.card.size, self.card.size(m.left.index[at])
        if step is None or loop is None:
            value = size(index)
            if value is None or (m.loop is None and made is None):
                return True
            if m.loop is None:
                return self.equal(made, value)
            return not self.outside(value, size(m.loop.lower), size(m.loop.upper))
        starts = [plus(size(loop.lower), s) for s in range(step, 1)]
        return m.loop is not None or made is None or any(self.equal(s, made) for s in starts)

    def number(self, size: Size) -> Fraction | None:
        return size.value(self.card.sizes)

    def equal(self, a: Size | None, b: Size | None) -> bool:
        return a == b or (a is not None and b is not None and self.number(a - b) == 0)

    def outside(self, value: Size, lower: Size | None, upper: Size | None) -> bool:
        """Whether ``value`` certainly lies outside a range."""
        below = None if lower is None else self.number(value - lower)
        above = None if upper is None else self.number(upper - value)
        return (below is not None and below < 0) or (above is not None and above < 0)

    # -- every value is defined before it is used, once, and for the blocks it is used with --------

    def check(self) -> None:
        """Raises VieteError, at the equation, for a value that is used where it does not exist."""
        for k, equation in enumerate(self.card.equations):
            self.check_once(k, equation)
            for ref in dict.fromkeys(refs(equation.right)):
                self.check_blocks(equation, ref)
                if ref.symbol.kind == "value":
                    self.check_defined(k, equation, ref)

    def check_once(self, k: int, equation: Equation) -> None:
        left, letters = equation.left, self.card.loop_letters
        for slot, index in zip(left.symbol.slots, left.index, strict=True):
            if slot not in letters and index != Idx(slot):
                raise equation.text.error(
                    f"one equation makes {show(left.symbol.member)} for every {slot}, so "
                    f"{show(left)} has none of its own before it; as a change it stands behind"
                )
        for j in self.by_name[equation.name]:
            other = self.card.equations[j]
            apart = None not in (other.loop, equation.loop) and other.loop != equation.loop
            if j < k and other.left == equation.left and not apart:
                raise equation.text.error(
                    f"{show(equation.left)} is already defined in line {other.text.line}"
                )

    def check_blocks(self, equation: Equation, ref: Ref) -> None:
        """Check known block numbers: each is whole, and a parameter's is within its range."""
        if ref.symbol.kind not in ("value", "parameter"):
            return
        size, loop, ranges = self.card.size, equation.loop, self.ranges
        for slot, index in zip(ref.symbol.slots, ref.index, strict=True):
            place = ref.symbol.kind, slot, index, loop
            if slot not in ranges or place in self.checked:
                continue
            first = last = size(index)
            if loop is not None:
                if self.outside(Size.of(0), None, minus(size(loop.upper), size(loop.lower))):
                    return  # the loop has no turns
                if (step := offset(index, loop.index)) is not None:
                    first, last = (plus(size(x), step) for x in (loop.lower, loop.upper))
            number = None if first is None else self.number(first)
            if number is not None and number.denominator != 1:
                raise equation.text.error(
                    f"{show(ref)} has the block number {number}, which is not a whole number",
                    *equation.text.place(ref),
                )
            lower, upper = ranges[slot].lower, ranges[slot].upper
            if ref.symbol.kind == "parameter" and any(
                x is not None and self.outside(x, size(lower), size(upper)) for x in (first, last)
            ):
                raise equation.text.error(
                    f"{show(ref)} does not exist in every block: {ref.key} is there for "
                    f"{slot} = {show(lower)}, …, {show(upper)}",
                    *equation.text.place(ref),
                )  # fmt: skip
            self.checked.add(place)

    def check_defined(self, k: int, equation: Equation, ref: Ref) -> None:
        """Check that a definition reaches a reference, in the first block too."""
        at, loop, found = self.block(ref), equation.loop, self.of(k, ref)
        step = None if at is None or loop is None else offset(ref.index[at], loop.index)
        if self.there(k, ref, at, step, found):
            return
        span, name = equation.text.place(ref), show(ref)
        makers = [self.card.equations[j] for j in self.by_name.get(ref.key, ())]
        if step and loop is not None and any(m.loop == loop for m in makers):
            if step > 0:
                raise equation.text.error(
                    f"{name} does not exist yet: blocks are computed in the order of {loop.index}",
                    *span,
                )
            assert at is not None
            first = plus(self.card.size(loop.lower), step)
            raise equation.text.error(
                f"{name} does not exist in the first block; an equation before the loop must "
                f"define it for {ref.symbol.slots[at]} = {first}", *span,
            )  # fmt: skip
        if path := self.cycle(equation.name, ref.key):
            both = next((d.name for d in self.card.dims if d.name in path), "")
            hint = f"; {both} is also a dimension, but an equation means the value: name one of " \
                   f"them otherwise" if both else ""  # fmt: skip
            raise equation.text.error(
                f"these equations are circular: {' needs '.join(path)}{hint}", *span
            )
        if makers and self.by_name[ref.key][0] > k:
            line = makers[0].text.line
            raise equation.text.error(
                f"{name} is used here but defined only in line {line}; move that equation up", *span
            )
        raise equation.text.error(f"no equation before this one defines {name}", *span)

    def there(
        self, k: int, ref: Ref, at: int | None, step: int | None, found: list[tuple[int, bool]]
    ) -> bool:
        """Whether the definitions that reach a reference define it in every turn of its loop."""
        size, loop = self.card.size, self.card.equations[k].loop
        makers = [(self.card.equations[j], j < k, around) for j, around in found]
        if at is None or any(
            x is not None and x.down for x in (loop, *(m.loop for m, *_ in makers))
        ):
            return bool(found)
        if step is None or loop is None:  # of x^2 and x^{⌊i/2⌋} it is not known who makes them
            known = size(ref.index[at]) is not None
            return any(before and not (around and known) for _, before, around in makers)
        loops = [(m.loop, around) for m, _, around in makers if m.loop is not None]
        if step > 0:  # another loop went further
            return any(x != loop and size(x.upper) == plus(size(loop.upper), step)
                       for x, _ in loops)  # fmt: skip
        if step == 0:
            return bool(loops)
        starts = [size(m.left.index[at]) for m, *_ in makers if m.loop is None]
        return any(around for _, around in loops) and (
            any(not around for _, around in loops)  # an earlier loop over the same blocks
            or all(any(self.equal(x, plus(size(loop.lower), s)) for x in starts)
                   for s in range(step, 0))
        )  # fmt: skip

    def cycle(self, start: str, through: str) -> list[str] | None:
        """A path of needs from ``start`` through ``through`` back to ``start``."""
        paths, seen = [[start, through]], {through}
        while paths:
            path = paths.pop()
            if path[-1] == start:
                return path
            for j in self.by_name.get(path[-1], ()):
                for node in walk(self.card.equations[j].right):
                    if isinstance(node, Ref) and node.key not in seen | {path[-1]}:
                        seen.add(node.key)
                        paths.append([*path, node.key])
                    elif isinstance(node, Ref) and node.key == start and not node.index:
                        return [*path, start]
        return None


def minus(a: Size | None, b: Size | None) -> Size | None:
    """The difference, where both are known."""
    return None if a is None or b is None else a - b


def plus(size: Size | None, step: int) -> Size | None:
    """A size and a number of steps, where the size is known."""
    return None if size is None else size + Size.of(step)
