"""That every value is defined before it is used, once, and for the blocks it is used with."""

from __future__ import annotations

from fractions import Fraction

from viete.graph.card import CardData, Equation, Loop
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, walk


class Order:
    """That every value is defined before it is used, once, and for the indices it is used with."""

    def __init__(self, card: CardData) -> None:
        self.model = card
        self.ranges = {loop.index: (loop.lower, loop.upper) for loop in card.loops}
        self.empty: dict[Loop, bool] = {}
        self.by_key: dict[str, list[tuple[int, Equation]]] = {}
        for k, equation in enumerate(card.equations):
            self.by_key.setdefault(equation.name, []).append((k, equation))

    def check(self) -> None:
        for k, equation in enumerate(self.model.equations):
            self.once(k, equation)
            for node in walk(equation.right):
                if isinstance(node, Ref) and node.symbol.kind in ("value", "parameter"):
                    self.blocks(equation, node)
                if isinstance(node, Ref) and node.symbol.kind == "value":
                    self.available(k, equation, node)

    def once(self, k: int, equation: Equation) -> None:
        for j, other in self.by_key[equation.name]:
            if (
                j < k
                and other.left == equation.left
                and (other.loop == equation.loop or other.loop is None or equation.loop is None)
            ):
                line = other.text.line
                raise equation.text.error(
                    f"{show(equation.left)} is already defined in line {line}"
                )

    def blocks(self, equation: Equation, ref: Ref) -> None:
        """That a block number is whole, and a parameter's within its range, where it is known."""
        size, span = self.model.size, ref.at or (0, None)
        loop = equation.loop
        for slot, index in zip(ref.symbol.slots, ref.index, strict=True):
            if slot not in self.ranges:
                continue
            if loop is not None and self.has_no_turns(loop):
                return
            first = last = size(index)
            if loop is not None and (step := offset(index, loop.index)) is not None:
                first, last = _plus(size(loop.lower), step), _plus(size(loop.upper), step)
            number = None if first is None else self.number(first)
            if number is not None and number.denominator != 1:
                raise equation.text.error(
                    f"{show(ref)} has the block number {number}, which is not a whole number", *span
                )
            lower, upper = self.ranges[slot]
            if ref.symbol.kind == "parameter" and any(
                x is not None and self.outside(x, size(lower), size(upper)) for x in (first, last)
            ):
                raise equation.text.error(
                    f"{show(ref)} does not exist in every block: {ref.key} is there for "
                    f"{slot} = {show(lower)}, …, {show(upper)}", *span,
                )  # fmt: skip

    def has_no_turns(self, loop: Loop) -> bool:
        if loop not in self.empty:
            turns = _minus(self.model.size(loop.upper), self.model.size(loop.lower))
            self.empty[loop] = self.outside(Size.of(0), None, turns)
        return self.empty[loop]

    def number(self, size: Size) -> Fraction | None:
        try:
            return size.evaluate(self.model.sizes)
        except (KeyError, ZeroDivisionError):
            return None

    def equal(self, a: Size | None, b: Size) -> bool:
        return a == b or (a is not None and self.number(a - b) == 0)

    def outside(self, value: Size, lower: Size | None, upper: Size | None) -> bool:
        """Whether ``value`` is known to lie outside a range."""
        below = None if lower is None else self.number(value - lower)
        above = None if upper is None else self.number(upper - value)
        return (below is not None and below < 0) or (above is not None and above < 0)

    def available(self, k: int, equation: Equation, ref: Ref) -> None:
        makers = self.by_key.get(ref.key, [])
        loop_slots = [(s, e) for s, e in zip(ref.symbol.slots, ref.index, strict=True)
                      if s in self.model.loop_letters]  # fmt: skip
        if not loop_slots:
            if makers and min(j for j, _ in makers) < k:
                return
        elif (len(loop_slots) == 1 and self.reaches(k, equation, makers, loop_slots[0][1])) or (
            len(loop_slots) > 1 and any(j < k for j, _ in makers)
        ):
            return
        span = ref.at or (0, None)
        name = show(ref)
        loop, step = equation.loop, None
        if loop is not None and len(loop_slots) == 1 and any(m.loop == loop for _, m in makers):
            step = offset(loop_slots[0][1], loop.index)
        if loop is not None and step is not None and step > 0:
            raise equation.text.error(
                f"{name} does not exist yet: blocks are computed in the order of {loop.index}",
                *span,
            )
        if loop is not None and step is not None and step < 0:
            first = _plus(self.model.size(loop.lower), step)
            raise equation.text.error(
                f"{name} does not exist in the first block; an equation before the loop must "
                f"define it for {loop_slots[0][0]} = {first}", *span,
            )  # fmt: skip
        if path := self.cycle(equation.name, ref.key):
            both = next((d.name for d in self.model.dims if d.name in path), "")
            hint = f"; {both} is also a dimension, but an equation means the value: name one of " \
                   f"them otherwise" if both else ""  # fmt: skip
            raise equation.text.error(
                f"these equations go in a circle: {' needs '.join(path)}{hint}", *span
            )
        if makers and all(j > k for j, _ in makers):
            line = makers[0][1].text.line
            raise equation.text.error(
                f"{name} is used here but defined only in line {line}; move that equation up", *span
            )
        raise equation.text.error(f"no equation before this one defines {name}", *span)

    def reaches(
        self, k: int, equation: Equation, makers: list[tuple[int, Equation]], index: Expr
    ) -> bool:
        """Whether the member ``index`` of a block family exists when equation k is computed."""
        size = self.model.size
        loop = equation.loop
        if any(x is not None and x.down for x in (loop, *(m.loop for _, m in makers))):
            # Derived, not written by hand; each block's member is looked for when it is unrolled.
            return any(j < k or m.loop == loop for j, m in makers)
        step = offset(index, loop.index) if loop is not None else None
        if loop is not None and step is not None:
            if step > 0:
                return any(
                    j < k and m.loop is not None and m.loop != loop
                    and size(m.loop.upper) == _plus(size(loop.upper), step) for j, m in makers
                )  # fmt: skip
            here = [j for j, m in makers if m.loop == loop]
            earlier = any(j < k and m.loop is not None and m.loop != loop for j, m in makers)
            if earlier and step == 0:
                return True
            if step == 0:
                return any(j < k for j in here)
            first = size(loop.lower)
            starts = {size(m.left.index[m.left.symbol.slots.index(loop.index)])
                      for j, m in makers if j < k and m.loop is None}  # fmt: skip
            needed = {_plus(first, s) for s in range(step, 0)}
            return bool(here) and (needed <= starts or earlier)
        value = size(index)
        for j, m in makers:
            if j >= k:
                continue
            if m.loop is None or m.loop == loop:
                if value is None or any(self.equal(size(x), value) for x in m.left.index):
                    return True
            elif value is None or not self.outside(value, size(m.loop.lower), size(m.loop.upper)):
                return True
        return False

    def cycle(self, start: str, through: str) -> list[str] | None:
        """A path of needs from ``start`` through ``through`` back to ``start``."""
        paths, seen = [[start, through]], {through}
        while paths:
            path = paths.pop()
            if path[-1] == start:
                return path
            for _, maker in self.by_key.get(path[-1], []):
                for node in walk(maker.right):
                    if isinstance(node, Ref) and node.key not in seen | {path[-1]}:
                        seen.add(node.key)
                        paths.append([*path, node.key])
                    elif isinstance(node, Ref) and node.key == start and not node.index:
                        return [*path, start]
        return None


FURTHEST = 8  # how many blocks back a block may read for a derivative to pass


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


def _minus(a: Size | None, b: Size | None) -> Size | None:
    return None if a is None or b is None else a - b


def _plus(size: Size | None, step: int) -> Size | None:
    return None if size is None else size + Size.of(step)
