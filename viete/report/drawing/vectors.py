"""Vectors that add up to another, as a stand-alone SVG: each partial sum in its plane with v.

The first axis is v. A term that moves the end along this axis adds to ⟨v, ·⟩; a term that moves it
away from the axis widens the angle.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from viete.ask.partial_sums import PartialSums
from viete.document.colours import INK, LINE_STRONG, SERIES, SERIF, SOFT

WIDTH, HEIGHT, MARGIN, LINE = 760, 560, 40, 18


def vectors_svg(sums: PartialSums) -> str:
    """The arrows from sum to sum, with their labels in a list beside them."""
    places = [(0.0, 0.0), *(s.place for s in sums.sums)]
    xs, ys = [x for x, _ in places], [y for _, y in places]
    wide = max(max(xs) - min(xs), max(ys), 1e-9)
    scale = min((WIDTH - 2 * MARGIN) / wide, (HEIGHT - 2 * MARGIN) / max(*ys, 1e-9))
    height = MARGIN * 2 + max(max(ys) * scale, LINE * (len(sums.sums) + 1))
    base = height - MARGIN

    def at(place: tuple[float, float]) -> tuple[float, float]:
        return MARGIN + (place[0] - min(xs)) * scale, base - place[1] * scale

    body = [line(MARGIN, base, WIDTH - MARGIN, base, LINE_STRONG, 1.4)]
    body.append(text(WIDTH - MARGIN, base + LINE, "v", INK, "end"))
    for k, s in enumerate(sums.sums):
        colour = SERIES[k % len(SERIES)]
        body.append(arrow(*at(places[k]), *at(places[k + 1]), colour))
        row = MARGIN + LINE * k
        body.append(line(WIDTH + 6, row - 4, WIDTH + 26, row - 4, colour, 2))
        body.append(text(WIDTH + 34, row, f"{s.label}: ⟨v, ·⟩ = {s.inner:+.3f}", INK))
    x, y = at(places[-1])
    body.append(line(*at((0.0, 0.0)), x, y, SOFT, 1, "4 4"))
    whole = WIDTH + 360
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height:.0f}" '
        f'width="{whole}" height="{height:.0f}" font-family="{SERIF}" font-size="14">\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def line(
    x: float, y: float, to_x: float, to_y: float, colour: str, width: float, dashes: str = ""
) -> str:  # fmt: skip
    """A straight line."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"{dashed}/>'
    )


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    """A line with a tip at its end."""
    dx, dy = to_x - x, to_y - y
    size = (dx * dx + dy * dy) ** 0.5
    if size < 0.5:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="{colour}"/>'
    tip = min(8.0, size / 2)
    ux, uy = dx / size * tip, dy / size * tip
    points = " ".join(
        f"{a:.1f},{b:.1f}"
        for a, b in (
            (to_x, to_y),
            (to_x - ux - uy / 2, to_y - uy + ux / 2),
            (to_x - ux + uy / 2, to_y - uy - ux / 2),
        )
    )
    return line(x, y, to_x, to_y, colour, 2) + f'<polygon points="{points}" fill="{colour}"/>'


def text(x: float, y: float, words: str, colour: str, anchor: str = "start") -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


__all__ = ["arrow", "line", "text", "vectors_svg"]
