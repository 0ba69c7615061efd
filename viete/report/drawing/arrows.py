"""The graph of an expansion as a stand-alone SVG: positions from left to right, blocks upwards.

An arrow is as wide as the terms that pass through it are large; what adds is blue, what takes away
is red.
"""

from __future__ import annotations

from viete.ask.arrows import Arrows, Vertex
from viete.report.drawing.vectors import FONT, INK, PALE, line, text

COLUMN, ROW, MARGIN = 120, 70, 60
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
    height = MARGIN * 2 + ROW * (len(blocks) + 1)
    width = MARGIN * 2 + COLUMN * max(len(columns), 2)

    def at(node: Vertex) -> tuple[float, float]:
        x = columns.index(node.position) if node.position in columns else len(columns) - 1
        if node.block is None:
            return MARGIN + COLUMN * x, MARGIN / 2
        y = height - MARGIN - ROW * blocks.index(node.block)
        aside = 0 if node.name in stream else 46
        return MARGIN + COLUMN * x + aside, y + (aside and 16)

    most = max((a.mass for a in graph.arrows.values()), default=1.0) or 1.0
    body = []
    for a in sorted(graph.arrows.values(), key=lambda a: a.mass):
        (x, y), (to_x, to_y) = at(nodes[a.start]), at(nodes[a.end])
        colour = ADDS if a.value >= 0 else TAKES
        body.append(line(x, y, to_x, to_y, colour, round(0.6 + WIDEST * a.mass / most, 2)))
        if a.by not in ("", "+"):
            body.append(text((x + to_x) / 2 + 4, (y + to_y) / 2, f"{a.by} {a.value:+.3f}", PALE))
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
