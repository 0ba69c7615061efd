"""The shapes of a card's values as they are computed, in symbols and in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from viete.analysis.cost import lengths_of
from viete.analysis.def_use import DefUse
from viete.errors import VieteError
from viete.graph.card import CardData, Loop
from viete.graph.sizes import Size, spell
from viete.notation.tree import Idx


class Sizes:
    """A card's numbers for given lengths and batch."""

    def __init__(
        self, card: CardData, lengths: Mapping[str, int] | None = None, batch: int | None = None
    ) -> None:
        self.model, self.batch = card, batch
        found = lengths_of(card, lengths or {})
        if lacking := card.lengths.keys() - found.keys():
            raise VieteError(f"the length {min(lacking)} of {card.title} needs a number")
        self.values = card.sizes | {name: Fraction(n) for name, n in found.items()}

    def number(self, size: Size) -> Fraction:
        try:
            return size.evaluate(self.values)
        except KeyError as missing:
            raise VieteError(
                f"the dimension {missing.args[0]} of {self.model.title} has no value; give one "
                f"with --set {missing.args[0]}=… or model.bind({missing.args[0]}=…)"
            ) from None
        except ZeroDivisionError:
            raise VieteError(f"{size} divides by zero") from None

    def text(self, size: Size) -> str:
        return str(self.number(size))


class Axes:
    """The shape of every value as it is computed: batch, index letters, rows, columns."""

    def __init__(self, uses: DefUse, style: str) -> None:
        self.uses, self.style = uses, style
        model = uses.model
        names = {d.name for d in model.dims} | {i.name for i in model.inputs}
        names |= {p.name for p in model.parameters} | uses.by_name.keys()
        self.batch = next(b for b in ("B", "batch", "batch size") if b not in names)

    def of(self, k: int) -> tuple[Size, ...]:
        """The axes of equation k's result, without the batch."""
        shapes, equation = self.uses.shapes, self.uses.model.equations[k]
        return self.family(k) + shapes.computed.get(k, shapes.types[equation.name].shape)

    def family(self, k: int) -> tuple[Size, ...]:
        """The number of values of each index letter that equation k computes at once."""
        shapes, equation = self.uses.shapes, self.uses.model.equations[k]
        lettered = zip(equation.left.symbol.slots, equation.left.index, strict=True)
        counts = [
            shapes.env.ranges[s]
            for s, index in lettered
            if s in shapes.types[equation.name].family and isinstance(index, Idx)
        ]
        return tuple(shapes.simplest(c) for c in counts if c is not None)

    def show(self, axes: tuple[Size, ...], batched: bool) -> str:
        """``(B, H, T, d_k)``."""
        shown = [a.show(self.style) for a in axes]
        return f"({', '.join([spell(self.batch, self.style)] * batched + shown)})"

    def count(self, axes: tuple[Size, ...], batched: bool, sizes: Sizes) -> str:
        """``(64, 4, 256, 16)``."""
        front = [str(sizes.batch)] if batched and sizes.batch is not None else []
        return f"({', '.join(front + [sizes.text(a) for a in axes])})"


def turns(card: CardData, loop: Loop, sizes: Sizes) -> str:
    """``6 times``."""
    lower, upper = card.size(loop.lower), card.size(loop.upper)
    if lower is None or upper is None:
        return "many times"
    count = sizes.number(upper - lower) + 1
    return "once" if count == 1 else f"{count} times"


__all__ = ["Axes", "Sizes", "turns"]
