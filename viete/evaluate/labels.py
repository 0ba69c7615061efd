"""Labels: the names of the entries of an answer's axes: tokens, heads, blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from viete.analysis.next_token import scored_tokens, value_count, vocabulary
from viete.analysis.query_heads import query_heads
from viete.analysis.token_vectors import over_tokens
from viete.evaluate.inputs import host
from viete.evaluate.queries import query
from viete.graph.card import CardData, Input
from viete.graph.sizes import ZERO, Size
from viete.notation.heads import joint
from viete.notation.lexer import unprimed
from viete.notation.printer import Printer
from viete.notation.tree import Expr, Idx, Num, Pick, Ref, Symbol, refs
from viete.notation.words import WordLabels, Words, quoted

if TYPE_CHECKING:
    from viete.evaluate.run import Run


def axis_labels(run: Run, e: Expr, axis: str, size: int) -> Sequence[str]:
    """The names of the entries along one axis of a formula's value.

    ``axis`` is as in ``run.axes``: the size of the axis, or its letter.
    """
    card, letter = run.program.model, axis.rstrip("'")
    if axis in (str(vocabulary(card)), str(scored_tokens(card))):
        return WordLabels(run.scope.words(), size)
    ids = tokens_along(run, axis)
    if ids is not None and ids.shape[-1] == size:
        return position_labels(ids, run.scope.words())
    about = query(run, e)
    if axis in about.blocks:
        return [str(k) for k in about.blocks[axis]]
    heads = head_names(run, e, axis)
    if axis in about.places:
        return letter_labels(run, *about.places[axis], heads)
    if letter in card.ranges:
        return [heads.get(k, str(k)) for k in run.program.range_of(letter)]
    return [str(k) for k in range(size)]


def letter_labels(
    run: Run, first: Size, count: Size, heads: Mapping[int, str]
) -> Sequence[str]:  # fmt: skip
    """The names of the values of a letter that counts heads, positions, tokens or other entries."""
    card, end = run.program.model, first + count
    if first == ZERO and end in (vocabulary(card), scored_tokens(card)):
        return WordLabels(run.scope.words(), int(end.evaluate(run.sizes)))
    start, stop = (int(size.evaluate(run.sizes)) for size in (first, end))
    ids = next((tokens_along(run, n) for n in card.lengths if n in end.names()), None)
    known = heads if ids is None else dict(enumerate(position_labels(ids, run.scope.words())))
    return [known.get(k, str(k)) for k in range(start, stop)]


def position_labels(ids: np.ndarray, words: Words) -> list[str]:
    """``0 "I"``: positions with their tokens, if these are the same in every text."""
    labels = []
    for j, column in enumerate(ids.reshape(-1, ids.shape[-1]).T):
        name = words.name(int(column[0])) if (column == column[0]).all() else None
        labels.append(str(j) if name is None else f"{j} {quoted(name)}")
    return labels


def tokens_along(run: Run, length: str) -> np.ndarray | None:
    """The token ids of the text with this length, (batch, n); None without such a text.

    For a question about two runs: the texts of both, if they have the same length.
    """
    card = run.program.model
    items = [i for i in card.inputs if holds_text(card, i, length) and run.is_there((i.name, ()))]
    first = [i for i in items if unprimed(i.name)[0] == unprimed(items[0].name)[0]]
    found = [np.atleast_2d(host(run.lookup(i.name, ()).array)) for i in first]
    return np.concatenate(found) if found else None


def holds_text(card: CardData, item: Input, length: str) -> bool:
    """Whether an input has a token of the vocabulary for each position of this length."""
    (size,) = item.shape if len(item.shape) == 1 else (None,)
    return (
        isinstance(size, Ref) and size.key == length and item.low is not None
        and item.high is not None and value_count(card, item) == vocabulary(card)
    )  # fmt: skip


def head_names(run: Run, e: Expr, letter: str) -> Mapping[int, str]:
    """``1 = L1H0`` for each value of a letter that stands for one block's heads.

    After the sign, blocks and heads count from 0, and heads of grouped queries are numbered
    consecutively.
    """
    card, found = run.program.model, list[dict[int, str]]()
    for ref in refs(e):
        slots = dict(zip(ref.symbol.slots, ref.index, strict=True))
        for slot in card.heads_of(ref.symbol):
            if slots[slot] == Idx(letter):
                pairs = heads_of(run, ref.symbol, slots, slot)
                found.append({k: f"{k} = {name}" for k, name in pairs})
        if any(joint(*pair) == Idx(letter) for pair in pairwise(ref.index)):
            found.append({k: f"{k} = {name}" for k, name in all_heads(run, ref)})
    return found[0] if found and all(names == found[0] for names in found) else {}


def all_heads(run: Run, ref: Ref) -> Iterator[tuple[int, str]]:
    """The heads of all groups, numbered consecutively, of one symbol in one block."""
    card, program = run.program.model, run.program
    slots = dict(zip(ref.symbol.slots, ref.index, strict=True))
    blocks = [(slots[s], program.range_of(s).start) for s in card.blocks_of(ref.symbol)]
    count = prod(len(program.range_of(s)) for s in card.heads_of(ref.symbol))
    if len(blocks) == 1 and isinstance(block := blocks[0][0], Num):
        for k in range(1, count + 1):
            yield k, f"L{int(block.value) - blocks[0][1]}H{k - 1}"


def heads_of(
    run: Run, symbol: Symbol, slots: Mapping[str, Expr], letter: str
) -> Iterator[tuple[int, str]]:
    """The heads of one symbol in one block, by the values of a letter; empty if others vary."""
    card, program = run.program.model, run.program
    blocks = [(slots[s], program.range_of(s).start) for s in card.blocks_of(symbol)]
    others = [s for s in card.heads_of(symbol) if s != letter]
    if len(blocks) != 1 or not all(isinstance(slots[s], Num) for s in others):
        return
    block, first = blocks[0]
    if not isinstance(block, Num):
        return
    grouped = query_heads(card)
    each = 1  # heads that have the symbol in common
    if grouped is not None and grouped.shared(symbol):
        each = len(program.range_of(grouped.member))
    for k in program.range_of(letter):
        number = 0
        for s in card.heads_of(symbol):
            values, index = program.range_of(s), slots[s]
            at = k if s == letter else int(index.value) if isinstance(index, Num) else values.start
            number = number * len(values) + at - values.start
        last = f" to H{number * each + each - 1}" if each > 1 else ""
        yield k, f"L{int(block.value) - first}H{number * each}{last}"


class WordPrinter(Printer):
    """Writes token numbers as words: ``U[" Mary"]``, which reads back as the same.

    Where a question writes a name differently, as ``T("a text")``, that spelling is kept.
    """

    def __init__(self, run: Run, style: str) -> None:
        super().__init__(style)
        self.run, self.numbered = run, run.scope.numbered

    def word(self, e: Pick, axis: int) -> str:
        """As `Printer.word`."""
        x = e.items[axis]
        if not isinstance(x, Num) or not over_tokens(self.run.program.model, e.value, axis, True):
            return ""
        name = self.run.scope.words().name(int(x.value)) if x.value.denominator == 1 else None
        return "" if name is None else self.literal(quoted(name))

    def ref(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        """As `Printer.ref`."""
        written = self.run.scope.spelled.get(e.key)
        return super().ref(e, extra) if written is None or extra else self.literal(written)


def word_printer(run: Run, style: str) -> WordPrinter:
    """The printer of a run's formulas in a style, with tokens as words."""
    return word_printers(style)(run, style)


@cache
def word_printers(style: str) -> type[WordPrinter]:
    """The printer class for a style, with tokens as words."""
    kind = Printer.others.get(style)
    return WordPrinter if kind is None else type(f"Word{kind.__name__}", (WordPrinter, kind), {})
