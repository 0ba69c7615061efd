"""The graph of an expansion as a stand-alone SVG: positions from left to right, blocks upwards.

An arrow is as wide as the terms that pass through it are large. Positive arrows are blue, negative
ones orange. Arrows that are too small to see are one grey arrow into each point, labelled with
their share of all sizes. Below the graph stand the largest arrows with their values. On a page, an
arrow's attributes hold its value, its terms and the question that opens it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from viete.ask.arrows import Arrows, Edge
from viete.document.colours import INK, LINE, NEGATIVE, PAPER, POSITIVE, SERIF, SOFT
from viete.report.drawing.arrow_layout import (
    GAP,
    LEFT,
    MARGIN,
    ArrowLayout,
    Folded,
    Point,
    folded_words,
    short,
    wide,
    words,
)
from viete.report.drawing.arrow_layout import LETTER as LETTERS
from viete.report.drawing.arrow_layout import LINE as HEIGHT
from viete.report.drawing.vectors import line, text

LISTED = 12  # arrows with their values below the graph
NAMED = 8  # arrows whose head is written beside them


def arrows_svg(graph: Arrows, listed: int = LISTED) -> str:
    """The drawing of the graph, with some of its largest arrows listed below it."""
    lay = ArrowLayout(graph)
    spines, rows = lay.lefts[:-1], lay.names_rows
    body = [line(LEFT - 12, y, lay.right - GAP, y, LINE, 0.8) for _, y in rows]
    if not lay.side_by_side:
        body += [line(x, lay.base, x, MARGIN + HEIGHT, LINE, 3) for x in spines]
    body += [stub(lay, f) for f in lay.folded]
    body += reversed([path(a, curve, lay.most) for a, curve in lay.curves])  # the largest in front
    names = [text(LEFT - 20, y + 4, short(name), SOFT, "end") for name, y in rows]
    dots = list[str]()
    for n in lay.nodes:
        x, y = lay.at(n)
        title = f"<title>{escape(n.name)}</title>"
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK}">{title}</circle>')
        if n.name in lay.rank and lay.side_by_side:
            names.append(text(x, y + HEIGHT, short(n.label), INK, "middle"))
        elif n.name in lay.rank:
            names.append(text(x + GAP, y + 4, short(n.label), INK))
        elif n.block is None:
            names.append(text(x, y - GAP, n.label, INK, "middle"))
    heads = {a.start: (a, c) for a, c in reversed(lay.curves) if a.by.startswith("A")}
    largest = sorted(heads.values(), key=lambda x: -x[0].mass)[:NAMED]
    names += [pattern(*beside(curve), a) for a, curve in largest]
    names += [text(*near(lay, f), f"{f.share:.0%}", SOFT, "end") for f in lay.folded
              if lay.tells(f)]  # fmt: skip
    for k, position in enumerate(lay.columns):
        token = lay.tokens.get(position) or str(position)
        names.append(text(lay.middle(k), lay.below, token, INK, "middle"))
    under, height, width = below(lay, lay.drawn[:listed]) if listed else ([], lay.below, 0)
    wings = [(n, lay.at(n)[0]) for n in lay.nodes if n.block is None]
    width = (
        max([width, lay.right, *(x + LETTERS * len(n.label) / 2 for n, x in wings)]) + MARGIN / 2
    )
    size = f"{width:.0f}", f"{height + HEIGHT:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        f'width="{size[0]}" height="{size[1]}" font-family="{SERIF}" font-size="13">\n'
        f'<rect width="{size[0]}" height="{size[1]}" fill="{PAPER}"/>\n'
        + "\n".join((*body, *dots))
        + f'\n<g paint-order="stroke" stroke="{PAPER}" stroke-width="4">\n'
        + "\n".join(names)
        + "\n</g>\n"
        + "\n".join(under)
        + "\n</svg>\n"
    )


def path(a: Edge, curve: Sequence[Point], most: float) -> str:
    """One arrow."""
    of = opening(a.terms) + (f' data-opens="{escape(a.opens)}"' if a.opens else "")
    start, *rest = (f"{x:.1f},{y:.1f}" for x, y in curve)
    return (
        f'<path class="arrow" data-value="{a.value!r}"{of} d="M{start} C{" ".join(rest)}" '
        f'fill="none" stroke="{colour(a)}" stroke-width="{wide(a.mass, most)}">'
        f"<title>{escape(words(a))}</title></path>"
    )


def opening(terms: Sequence[tuple[str, float]]) -> str:
    """Terms as an attribute."""
    return f" data-terms='{escape(json.dumps(terms, ensure_ascii=False))}'" if terms else ""


def stub(lay: ArrowLayout, f: Folded) -> str:
    """A folded arrow: a short one from the left below, without a start vertex."""
    (u, v), (x, y) = lay.beginning(f), lay.at(lay.graph.nodes[f.end])
    title = f"<title>{escape(folded_words(f))}</title>"
    return (
        f'<path class="arrow" data-value="{f.value!r}"{opening(f.terms)} '
        f'd="M{u:.1f},{v:.1f} L{x:.1f},{y:.1f}" fill="none" stroke="{SOFT}" '
        f'stroke-dasharray="3 3" stroke-width="{wide(f.mass, lay.most)}">{title}</path>'
    )


def near(lay: ArrowLayout, f: Folded) -> Point:
    """The place of a folded arrow's share."""
    x, y = lay.beginning(f)
    return x - 2, y + 4


def beside(curve: Sequence[Point]) -> Point:
    """The place of an arrow's name: at a quarter of the arrow, where others are still apart."""
    x, y = ((27 * a + 27 * b + 9 * c + d) / 64 for a, b, c, d in zip(*curve, strict=True))
    return x + 2, y - 4


def pattern(x: float, y: float, a: Edge) -> str:
    """The name of an arrow's attention pattern."""
    inside = a.by.partition("{")[2].rstrip("}")
    high = f'<tspan dy="-4" font-size="9">{escape(inside)}</tspan>'
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour(a)}" font-size="12">A{high}</text>'


def below(lay: ArrowLayout, first: Sequence[Edge]) -> tuple[list[str], float, float]:
    """The largest arrows with their values, in as many columns as fit."""
    longest = LETTERS * max(map(len, map(words, first)), default=0) + 28 + 2 * GAP
    columns = max(1, int((lay.right - GAP) // longest))
    each = -(-len(first) // columns)
    out, top = list[str](), lay.below + 2 * HEIGHT
    for k, a in enumerate(first):
        x, y = MARGIN / 2 + longest * (k // each), top + HEIGHT * (k % each)
        out.append(line(x, y - 4, x + 20, y - 4, colour(a), wide(a.mass, lay.most)))
        out.append(text(x + 28, y, words(a), INK))
    notes = [f"and {len(lay.drawn) - len(first)} more arrows"] * (len(lay.drawn) > len(first))
    if lay.folded:
        share = sum(f.share for f in lay.folded)
        count = sum(f.count for f in lay.folded)
        notes.append(f"dashed: {count} smaller ones, {share:.1%} of all sizes")
    last = top + HEIGHT * each
    out += [text(MARGIN / 2 + 28, last + HEIGHT * k, note, SOFT) for k, note in enumerate(notes)]
    return out, last + HEIGHT * len(notes), MARGIN / 2 + longest * columns


def colour(a: Edge) -> str:
    """The colour of an arrow, by the sign of its value."""
    return POSITIVE if a.value >= 0 else NEGATIVE


__all__ = ["arrows_svg"]
