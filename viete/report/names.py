"""How a document writes a card's names, shapes and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from viete.analysis.cost import Costs, costs
from viete.analysis.def_use import def_use
from viete.analysis.traits import Traits
from viete.cards.writer import CardWriter
from viete.document.tree import capital, listed
from viete.graph.card import CardData
from viete.graph.sizes import Size, spell
from viete.notation.printer import letters, show_symbol
from viete.notation.tree import Expr
from viete.report.drawing.sizes import Axes, Sizes


class SizedCard:
    """A card for given lengths and batch, with formulas in one style between dollar signs."""

    def __init__(self, card: CardData, batch: int, lengths: dict[str, int], style: str) -> None:
        self.model, self.batch, self.lengths, self.style = card, batch, lengths, style
        self.costs: Costs = costs(card, lengths, batch)
        self.sizes = Sizes(card, lengths, batch)
        self.write = CardWriter(card, style)
        self.uses = def_use(card)
        self.traits = Traits(card, self.uses)
        self.axes = Axes(self.uses, style)

    @property
    def batch_letter(self) -> str:
        return spell(self.axes.batch, self.style)

    def name(self, k: int) -> str:
        """The left side of equation k."""
        return f"${self.write.e(self.model.equations[k].left)}$"

    def value(self, key: str) -> str:
        """A value, input or parameter by its key, with its index letters."""
        declared = {i.name: i.symbol for i in self.model.inputs}
        declared |= {p.name: p.symbol for p in self.model.parameters}
        declared |= {e.name: e.left.symbol for e in self.model.equations}
        return f"${show_symbol(declared[key], self.style)}$"

    def shape(self, k: int) -> str:
        """``$(B, T, d)$ = `(64, 256, 256)```."""
        return self.sized(self.axes.of(k), self.batched(k))

    def batched(self, k: int) -> bool:
        return bool(self.uses.inputs_of(k))

    def sized(self, axes: tuple[Size, ...], batched: bool) -> str:
        if not axes and not batched:
            return "one number"
        return self.both(self.axes.show(axes, batched), self.axes.count(axes, batched, self.sizes))

    def both(self, symbols: str, numbers: str) -> str:
        r"""``$d \to d_k$ = `256 → 16```; only the numbers where there are no symbols."""
        named = re.search(r"[^\W\d]", bare(symbols))
        return f"${symbols}$ = `{numbers}`" if named else f"`{numbers}`"

    def pair(self, axes: tuple[Size, ...], batched: bool) -> tuple[str, str]:
        symbols = self.axes.show(axes, batched)
        return f"${symbols}$", f"`{self.axes.count(axes, batched, self.sizes)}`"

    def product(self, sizes: Iterable[Size]) -> tuple[str, str]:
        """``d \\times d_k`` and ``256 × 16``."""
        sizes = list(sizes)
        times = self.write.sign(" × ", r" \times ", " × ")
        shown = [s.show(self.style) for s in sizes]
        return (
            times.join(f"({s})" if " " in s and len(sizes) > 1 else s for s in shown),
            " × ".join(self.sizes.text(s) for s in sizes),
        )

    def size(self, e: Expr) -> Size:
        size = self.model.size(e)
        assert size is not None  # shapes were checked
        return size

    def letter(self, letter: str) -> str:
        """``$h$ (head)``, for an index letter."""
        meaning = next((i.meaning for i in self.model.indices if i.name == letter), "")
        return f"${letters(letter, self.style)}$" + (f" ({meaning})" if meaning else "")

    def copies(self, letter: str) -> int:
        """The number of values of an index letter."""
        ranges = {i.name: (i.lower, i.upper) for i in self.model.indices}
        ranges |= {loop.index: (loop.lower, loop.upper) for loop in self.model.loops}
        lower, upper = ranges[letter]
        return int(self.sizes.number(self.size(upper) - self.size(lower))) + 1

    def equations(self, numbers: Iterable[int]) -> str:
        """``equations 2, 8 and 11``, numbered as in the card."""
        all_of, shown = sorted({k + 1 for k in numbers}), list[str]()
        for _, run in groupby(enumerate(all_of), key=lambda pair: pair[1] - pair[0]):
            first, *rest = [n for _, n in run]
            shown += [f"{first} to {rest[-1]}"] if len(rest) > 1 else map(str, [first, *rest])
        return f"equation{'s' * (len(all_of) > 1)} {listed(shown)}"

    def called(self, k: int) -> str:
        """Equation k as a title: its meaning if that is short, else its left side."""
        meaning = self.model.equations[k].meaning
        short = 0 < len(meaning) <= 60 and "$" not in meaning
        return capital(meaning) if short else self.name(k)


def bare(formula: str) -> str:
    """A formula without LaTeX commands."""
    return re.sub(r"\\[a-z]+", "", formula)
