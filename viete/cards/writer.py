"""Writes cards as documents: the canonical form of a card, in any spelling.

`blocks` makes headings, tables and lists, which the writers of `viete.document` turn into text;
`write_json` makes the same content as fields. Reading the Markdown, LaTeX or JSON gives the same
card.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Type
from viete.cards.declarations import each_meaning
from viete.cards.structured import SCHEMA
from viete.document.rendering import STYLES, check_format, render
from viete.document.tree import (
    Block,
    Heading,
    ListItem,
    Paragraph,
    TextTable,
    heading,
    item,
    paragraph,
    table,
)
from viete.errors import Text
from viete.graph.card import CardData, Equation, Input, Loop, Parameter
from viete.library.functions import Argument, Function
from viete.notation.cursor import parse_name
from viete.notation.printer import printer
from viete.notation.tree import Expr, Ref, Symbol

FORMATS = ("text", "md", "latex", "json", "html")


def write(card: CardData, form: str) -> str:
    """A card in one of `FORMATS`; Markdown, LaTeX and JSON read back."""
    check_format("a card", form, FORMATS)
    if form == "json":
        return write_json(card)
    return render(blocks(card, STYLES[form]), form)


def blocks(card: CardData, style: str) -> list[Block]:
    """A card as headings, tables and lists, its formulas in ``style`` between dollar signs."""
    return CardWriter(card, style).document()


class CardWriter:
    """Writes the formulas of one model in one style; see `Printer` for ``loss``."""

    def __init__(self, card: CardData, style: str, loss: Ref | None = None) -> None:
        self.model, self.style = card, style
        functions = frozenset(o.symbol.base for o in card.operators)
        self.printer = printer(style, loss, functions)
        self.printer.numbered = card.scope.numbered
        self.shapes = shapes_of(card)

    def math(self, text: str) -> str:
        return f"${text}$"

    def e(self, e: Expr) -> str:
        return self.printer.show(e)

    def symbol(self, symbol: Symbol) -> str:
        return self.e(symbol.member)

    def equation(self, left: Expr, right: Expr) -> str:
        return f"{self.e(left)} = {self.e(right)}"

    def sign(self, plain: str, latex: str, unicode: str) -> str:
        return self.printer.pick(plain, latex, unicode)

    def document(self) -> list[Block]:
        m = self.model
        out: list[Block] = [heading(1, m.title)]
        out += map(paragraph, m.about)
        out += [item(f"**{key}**", value) for key, value in m.facts]
        if m.vocabulary:
            out += [heading(2, "Vocabulary")]
            out += [paragraph(" ".join(f"`{t}`" for t in m.vocabulary))]
        if m.notation:
            out += [heading(2, "Notation"), *map(self.glossary, m.notation)]
        if m.dims or m.indices:
            out += [heading(2, "Dimensions"), self.dimensions()]
        if m.inputs:
            out += [heading(2, "Inputs")]
            out += [item(self.math(self.input(i)), i.meaning) for i in m.inputs]
        if m.parameters:
            out += [heading(2, "Parameters"), self.parameters()]
        if m.functions:
            out += [heading(2, "Functions")]
            out += [item(self.math(self.function(f)), f.meaning) for f in m.functions]
        out += [heading(2, "Forward pass"), *self.forward()]
        if m.derived or m.operators:
            out += [heading(2, "Derived")]
            out += [item(self.math(text), meaning) for text, meaning in self.derived()]
        if m.claims:
            out += [heading(2, "Claims")]
            for c in m.claims:
                out.append(item(self.math(c.show(self.style, self.printer)), c.meaning))
        return out

    # -- declarations ------------------------------------------------------------------------------

    def glossary(self, entry: tuple[str, str]) -> ListItem:
        symbols = [parse_name(Text(name), "value", set()) for name in entry[0].split(", ")]
        names = ", ".join(self.math(self.symbol(s)) for s in symbols)
        return item(names, entry[1])

    def dimensions(self) -> TextTable:
        rows = []
        for d in self.model.dims:
            value = ""
            if d.at_most is not None:
                value = self.math(self.sign("<= ", r"\le ", "≤ ") + self.e(d.at_most))
            elif d.value is not None:
                value = self.math(self.e(d.value))
            rows.append([self.math(self.symbol(d.symbol)), value, d.config, d.meaning])
        for i in self.model.indices:
            value = self.math(self.range(i.lower, i.upper))
            rows.append([self.math(self.printer.index(i.name)), value, "", i.meaning])
        return table(["symbol", "value", "config", "meaning"], rows)

    def range(self, lower: Expr, upper: Expr) -> str:
        dots = self.sign("...", r"\dots", "…")
        return f"{self.e(lower)}, {dots}, {self.e(upper)}"

    def loop(self, loop: Loop) -> str:
        ends = (loop.upper, loop.lower) if loop.down else (loop.lower, loop.upper)
        return f"{self.printer.index(loop.index)} = {self.range(*ends)}"

    def input(self, i: Input) -> str:
        if i.low is not None and i.high is not None:
            opened, closed = self.sign("{", r"\{", "{"), self.sign("}", r"\}", "}")
            values = opened + self.range(i.low, i.high) + closed
        else:
            values = self.sign("ℝ", r"\mathbb{R}", "ℝ")
        if i.shape:
            values = self.printer.to_power(values, self.printer.shape(i.shape))
        name = self.symbol(i.symbol) + self.sign(" ∈ ", r" \in ", " ∈ ") + values
        return name if i.default is None else f"{name} = {self.e(i.default)}"

    def parameters(self) -> TextTable:
        rows = []
        for row in parameter_rows(self.model.parameters):
            p = row[0]
            names = ", ".join(self.symbol(q.symbol) for q in row)
            shape = self.math(self.printer.shape(p.shape)) if p.shape else "scalar"
            tensor = p.checkpoint and f"`{p.checkpoint.replace(' or ', '` or `')}`"
            rows.append([self.math(names), shape, p.dtype, p.value, p.init, tensor,
                         ", ".join(dict.fromkeys(q.meaning for q in row))])  # fmt: skip
        header = ["symbol", "shape", "dtype", "value", "init", "checkpoint", "meaning"]
        return table(header, rows)

    def function(self, f: Function) -> str:
        def argument(a: Argument) -> str:
            text = self.symbol(a.symbol)
            if a.pattern:
                times = self.sign(" × ", r" \times ", " × ")
                text += ": " + times.join(self.symbol(s) for s in a.pattern)
            return text if a.default is None else f"{text} = {self.e(a.default)}"

        shown = list(map(argument, f.arguments))
        inner = ", ".join(shown[: f.semi]) + "; " if f.semi else ""
        inner += ", ".join(shown[f.semi :])
        name = self.printer.function(f.name)
        return f"{name}({inner}) = {self.e(f.body)}"

    # -- equations ---------------------------------------------------------------------------------

    def derived(self) -> list[tuple[str, str]]:
        """The derived names and functions, each as a formula and its meaning."""
        names = [(self.equation(d.left, d.right), d.meaning) for d in self.model.derived]
        functions = [(self.equation(o.left, o.definition), o.meaning) for o in self.model.operators]
        return names + functions

    def forward(self) -> list[Block]:
        out: list[Block] = []
        for k, line in self.lines(self.model.equations):
            if not isinstance(line, Equation):
                out.append(line)
                continue
            shown = item(
                self.math(self.equation(line.left, line.right)), line.meaning, numbered=True
            )
            family = self.shapes.types[line.name].family
            shown.notes.append(Text("Shape: " + self.shape(Type(self.shapes.computed[k], family))))
            out.append(shown)
        return out

    def lines(
        self, equations: Sequence[Equation]
    ) -> Iterator[tuple[int, Equation | Heading | Paragraph]]:
        """The equations with their places, under the headings of loops and parts."""
        loop, part = None, ""
        for k, equation in enumerate(equations):
            if equation.loop != loop and equation.loop is not None:
                yield k, paragraph(f"For {self.math(self.loop(equation.loop))}:")
            if equation.part != part:
                yield k, heading(3, equation.part)
            loop, part = equation.loop, equation.part
            yield k, equation

    def shape(self, t: Type) -> str:
        """``(n, d_k) for each h``."""
        sizes = ", ".join(s.show(self.style) for s in t.shape)
        text = self.math(f"({sizes})")
        if t.family:
            shown = ", ".join(self.printer.index(f) for f in sorted(t.family))
            text += f" for each {self.math(shown)}"
        return text


def parameter_rows(parameters: Iterable[Parameter]) -> Iterator[list[Parameter]]:
    """Neighbouring parameters that share a row: they differ only in their meanings.

    They get separate rows where reading the row would give them other meanings.
    """
    for _, group in groupby(parameters, key=row_key):
        row = list(group)
        meanings = [p.meaning for p in row]
        said = ", ".join(dict.fromkeys(meanings))
        if each_meaning(said, len(row)) == meanings:
            yield row
            continue
        for meaning, same in groupby(row, key=lambda p: p.meaning):
            found = list(same)
            apart = each_meaning(meaning, len(found)) != [meaning] * len(found)
            yield from [[p] for p in found] if apart else [found]


def row_key(p: Parameter) -> tuple[object, ...]:
    """The properties that neighbouring parameters share if they are in one row."""
    return p.shape, p.dtype, p.value, p.init, p.checkpoint


# -- JSON ------------------------------------------------------------------------------------------


def write_json(card: CardData) -> str:
    """A card as JSON text, its formulas in the plain spelling; `read_json` reads it back."""
    w = CardWriter(card, "plain")
    out: dict[str, Any] = {
        "schema": SCHEMA, "title": card.title, "about": list(card.about),
        "facts": [{"key": k, "value": v} for k, v in card.facts],
        "vocabulary": list(card.vocabulary),
        "notation": [{"names": names, "meaning": said} for names, said in card.notation],
    }  # fmt: skip
    for name, found in (("dimensions", w.dimensions()), ("parameters", w.parameters())):
        header = [t.text for t in found.header]
        out[name] = [
            {h: bare(c.text) for h, c in zip(header, row, strict=True) if c.text}
            for row in found.rows
        ]
    out["inputs"] = [entry("input", w.input(i), i.meaning) for i in card.inputs]
    out["functions"] = [entry("definition", w.function(f), f.meaning) for f in card.functions]
    out["forward"] = []
    for k, e in enumerate(card.equations):
        line = entry("equation", w.equation(e.left, e.right), e.meaning)
        line["shape"] = "(" + ", ".join(map(str, w.shapes.computed[k])) + ")"
        if family := sorted(w.shapes.types[e.name].family):
            line["for each"] = family
        if e.loop is not None:
            line["for"], line["loop"] = w.loop(e.loop), e.loop.order
        if e.part:
            line["part"] = e.part
        out["forward"].append(line)
    out["derived"] = [entry("equation", text, meaning) for text, meaning in w.derived()]
    out["claims"] = [entry("claim", c.show(w.style, w.printer), c.meaning) for c in card.claims]
    return json.dumps({k: v for k, v in out.items() if v}, ensure_ascii=False, indent=1) + "\n"


def bare(cell: str) -> str:
    """A cell without the dollar signs or backticks around it."""
    quoted = len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "$`" and cell.count(cell[0]) == 2
    return cell[1:-1] if quoted else cell


def entry(key: str, formula: str, meaning: str) -> dict[str, Any]:
    """A formula with its meaning, if it has one."""
    return {key: formula, "meaning": meaning} if meaning else {key: formula}
