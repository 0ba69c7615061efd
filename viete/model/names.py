"""The names of TransformerLens in a card: which of its equations each stands for.

names.md gives the meaning of each name once for all cards, by formulas that are matched against the
card's own equations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from viete.analysis.def_use import bodies
from viete.document.displayed import Displayed
from viete.document.tree import Block, heading, item, table
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Equation, Loop
from viete.graph.matching import match
from viete.library.functions import resolved
from viete.model.short_names import Key, get_act_name, near, parted
from viete.model.table import BLOCK, LAST, Entry, NameRow, conventions
from viete.notation.parser import parse
from viete.notation.printer import show, show_equation, show_symbol
from viete.notation.tree import Expr, Idx, Num, Ref, Slot, Symbol, num, replaced, transform, walk
from viete.rewrite.lifting import Place, find
from viete.rewrite.simplify import simplified

_BLOCK = re.compile(r"blocks\.(\d+)\.")

# What queries, keys and values each read of the stream: copies, which then have their own norm.
SPLIT = tuple(f"blocks.{{l}}.hook_{x}_input" for x in "qkv")


@dataclass(frozen=True)
class Found:
    """The meaning of a name in a card.

    ``formula`` is the value, over the card's symbols and the letter of its block. It is the left
    side of an equation, ``ref``, or part of an equation: then ``place`` says where, and ``back`` is
    the formula for that part, with the symbol `table.VALUE` for the value.
    """

    row: NameRow
    formula: Expr
    ref: Ref | None = None
    place: Place | None = None
    back: Expr | None = None

    @property
    def copied(self) -> bool:
        """Whether the value is a copy, for one of the equations that read it."""
        return self.place is not None and isinstance(self.formula, Ref)

    @property
    def letters(self) -> frozenset[str]:
        """The letters of the value; a copy for every head has those of its reader."""
        own = frozenset(self.formula.free)
        if not self.copied or not {"head", "kv_head"} & set(self.row.axes):
            return own
        assert self.place is not None
        return own | self.place.whole.free


class Names(Displayed):
    """The names that hold in a card.

    ``origin`` maps values that were lifted out of an equation to that equation's value: formulas
    that must be in one equation are searched in the values lifted out of it too.
    """

    def __init__(
        self, card: CardData, origin: Mapping[str, Ref] | None = None, heads: tuple[str, ...] = ()
    ) -> None:
        self.model, self.origin = card, dict(origin or {})
        self.entries = conventions().values
        self.loop = self.loop_of_blocks()
        self.symbols = self.own_symbols()
        self.heads = heads or self.letters("A^i")
        self.shared = self.letters("K^i")  # the letters of a key/value head
        self.known: dict[str, Found | None] = {}
        self.split_inputs = False

    def letters(self, key: str) -> tuple[str, ...]:
        """The letters of a value other than the letter of its block."""
        symbol = self.symbols.get(key)
        return () if symbol is None else self.model.heads_of(symbol)

    def loop_of_blocks(self) -> Loop | None:
        """The loop over blocks: the one with a stream, or the only loop, unless over a text."""
        loops = [x for x in self.model.loops if not self.model.lengths_of(x)]
        streams = [e.left.symbol for e in self.model.derived if e.name.startswith("resid_post^")]
        for loop in loops:
            if len(loops) == 1 or any(s.slots == (loop.index,) for s in streams):
                return loop
        return None

    @cached_property
    def blocks(self) -> range:
        """The card's numbers for the blocks that names count from 0."""
        return range(0) if self.loop is None else program(self.model).range_of(self.loop.index)

    @property
    def layers(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def own_symbols(self) -> dict[str, Symbol]:
        """The card's symbols by their keys without the letters of heads."""
        model = self.model
        declared: list[Symbol] = [p.symbol for p in model.parameters]
        declared += [e.left.symbol for e in (*model.derived, *model.equations)]
        others = model.loop_letters - {self.loop.index if self.loop else ""}
        out: dict[str, Symbol] = {}
        for symbol in declared:
            if others & set(symbol.slots):
                continue  # of another stack of blocks
            sub, sup = (
                tuple(Slot(BLOCK, True) if s.index else s for s in slots
                      if not s.index or s.text in model.loop_letters)
                for slots in (symbol.sub, symbol.sup)
            )  # fmt: skip
            out[Symbol(symbol.kind, symbol.base, sub, sup).key] = symbol
        return out

    # -- which names there are ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        """Every name for which the card has a value, in the order of a run.

        Names of split inputs are included only if they were asked for.
        """
        there = [name for name in self.entries if self.found(name) is not None
                 and (self.split_inputs or name not in SPLIT)]  # fmt: skip
        blocks = [name for name in there if "{l}" in name]
        yield from (n for n in there if "{l}" not in n and self.comes_first(n))
        for layer in range(self.layers):
            yield from (name.replace("{l}", str(layer)) for name in blocks)
        yield from (n for n in there if "{l}" not in n and not self.comes_first(n))

    def comes_first(self, name: str) -> bool:
        order = list(self.entries)
        return order.index(name) < next(k for k, n in enumerate(order) if "{l}" in n)

    def __contains__(self, key: object) -> bool:
        try:
            name, _ = self.split(self.full(key))  # type: ignore[arg-type]
        except VieteError:
            return False
        return self.found(name) is not None

    def full(self, key: Key) -> str:
        """A name in full: ``q5``, ``("q", 5)`` and ``("q", -1)`` are ``blocks.5.attn.hook_q``.

        Raises VieteError for other names than those of TransformerLens.
        """
        if isinstance(key, str) and ("." in key or key.startswith("hook_")):
            self.split(key)
            return key
        word, layer, part = parted(key)
        if layer is not None and not -self.layers <= layer < self.layers:
            raise self.beyond(layer)
        return get_act_name(word, None if layer is None else layer % self.layers, part)

    def full_or_formula(self, key: Key) -> str | None:
        """As `full`; None for a text that is no such name, but may be a formula of the card."""
        try:
            return self.full(key)
        except VieteError:
            if not isinstance(key, str) or "hook" in key:
                raise
            return None

    def split(self, name: str) -> tuple[str, int | None]:
        """A full name as it is in names.md, and its block."""
        m = _BLOCK.match(name)
        layer = int(m[1]) if m else None
        general = _BLOCK.sub("blocks.{l}.", name)
        if general not in self.entries:
            raise VieteError(f"{name} is not a name of a value; {near(name)}")
        if layer is not None and layer >= self.layers:
            raise self.beyond(layer)
        return general, layer

    def beyond(self, layer: int) -> VieteError:
        if self.loop is None:
            return VieteError(f"{self.model.title} has no loop over blocks to number")
        return VieteError(
            f"there is no block {layer}; the {self.layers} blocks of {self.model.title} are "
            f"0 to {self.layers - 1}"
        )

    # -- what they stand for -----------------------------------------------------------------------

    def found(self, name: str) -> Found | None:
        """The meaning here of a name from names.md; None where the card has no such value."""
        if name not in self.known:
            tries = (self.row(row) for row in self.entries[name].rows)
            self.known[name] = next((f for f in tries if f is not None), None)
        return self.known[name]

    def get(self, name: str) -> Found:
        """As `found`. Raises VieteError, with the equations that show it, for a missing value."""
        there = self.found(name)
        if there is None:
            raise VieteError(self.lacking(self.entries[name]))
        return there

    def row(self, row: NameRow) -> Found | None:
        """The value that one row finds, if it has no more axes than the row says."""
        found = self.sought(row)
        if found is None:
            return None
        return found if self.fitting(found.formula, row) else None

    def fitting(self, formula: Expr, row: NameRow) -> bool:
        """Whether a formula's only free letters are those of heads, where a row has heads."""
        letters = {*self.heads, *self.shared} if {"head", "kv_head"} & set(row.axes) else set()
        return formula.free - self.model.loop_letters <= letters

    def sought(self, row: NameRow) -> Found | None:
        """The value that one row finds, with any axes."""
        if not all(self.anywhere(formula, within) for formula, within in row.where):
            return None
        named, pattern = self.own(row.found[0]), self.own(row.found[0], True)
        if named is None or pattern is None:
            return None
        if isinstance(named, Ref) and named.symbol.kind == "value":
            return Found(row, named, named) if self.read(named) else None
        numbers = self.equations(row.found[1], self.in_block(pattern))
        place = find(self.model, pattern, numbers, through=row.split)
        if place is None:
            return None
        sides = (e and self.own(e, True) for e in (row.value, row.back))
        value, back = (None if e is None else place.put(e) for e in sides)
        equation = self.model.equations[place.equation]
        if value is None and place.whole == equation.right:
            return Found(row, equation.left, equation.left)
        if isinstance(value, Ref) and value.symbol.kind == "value":
            if not self.shares(value, place):
                return Found(row, value, value)
            if value in walk(replaced(place.right, {place.whole: num(0)})):
                return None  # a copy would be of a part of what this equation reads
        return Found(row, place.whole if value is None else value, None, place, back)

    def weight(self, row: NameRow) -> Expr | None:
        """The weight that a row finds, as a formula over the card's parameters."""
        named, pattern = self.own(row.found[0]), self.own(row.found[0], True)
        if named is None or pattern is None or not self.fitting(named, row):
            return None
        if isinstance(named, Ref) and named.symbol.kind == "parameter":
            return named
        numbers = self.equations(row.found[1], self.in_block(pattern) if row.found[1] else None)
        place = find(self.model, pattern, numbers)
        value = None if row.value is None else self.own(row.value, True)
        out = None if place is None or value is None else place.put(value)
        return None if isinstance(out, Num) else out  # as the γ of a norm that has none

    def in_block(self, e: Expr) -> bool:
        return self.loop is not None and self.loop.index in e.free

    def anywhere(self, formula: Expr, within: Expr | None) -> bool:
        """Whether a formula occurs in an equation or in the definition of a function there."""
        pattern = self.own(formula, True)
        if pattern is None:
            return False
        numbers = self.equations(within, None)
        if find(self.model, pattern, numbers) is not None:
            return True
        return any(
            match(pattern, part, self.model.function) is not None
            for k in numbers for body in bodies(self.model, self.model.equations[k].right)
            for part in walk(body)
        )  # fmt: skip

    def equations(self, within: Expr | None, block: bool | None) -> list[int]:
        """Numbers of the equations to search: of a value, of a block, outside blocks, or all."""
        numbers = range(len(self.model.equations))
        if within is not None:
            ref = self.own(within)
            return [k for k in numbers if ref is not None and self.home(k) == ref]
        if block is None:
            return list(numbers)
        return [k for k in numbers if (self.model.equations[k].loop is not None) == block]

    def home(self, k: int) -> Ref:
        """The value on an equation's left side, or the one that it was lifted out of."""
        left = self.model.equations[k].left
        return self.origin.get(left.key, left)

    def shares(self, ref: Ref, place: Place) -> bool:
        """Whether another equation than this one reads a value, so that this one needs a copy."""
        others = (e for k, e in enumerate(self.model.equations) if k != place.equation)
        return any(ref.key in e.reads for e in others)

    def read(self, ref: Ref) -> bool:
        """Whether any equation reads the value."""
        return any(ref.key in e.reads for e in self.model.equations)

    def own(self, e: Expr, any_head: bool = False) -> Expr | None:
        """A formula of names.md over the card's symbols; None if the card lacks one.

        With ``any_head`` a pattern letter replaces each head's index, so that any number matches.
        """
        lacking = False
        defined = {d.name: d for d in self.model.derived}

        def rule(x: Expr) -> Expr | None:
            nonlocal lacking
            if isinstance(x, Idx) and x.name == BLOCK and self.loop is not None:
                return Idx(self.loop.index)
            if not isinstance(x, Ref) or x.symbol.kind == "argument":
                return None
            if x.symbol.kind == "dim" and x.key == LAST:
                lacking |= self.loop is None
                return None if self.loop is None else self.loop.upper
            symbol = self.symbols.get(x.key)
            if symbol is None:
                lacking = True
                return None
            blocks = iter(x.index)
            index = tuple(
                next(blocks) if s in self.model.loop_letters
                else Ref(Symbol("argument", f"{s} of {symbol.key}")) if any_head else Idx(s)
                for s in symbol.slots
            )  # fmt: skip
            definition = defined.get(symbol.key)
            if definition is None:
                return Ref(symbol, index)
            at = dict(zip(symbol.slots, index, strict=True))
            return self.model.substitute(definition.right, letters=at)

        out = transform(resolved(e, self.model.hidden), rule)
        return None if lacking else out

    # -- in words ----------------------------------------------------------------------------------

    def lacking(self, entry: Entry) -> str:
        """The reason why the card has no such value, as one sentence."""
        name = entry.name.replace("blocks.{l}.", "")
        text, found = self.with_equations(entry.otherwise)
        values = ", ".join(dict.fromkeys(show_symbol(e.left.symbol, "unicode")
                                         for e in self.model.equations))  # fmt: skip
        named = [r.found[0] for r in entry.rows if isinstance(r.found[0], Ref)]
        if self.loop is None:
            text = "there is no loop over blocks in it, or several"
        elif not found and (derived := next((r for r in named if self.own(r) is None), None)):
            line = show(self.model.substitute(derived, letters={BLOCK: Idx(self.loop.index)}))
            text = (f"its Derived section does not say which value that is; add the line "
                    f"- ${line} = …$ there, a formula of its values {values}")  # fmt: skip
        elif not found:
            text = f"its values are {values}"
        return f"{self.model.title} has no {name}: {text}"

    def with_equations(self, text: str) -> tuple[str, bool]:
        """A text with the card's equations instead of its values, and whether any was found."""
        found = False

        def equations(m: re.Match[str]) -> str:
            nonlocal found
            refs = [self.own(parse(x, conventions().scope)) for x in m[0].strip("$").split("$, $")]
            made = [self.made(r) for r in refs if isinstance(r, Ref)]
            found |= any(made)
            return ", ".join(show_equation(e.left, e.right, "unicode") for e in made if e)

        return re.sub(r"\$.+\$", equations, text), found

    def made(self, ref: Ref) -> Equation | None:
        """The equation of a value."""
        same = [e for e in self.model.equations if e.name == ref.key]
        return next((e for e in same if e.left == ref), same[-1] if same else None)

    def meaning(self, key: Key) -> str:
        """The meaning of a name, as an equation, and where in the card it is.

        ``blocks.3.hook_resid_mid = y⁴, where yⁱ = xⁱ⁻¹ + aⁱ``. Raises VieteError for an unknown
        name, and for one without a value in the card.
        """
        name = self.full(key)
        general, layer = self.split(name)
        found = self.get(general)
        formula = self.at(found.formula, layer)
        return f"{name} = {show(formula, 'unicode')}, {self.context(found, formula)}"

    def at(self, e: Expr, layer: int | None) -> Expr:
        """A formula for one block."""
        if layer is None or self.loop is None:
            return e
        number = num(self.blocks[layer])
        return with_numbers(self.model.substitute(e, letters={self.loop.index: number}))

    def context(self, found: Found, formula: Expr) -> str:
        """The equation that makes a value or contains it, after "where" or "in"."""
        word = "where" if found.place is None else "in"
        return f"{word} {show_equation(*self.sides(found, formula), 'unicode')}"

    def sides(self, found: Found, formula: Expr) -> tuple[Ref, Expr]:
        """Both sides of the equation that makes a value or contains it."""
        made = self.made(formula) if isinstance(formula, Ref) else None
        if found.place is not None:
            made = self.model.equations[found.place.equation]
        assert made is not None
        return made.left, made.right

    def page(self, style: str = "unicode") -> list[Block]:
        """Every name that holds, with i for the block, and why the others do not, as a document."""
        rows: list[list[str]] = []
        lacking: list[Block] = []
        letter = self.loop.index if self.loop else BLOCK
        for name, entry in self.entries.items():
            found = self.found(name)
            if found is None:
                lacking.append(item(self.lacking(entry)))
                continue
            axes = ", ".join(("batch", *found.row.axes))
            shown = show_equation(*self.sides(found, found.formula), style)
            layered = name.replace("{l}", f"{{{letter}-1}}")
            rows.append([f"`{layered}`", axes, f"${show(found.formula, style)}$", f"${shown}$"])
        header = ["name", "axes", "value", "in which equation"]
        title = heading(1, f"{self.model.title}: names of TransformerLens")
        found_names: list[Block] = [table(header, rows)] if rows else []
        if lacking:
            lacking.insert(0, heading(2, "Not in this card"))
        return [title, *found_names, *lacking]


def with_numbers(e: Expr) -> Expr:
    """A formula with block numbers evaluated: ``x^{4-1}`` as ``x^3``."""

    def rule(x: Expr) -> Expr | None:
        return replace(x, index=tuple(map(simplified, x.index))) if isinstance(x, Ref) else None

    return transform(e, rule)


__all__ = ["Found", "Names"]
