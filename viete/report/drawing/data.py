"""A card's diagram as data for a page: the drawing, what its boxes hold, and each box unfolded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from viete.analysis.def_use import def_use
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.report.drawing.diagram import Box, Diagram
from viete.report.drawing.flow import flow
from viete.report.drawing.svg import to_svg


def diagram_data(
    card: CardData, lengths: Mapping[str, int] | None = None, batch: int | None = None
) -> dict[str, Any]:
    """The data flow of a card, ready for JSON.

    ``svg`` is the drawing, whose boxes have ``data-box``, ``data-key`` (the plain names of what
    they make, with spaces between) and ``data-group`` (their frame), and whose arrows have
    ``data-key`` (what they carry), ``data-from``, ``data-to`` and, in a residual stream,
    ``data-stream``. ``boxes`` and ``arrows`` say the same as lists, with the numbers of the
    equations. ``folds`` has for each box of several equations its inner ``svg`` and ``steps``, an
    equation each. ``lengths`` and ``batch`` as in `flow`, whose errors this raises.
    """
    read = {(u.reader + 1, u.ref.key): show(u.ref, "unicode") for u in def_use(card).all}
    drawn = flow(card, "parts", lengths, batch)
    inner = flow(card, "equations", lengths, batch)
    return {
        "svg": to_svg(drawn),
        "boxes": [_box(b) for b in drawn.boxes],
        "arrows": [
            {"from": a.source, "to": a.target, "keys": list(a.keys), "label": a.label,
             "step": a.step, "stream": a.residual, "back": a.back}
            for a in drawn.arrows
        ],
        "groups": [{"id": g.id, "title": g.title} for g in drawn.groups],
        "folds": {
            b.id: {"svg": to_svg(unfolded(inner, b, read)), "steps": _steps(inner, b)}
            for b in drawn.boxes
            if len(b.numbers) > 1
        },
    }  # fmt: skip


def unfolded(inner: Diagram, box: Box, names: Mapping[tuple[int, str], str]) -> Diagram:
    """The equations of one box, with what they read from outside, as a diagram of its own.

    ``names`` says how an equation, by its number, spells a value, by its plain key.
    """
    mine = {b.id: b for b in inner.boxes if b.numbers and set(b.numbers) <= set(box.numbers)}
    boxes, arrows = [*mine.values()], []
    read: dict[str, Box] = {}
    for a in inner.arrows:
        if a.target not in mine or a.back:
            continue
        if a.source not in mine:
            source = next(b for b in inner.boxes if b.id == a.source)
            (number,) = mine[a.target].numbers
            title = ", ".join(names[number, key] for key in a.keys or source.keys)
            read[title] = Box(f"read {title}", title, (), "input", None, a.keys or source.keys)
            a = replace(a, source=f"read {title}", label="", residual=False)
        arrows.append(a)
    plain = tuple(replace(b, group=None) for b in (*read.values(), *boxes))
    return Diagram(box.title, plain, tuple(dict.fromkeys(arrows)))


def _box(b: Box) -> dict[str, Any]:
    return {
        "id": b.id, "title": b.title, "lines": list(b.lines), "kind": b.kind, "group": b.group,
        "keys": list(b.keys), "equations": list(b.numbers),
    }  # fmt: skip


def _steps(inner: Diagram, box: Box) -> list[dict[str, Any]]:
    into = {a.target: a.step for a in inner.arrows if a.step}
    return [
        {"key": b.keys[0], "equation": b.numbers[0], "title": b.title, "lines": list(b.lines),
         "step": into.get(b.id, "")}
        for b in inner.boxes
        if b.numbers and set(b.numbers) <= set(box.numbers)
    ]  # fmt: skip


__all__ = ["diagram_data", "unfolded"]
