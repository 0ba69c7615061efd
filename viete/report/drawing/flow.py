"""The data flow of a card as a diagram: what makes a value, what uses it, and what goes around."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from viete.analysis.cost import lengths_of
from viete.analysis.def_use import DefUse, Use, def_use
from viete.document.tree import capital
from viete.errors import VieteError
from viete.graph.card import CardData, Input, Loop
from viete.graph.sizes import Size, spell
from viete.notation.printer import letters, show, show_equation, show_symbol
from viete.notation.tree import Idx, Ref
from viete.report.drawing import Arrow, Box, BoxGroup, Diagram


def flow(
    card: CardData,
    detail: str = "parts",
    lengths: Mapping[str, int] | None = None,
    batch: int | None = None,
    style: str = "unicode",
) -> Diagram:
    """The forward pass as boxes and arrows, ready for `to_svg`, `to_text` and `to_mermaid`.

    ``detail`` 'parts' makes a box of every titled part of the card, 'equations' of every equation.
    A value added back to what was computed from it has a residual arrow, and the sum has a box of
    its own where the part would hide it; a loop is a group, with an arrow back for what goes
    around. ``lengths`` puts the numbers beside the symbols in every shape, ``batch`` an axis of so
    many sequences in front. Raises VieteError for another ``detail``, and for a length or a
    dimension without a number where numbers are wanted.
    """
    if detail not in ("parts", "equations"):
        raise VieteError(f"the detail of a diagram is parts or equations, not {detail}")
    numbers = None if lengths is None else Sizes(card, lengths, batch)
    return _Flow(def_use(card), detail, numbers, style).diagram()


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
        """The axes of what equation k makes, without the batch."""
        shapes, equation = self.uses.shapes, self.uses.model.equations[k]
        return self.family(k) + shapes.computed.get(k, shapes.types[equation.name].shape)

    def family(self, k: int) -> tuple[Size, ...]:
        """How many values each index letter has that equation k computes for all at once."""
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


class _Flow:
    def __init__(self, uses: DefUse, detail: str, sizes: Sizes | None, style: str) -> None:
        self.uses, self.model, self.sizes, self.style = uses, uses.model, sizes, style
        self.axes = Axes(uses, style)
        self.dots = "..." if style == "plain" else "…"
        parts = uses.parts if detail == "parts" else [[k] for p in uses.parts for k in p]
        self.whole = {k for p in parts if len(p) > 1 or detail == "parts" for k in p}
        self.boxes = [box for part in parts for box in self.split(part)]
        self.home = {k: n for n, box in enumerate(self.boxes) for k in box}

    def diagram(self) -> Diagram:
        model = self.model
        used = {u.ref.key for u in self.uses.all if u.maker is None}
        inputs = [self.input(i) for i in model.inputs if i.name in used]
        boxes = [self.box(n) for n in range(len(self.boxes))]
        groups = tuple(BoxGroup(self.group(loop), self.turns(loop)) for loop in model.loops)
        return Diagram(model.title, (*inputs, *boxes), tuple(self.arrows()), groups)

    # -- boxes -------------------------------------------------------------------------------------

    def split(self, part: list[int]) -> list[list[int]]:
        """A part with its residual sums and its verdicts in boxes of their own.

        Where what is added back is also read inside the part, one box would hide that.
        """
        out: list[list[int]] = [[]]
        for k in part:
            added = {u.ref for u in self.uses.all if u.reader == k and u.added}
            inside = any(
                u.reader in part and u.reader < k and u.ref in added for u in self.uses.all
            )
            beside = any(self.uses.is_output(j) for j in part if j != k)
            if inside or (self.uses.is_verdict(k) and beside):
                out += [[k], []]
            else:
                out[-1].append(k)
        return [box for box in out if box]

    def box(self, n: int) -> Box:
        members = self.boxes[n]
        first = self.model.equations[members[0]]
        equations = [
            show_equation(self.model.equations[k].left, self.model.equations[k].right, self.style)
            for k in members
        ]
        part = next(p for p in self.uses.parts if members[0] in p)
        titled = first.part and members[0] in self.whole
        if titled and members[0] == part[0]:
            title, named = first.part, True
        elif len(members) > 1:  # what follows a sum that stands alone
            title, named = f"{first.part}, continued", True
        else:
            short = 0 < len(first.meaning) <= 48 and not any(c in first.meaning for c in "$`;")
            named = short and (not first.part or self.uses.is_verdict(members[0]))
            title = capital(first.meaning) if named else equations[0]
        lines: list[str] = []
        for k, equation in zip(members, equations, strict=True):
            shape = self.shape(k)
            if lines and lines[-1] == shape:
                lines.pop()  # said once for all that have it
            lines += [equation, shape] if named else [shape]
        ends = [k for k in members if self.uses.is_output(k)]
        group = None if first.loop is None else self.group(first.loop)
        return Box(str(n), title, tuple(lines), "output" if ends else "value", group)

    def input(self, item: Input) -> Box:
        lines = [item.meaning] if item.meaning and "$" not in item.meaning else []
        if item.low is not None and item.high is not None:
            low, high = show(item.low, self.style), show(item.high, self.style)
            a, b = self.model.size(item.low), self.model.size(item.high)
            pair = a is not None and b is not None and b - a == Size.of(1)
            lines.append(f"{{{low}, {high}}}" if pair else f"{{{low}, {self.dots}, {high}}}")
        shape = self.uses.shapes.types[item.name].shape
        lines.append(self.sized(shape, True))
        title = show_symbol(item.symbol, self.style)
        return Box(f"input {item.name}", title, tuple(lines), "input")

    def shape(self, k: int) -> str:
        return self.sized(self.axes.of(k), bool(self.uses.inputs_of(k)))

    def sized(self, axes: tuple[Size, ...], batched: bool) -> str:
        """``(B, T, d) = (64, 256, 256)``, or ``(T, d)`` where no numbers are wanted."""
        batched = batched and self.sizes is not None and self.sizes.batch is not None
        if not axes and not batched:
            return "one number"
        shape = self.axes.show(axes, batched)
        if self.sizes is None:
            return shape
        counted = self.axes.count(axes, batched, self.sizes)
        return shape if shape == counted else f"{shape} = {counted}"

    def group(self, loop: Loop) -> str:
        return f"loop {loop.order}"

    def turns(self, loop: Loop) -> str:
        """``for i = 1, …, N``, with the number of turns where numbers are wanted."""
        lower, upper = (show(e, self.style) for e in (loop.lower, loop.upper))
        text = f"for {letters(loop.index, self.style)} = {lower}, {self.dots}, {upper}"
        if self.sizes is None:
            return text
        return f"{text}: {turns(self.model, loop, self.sizes)}"

    # -- arrows ------------------------------------------------------------------------------------

    def arrows(self) -> list[Arrow]:
        """One arrow for all the values that go from one box to another in the same way."""
        bundles: dict[tuple[str, str, bool, bool], dict[str, None]] = {}
        first_reader: dict[int, int] = {}
        for use in self.uses.all:
            source, target = self.source(use), self.home[use.reader]
            if source == str(target) and not use.around:
                continue
            if use.around and use.maker is not None:  # back to where the value is first wanted
                target = first_reader.setdefault(use.maker, target)
            key = source, str(target), use.added and not use.around, use.around
            bundles.setdefault(key, {})[self.label(use)] = None
        out = []
        for (source, goal, added, around), names in bundles.items():
            out.append(Arrow(source, goal, ", ".join(filter(None, names)), added, around))
        return out

    def source(self, use: Use) -> str:
        return f"input {use.ref.key}" if use.maker is None else str(self.home[use.maker])

    def label(self, use: Use) -> str:
        """The value's name, where the box it comes from does not say it."""
        if use.maker is None:
            return ""
        made = self.model.equations[use.maker]
        index = []
        outer = self.model.equations[use.reader].loop
        for slot, there, here in zip(
            use.ref.symbol.slots, made.left.index, use.ref.index, strict=True
        ):
            own = made.loop is not None and slot == made.loop.index and made.loop != outer
            fixed = all(not isinstance(x, Idx) for x in (here, *getattr(here, "args", ())))
            index.append(here if own and fixed else there)
        name = Ref(use.ref.symbol, tuple(index))
        if len(self.boxes[self.home[use.maker]]) == 1 and name == made.left and not use.around:
            return ""
        return show(name, self.style)


def turns(card: CardData, loop: Loop, sizes: Sizes) -> str:
    """``6 times``."""
    lower, upper = card.size(loop.lower), card.size(loop.upper)
    if lower is None or upper is None:
        return "many times"
    count = sizes.number(upper - lower) + 1
    return "once" if count == 1 else f"{count} times"


__all__ = ["Axes", "Sizes", "flow", "turns"]
