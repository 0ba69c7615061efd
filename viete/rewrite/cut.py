"""Cut: values become inputs, and equations that only served to make them are removed.

With its attention patterns and its norms' scales given, a transformer is linear except for its
MLPs. A value that is cut by its family's name keeps that name; a member, ``A^{2,1}``, becomes the
input ``A_{given}^{2,1}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from viete.analysis.shapes import shapes_of
from viete.analysis.value_names import value_named
from viete.errors import Text
from viete.graph.card import CardData, Input, Parameter, restated
from viete.graph.dependence import names_read
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Ref, Slot, Symbol, num, transform
from viete.rewrite.inlining import without_unread, without_unused
from viete.rewrite.naming import with_equation
from viete.rewrite.put import changed, unlike_family
from viete.rewrite.replacement import Replacement


@dataclass(frozen=True)
class Cut:
    """A card with some values as inputs, and the value that each input, by its key, replaces."""

    card: CardData
    inputs: Mapping[str, Ref]


def cut(card: CardData, names: Iterable[str], whole: bool = False) -> Cut:
    """The card with these values as inputs: families (``A^{i,h}``) or members (``A^{2,1}``).

    In a ``whole`` card, equations that only served to compute them stay. Raises VieteError for a
    name that is not a value of the card, or is an input already.
    """
    found: dict[Ref, tuple[Ref, Text]] = {}
    for name in names:
        text = Text(name, "<cut>")
        asked = value_named(card, text)
        if isinstance(asked, Ref) and asked.symbol.kind == "input":
            raise text.error(f"{show(asked)} is already given: it is an input of {card.title}")
        if not isinstance(asked, Ref) or asked.symbol.kind != "value":
            raise text.error(
                f"cut takes a value of {card.title}, such as A^{{i,h}} or scale, and {name} "
                f"is not one"
            )
        found[asked] = asked, text
    for asked, (_, text) in found.items():
        card, ref = with_equation(card, asked, text)
        found[asked] = ref, text
    inputs: dict[str, Ref] = {}
    before = names_read(card.equations)
    for ref, text in {ref: text for ref, text in found.values()}.items():
        if all(e.name != ref.key for e in card.equations):
            continue  # what was cut before it was all that it led to
        if ref.key not in before:
            raise text.error(f"no equation of {card.title} reads {show(ref)}: nothing is cut")
        plain = all(x == Idx(s) for s, x in zip(ref.symbol.slots, ref.index, strict=True))
        read = names_read(card.equations)
        less, item = (family if plain else member)(card, ref, text)
        short = less if whole else without_unmade(less, read)
        if plain and without_range(short):
            less, item = within_loops(card, ref, text)
            short = less if whole else without_unmade(less, read)
        card = less if without_range(short) else short
        inputs[item.name] = ref
    return Cut(unlike_family(card), inputs)


def given_input(card: CardData, symbol: Symbol, ref: Ref) -> Input:
    """A value as an input, of integers if the value is one."""
    found = shapes_of(card).types[ref.key]
    low, high = map(num, found.interval) if found.interval else (None, None)
    shape = tuple(map(card.size_expr, found.shape))
    return Input(symbol, shape, low, high, meaning="given", text=Text(symbol.key))


def family(card: CardData, ref: Ref, text: Text) -> tuple[CardData, Input]:
    """The card with all members of a value as an input."""
    symbol = replace(ref.symbol, kind="input")
    item = given_input(card, symbol, ref)

    def as_input(x: Expr) -> Expr | None:
        return Ref(symbol, x.index) if isinstance(x, Ref) and x.key == ref.key else None

    rest = tuple(e for e in card.equations if e.name != ref.key)
    if not rest:
        raise text.error(f"without {show(ref)} no equation of {card.title} is left")
    less = replace(card, equations=rest).with_formulas(lambda e: transform(e, as_input))
    return replace(less, inputs=(*less.inputs, item)), item


def within_loops(card: CardData, ref: Ref, text: Text) -> tuple[CardData, Input]:
    """The card in which a value's equations say that it is given.

    This keeps the loops of a value that only later equations read: what is given has their letters.
    """
    symbol = given_symbol(card, ref, ref.symbol.sub, ref.symbol.sup, text)
    item = given_input(card, symbol, ref)
    equations = tuple(restated(e, e.left, Ref(symbol, e.left.index)) if e.name == ref.key else e
                      for e in card.equations)  # fmt: skip
    return replace(card, equations=equations, inputs=(*card.inputs, item)), item


def without_range(card: CardData) -> bool:
    """Whether an input or a parameter has a letter of a loop that is no longer there."""
    symbols = (*(i.symbol for i in card.inputs), *(p.symbol for p in card.parameters))
    slots = {x for symbol in symbols for x in symbol.slots}
    return not slots <= card.loop_letters | {i.name for i in card.indices}


def given_symbol(
    card: CardData, ref: Ref, sub: tuple[Slot, ...], sup: tuple[Slot, ...], text: Text
) -> Symbol:
    """The name of what is given for a value of another name: ``A_{given}^{2,1}``."""
    symbol = Symbol("input", ref.symbol.base, (*sub, Slot("given")), sup)
    if symbol.key in card.symbols:
        raise text.error(f"{show(ref)} is given already, as {show(symbol.member)}")
    return symbol


def without_unmade(card: CardData, read: frozenset[str]) -> CardData:
    """The card without the equations of ``read`` values that are no longer read.

    Parameters, functions and dimensions that only these used go too. A parameter that shared a
    tensor of a file with a removed one is then no longer read from that file.
    """
    less = without_unread(card, {e.name for e in card.equations} & read)
    own = {p.name for p in card.parameters} | {f.name for f in card.functions}
    less = without_unused(less, own)
    left = {p.name for p in less.parameters}
    gone = {tensor_of(p) for p in card.parameters if p.name not in left}
    parameters = (replace(p, checkpoint="") if tensor_of(p) in gone else p for p in less.parameters)
    return replace(less, parameters=tuple(parameters))


def tensor_of(p: Parameter) -> str:
    """The name of the tensor that contains a parameter."""
    return p.checkpoint.partition(" : ")[0]


def member(card: CardData, ref: Ref, text: Text) -> tuple[CardData, Input]:
    """The card with some members of a value as inputs."""
    at = dict(zip(ref.symbol.slots, ref.index, strict=True))
    letters = {s for s, x in at.items() if x == Idx(s)}

    def slot(s: Slot) -> Slot:
        return s if not s.index or s.text in letters else Slot(show(at[s.text]))

    sub, sup = (tuple(map(slot, slots)) for slots in (ref.symbol.sub, ref.symbol.sup))
    symbol = given_symbol(card, ref, sub, sup, text)
    item = given_input(card, symbol, ref)
    more = replace(card, inputs=(*card.inputs, item))
    change = Replacement(ref, (), symbol.member, text=text, left_text=text, right_text=text)
    return changed(more, change), item


__all__ = ["Cut", "cut"]
