"""Gives the values that names stand for their own equations, so they can be read or replaced.

A part of an equation is lifted out of it (see `viete.rewrite.lifting`). It can then be kept without
computing it again, and another value can replace it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from viete.analysis.value_names import heads_counted, value_named
from viete.errors import Text
from viete.evaluate.interventions import layout_of, letters_of, member_of
from viete.evaluate.labelled import COL, ROW, Layout
from viete.evaluate.memos import recent
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData
from viete.model.names import Names
from viete.model.table import BATCH, VALUE, layout
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import Expr, Ref, Slot, Symbol
from viete.rewrite.lifting import lifted

V = TypeVar("V")


def found_once(method: Callable[[NamedValues, str], V]) -> Callable[[NamedValues, str], V]:
    """A method that stores its result for each name, since every run with hooks calls it again."""

    @wraps(method)
    def found(self: NamedValues, name: str) -> V:
        key = method.__name__, name
        if key not in self.known:
            self.known[key] = method(self, name)
        answer: V = self.known[key]
        return answer

    return found


@dataclass(frozen=True, eq=False)
class NamedValues:
    """A model, and a formula in it for every wanted name (as names.md spells it)."""

    names: Names
    model: CardData
    formulas: Mapping[str, Expr]
    known: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)

    def formula(self, name: str) -> Expr:
        """The formula of a full name."""
        general, layer = self.names.split(name)
        e = self.formulas.get(general)
        return self.names.at(self.names.get(general).formula if e is None else e, layer)

    @found_once
    def value(self, name: str) -> str:
        """A wanted name, or a formula, as a name of a value of the model."""
        if name not in self.names:
            counted = heads_counted(self.model, name)
            return show(value_named(self.model, Text(name, "<name>"))) if counted else name
        return show(self.formula(name))

    @found_once
    def member(self, name: str) -> Member:
        """The member that a name means: the value of an equation in one block."""
        return member_of(program(self.model), self.value(name))

    @found_once
    def layout(self, name: str) -> Layout:
        """The order of a value's axes in TransformerLens; for a name of the card, that of `Run`."""
        if name not in self.names:
            ready, member = program(self.model), self.member(name)
            axes = (BATCH, *letters_of(ready, member))
            core = (ROW, COL)[2 - len(ready.shapes.types[member[0]].shape) :]
            return layout_of(ready, name, (*axes, *core))
        general, _ = self.names.split(name)
        e = self.formula(name)
        letters = e.free
        every = dict.fromkeys((*self.names.heads, *self.names.shared))
        ready = program(self.model)
        counts = {s: len(ready.range_of(s)) for s in every}
        axes = (BATCH, *self.names.get(general).row.axes)
        return layout(axes, self.names.heads, [s for s in every if s in letters], counts)

    def read(self, run: Run, name: str, batch: int) -> object:
        """A value of a run, in the layout of TransformerLens."""
        value = run.arrays.of(self.formula(name))
        array = run.arrays.lift(value)
        return self.layout(name).outward(run.arrays.xp, array, value.axes, batch)


def named_values(names: Names, wanted: Iterable[str]) -> NamedValues:
    """The card with the values of these names, as names.md spells them, as equations.

    Kept on the card. Raises VieteError for a name that the card has no value for.
    """
    kept: dict[frozenset[str], NamedValues] = names.model.__dict__.setdefault("_named_values", {})
    key = frozenset(wanted)
    return recent(kept, key, lambda: lifted_values(names, key), 64)


def lifted_values(names: Names, wanted: frozenset[str]) -> NamedValues:
    """As `named_values`; later values of a run are lifted first, since they may contain others.

    Copies of values come before all others, while the equations that read them are still the
    card's.
    """
    model = names.model
    origin: dict[str, Ref] = {}
    formulas: dict[str, Expr] = {}
    for name in wanted:
        names.get(name)  # an error speaks of the card as it is
    later_first = reversed([n for n in names.entries if n in wanted])
    for name in sorted(later_first, key=lambda n: not names.get(n).copied):
        now = Names(model, origin, names.heads)
        found = now.get(name)
        if found.ref is not None:
            formulas[name] = found.ref
            continue
        assert found.place is not None
        home = model.equations[found.place.equation]
        letters = found.letters
        slots = [] if home.loop is None else [home.loop.index]
        order = [*names.heads, *names.shared, *(i.name for i in model.indices)]
        slots += [s for s in dict.fromkeys(order) if s in letters and s not in slots]
        symbol = fresh(model, name, slots)
        left = symbol.member
        back = left if found.back is None else substitute(found.back, arguments={VALUE: left})
        origin[symbol.key] = now.home(found.place.equation)
        model = lifted(model, found.place, found.formula, back, symbol)
        formulas[name] = left
    return NamedValues(names, model, formulas)


def fresh(card: CardData, name: str, slots: list[str]) -> Symbol:
    """A new symbol for a value: ``hook_{attn,z}^{i,h}``."""
    words = re.findall(r"[a-z]+\d*", name.replace("blocks.{l}.", "").replace("hook_", ""))
    base = next(b for b in ("hook", "hooked", "hookpoint") if b not in card.scope.symbols
                or all(s.sub and s.kind == "value" for s in card.scope.symbols[b]))  # fmt: skip
    return Symbol("value", base, tuple(map(Slot, words)), tuple(Slot(s, True) for s in slots))
