"""Exact values as a document: rows with certified decimals, their kind, and the names they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from viete.document.rendering import STYLES, check_format, render
from viete.document.tree import Block, Chain, paragraph
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, permute
from viete.evaluate.queries import query
from viete.evaluate.schedule import Member, member_name
from viete.meanings.exact.atoms import Atom, closure
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun, Status, level_of
from viete.meanings.exact.spelling import Speller
from viete.notation.lexer import ELEMENTARY
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import Expr, Num, Pick

ROOM = 300  # terms of one number on paper, names written out
WIDTH = 96  # of a row that is set on one line
MOST_TIES = 3
MOST_NAMES = 40  # whose definitions are listed
KINDS = {"e": "powers of e", "prime": "roots", "root": "roots",
         **{name: name for name in ELEMENTARY}, "pi": "π"}  # fmt: skip


def report(
    run: ExactRun, wanted: Sequence[str], digits: int | None = None, unfold: int = 0,
    form: str = "text",
) -> str:  # fmt: skip
    """The requested values, in one of `PAGES`; as text in the plain spelling, to be read again.

    ``digits`` adds certified decimals with that many significant digits; ``unfold`` writes names
    out to that many levels. Raises VieteError for another form, or a name the card does not have.
    """
    check_format("exact values", form)
    if unfold < 0:
        raise VieteError(f"names are unfolded 0 or more levels deep, not {unfold}")
    return render(exact_blocks(run, wanted, digits, unfold, form), form)


def exact_blocks(
    run: ExactRun, wanted: Sequence[str], digits: int | None, unfold: int, form: str
) -> list[Block]:  # fmt: skip
    """The blocks of `report`."""
    page = ExactPage(run, digits, unfold, "plain" if form == "text" else STYLES[form])
    blocks = [block for name in wanted for block in page.value(name)]
    blocks += page.definitions()
    if page.cut:
        note = "… marks what is left out of numbers too long to read; --digits gives decimals."
        blocks.append(paragraph(note))
    return blocks


class ExactPage:
    """The content of `report`; ``names`` are the names that it uses."""

    def __init__(self, run: ExactRun, digits: int | None, unfold: int, style: str) -> None:
        self.run, self.digits, self.unfold, self.style = run, digits, unfold, style
        self.names: set[Atom] = set()
        self.cut = False
        self.places = run.places()

    # -- values ------------------------------------------------------------------------------------

    def value(self, name: str) -> list[Block]:
        """One value: its name, shape and status, then its rows."""
        array = self.run[name]
        entries = list(array.flat) if hasattr(array, "flat") else [array]
        shape = " × ".join(map(str, np.shape(array))) or "one number"
        member = self.run.program.names.get(name)
        status = self.run.status.get(member) if member is not None else None
        if status is None:
            status = Status(max(map(level_of, entries), default=RATIONAL), (None, None))
        lines = [
            line
            for e, row in rows(self.run, name)
            for line in (self.row(e, row) if isinstance(row, list) else [self.one(e, row, name)])
        ]
        shown = name if self.style == "plain" else f"${show(self.run.parse(name), self.style)}$"
        return [paragraph(f"{shown} ({shape}): {describe(self.run, status, entries)}"), *lines]

    def one(self, e: Expr, x: Any, name: str) -> Chain:
        """``x_{0,1} = 1`` with its decimals; a question that is one number, as it was asked."""
        asked = self.style == "plain" and e == self.run.parse(name)
        left = name if asked else show(e, self.style)
        return Chain(left, (), "", self.entry(x, e), "".join(self.decimals([x])))

    def row(self, e: Expr, row: Sequence[Any]) -> Iterator[Chain]:
        """``x_0 = (1, 0)`` with its decimals; entry by entry where that is too long."""
        texts = [self.entry(x, pick(e, k)) for k, x in enumerate(row)]
        left, right = show(e, self.style), f"({', '.join(texts)})"
        if len(f"{left} = {right}") <= WIDTH:
            digits = ", ".join(self.decimals(row))
            yield Chain(left, (), "", right, f"({digits})" if digits else "")
            return
        for k, (x, text) in enumerate(zip(row, texts, strict=True)):
            yield Chain(show(pick(e, k), self.style), (), "", text, "".join(self.decimals([x])))

    def entry(self, x: Any, here: Expr) -> str:
        """One entry; a name for this very place is written out."""
        if not isinstance(x, Number):
            return {"inf": "∞", "-inf": "−∞"}.get(str(x), str(x)) if self.style != "latex" else (
                str(x).replace("inf", "\\infty"))  # fmt: skip
        if x.name is not None and x.name.label == here:
            x = x.name.of
        self.names |= shown_names(x, self.unfold)
        return self.number(x, self.unfold)

    def number(self, x: Number, levels: int) -> str:
        """A number, cut where it is too long to read."""
        speller = Speller(levels, self.places, room=ROOM)
        text = show(speller.number(x), self.style)
        self.cut |= speller.cut
        return text

    def decimals(self, row: Sequence[Any]) -> list[str]:
        """Certified decimals, unless all entries are whole numbers."""
        if self.digits is None or all(map(is_whole, row)):
            return []
        return [x.decimal(self.digits) if isinstance(x, Number) else self.entry(x, Num(Fraction()))
                for x in row]  # fmt: skip

    # -- names -------------------------------------------------------------------------------------

    def definitions(self) -> list[Block]:
        """The meanings of the names used so far, one level deep."""
        if not self.names:
            return []
        ordered = sorted(self.names, key=lambda a: a.age)
        lines = [Chain(show(label(a), self.style), (), "", self.number(a.of, 0))
                 for a in ordered[:MOST_NAMES]]  # fmt: skip
        deeper = {a for a in closure(self.names) if a.kind == "name"} - self.names
        rest = []
        if len(ordered) > MOST_NAMES:
            rest.append(f"{len(ordered) - MOST_NAMES} more names in the values")
        if deeper:
            rest.append(f"{len(deeper)} more below these")
        note = paragraph(f"({', '.join(rest)}: --unfold writes names out)")
        return [paragraph("where"), *lines, *[note] * bool(rest)]


def is_whole(x: Any) -> bool:
    """Whether decimals would add nothing."""
    known = not isinstance(x, Number) or not x.num
    return known or (x.rational is not None and x.rational.denominator == 1)


def label(name: Atom) -> Expr:
    assert name.label is not None
    return name.label


def shown_names(x: Number, levels: int) -> set[Atom]:
    """The names that remain when ``levels`` of them are written out."""
    found: set[Atom] = set()
    todo = [(a, levels) for a in x.atoms()]
    seen = set()
    while todo:
        a, k = todo.pop()
        if (a, k) in seen:
            continue
        seen.add((a, k))
        if a.kind == "name" and k <= 0:
            found.add(a)
        else:
            todo += [(b, k - (a.kind == "name")) for b in a.older]
    return found


def rows(run: ExactRun, name: str) -> Iterator[tuple[Expr, Any]]:
    """Every row of a value with its expression, ``A^{1,2}[0]``; single numbers one by one."""
    e, (at_work, question) = run.parse(name), run.resolved(name)
    v, letters = at_work.answered(name, question)
    about = query(at_work, question)
    own = at_work.axis_letters(about.places)
    lead = [a for a in dict.fromkeys(("batch", *letters)) if a in v.axes]
    core = [a for a in (ROW, COL) if a in v.axes]
    if not v.axes:
        x = v.array.item() if hasattr(v.array, "item") else v.array
        yield e, Number.of(x) if isinstance(x, Fraction) else x
        return
    array = permute(np, v.array, v.axes, (*lead, *core))
    for place in np.ndindex(array.shape[: len(lead) + max(len(core) - 1, 0)]):
        where = dict(zip((*lead, *core[:-1]), place, strict=True))
        items = [Num(Fraction(where.pop(a))) for a in ("batch", ROW) if a in where]
        at = {
            a: Num(Fraction(about.blocks[a][k] if a in about.blocks else k + own[a].first
                            if a in own else k + at_work.program.range_of(a).start))
            for a, k in where.items()
        }  # fmt: skip
        here = substitute(e, letters=at)
        found = array[place]
        yield Pick(here, tuple(items)) if items else here, list(found) if core else found


def pick(e: Expr, k: int) -> Expr:
    """Entry k of a row."""
    item = Num(Fraction(k))
    return Pick(e.value, (*e.items, item)) if isinstance(e, Pick) else Pick(e, (item,))


def describe(run: ExactRun, status: Status, entries: Sequence[Any]) -> str:
    """A value's status in words: exact or named, since where, and how comparisons were decided."""
    atoms = closure(a for x in entries if isinstance(x, Number) for a in x.atoms())
    kinds = [KINDS[a.kind] for a in atoms if a.kind in KINDS]
    parts = []
    if status.level == RATIONAL:
        numbers = any(isinstance(x, Number) for x in entries)
        again = numbers and any(member is not None for member in status.since)
        parts.append("exact: " + ("rational" if numbers else "whole numbers") + " again" * again)
    else:
        since = [None if m is None else member_text(run, m) for m in status.since]
        made = ", ".join(dict.fromkeys(k for k in KINDS.values() if k in kinds))
        if status.level == CLOSED:
            parts.append(
                f"exact: {made}; equality decided" + (f", since {since[0]}" * bool(since[0]))
            )
        if status.level == NAMED:
            parts.append(f"named: {made}; equality not always decided"
                         + (f", since {since[1]}" * bool(since[1])))  # fmt: skip
    if status.bits:
        parts.append(f"decided by enclosure at {status.bits} bits")
    more = len(status.ties) - MOST_TIES
    parts += [*status.ties[:MOST_TIES], *([f"{more} more ties"] if more > 0 else [])]
    return "; ".join(parts)


def member_text(run: ExactRun, member: Member) -> str:
    """A member by its name in the notation."""
    symbol = next(e.left.symbol for e in run.program.model.equations if e.name == member[0])
    return member_name(symbol, run.program.loops_of(symbol, member[1]))


__all__ = ["describe", "report", "rows"]
