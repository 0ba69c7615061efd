"""A card as an article, in LaTeX (amsmath) or Typst: tables, forward and backward equations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from viete.cards.writer import CardWriter
from viete.code.prepared import prepared
from viete.document.rendering import STYLES, render
from viete.document.tex import formula, to_unicode
from viete.document.tree import (
    Block,
    Equations,
    Heading,
    ListItem,
    TextTable,
    heading,
    inline,
    item,
    paragraph,
)
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation
from viete.notation.parser import parse
from viete.notation.tree import Apply, Expr, walk
from viete.report.given_values import vocabulary, with_matrices
from viete.rewrite.adjoint import grad
from viete.rewrite.adjoint.grad import forward_pass


def write_article(card: CardData, form: str, of: str | None = None) -> str:
    """The article as 'latex' or 'typst'; with a loss, the card's own or ``of``, backward too.

    An article needs no derivative: where the derivative of the card's own loss cannot be derived, a
    sentence gives the reason. Raises VieteError as `grad` does for ``of``.
    """
    ahead = forward_pass(card)
    if of is None and ahead is not card:  # its backward pass is there
        return render(article(card, len(ahead.equations), STYLES[form]), form)
    p = prepared(card, of, backward=False)
    card = p.model if of is not None or not p.added else card
    forward, left_out = len(card.equations), ""
    if p.loss is not None and not (p.added and of is None):
        try:
            card = grad(card, of=p.loss.key)
        except VieteError as error:
            if of is not None:
                raise
            left_out = f"The backward pass is left out: {error.message}."
    return render(article(card, forward, STYLES[form], left_out), form)


def article(card: CardData, forward: int, style: str, left_out: str = "") -> list[Block]:
    """The tree of an article; the first ``forward`` equations are the forward pass.

    ``left_out`` is a sentence that replaces the others.
    """
    said = partial(respell, card=card, style=style)
    card = respelled(card, style)
    w = CardWriter(card, style)
    sections: dict[str, Sequence[Block]] = {
        "Notation": [w.glossary((names, said(meaning))) for names, meaning in card.notation],
        "Dimensions": columns(w.dimensions(), "symbol value meaning"),
        "Inputs": [item(w.math(w.input(i)), i.meaning) for i in card.inputs],
        "Parameters": columns(with_matrices(w), "symbol shape value meaning"),
        "Functions": functions(w, said),
        "Forward pass": equations(w, card.equations[:forward]),
        "Backward pass": [paragraph(left_out)]
        if left_out
        else equations(w, card.equations[forward:]),
    }
    out: list[Block] = [heading(1, card.title), *map(paragraph, card.about), *vocabulary(card)]
    for title, blocks in sections.items():
        out += [heading(2, title), *blocks] if blocks else []
    return out


def respelled(card: CardData, style: str) -> CardData:
    """The card with the formulas in its texts in ``style``."""
    said = partial(respell, card=card, style=style)
    return replace(
        card, title=said(card.title), about=tuple(map(said, card.about)),
        **{name: tuple(replace(x, meaning=said(x.meaning)) for x in getattr(card, name))
           for name in ("dims", "indices", "inputs", "parameters")},
        equations=tuple(replace(e, part=said(e.part), meaning=said(e.meaning))
                        for e in card.equations),
    )  # fmt: skip


def respell(text: str, card: CardData, style: str) -> str:
    """A text with its formulas in ``style``.

    A formula with names that the card does not declare stays, if it is LaTeX. Otherwise it is shown
    in Unicode, or as written.
    """
    if "$" not in text:
        return text
    w, out = CardWriter(card, style), []
    for kind, piece in inline(text):
        if kind == "math":
            try:
                piece = w.math(w.e(parse(Text(piece), card.scope)))
            except VieteError:
                known = formula(piece) is not None
                words = to_unicode(piece) if known else piece
                stress = known and style == "typst" and not set(words) & set("*`$")
                mark = "*" if stress else "`"
                keep = known and style == "latex"
                piece = f"${piece}$" if keep else f"{mark}{words}{mark}"
        else:
            mark = {"code": "`", "strong": "**", "stress": "*"}.get(kind, "")
            piece = f"{mark}{piece}{mark}"
        out.append(piece)
    return "".join(out)


def columns(table: TextTable, names: str) -> list[Block]:
    """A table with only these columns; empty for a table without rows."""
    chosen = [k for k, t in enumerate(table.header) if t.text in names.split()]
    rows = [[row[k] for k in chosen] for row in table.rows]
    return [TextTable([table.header[k] for k in chosen], rows)] if rows else []


def functions(w: CardWriter, said: partial[str]) -> list[ListItem]:
    """Definitions of the named functions in use, each after the functions that it uses."""
    order: dict[str, None] = {}

    def visit(e: Expr) -> None:
        for x in walk(e):
            if isinstance(x, Apply) and x.op in w.model.function and x.op not in order:
                visit(w.model.function[x.op].body)
                order[x.op] = None

    for e in w.model.equations:
        visit(e.right)
    found = [w.model.function[name] for name in order]
    return [item(w.math(w.function(f)), said(re.sub(r"\s*:\s*$", "", f.meaning))) for f in found]


def equations(w: CardWriter, found: Sequence[Equation]) -> list[Block]:
    """Numbered equations under the titles of their parts, with the heads of block loops."""
    out: list[Block] = []
    lines = (line for _, line in w.lines(found))
    for loop, group in groupby(lines, lambda x: (x.loop,) if isinstance(x, Equation) else None):
        run = list(group)
        if loop is not None:
            out.append(Equations([(w.e(e.left), w.e(e.right), e.meaning) for e in run
                                  if isinstance(e, Equation)]))  # fmt: skip
        else:
            out += [b for b in run if not isinstance(b, Equation)
                    and not (isinstance(b, Heading) and not b.text.text)]  # fmt: skip
    return out
