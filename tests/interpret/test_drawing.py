"""What holds of every drawing, whatever the graph: and of a few graphs in detail."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from itertools import combinations, pairwise
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viete.interpret.drawing import Arrow, Box, Diagram, Group, to_mermaid, to_svg, to_text
from viete.interpret.drawing.diagram import cells, cleaned, wrap
from viete.interpret.drawing.svg import _PIXELS, _typeset
from viete.interpret.drawing.text import _CELLS, _cell_size
from viete.interpret.drawing.wires import Layout, Rect, layout

SVG = "{http://www.w3.org/2000/svg}"


def chain(*ids: str, **more: bool) -> tuple[Arrow, ...]:
    return tuple(Arrow(s, t, **more) for s, t in pairwise(ids))


BLOCK = Diagram(
    "A block",
    (
        Box("t", "Tokens", ("t", "(n)"), "input"),
        Box("h0", "Embedding", ("h₀ = W_E[t]", "(n, d)")),
        Box("ln", "Layer norm", ("a = LN(hᵢ₋₁)",), group="loop"),
        Box("q", "Q", ("Q = a W^Q",), group="loop"),
        Box("k", "K", ("K = a W^K",), group="loop"),
        Box("v", "V", ("V = a W^V",), group="loop"),
        Box("att", "Attention", ("softmax(Q Kᵀ / √d_k) V",), group="loop"),
        Box("h", "Residual stream", ("hᵢ = hᵢ₋₁ + z W^O",), group="loop"),
        Box("o", "Logits", ("h_N W_Eᵀ",), "output"),
    ),
    (
        *chain("t", "h0", "ln", "q", "att", "h", "o"),
        *chain("ln", "k", "att"),
        *chain("ln", "v", "att"),
        Arrow("h0", "h", residual=True),
        Arrow("h", "ln", back=True),
    ),
    (Group("loop", "for i = 1 … N"),),
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("ab \n\x00\x1b]\"<&#`{}_^ᵀ水\u202e")


@st.composite
def diagrams(draw: st.DrawFn, texts: st.SearchStrategy[str] = st.sampled_from("abcdefgh")) -> Diagram:
    """Any graph without circles, with any groups, also such as no frame can go around neatly."""
    n = draw(st.integers(1, 14))
    groups = draw(st.integers(0, 3))
    order = draw(st.permutations(range(n)))
    boxes = []
    for i in range(n):
        g = draw(st.integers(-1, groups - 1))
        kind = draw(st.sampled_from(["input", "value", "output"]))
        lines = tuple(draw(st.lists(texts, max_size=3)))
        title = f"№{i} " + draw(texts)
        boxes.append(Box(f"b{i}", title, lines, kind, None if g < 0 else f"g{g}"))
    place = st.integers(0, n - 1)
    arrows = []
    for a, b in draw(st.lists(st.tuples(place, place), max_size=24)):
        back = draw(st.integers(0, 9)) == 0
        if a == b and not back:
            continue
        s, t = (a, b) if back else sorted((a, b))
        label = draw(texts) if draw(st.booleans()) else ""
        arrows.append(Arrow(f"b{order[s]}", f"b{order[t]}", label, draw(st.booleans()), back))
    frames = tuple(Group(f"g{g}", draw(texts)) for g in range(groups))
    return Diagram(draw(texts), tuple(boxes), tuple(arrows), frames)


def layouts(d: Diagram) -> list[Layout]:
    """In pixels and in cells, broad and narrow."""
    pixels = {b.id: (40 + 8 * len(b.lines), 40 + 20 * len(b.lines)) for b in d.boxes}
    cell = {b.id: _cell_size(b) for b in d.boxes}
    narrow = (True, False)
    return [layout(d, pixels, _PIXELS, lambda t: 7 * len(t), s) for s in narrow] + [
        layout(d, cell, _CELLS, cells, s) for s in narrow
    ]


def meet(a: Rect, b: Rect) -> bool:
    across = a.left <= b.right and b.left <= a.right
    return across and a.top <= b.bottom and b.top <= a.bottom


def within(a: Rect, b: Rect) -> bool:
    across = b.left < a.left and a.right < b.right
    return across and b.top < a.top and a.bottom < b.bottom


@given(diagrams())
@settings(max_examples=150, deadline=None)
def test_boxes_and_frames_keep_apart(d: Diagram) -> None:
    for lay in layouts(d):
        for (_, a), (_, b) in combinations([*lay.boxes], 2):
            assert not meet(a, b)
        for (_, a), (_, b) in combinations([*lay.frames], 2):
            assert not meet(a, b)
        for group, frame in lay.frames:
            for box, rect in lay.boxes:
                assert within(rect, frame) if box.group == group.id else not meet(rect, frame)
        for _, r in (*lay.boxes, *lay.frames):
            assert 0 <= r.left and r.right <= lay.width and 0 <= r.top and r.bottom <= lay.height


@given(diagrams())
@settings(max_examples=150, deadline=None)
def test_arrows_go_down_and_around_boxes(d: Diagram) -> None:
    for lay in layouts(d):
        rect = {b.id: r for b, r in lay.boxes}
        assert len(lay.wires) == sum(
            not (a.back and (g := [b.group for b in d.boxes if b.id in (a.source, a.target)])[0]
                 and g[0] == g[-1])
            for a in d.arrows
        )  # fmt: skip
        for wire in lay.wires:
            source, target = rect[wire.arrow.source], rect[wire.arrow.target]
            (x, y), (end_x, end_y) = wire.points[0], wire.points[-1]
            assert source.left <= x <= source.right and source.top < y <= source.bottom
            assert target.left - 1 <= end_x <= target.right + 1
            assert target.top - 1 <= end_y < target.bottom
            if not wire.arrow.back:
                assert source.bottom < target.top
            for (x, y), (x2, y2) in pairwise(wire.points):
                assert (x == x2) != (y == y2)
                assert y <= y2 or wire.arrow.back
                line = Rect(min(x, x2), min(y, y2), max(x, x2), max(y, y2))
                for r in rect.values():
                    inside = Rect(r.left + 1, r.top + 1, r.right - 1, r.bottom - 1)
                    assert not meet(line, inside)
