"""The graph of an expansion as a stand-alone SVG: positions from left to right, blocks upwards.

An arrow is as wide as the terms that pass through it are large; what adds is blue, what takes away
is red. Beside it stand the largest arrows with their values.
"""

from __future__ import annotations

from collections import Counter

from viete.ask.arrows import Arrows, Vertex
from viete.report.drawing.vectors import FONT, INK, PALE, line, text

COLUMN, ROW, MARGIN = 150, 90, 60
ASIDE, LINE, BEND = 46, 18, 14
LISTED = 16  # arrows with their values beside the graph
ADDS, TAKES = "#4c78a8", "#b04a3a"
WIDEST = 7.0


def arrows_svg(graph: Arrows) -> str:
    """The graph, drawn."""
    nodes = graph.nodes
    columns = sorted({n.position for n in nodes.values() if n.position is not None})
    blocks = sorted({n.block for n in nodes.values() if n.block is not None})
    stream = {name for a in graph.arrows.values() for name in (a.start, a.end)
              if a.by.startswith("A") or (name == a.end and a.by == "+")}  # fmt: skip
    stream |= {a.start for a in graph.arrows.values() if a.end == graph.of}
    height = max(MARGIN * 2 + ROW * (len(blocks) + 1), MARGIN + LINE * (LISTED + 1))
    beside = MARGIN * 2 + COLUMN * max(len(columns), 2)
    width = beside + 330
    stacked, rank = Counter[tuple[int | None, int | None]](), dict[str, int]()
    for node in nodes.values():
        if node.name not in stream:
            rank[node.name] = stacked[node.block, node.position]
            stacked[node.block, node.position] += 1

    def at(node: Vertex) -> tuple[float, float]:
        x = columns.index(node.position) if node.position in columns else len(columns) - 1
        if node.block is None:
            return MARGIN + COLUMN * x, MARGIN / 2
        y = height - MARGIN - ROW * blocks.index(node.block)
        if node.name in stream:
            return MARGIN + COLUMN * x, y
        return MARGIN + COLUMN * x + ASIDE, y + LINE * (rank[node.name] + 1)

    most = max((a.mass for a in graph.arrows.values()), default=1.0) or 1.0
    body = []
    between = Counter[tuple[str, str]]()
    ordered = sorted(graph.arrows.values(), key=lambda a: -a.mass)
    for a in ordered:
        (x, y), (to_x, to_y) = at(nodes[a.start]), at(nodes[a.end])
        colour = ADDS if a.value >= 0 else TAKES
        bend, wide = between[a.start, a.end] * BEND, round(0.6 + WIDEST * a.mass / most, 2)
        between[a.start, a.end] += 1
        body.append(
            f'<path d="M{x:.1f},{y:.1f} Q{(x + to_x) / 2 - bend:.1f},{(y + to_y) / 2 - bend:.1f} '
            f'{to_x:.1f},{to_y:.1f}" fill="none" stroke="{colour}" stroke-width="{wide}"/>'
        )
    body.reverse()  # the largest in front
    for k, a in enumerate(ordered[:LISTED]):
        row, wide = MARGIN + LINE * k, round(0.6 + WIDEST * a.mass / most, 2)
        colour = ADDS if a.value >= 0 else TAKES
        body.append(line(beside, row - 4, beside + 20, row - 4, colour, wide))
        by = f"({a.by})" if a.by not in ("", "+") else ""
        body.append(text(beside + 28, row, f"{a.start} →{by} {a.end}: {a.value:+.4f}", INK))
    if len(ordered) > LISTED:
        more = f"and {len(ordered) - LISTED} smaller ones"
        body.append(text(beside + 28, MARGIN + LINE * LISTED, more, PALE))
    for n in nodes.values():
        x, y = at(n)
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK}"/>')
        body.append(text(x + 6, y - 6, n.name, INK))
    names = {n.position: n.token for n in nodes.values() if n.token}
    for k, position in enumerate(columns):
        where = names.get(position) or str(position)
        body.append(text(MARGIN + COLUMN * k, height - 18, where, INK, "middle"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="{FONT}" font-size="13">\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


__all__ = ["arrows_svg"]
