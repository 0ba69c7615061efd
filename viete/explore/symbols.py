"""Symbols of a page: each name of a card, its meaning, its shape, and where it is made and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Type
from viete.document.html import prose
from viete.explore.formulas import mathml
from viete.graph.card import CardData, Equation
from viete.notation.mathml import framed
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, Symbol, walk
from viete.report.lesson.words import StepWords
from viete.rewrite.adjoint.grad import forward_pass


def symbols(card: CardData, equations: Sequence[Equation]) -> dict[str, Any]:
    """All names by their keys; ``equations`` are counted from 1."""
    shapes, words = shapes_of(card), StepWords(forward_pass(card), "mathml")
    nouns = {e.name: words.noun(e) for e in reversed(words.card.equations)}
    made: dict[str, list[int]] = {}
    used: dict[str, list[int]] = {}
    for number, e in enumerate(equations, 1):
        made.setdefault(e.name, []).append(number)
        for key in sorted(e.reads) + sorted(called(card, e.right)):
            used.setdefault(key, []).append(number)
    out: dict[str, Any] = {}

    def add(symbol: Symbol, kind: str, meaning: str, shape: Type | None) -> None:
        formula = symbol.member
        out.setdefault(symbol.key, {
            "kind": kind, "math": mathml(formula), "latex": show(formula, "latex"),
            "shape": None if shape is None or not shape.shape else shape_math(shape),
            "meaning": prose(meaning), "made": made.get(symbol.key, []),
            "used": used.get(symbol.key, []),
        })  # fmt: skip

    for item in card.inputs:
        add(item.symbol, "input", item.meaning, shapes.types[item.name])
    for p in card.parameters:
        add(p.symbol, "parameter", p.meaning, shapes.types[p.name])
    for e in equations:
        kind = "gradient" if e.left.symbol.is_partial else "value"
        add(e.left.symbol, kind, e.meaning or nouns.get(e.name, ""), shapes.types[e.name])
    for d in card.dims:
        add(d.symbol, "dimension", d.meaning, None)
    for name in dict.fromkeys(x for e in equations for x in sorted(called(card, e.right))):
        f = card.function[name]
        head = Apply(name, tuple(Ref(a.symbol) for a in f.arguments), semi=f.semi)
        out[name] = {
            "kind": "function", "math": mathml(head), "latex": show(head, "latex"), "shape": None,
            "meaning": prose(f.meaning), "made": [], "used": used.get(name, []),
            "definition": mathml(f.body),
        }  # fmt: skip
    return out


def shape_math(t: Type) -> str:
    """``n × d`` as MathML."""
    return framed(" × ".join(s.show("mathml") for s in t.shape))


def called(card: CardData, e: Expr) -> set[str]:
    """The functions that a formula calls, and those that their definitions call."""
    found: set[str] = set()
    todo = [e]
    while todo:
        for x in walk(todo.pop()):
            if isinstance(x, Apply) and x.op in card.function and x.op not in found:
                found.add(x.op)
                todo.append(card.function[x.op].body)
    return found
