"""The graph of an expansion as a stand-alone SVG: positions from left to right, blocks upwards.

An arrow is as wide as the terms that pass through it are large; what adds is blue, what takes away
is red. Beside it stand the largest arrows with their values. Arrows come from the left and below,
and go on to the right and above: so the names of residual vectors stand above on the left, and
those of what is added to them on the right below.
"""

from __future__ import annotations

from collections import Counter

from viete.ask.arrows import Arrows, Vertex
from viete.document.colours import INK, NEGATIVE, PAPER, POSITIVE, SERIF, SOFT
from viete.report.drawing.vectors import line, text

COLUMN, ROW, MARGIN = 150, 90, 60  # columns and rows are wider for what stands in them
ASIDE, LINE, BEND, GAP = 46, 18, 14, 8
LETTER, LONGEST = 6.6, 32  # the width of a letter, and the letters of a name in the graph
LISTED = 16  # arrows with their values beside the graph
WIDEST = 7.0


def arrows_svg(graph: Arrows) -> str:
    """The graph, drawn."""
    nodes = graph.nodes
    columns = sorted({n.position for n in nodes.values() if n.position is not None})
    blocks = sorted({n.block for n in nodes.values() if n.block is not None})
    stream = {name for a in graph.arrows.values() for name in (a.start, a.end)
              if a.by.startswith("A") or (name == a.end and a.by == "+")}  # fmt: skip
    stream |= {a.start for a in graph.arrows.values() if a.end == graph.of}
    stacked, rank = Counter[tuple[int | None, int | None]](), dict[str, int]()
    for node in nodes.values():
        if node.name not in stream:
            rank[node.name] = stacked[node.block, node.position]
            stacked[node.block, node.position] += 1
    deep = LINE * (max(stacked.values(), default=0) + 1)
    row_height = max(ROW, deep + LINE)
    longest = max((len(short(name)) for name in rank), default=0)
    column_width = max(COLUMN, round(ASIDE + LETTER * (longest + 6) + 2 * GAP))
    base = MARGIN + row_height * len(blocks)
    height = max(base + deep + MARGIN, MARGIN + LINE * (LISTED + 2))
    beside = MARGIN * 2 + column_width * max(len(columns), 2)

    def at(node: Vertex) -> tuple[float, float]:
        x = columns.index(node.position) if node.position in columns else len(columns) - 1
        if node.block is None:
            return MARGIN + column_width * x, MARGIN / 2
        y = base - row_height * blocks.index(node.block)
        if node.name in stream:
            return MARGIN + column_width * x, y
        return MARGIN + column_width * x + ASIDE, y + LINE * (rank[node.name] + 1)

    most = max((a.mass for a in graph.arrows.values()), default=1.0) or 1.0
    body = []
    between = Counter[tuple[str, str]]()
    ordered = sorted(graph.arrows.values(), key=lambda a: -a.mass)
    for a in ordered:
        (x, y), (to_x, to_y) = at(nodes[a.start]), at(nodes[a.end])
        colour = POSITIVE if a.value >= 0 else NEGATIVE
        bend, wide = between[a.start, a.end] * BEND, round(0.6 + WIDEST * a.mass / most, 2)
        between[a.start, a.end] += 1
        body.append(
            f'<path d="M{x:.1f},{y:.1f} Q{(x + to_x) / 2 - bend:.1f},{(y + to_y) / 2 - bend:.1f} '
            f'{to_x:.1f},{to_y:.1f}" fill="none" stroke="{colour}" stroke-width="{wide}"/>'
        )
    body.reverse()  # the largest in front
    said = [f"{a.start} →{f'({a.by})' if a.by not in ('', '+') else ''} {a.end}: {a.value:+.4f}"
            for a in ordered[:LISTED]]  # fmt: skip
    width = beside + 28 + round(LETTER * max(map(len, said), default=0)) + MARGIN
    for k, (a, words) in enumerate(zip(ordered, said, strict=False)):
        row, wide = MARGIN + LINE * k, round(0.6 + WIDEST * a.mass / most, 2)
        colour = POSITIVE if a.value >= 0 else NEGATIVE
        body.append(line(beside, row - 4, beside + 20, row - 4, colour, wide))
        body.append(text(beside + 28, row, words, INK))
    if len(ordered) > LISTED:
        more = f"and {len(ordered) - LISTED} smaller ones"
        body.append(text(beside + 28, MARGIN + LINE * LISTED, more, SOFT))
    for n in nodes.values():
        x, y = at(n)
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK}"/>')
        if n.block is not None and n.name in stream:
            body.append(text(x - GAP, y - GAP, short(n.name), INK, "end"))
        else:
            body.append(text(x + GAP, y + 4, short(n.name), INK))
    names = {n.position: n.token for n in nodes.values() if n.token}
    for k, position in enumerate(columns):
        where = names.get(position) or str(position)
        body.append(text(MARGIN + column_width * k, base + deep + LINE, where, INK, "middle"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="{SERIF}" font-size="13">\n'
        f"<style>text {{ paint-order: stroke; stroke: {PAPER}; stroke-width: 4px }}</style>\n"
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def short(name: str) -> str:
    """A name as it stands in the graph."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


__all__ = ["arrows_svg"]
