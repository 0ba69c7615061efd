r"""Joining: the heads of a value side by side, as one value, from which each head is then read.

``z^{i,h} = A^{i,h} V^{i,h}`` becomes ``z^i = concat_h(A^{i,h} V^{i,h})``, and ``z^{i,h}`` is the
columns $(h - 1) d_k$ to $h d_k - 1$ of it.
"""

from __future__ import annotations

from dataclasses import replace

from viete.analysis.shapes import shapes_of
from viete.errors import Text
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, Table, num
from viete.rewrite.lifting import again
from viete.rewrite.naming import with_equation
from viete.rewrite.simplify import simplified


def heads_joined(card: CardData, value: Ref, source: Text) -> tuple[CardData, Ref]:
    """The card with the heads of a value side by side, and the name of these, of (n, H d_k).

    Raises VieteError, at ``source``, for a value that no equation computes, and for one that is no
    matrix for each head.
    """
    card, value = with_equation(card, value, source)
    symbol, ranges = value.symbol, {i.name: i for i in card.indices}
    heads = [s for s in symbol.slots if s not in card.loop_letters]
    shape = shapes_of(card).types[symbol.key].shape
    lines = [k for k, e in enumerate(card.equations) if e.left == symbol.member]
    if len(shape) != 2 or len(lines) != 1:
        raise source.error(f"{show(value)} is not one equation with a matrix for each head")
    old = card.equations[lines[0]]
    whole: Expr = old.right
    before: Expr = num(0)
    for s in heads:  # the heads before this one, of groups too
        count = Apply("add", (Apply("sub", (ranges[s].upper, ranges[s].lower)), num(1)))
        place = Apply("sub", (Idx(s), ranges[s].lower))
        before = simplified(Apply("add", (Apply("times", (before, count)), place)))
    for s in reversed(heads):
        whole = Bind("concat", s, None, None, whole)

    sub, sup = (tuple(x for x in slots if not (x.index and x.text in heads))
                for slots in (symbol.sub, symbol.sup))  # fmt: skip
    made = replace(symbol, sub=sub, sup=sup)
    if made.key in card.symbols:
        made = replace(made, base=card.fresh("Z", "C", "J", "heads"))
    rows, width = map(card.size_expr, shape)
    row, column = (fresh({*card.names, *card.loop_letters, *ranges}, x) for x in ("jpqs", "ckmu"))
    at: Expr = simplified(Apply("add", (Apply("times", (before, width)), Idx(column))))
    part = Table(((row, rows), (column, width)), Pick(made.member, (Idx(row), at)))
    together = replace(again(old, made.member, whole), meaning="the heads side by side")
    pair, k = (together, again(old, old.left, part)), lines[0]
    index = tuple(x for s, x in zip(symbol.slots, value.index, strict=True) if s not in heads)
    card = replace(card, equations=(*card.equations[:k], *pair, *card.equations[k + 1 :]))
    return card, Ref(made, index)


__all__ = ["heads_joined"]
