"""Models to documents: the canonical form of a card, in any spelling.

`blocks` gives headings, tables and lists; the formats of document.py, latex.py and structured.py
write them out. Reading the Markdown, LaTeX or JSON gives the same model.
"""

from __future__ import annotations

from itertools import groupby

from viete.analysis.shapes import Type, shapes_of
from viete.cards.document import Block, Heading, Item, Paragraph, Table, write_markdown, write_text
from viete.errors import Text, VieteError
from viete.graph.card import Argument, CardData, Function, Input, Loop, Parameter
from viete.notation.cursor import parse_name
from viete.notation.printer import Printer, letters, show, show_equation, show_symbol
from viete.notation.tree import Expr, Ref


def write(card: CardData, form: str) -> str:
    """A model as 'md', 'latex', 'json' or 'text'."""
    if form not in ("md", "latex", "json", "text"):
        raise VieteError(f"a card is written as md, latex, json or text, not {form!r:.60}")
    if form == "json":
        from viete.cards.structured import write_json

        return write_json(card)
    if form == "latex":
        from viete.cards.latex import write_latex

        return write_latex(blocks(card, "latex"))
    return write_text(blocks(card, "unicode")) if form == "text" else write_markdown(
        blocks(card, "latex")
    )  # fmt: skip


def blocks(card: CardData, style: str) -> list[Block]:
    """A card as headings, tables and lists, its formulas in ``style`` between dollar signs."""
    return Writer(card, style).document()


class Writer:
    """Formulas of one model in one style; see `Printer` for ``loss``."""

    def __init__(self, card: CardData, style: str, loss: Ref | None = None) -> None:
        self.model, self.style, self.loss = card, style, loss
        self.shapes = shapes_of(card)

    def math(self, text: str) -> str:
        return f"${text}$"

    def e(self, e: Expr) -> str:
        return show(e, self.style)

    def sign(self, plain: str, latex: str, unicode: str) -> str:
        return {"plain": plain, "latex": latex, "unicode": unicode}[self.style]

    def document(self) -> list[Block]:
        m = self.model
        out: list[Block] = [heading(1, m.title)]
        out += [Paragraph(Text(p)) for p in m.about]
        out += [Item(Text(f"**{key}**: {value}")) for key, value in m.facts]
        if m.vocabulary:
            out += [heading(2, "Vocabulary")]
            out += [Paragraph(Text(" ".join(f"`{t}`" for t in m.vocabulary)))]
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
        if m.derived:
            out += [heading(2, "Derived")]
            out += [item(self.math(show_equation(d.left, d.right, self.style)), d.meaning)
                    for d in m.derived]  # fmt: skip
        if m.claims:
            out += [heading(2, "Claims")]
            out += [item(self.math(self.e(c.statement)), c.meaning) for c in m.claims]
        return out

    # -- declarations ------------------------------------------------------------------------------

    def glossary(self, entry: tuple[str, str]) -> Item:
        symbols = [parse_name(Text(name), "value", set()) for name in entry[0].split(", ")]
        names = ", ".join(self.math(show_symbol(s, self.style)) for s in symbols)
        return Item(Text(f"{names}: {entry[1]}"))

    def dimensions(self) -> Table:
        rows = []
        for d in self.model.dims:
            value = ""
            if d.at_most is not None:
                value = self.math(self.sign("<= ", r"\le ", "≤ ") + self.e(d.at_most))
            elif d.value is not None:
                value = self.math(self.e(d.value))
            rows.append([self.math(show_symbol(d.symbol, self.style)), value, d.config, d.meaning])
        for i in self.model.indices:
            value = self.math(self.range(i.lower, i.upper))
            rows.append([self.math(letters(i.name, self.style)), value, "", i.meaning])
        return table(["symbol", "value", "config", "meaning"], rows)

    def range(self, lower: Expr, upper: Expr) -> str:
        dots = self.sign("...", r"\dots", "…")
        return f"{self.e(lower)}, {dots}, {self.e(upper)}"

    def loop(self, loop: Loop) -> str:
        ends = (loop.upper, loop.lower) if loop.down else (loop.lower, loop.upper)
        return f"{letters(loop.index, self.style)} = {self.range(*ends)}"

    def input(self, i: Input) -> str:
        name = show_symbol(i.symbol, self.style) + self.sign(" ∈ ", r" \in ", " ∈ ")
        if i.low is not None and i.high is not None:
            opened, closed = self.sign("{", r"\{", "{"), self.sign("}", r"\}", "}")
            name += opened + self.range(i.low, i.high) + closed
        else:
            name += self.sign("ℝ", r"\mathbb{R}", "ℝ")
        if i.shape:
            power = Printer(self.style).shape(i.shape)
            name += f"^{power}" if len(power) == 1 else f"^{{{power}}}"
        return name if i.default is None else f"{name} = {self.e(i.default)}"

    def parameters(self) -> Table:
        rows = []
        for _, group in groupby(self.model.parameters, key=row_key):
            row = list(group)
            p = row[0]
            names = ", ".join(show_symbol(q.symbol, self.style) for q in row)
            shape = self.math(Printer(self.style).shape(p.shape)) if p.shape else "scalar"
            tensor = p.checkpoint and f"`{p.checkpoint.replace(' or ', '` or `')}`"
            rows.append([self.math(names), shape, p.dtype, p.value, p.init, tensor, p.meaning])
        header = ["symbol", "shape", "dtype", "value", "init", "checkpoint", "meaning"]
        return table(header, rows)

    def function(self, f: Function) -> str:
        def argument(a: Argument) -> str:
            text = show_symbol(a.symbol, self.style)
            if a.pattern:
                times = self.sign(" × ", r" \times ", " × ")
                text += ": " + times.join(show_symbol(s, self.style) for s in a.pattern)
            return text if a.default is None else f"{text} = {self.e(a.default)}"

        shown = list(map(argument, f.arguments))
        inner = ", ".join(shown[: f.semi]) + "; " if f.semi else ""
        inner += ", ".join(shown[f.semi :])
        name = Printer(self.style).function(f.name)
        return f"{name}({inner}) = {self.e(f.body)}"

    # -- equations ---------------------------------------------------------------------------------

    def forward(self) -> list[Block]:
        out: list[Block] = []
        loop, part = None, ""
        for k, equation in enumerate(self.model.equations):
            if equation.loop != loop and equation.loop is not None:
                out.append(Paragraph(Text(f"For {self.math(self.loop(equation.loop))}:")))
            if equation.part != part:
                out.append(heading(3, equation.part))
            loop, part = equation.loop, equation.part
            shown = show_equation(equation.left, equation.right, self.style, self.loss)
            line = item(self.math(shown), equation.meaning, numbered=True)
            family = self.shapes.types[equation.name].family
            line.notes.append(Text("Shape: " + self.shape(Type(self.shapes.computed[k], family))))
            out.append(line)
        return out

    def shape(self, t: Type) -> str:
        """``(n, d_k) for each h``."""
        sizes = ", ".join(s.show(self.style) for s in t.shape)
        text = self.math(f"({sizes})")
        if t.family:
            shown = ", ".join(letters(f, self.style) for f in sorted(t.family))
            text += f" for each {self.math(shown)}"
        return text


def row_key(p: Parameter) -> tuple[object, ...]:
    """What neighbouring parameters share if they are written in one row."""
    return p.shape, p.dtype, p.value, p.init, p.checkpoint, p.meaning


def heading(level: int, text: str) -> Heading:
    """A heading that stands in no source."""
    return Heading(level, Text(text))


def item(math: str, meaning: str, numbered: bool = False) -> Item:
    """``formula: meaning``, or the formula alone where nothing is said about it."""
    return Item(Text(f"{math}: {meaning}" if meaning else math), numbered)


def table(header: list[str], rows: list[list[str]]) -> Table:
    """A table without the columns that are empty in every row."""
    used = [c for c in range(len(header)) if any(row[c] for row in rows)]
    return Table([Text(header[c]) for c in used], [[Text(row[c]) for c in used] for row in rows])
