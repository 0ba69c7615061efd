"""A model as an article, in LaTeX (amsmath) or Typst: tables, forward and backward equations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from viete.code.prepared import prepared
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, Loop
from viete.notation.parser import parse
from viete.notation.tree import Apply, Expr, Idx, Ref, Symbol, walk
from viete.report.markup import LATEX, TYPST, Markup
from viete.rewrite.adjoint import grad


def write_document(card: CardData, to: str, of: str | None) -> str:
    """The article; with a loss, the card's own or ``of``, the backward equations too."""
    p = prepared(card, of, backward=False)
    whole = p.model if of is not None or not p.added else card
    forward = len(whole.equations)
    if p.loss is not None and not (p.added and of is None):
        whole = grad(whole, of=p.loss.key)
    return Article(whole, forward, LATEX if to == "latex" else TYPST).text()


class Article:
    """One model's article; the first ``forward`` equations are the forward pass."""

    def __init__(self, card: CardData, forward: int, markup: Markup) -> None:
        self.model, self.forward, self.markup = card, forward, markup
        self.show: Callable[[Expr], str] = markup.show

    def text(self) -> str:
        m, up = self.model, self.markup
        out = [self.prose(p) for p in m.about]
        if m.dims:
            out += [up.section("Dimensions"), up.table(["symbol", "value", "meaning"],
                                                       self.dimensions())]  # fmt: skip
        if m.inputs:
            out += [up.section("Inputs"), up.items([self.input(k) for k in range(len(m.inputs))])]
        if m.parameters:
            out += [up.section("Parameters"), up.table(["symbol", "shape", "meaning"],
                                                       self.parameters())]  # fmt: skip
        if functions := self.functions():
            out += [up.section("Functions"), up.items(functions)]
        out += [up.section("Forward pass"), *self.equations(m.equations[: self.forward])]
        if m.equations[self.forward :]:
            out += [up.section("Backward pass"), *self.equations(m.equations[self.forward :])]
        body = "\n\n".join([*out, up.tail])
        return f"{up.head(self.prose(m.title), body)}\n\n{body}".rstrip() + "\n"

    def math(self, text: str) -> str:
        return f"${text}$"

    def symbol(self, symbol: Symbol) -> str:
        return self.show(Ref(symbol, tuple(Idx(s) for s in symbol.slots)))

    def prose(self, text: str) -> str:
        """Words with formulas between dollar signs, those that can be read in our own spelling."""
        out = []
        for k, piece in enumerate(re.split(r"\$([^$]*)\$", text)):
            if k % 2 == 0:
                out.append(self.markup.prose(piece))
                continue
            try:
                out.append(self.math(self.show(parse(Text(piece), self.model.scope))))
            except VieteError:  # a formula of the prose, in words that the card does not declare
                known = self.markup.formula(piece)
                out.append(self.markup.verbatim(piece) if known is None else self.math(known))
        return "".join(out)

    def dimensions(self) -> list[list[str]]:
        rows = []
        for d in self.model.dims:
            value = "" if d.value is None else self.math(self.show(d.value))
            if d.at_most is not None:
                value = self.math(f"{self.markup.signs['le']} {self.show(d.at_most)}")
            rows.append([self.math(self.symbol(d.symbol)), value, self.prose(d.meaning)])
        for i in self.model.indices:
            span = self.math(self.span(i.lower, i.upper))
            rows.append([self.math(self.show(Idx(i.name))), span, self.prose(i.meaning)])
        return rows

    def span(self, lower: Expr, upper: Expr) -> str:
        return f"{self.show(lower)}, {self.markup.signs['dots']}, {self.show(upper)}"

    def input(self, k: int) -> str:
        i, signs = self.model.inputs[k], self.markup.signs
        kind = signs["real"]
        if i.low is not None and i.high is not None:
            kind = signs["open"] + self.span(i.low, i.high) + signs["close"]
        power = self.markup.shape(i.shape)
        text = f"{self.symbol(i.symbol)} {signs['in']} {kind}{self.markup.above(power)}"
        text += "" if i.default is None else f" = {self.show(i.default)}"
        return self.math(text) + (f": {self.prose(i.meaning)}" if i.meaning else "")

    def parameters(self) -> list[list[str]]:
        rows = []
        for p in self.model.parameters:
            shape = self.markup.shape(p.shape) or "1"
            rows.append([self.math(self.symbol(p.symbol)), self.math(shape), self.prose(p.meaning)])
        return rows

    def functions(self) -> list[str]:
        """Definitions of the named functions in use, each after those it is made of."""
        order: dict[str, None] = {}

        def visit(e: Expr) -> None:
            for x in walk(e):
                if isinstance(x, Apply) and x.op in self.model.function and x.op not in order:
                    visit(self.model.function[x.op].body)
                    order[x.op] = None

        for e in self.model.equations:
            visit(e.right)
        out = []
        for name in order:
            f = self.model.function[name]
            shown = [self.symbol(a.symbol) for a in f.arguments]
            left = f"{self.markup.function(name)}({', '.join(shown)})"
            said = re.sub(r"\s*:\s*$", "", f.meaning)
            out.append(self.math(f"{left} = {self.show(f.body)}") + (
                f": {self.prose(said)}" if said else ""))  # fmt: skip
        return out

    def equations(self, equations: Sequence[Equation]) -> list[str]:
        """Numbered equations under the titles of their parts, with the heads of block loops."""
        out: list[str] = []
        part, loop, rows = "", None, list[tuple[str, str, str]]()

        def flush() -> None:
            if rows:
                out.append(self.markup.equations(rows))
                rows.clear()

        for e in equations:
            if e.loop != loop:
                flush()
                if e.loop is not None:
                    out.append(f"For {self.math(self.loop(e.loop))}:")
            if e.part != part:
                flush()
                if e.part:
                    out.append(self.markup.subsection(self.prose(e.part)))
            part, loop = e.part, e.loop
            rows.append((self.show(e.left), self.show(e.right), self.prose(e.meaning)))
        flush()
        return out

    def loop(self, loop: Loop) -> str:
        lower, upper = (loop.upper, loop.lower) if loop.down else (loop.lower, loop.upper)
        return f"{self.show(Idx(loop.index))} = {self.span(lower, upper)}"
