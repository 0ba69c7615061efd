"""Notes on how a question was read: what counts from 1 or from 0, what L is, which conventions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import numpy as np

from viete.analysis.query_heads import query_heads
from viete.analysis.token_vectors import SECOND_NAMES
from viete.ask.arrow_questions import arrow_sides
from viete.ask.own_questions import own_question
from viete.ask.term_table import floats
from viete.ask.term_values import PRECISE
from viete.ask.top import TOP
from viete.ask.with_clause import changes_of
from viete.errors import Text, VieteError
from viete.evaluate.fast import FastArrays
from viete.evaluate.labels import all_heads, heads_of
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.notation.heads import Heads, head_of, joint
from viete.notation.lexer import tokenize
from viete.notation.printer import show
from viete.notation.symbols import LAST
from viete.notation.tree import Apply, Expr, Num, Ref, refs
from viete.rewrite.replacement import parse_replacement


def reading_notes(run: Run, question: str) -> list[str]:
    """Notes on how a question was read, each once. Raises VieteError as ``run[question]`` does."""
    if (changes := changes_of(run, question)) is not None:
        formula, equations = changes
        lefts = [parse_replacement(text, run.program.model, run.scope).left for text in equations]
        return [*reading_notes(run, formula.text),
                *(note for left in lefts for note in counts(run, left))]  # fmt: skip
    if (own := own_question(run, question)) is not None:
        few = list(fewer_entries(run, own.count or 1, own.formulas[0])) if own.word == TOP else []
        inside = (note for formula in own.formulas for note in reading_notes(run, formula))
        return list(dict.fromkeys([*few, *inside]))
    read_as = (c.sentence for c in run.conventions(question))
    notes = [*read_as, *counts(run, run.parse(question)), *block_numbers(run, question),
             *second_names(run, question), *rounding(run, question)]  # fmt: skip
    return list(dict.fromkeys(notes))


def fewer_entries(run: Run, count: int, question: str) -> Iterator[str]:
    """A note that a vector has fewer entries than a question asks for the greatest of."""
    run, e = run.resolved(question)
    shape = [int(size.evaluate(run.sizes)) for size in query(run, e).type.shape]
    if len(shape) > 1 and shape[-1] == 1:  # a column is a vector
        shape.pop()
    if shape and shape[-1] < count:
        yield f"{TOP}_{count} are all {shape[-1]} entries: there are no more"


def second_names(run: Run, question: str) -> Iterator[str]:
    """What W_U, E and similar names mean on a card that has other names, or no such weights."""
    for name in SECOND_NAMES:
        base, _, label = name.partition("_")
        written = rf"{base}_(?:{label}|{{{label}}})" if label else base
        found = re.search(rf"(?<![\w\\{{]){written}(?![A-Za-z0-9])", question)
        if found and (meant := run.scope.second(name)) is not None:
            with suppress(VieteError):  # a letter, or a word in quotes, of what the card lacks
                shown = show(meant(), "unicode")
                yield f"{name} is {shown}: the card has no weights of that name"


def rounding(run: Run, question: str) -> Iterator[str]:
    """That the sides of an equation, which are compared exactly, differ by rounding alone."""
    run, e = run.resolved(question)
    floating = isinstance(run.arrays, FastArrays)  # other numbers are not rounded
    if not (floating and isinstance(e, Apply) and e.op in ("eq", "ne")):
        return
    parts = [Apply("sub", e.args), *e.args]
    gap, *sides = (floats(run.ordered(*run.answered(show(x), x))) for x in parts)
    if gap.dtype.kind != "f" or not np.isfinite(gap).all() or not gap.any():
        return
    sizes = (np.abs(x).max(initial=0.0) for x in sides)
    most = np.abs(gap).max()
    if most <= PRECISE * np.finfo(gap.dtype).eps * max(sizes):
        sign = "=" if e.op == "eq" else "≠"
        yield (f"{sign} compares exactly, and the sides differ by {most:.2g} at most, which is "
               f"rounding; viete check allows for it")  # fmt: skip


def counts(run: Run, e: Expr) -> Iterator[str]:
    """``A^{2,1} = L1H0`` for heads that are named by numbers, as programs count them from 0."""
    card = run.program.model
    grouped = query_heads(card)
    for ref in refs(e):
        heads = card.heads_of(ref.symbol)
        slots = dict(zip(ref.symbol.slots, ref.index, strict=True))
        whole = [head for pair in pairwise(ref.index) if isinstance(head := joint(*pair), Num)]
        of_all = dict(all_heads(run, ref)) if whole else {}
        yield from (f"{show(ref)} = {of_all[k]}" for x in whole if (k := int(x.value)) in of_all)
        last = slots.get(heads[-1]) if heads else None
        if isinstance(last, Num) and last.value.denominator == 1:
            named = dict(heads_of(run, ref.symbol, slots, heads[-1]))
            if int(last.value) in named:
                yield f"{show(ref)} = {named[int(last.value)]}"
        if grouped is not None and grouped.shared(ref.symbol):
            yield from in_common(run, grouped, ref, slots[grouped.group])


def in_common(run: Run, grouped: Heads, ref: Ref, at: Expr) -> Iterator[str]:
    """That the heads of a group have a value in common, where a group or a head is named."""
    each = len(run.program.range_of(grouped.member))
    if each == 1:
        return
    if isinstance(at, Num):
        first = int(at.value - 1) * each + 1
        yield f"{show(ref)} is that of group {at.value}: heads {first} to {first + each - 1}"
    elif (found := head_of(at)) is not None:
        head = show(found[0])
        of = dict(zip(ref.symbol.slots, ref.index, strict=True)) | {grouped.group: found[0]}
        own = show(Ref(ref.symbol, tuple(of.values())))
        yield f"{own} is that of head {head}'s group, which has {each} heads"


def block_numbers(run: Run, question: str) -> Iterator[str]:
    """A note that L is the number of blocks where the card calls it N, or the reverse."""
    parts = arrow_sides(question) or (question,)
    words = {t.text for part in parts for t in tokenize(Text(part)) if t.kind == "word"}
    uppers = set(run.scope.last.values())
    for word in sorted(words & set(LAST) - run.program.model.symbols.keys()):
        if len(uppers) == 1:
            count = next(iter(uppers))
            value = run.program.index_size(count, {})
            yield f"{word} is {show(count)} = {value}, the number of blocks"


__all__ = ["reading_notes"]
