"""Expansions on a page: the terms of every entry of a value, each with the operations it needs.

A term is one formula for all entries, heads and sources; its letters say which. So a page computes
each term from the values at hand, before and after a change.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from viete.analysis.dependent import Dependent
from viete.analysis.linearity import ATOM, CONSTANT
from viete.ask.coarse_terms import opening
from viete.ask.expansion import Expansion
from viete.ask.remainder import Remainder
from viete.ask.term import Term
from viete.ask.term_families import Terms
from viete.ask.term_table import floats, norm
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.explore.formulas import mathml
from viete.explore.operation import Operation
from viete.explore.operations import Tracer
from viete.explore.ranges import AxisNames
from viete.explore.steps import json_number
from viete.graph.card import CardData
from viete.graph.evaluator import Letter
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Expr, Idx, Pick, Ref, num, walk
from viete.rewrite.opening import without_calls

MOST_FAMILIES = 80  # terms of one expansion


class ExpansionMaker:
    """Makes the expansions of a run's values, as far as room is left, in letters of JSON."""

    def __init__(self, run: Run, tracer: Tracer, room: int) -> None:
        self.run, self.tracer, self.room = run, tracer, room
        self.card, self.names = run.program.model, AxisNames(run)
        self.off = patterns(self.card)  # and what is put to 0 where a term is switched off
        self.known: dict[Any, tuple[dict[str, Any], int]] = {}  # terms with the room they take

    def of(self, step: Step, depth: int) -> dict[str, Any] | None:
        """The expansion of the value that a step makes; None where it is not a sum of terms.

        ``depth`` is how often its terms may be opened.
        """
        symbol, value = step.equation.left.symbol, self.run.lookup(*step.makes)
        taken = self.card.names | step.equation.right.binders | {*self.tracer.env.index}
        heads = [s for s in symbol.slots if s not in step.loops]
        wishes = [*heads, *(w for w, axis in (("j", ROW), ("w", COL)) if axis in value.axes)]
        letters: list[str] = []
        for wish in wishes:
            letters.append(fresh(taken | {*letters}, wish + "cpqs"))
        of = dict(zip(letters, heads, strict=False))
        put = {s: Idx(x) for x, s in of.items()}
        index = tuple(num(step.loops[s]) if s in step.loops else put.get(s, x)
                      for s, x in zip(symbol.slots, symbol.member.index, strict=True))  # fmt: skip
        e: Expr = Ref(symbol, index)
        if places := letters[len(heads) :]:
            e = Pick(e, tuple(map(Idx, places)))
        own = {x: self.axis(x, of.get(x)) for x in letters}
        terms = self.terms(without_calls(self.card, e), own, depth)
        return {"letters": [*own], **terms} if terms else None

    def axis(self, name: str, of: Size | str | None) -> Letter:
        """A letter as a single place, which a page chooses; it counts as ``of`` does."""
        known = self.tracer.env.index.get(str(of))
        return Letter(name, name, known.first if isinstance(known, Letter) else 0, 1)

    def terms(self, e: Expr, letters: Mapping[str, Letter], depth: int) -> dict[str, Any]:
        """The terms of a formula, and their own terms; empty for a single term or without room.

        If it is not linear, ``within`` is the function whose argument the terms add up to.
        """
        if depth < 1 or self.room <= 0:
            return {}
        key = e, tuple(letters.items()), depth
        found, length = self.known.get(key, ({}, self.room))
        if length < self.room:
            self.room -= length
            return found
        before = self.room
        found = self.opened(e, letters, depth)
        if self.room > 0:  # else some terms are left out
            self.known[key] = found, before - self.room
        return found

    def opened(self, e: Expr, letters: Mapping[str, Letter], depth: int) -> dict[str, Any]:
        """As `terms`, made anew: blocks and heads have terms in common."""
        with suppress(VieteError):
            found = opening(self.run, e, self.card.lengths)
            if found is None or found[1].expander.lines.rank(found[1].formula):
                return {}
            within, inner = found
            if len(inner.families) <= MOST_FAMILIES:
                terms = [self.term(inner, f, letters, depth) for f in inner.families]
                return {"terms": terms} | ({"within": within} if within else {})
        return {}

    def term(
        self, e: Expansion, f: Terms, letters: Mapping[str, Letter], depth: int
    ) -> dict[str, Any]:
        """One family of terms."""
        # A letter that the card declares is bound in some sums, and here it is one place.
        taken = self.card.names | f.formula.binders | f.formula.free | {*letters}
        taken |= {*self.tracer.env.index}
        names, own = dict[str, str](), dict[str, Letter]()
        for name, values in f.letters:
            names[name] = new = fresh(taken, "hgrpqs") if isinstance(values, str) else name
            own[new], taken = self.axis(new, values), taken | {new}
        put: dict[str, Expr] = {name: Idx(new) for name, new in names.items()}

        def renamed(x: Expr) -> Expr:
            return self.card.substitute(x, letters=put)

        formula, at = renamed(f.formula), switched_off(e, f)
        parts = (named_value(p.focus) for p in e.expander.lines.parts(f.focus) if p.kind == ATOM)
        added = {v.key for v in parts if v is not None and v.symbol.kind == "value"}
        self.off |= {put_to_zero(at)["key"]} if at is not None else added if f.block else set()
        letters = {**letters, **own}
        operations = self.tracer.of_formula(formula, letters)
        found = {
            "kind": f.kind, "label": None if f.letters else mathml(f.focus),
            "formula": mathml(e.expander.named(formula)),
            "off": None if at is None else put_to_zero(renamed(at)),
            "marks": [[m.word, names.get(m.letter, m.letter), m.number] for m in f.marks],
            "letters": [
                {"name": names[x.name], "first": int(x.first), "count": int(x.count),
                 "labels": self.names.labels(str(values))}
                for x, (_, values) in zip(e.letters(f), f.letters, strict=True)
            ],
            "operations": list(map(brief, operations)),
        }  # fmt: skip
        self.room -= len(json.dumps(found))
        return found if f.kind == CONSTANT else found | self.terms(formula, letters, depth - 1)


def packed(expansions: Mapping[str, Any], off: Iterable[str] = ()) -> dict[str, Any]:
    """Expansions by member, compressed, since they have much in common.

    ``off`` are the symbols whose values may be switched off.
    """
    text = json.dumps(expansions, ensure_ascii=False, separators=(",", ":"))
    made = gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0)
    return {"members": [*expansions], "packed": b64encode(made).decode("ascii"),
            "off": sorted(off)}  # fmt: skip


def patterns(card: CardData) -> set[str]:
    """The symbols of the attention patterns, whether or not an expansion reaches them."""
    return Dependent(card).patterns


def brief(o: Operation) -> dict[str, Any]:
    """An operation as JSON, without what a page can infer and what only explanations show."""
    summed = {*o.over, *o.along, o.at}
    data = o.data(None, None, json_number)
    data["sizes"] = {k: n for k, n in o.sizes.items() if k in summed}
    return {k: v for k, v in data.items() if k not in ("node", "text", "value", "id") and v != {}
            and not (k == "over" and not v)}  # fmt: skip


def answered(e: Expansion, within: str = "") -> dict[str, Any]:
    """An expansion of a number for a page: its terms, the largest first, and the rest.

    ``within`` is the function that it is the argument of, if any.
    """
    put = e.card.substitute
    terms = []
    for t in (*e.terms, *e.unopened, *e.constants):
        letters: dict[str, Expr] = {k: num(v) for k, v in t.letters.items()}
        at = switched_off(e, t.family)
        off = None if at is None else put_to_zero(put(at, letters=letters))
        named = not t.marks or t.marks[-1].word in ("block", "query", "key")
        terms.append({
            "label": ", ".join(map(t.step, t.counted)), "kind": t.kind, "value": number(t),
            "math": mathml(put(t.family.focus, letters=letters)) if named else None,
            "formula": mathml(t.formula), "off": off,
            "expression": None if t.kind == CONSTANT else t.expression,
        })  # fmt: skip
    if e.hidden.terms:
        terms.append({"label": e.hidden.label, "kind": "hidden", "value": number(e.hidden),
                      "math": None, "formula": "", "off": None, "expression": None})  # fmt: skip
    return {
        "terms": terms,
        "within": within,
        "total": float(norm(e.total) if floats(e.total).ndim else e.total),
    }


def number(t: Term | Remainder) -> float:
    """The value of a term; for a vector its length."""
    value = floats(t.value)
    return t.size if value.ndim else float(value)


def switched_off(e: Expansion, f: Terms) -> Ref | Pick | None:
    """The value to set to 0 to switch off a term; None where that is not one value.

    It is the pattern of a head, an entry of that for one source, or all that a sub-layer adds.
    """
    own, patterns = {name for name, _ in f.letters}, dict[Ref, Expr]()
    for x in walk(f.formula):
        value = named_value(x)
        if value is not None and e.expander.lines.is_pattern(x) and not own.isdisjoint(x.free):
            patterns.setdefault(value, x)
    if len(patterns) == 1:
        ((value, picked),) = patterns.items()
        at = picked if any(m.word == "source" for m in f.marks) else value
        return at if isinstance(at, Ref | Pick) else None
    focus = named_value(f.focus)
    return focus if focus is not None and focus.symbol.kind == "value" else None


def put_to_zero(at: Expr) -> dict[str, Any]:
    """The equation that sets a value to 0, and the letters in it that a page chooses."""
    value = named_value(at)
    assert value is not None
    items = at.items if isinstance(at, Pick) else ()
    letters = [x.name for x in (*value.index, *items) if isinstance(x, Idx)]
    place = f"[{', '.join(map(show, items))}]" if items else ""
    return {"equation": f"{show(value)}{place} = 0", "key": value.key, "at": letters}


def named_value(e: Expr) -> Ref | None:
    """The name of a formula's value, also for a row or an entry of it; None for any other."""
    while isinstance(e, Pick):
        e = e.value
    return e if isinstance(e, Ref) else None


__all__ = ["ExpansionMaker", "answered", "packed", "patterns"]
