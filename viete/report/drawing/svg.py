"""A diagram as a stand-alone SVG, set like a figure in a textbook.

All styles are attributes: a style sheet or an id would affect the page that contains the picture.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from xml.sax.saxutils import escape, quoteattr

from viete.document.colours import (
    CARD,
    INK,
    LINE,
    LINE_STRONG,
    PAPER,
    SANS,
    SERIF,
    SOFT,
    STREAM,
    WASH,
    colours,
)
from viete.printable import display_width
from viete.report.drawing.boxes import Spacing
from viete.report.drawing.diagram import Box, BoxGroup, Diagram, cleaned, wrap
from viete.report.drawing.wires import Label, Point, Rect, layout

_PIXELS = Spacing(
    gap=30, lane=16, port=22, track=12, lead=16, tip=26, clear=1, label=17, notch=18,
    side=22, head=22, foot=18, above=8, loop=22,
)  # fmt: skip

_MARGIN, _PAD, _LINE = 30, 18, 21
_LIMIT = 540  # width of a line in a box
_TITLE, _TEXT, _NOTE = 15, 15.5, 13.5  # sizes of letters

_FILL = {"input": colours()["input-wash"], "sum": colours()["stream-wash"],
         "output": colours()["output-wash"]}  # fmt: skip
_EDGE = {"input": colours()["input"], "sum": STREAM, "output": colours()["parameter"]}


# --- formulas -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """A stretch of text in one style."""

    text: str
    italic: bool = False
    height: int = 0  # +1: an exponent; -1: an index
    over: str = ""  # of an accent: the letter below it


_SCRIPT = re.compile(r"([_^])(?:\{([^{}]*)\}|(\([^()]*\)|[-−]?[^\W_]+|[^\s\w]))")
_BINDER = re.compile(r"_(\w|\{\w[=<][^{}]*\})[(^]")  # what follows the word in concat_h(…)
_MATHS = re.compile(r"[=_^()\[\]{}√∑·×∈≤≥⊙]|^\W*\w\W*$")
_SHAPE = re.compile(r"\([^()=]*\)( = \([^()=]*\))?")
_SHIFT = {0: 0.0, 1: -0.36, -1: 0.2}  # of an exponent and an index, in heights of a letter
_SMALL = 0.74
# Accents that no font joins to every letter, as signs of their own, and the width of these.
ACCENTS = {"\u0303": "˜", "\u0302": "ˆ", "\u0304": "¯", "\u0307": "˙"}
_ACCENT = 0.333


@lru_cache(10_000)
def _typeset(text: str, maths: bool = False) -> tuple[_Run, ...]:
    """Letters italic, words and digits upright; W^Q, d_k and hᵢ with their indices in place."""
    maths = maths or bool(_MATHS.search(text)) or any(_lowered(c)[1] for c in text)
    runs: list[_Run] = []
    at, base = 0, ""  # the base is what an index would belong to
    while at < len(text):
        script = _SCRIPT.match(text, at)
        if script and base:  # in lm_head there is none: the line is part of a name
            inner = next((part for part in script.groups()[1:] if part is not None), "")
            height = 1 if script[1] == "^" else -1
            end = script.end()
            if script[3]:  # in W_Eᵀ the index ends before the exponent
                inner = next((inner[:n] for n, c in enumerate(inner) if _lowered(c)[1]), inner)
                end = at + 1 + len(inner)
            runs += [_Run(r.text, r.italic, height) for r in _typeset(inner, maths)]
            at = max(end, at + 2)
            continue
        c, height = _lowered(text[at])
        end = at + 1
        if c.isalpha() and not height:
            while end < len(text) and text[end].isalpha() and not _lowered(text[end])[1]:
                end += 1
            c = text[at:end]
        letter = len(c) == 1 and c.isalpha()
        if height and at and text[at - 1] == "}":  # K^{i,h}ᵀ: the T is not a third index
            c = " " + c
        if not height:
            named = _BINDER.match(text, end) and c.isalpha()
            base = c if letter or c in ")]}′″∑" or c.isdigit() or named else ""
        at = end
        marks = ""
        while at < len(text) and unicodedata.combining(text[at]):  # an accent stays with it
            joint = unicodedata.normalize("NFC", c + text[at])
            if len(joint) > len(c):  # one letter has it in every font; else it is set above
                marks += text[at]
            c, at = c if len(joint) > len(c) else joint, at + 1
        known = "".join(ACCENTS.get(m, "") for m in marks)
        if len(known) < len(marks) or len(known) > 1:
            c, known = c + marks, ""
        runs.append(_Run(c, maths and letter, height))
        if known:
            runs.append(_Run(known, False, height, c[-1]))
    joined: list[_Run] = []
    for r in runs:
        last = joined[-1] if joined else None
        if last and (last.italic, last.height, last.over, r.over) == (r.italic, r.height, "", ""):
            r = replace(r, text=joined.pop().text + r.text)
        joined.append(r)
    return tuple(joined)


@lru_cache(10_000)
def _lowered(c: str) -> tuple[str, int]:
    """The letter of a Unicode exponent or index, and its height: ᵢ is a lowered i."""
    if c == "ᵀ":
        return "⊤", 1  # no letter, and so not italic
    kind, _, code = unicodedata.decomposition(c).partition(" ")
    if kind in ("<super>", "<sub>") and " " not in code:
        return chr(int(code, 16)), 1 if kind == "<super>" else -1
    return c, 0


def _em(c: str) -> float:
    """The approximate width of a character relative to the font size, rather too wide."""
    if unicodedata.combining(c):
        return 0
    if c in "ijltfrI.,;:'|!()[]{}·′″ ":
        return 0.34
    if c in "mwMW—…@%√∑":
        return 0.9
    if display_width(c) == 2:
        return 1.05
    return 0.72 if c.isupper() or ord(c) > 0x2000 else 0.54


@lru_cache(10_000)
def _measure(text: str, size: float) -> int:
    runs = _typeset(text)
    wide = [_em(c) * (_SMALL if r.height else 1) for r in runs if not r.over for c in r.text]
    return ceil(sum(wide) * size)


def _accent(r: _Run) -> tuple[float, float]:
    """The offset of an accent, back from its letter's end and up, relative to the font size."""
    wide = 0.83 if r.over in "MW" else 0.64 if r.over.isupper() else 0.46
    return wide / 2 + _ACCENT / 2 - 0.1, 0.2 if r.over.isupper() else 0.02


def formula_text(x: float, y: float, text: str, size: float, **style: str) -> str:
    """A line of SVG text, its formulas with indices and exponents in place."""
    attributes = {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{size:g}", **style}
    parts = []
    base = ahead = 0.0  # the height of the last run, and what an accent went back
    for r in _typeset(text):
        small = _SMALL if r.height else 1.0
        back, raised = _accent(r) if r.over else (0.0, 0.0)
        height = _SHIFT[r.height] - raised * small
        aside = ahead - back * small
        span = []
        if aside:
            span.append(f'dx="{aside * size:.2f}"')
        if height != base:
            span.append(f'dy="{(height - base) * size:.2f}"')
        if r.height:
            span.append(f'font-size="{_SMALL * size:.2f}"')
        if r.italic:
            span.append('font-style="italic"')
        body = escape(r.text)
        parts.append(f"<tspan {' '.join(span)}>{body}</tspan>" if span else body)
        base, ahead = height, (back - _ACCENT) * small if r.over else 0.0
    return _tag("text", attributes, "".join(parts))


def _tag(name: str, attributes: dict[str, str], body: str | None = None) -> str:
    pairs = "".join(f" {k.replace('_', '-')}={quoteattr(v)}" for k, v in attributes.items())
    return f"<{name}{pairs}/>" if body is None else f"<{name}{pairs}>{body}</{name}>"


# --- the picture --------------------------------------------------------------------------------


def to_svg(d: Diagram) -> str:
    """A stand-alone picture with its own background, for light pages and dark ones."""
    d = cleaned(d)
    texts = {b.id: _lines(b) for b in d.boxes}
    sizes = {i: _size(*lines) for i, lines in texts.items()}
    lay = layout(d, sizes, _PIXELS, lambda text: _measure(text, _NOTE))
    heading = wrap(d.title, _LIMIT, lambda text: _measure(text, 20)) if d.title else []
    room = _MARGIN + 28 * len(heading)
    width = max(lay.width, *(_measure(t, 20) for t in heading), 0) + 2 * _MARGIN
    height = lay.height + room + _MARGIN
    dx = (width - lay.width) // 2

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" style="max-width:100%;height:auto">',
        f"<title>{escape(d.title or 'Data-flow diagram')}</title>",
        _tag("rect", {"width": f"{width}", "height": f"{height}", "rx": "14", "fill": PAPER}),
    ]
    for n, line in enumerate(heading):
        style = {"text-anchor": "middle", "font-family": SERIF, "fill": INK}
        out.append(formula_text(width / 2, 40 + 28 * n, line, 20, **style))
    out.append(f'<g transform="translate({dx} {room})">')
    out += [_frame(g, r) for g, r in lay.frames]
    # Streams last: where others share a line with them, they branch off from it.
    for wire in sorted(lay.wires, key=lambda w: w.arrow.residual):
        a = wire.arrow
        data = {"data-key": " ".join(a.keys), "data-from": a.source, "data-to": a.target}
        if a.residual:
            data["data-stream"] = "true"
        out.append(_wire(wire.points, STREAM if a.residual else SOFT, data, a.residual))
    for group, loop in lay.loops:
        out.append(_wire(loop, SOFT, {"data-group": group.id}))
    out += [_box(b, r, *texts[b.id]) for b, r in lay.boxes]
    out += [_label(label) for label in lay.labels]
    return "\n".join([*out, "</g>", "</svg>"]) + "\n"


def _lines(b: Box) -> tuple[list[str], list[str]]:
    def wide(text: str) -> int:
        return _measure(text, _TEXT)

    lines = [part for line in b.lines for part in wrap(line, _LIMIT, wide)]
    return wrap(b.title, _LIMIT, wide), lines


def _size(title: list[str], lines: list[str]) -> tuple[int, int]:
    widths = [_measure(t, _TITLE * 1.25) for t in title] + [_measure(t, _TEXT) for t in lines]
    return max(widths) // 2 + _PAD, _LINE * (len(title) + len(lines)) + 20


def _box(b: Box, r: Rect, title: list[str], lines: list[str]) -> str:
    fill, edge = _FILL.get(b.kind, CARD), _EDGE.get(b.kind, LINE_STRONG)
    width, height = r.right - r.left, r.bottom - r.top
    rx = min(height / 2, 16 if b.kind in ("input", "output") else 7)
    shape = {
        "x": f"{r.left}", "y": f"{r.top}", "width": f"{width}", "height": f"{height}",
        "rx": f"{rx:g}", "fill": fill, "stroke": edge, "stroke-width": "1.2",
    }  # fmt: skip
    x = (r.left + r.right) / 2
    y = r.top + (height - _LINE * (len(title) + len(lines))) / 2 + 15.5
    data = {"data-key": " ".join(b.keys), "data-box": b.id}
    if b.group is not None:
        data["data-group"] = b.group
    out = [_tag("g", data, "")[:-4], f"<title>{escape(b.title)}</title>", _tag("rect", shape)]
    for n, line in enumerate(title + lines):
        style = {"text-anchor": "middle", "font-family": SERIF, "fill": INK}
        size = _TEXT
        if n < len(title) and not _is_formula(line):
            style |= {"font-family": SANS, "font-weight": "600"}
            size = _TITLE
        elif n >= len(title) and (_SHAPE.fullmatch(line) or " → " in line):
            style["fill"] = SOFT
        out.append(formula_text(x, y + n * _LINE, line, size, **style))
    return "".join(out) + "</g>"


def _is_formula(title: str) -> bool:
    """Whether a title is a formula: Q, hᵢ₋₁ and h = x + a."""
    words = re.findall(r"[^\W\d_]+", "".join(r.text for r in _typeset(title) if not r.height))
    return "=" in title or all(len(word) == 1 for word in words)


def _frame(g: BoxGroup, r: Rect) -> str:
    shape = {
        "x": f"{r.left}", "y": f"{r.top}", "width": f"{r.right - r.left}",
        "height": f"{r.bottom - r.top}", "rx": "12", "fill": WASH, "stroke": LINE,
        "data-group": g.id,
    }  # fmt: skip
    title = formula_text(r.left + 14, r.top + 20, g.title, 14, font_family=SERIF, fill=SOFT)
    return _tag("rect", shape) + (title if g.title else "")


def _wire(
    points: tuple[Point, ...], colour: str, data: dict[str, str], wide: bool = False
) -> str:  # fmt: skip
    """A line with round corners and an arrowhead."""
    (x, y), (tip, end) = points[-2:]
    dx, dy = (tip > x) - (tip < x), (end > y) - (end < y)
    line = [*points[:-1], (tip - 7 * dx, end - 7 * dy)]
    path = [f"M{line[0][0]} {line[0][1]}"]
    for (x0, y0), (x1, y1), (x2, y2) in zip(line, line[1:], line[2:], strict=False):
        into, out = abs(x1 - x0) + abs(y1 - y0), abs(x2 - x1) + abs(y2 - y1)
        r = min(8, into / 2, out / 2)
        if not into or not out:
            continue
        a = x1 + (x0 - x1) / into * r, y1 + (y0 - y1) / into * r
        b = x1 + (x2 - x1) / out * r, y1 + (y2 - y1) / out * r
        path.append(f"L{a[0]:g} {a[1]:g}Q{x1} {y1} {b[0]:g} {b[1]:g}")
    path.append(f"L{line[-1][0]} {line[-1][1]}")
    back = tip - 9 * dx, end - 9 * dy
    head = f"M{tip} {end}L{back[0] - 4 * dy} {back[1] - 4 * dx}"
    head += f"L{tip - 7 * dx} {end - 7 * dy}L{back[0] + 4 * dy} {back[1] + 4 * dx}Z"
    stroke = {"fill": "none", "stroke": colour, "stroke-width": "3" if wide else "1.5"}
    parts = _tag("path", {"d": "".join(path), **stroke}) + _tag("path", {"d": head, "fill": colour})
    return _tag("g", data, parts)


def _label(t: Label) -> str:
    x = t.x - 7 if t.place == "left" else t.x + 7
    y = t.y + {"below": 16, "above": -13}.get(t.place, 4)
    anchor = "end" if t.place == "left" else "start"
    style = {"text-anchor": anchor, "font-family": SERIF, "fill": SOFT}
    return formula_text(x, y, t.text, _NOTE, **style)
