"""A card's data flow as data for a page, which unfolds its boxes in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from viete.graph.card import CardData
from viete.graph.sizes import Size
from viete.notation.mathml import framed, mathml
from viete.notation.tree import Expr, walk
from viete.report.drawing.diagram import Box
from viete.report.drawing.flow import DataFlow
from viete.report.drawing.story import story


def diagram_data(card: CardData) -> dict[str, Any]:
    """The data flow of a card, ready for JSON.

    ``boxes`` are in the order of computation, an input before its first reader. A box has the plain
    names (``keys``) of its results, the names of what it ``reads`` and ``gives`` as MathML, and its
    equations in ``rows``: equations that read the same, as Q, K and V do, are one row. ``links``
    say which row reads which. ``arrows`` go from box to box, with the values that they carry;
    ``stream`` are those of a residual stream. ``groups`` are the loops.
    """
    return _Folded(card).data()


class _Folded:
    def __init__(self, card: CardData) -> None:
        self.card, self.flow = card, DataFlow(card, "parts", None, "unicode")
        self.diagram = self.flow.diagram()
        self.uses = self.flow.uses.all

    def data(self) -> dict[str, Any]:
        bundles = {
            (source, goal, around): [self.flow.spelled(u) for u in uses]
            for (source, goal, _, around), uses in self.flow.bundles().items()
        }
        return {
            "boxes": [self.box(b) for b in self.ordered()],
            "arrows": [
                {"from": a.source, "to": a.target, "keys": list(a.keys), "stream": a.residual,
                 "back": a.back, "names": names(bundles.get((a.source, a.target, a.back), ()))}
                for a in self.diagram.arrows
            ],
            "groups": [
                {"id": self.flow.group(loop), "letter": loop.index,
                 "range": [mathml(loop.lower), mathml(loop.upper)]}
                for loop in self.card.loops
            ],
        }  # fmt: skip

    def ordered(self) -> list[Box]:
        """The boxes, an input before the first box that reads it, or before that box's loop."""
        inputs = [b for b in self.diagram.boxes if b.kind == "input"]
        boxes = [b for b in self.diagram.boxes if b.kind != "input"]
        place = {b.id: n for n, b in enumerate(boxes)}
        for box in reversed(inputs):
            first = min(place[a.target] for a in self.diagram.arrows if a.source == box.id)
            group = boxes[first].group
            while first and group is not None and boxes[first - 1].group == group:
                first -= 1
            boxes.insert(first, box)
            place = {b.id: n for n, b in enumerate(boxes)}
        return boxes

    def box(self, b: Box) -> dict[str, Any]:
        out: dict[str, Any] = {
            "id": b.id, "title": b.title, "kind": b.kind, "group": b.group, "keys": list(b.keys),
        }  # fmt: skip
        if b.kind == "input":
            return out
        piece = self.flow.pieces[int(b.id)]
        mine = [u for u in self.uses if u.reader in piece.members]
        if piece.term is not None:
            inside_term = {*walk(piece.term)}
            mine = [u for u in mine if u.ref in inside_term]
        leaving = {u.maker for u in self.uses if u.reader not in piece.members or u.around}
        last = [k for k in piece.members if k in leaving] or piece.members[-1:]
        rows = self.flow.side_by_side(piece)
        home = {k: n for n, row in enumerate(rows) for k in row}
        inside = [u for u in mine if u.maker in home and not u.around and u.maker != u.reader]
        return out | {
            "reads": names(u.ref for u in mine if u.maker not in home or u.around),
            "gives": [] if piece.is_term else names(self.card.equations[k].left for k in last),
            "rows": [[self.line(k, piece.term) for k in row] for row in rows],
            "links": sorted({(home[u.maker or 0], home[u.reader]) for u in inside}),
        }

    def line(self, k: int, term: Expr | None) -> dict[str, Any]:
        """An equation with its number, or the term of it that is a box."""
        e, axes = self.card.equations[k], self.flow.axes
        letters = {index.name: index for index in self.card.indices}
        copies = [s for s in e.left.symbol.slots if s in letters]
        return {
            "equation": k + 1, "key": e.name, "shape": shape(axes.of(k)),
            "story": story(self.card, term or e.right),
            "term": None if term is None else mathml(term),
            "copies": [
                {"letter": s, "range": [mathml(letters[s].lower), mathml(letters[s].upper)],
                 "meaning": letters[s].meaning}
                for s in copies
            ] if axes.family(k) else [],
        }  # fmt: skip


def names(refs: Iterable[Expr]) -> list[str]:
    """Names as MathML, without repetition."""
    return [mathml(e) for e in dict.fromkeys(refs)]


def shape(axes: tuple[Size, ...]) -> str | None:
    """``H × n × d`` as MathML; empty for a number."""
    return framed(" × ".join(a.show("mathml") for a in axes)) if axes else None


__all__ = ["diagram_data"]
