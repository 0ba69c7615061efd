"""Formulas with numbers in them, in a lesson's style: rows, cut where they are long."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.document.tex import to_unicode
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.decimals import enclosure
from viete.meanings.exact.entry_writer import DOTS, LONG, EntryWriter
from viete.meanings.exact.factoring import simplest
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import E, first_digits, short
from viete.meanings.exact.unevaluated import Unevaluated
from viete.notation.mathml import MathML, attribute, enclosed, with_signs
from viete.notation.printer import Printer, printer, show
from viete.notation.tree import Apply, Expr, Idx, Num, Pick, Ref, Symbol, num, transform

MOST = 8  # entries of a row that are written
BRIEF, FEW = 28, 4  # letters of a row in little room, and numbers of it
MOST_LETTERS = 24  # of a fraction that is written out
LONGEST = 160  # letters of a row of exact numbers; a longer one is written by its first digits
WIDE = 150  # letters of a row of numbers put in, before only its first entry is shown
EXP = Apply("exp", (num(1),))
INFINITY = Apply("inf", ())


class RowMathML(MathML):
    """Row names in MathML, each with its row and its member of a family as attributes."""

    def __init__(self, heads: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.heads = heads

    def about(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        about = super().about(e, extra)
        if e.key not in self.heads:
            return about
        whole = (Idx(s) if s in self.heads[e.key] else k
                 for s, k in zip(e.symbol.slots, e.index, strict=True))  # fmt: skip
        about += attribute("member", show(replace(e, index=tuple(whole))))
        rows = [x for x in extra if isinstance(x, Num)]
        return about + (attribute("row", str(rows[0].value)) if rows else "")


def word(text: str) -> Expr:
    """A token as a symbol instead of its number."""
    return Ref(Symbol("argument", text))


def visible(text: str) -> str:
    """The visible text of a formula in any format."""
    if "<m" in text:
        return re.sub("<[^>]*>", "", text)
    text = re.sub(r"\\(?:big[lr])?(?=[()])", "", text)
    return re.sub(r'\b(frac|sqrt|display)\b|"', "", text) if "\\" not in text else to_unicode(text)


class NumberFormulas:
    """Writes numbers and rows of numbers; ``digits`` are certified ones, for all but fractions.

    ``heads`` are the letters of each name of the card that count heads. Where the card has an e of
    its own, powers of e are written exp(…).
    """

    def __init__(
        self, style: str, digits: int, heads: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.style, self.digits, self.heads = style, digits, heads or {}
        self.own_e = "e" in self.heads

    def power(self, x: Expr) -> Expr | None:
        """exp(2) for e² where the card has a symbol e."""
        if isinstance(x, Apply) and x.op == "pow" and x.args == (E, num(1)):
            return E
        if self.own_e and x is E:
            return EXP
        if isinstance(x, Apply) and x.op == "pow" and x.args[0] is EXP:
            return Apply("exp", (x.args[1],))
        return None

    def e(self, e: Expr) -> str:
        """An expression, with a dot for the product of numbers."""
        text = self.printer().show(transform(e, self.power))
        if self.style == "latex":
            return text.replace(r"\times", r"\cdot").replace(r"\mathrm{…}", r"\cdots").replace(
                "…", r"\ldots{}"
            ).replace("±", r"\pm{}")  # fmt: skip
        text = text.replace("<mo>×</mo>", "<mo>⋅</mo>")
        return re.sub(r"(/ ?\S+ ×(?= [^\d(−]))| × ", lambda m: m[1] or "·", text)  # 1/4 × β

    def printer(self) -> Printer:
        """The writer of formulas in the style."""
        return RowMathML(self.heads) if self.style == "mathml" else printer(self.style)

    def standing_for(self, e: Expr, text: str) -> str:
        """The numbers of a row: in a page they point to it, as its name does."""
        value, items = (e.value, e.items) if isinstance(e, Pick) else (e, ())
        if self.style != "mathml" or not isinstance(value, Ref):
            return text
        return f"<mrow{RowMathML(self.heads).about(value, items)}>{text}</mrow>"

    def row(self, entries: Sequence[str], scalar: bool) -> str:
        """``(1, 0)``."""
        if scalar:
            return entries[0]
        shown = list(entries)
        if len(shown) > MOST:
            shown = [*shown[: MOST - 2], self.e(DOTS), shown[-1]]
        if self.style == "mathml":
            return enclosed(", ".join(shown))
        inner = ", ".join(shown)
        if self.style == "typst":  # brackets of one size: a row in them can break
            return rf"\({inner}\)"
        return rf"\bigl({inner}\bigr)" if r"\frac" in inner else f"({inner})"

    def put_in(self, entries: Any, scalar: bool, known: Collection[int] = ()) -> tuple[str, str]:
        """A row with the numbers put in, and a note where only its first entry is shown.

        ``known`` are entries, by their `id`, that were written out before.
        """
        shown = entries[: len(entries) if scalar else MOST]
        writer = self.writer(known)
        spelled = [writer.outermost(x) for x in shown]
        if not scalar and sum(len(show(e)) for e in spelled) > WIDE:
            return self.e(spelled[0]), "first entry"
        written = [self.e(e) for e in spelled]
        return self.row([*written, *(self.e(DOTS) for _ in entries[MOST:])], scalar), ""

    def writer(self, known: Collection[int]) -> EntryWriter:
        """The writer of entries with the numbers put in."""
        return EntryWriter(True, True, known)

    def spelled(self, entries: Any) -> list[str | None]:
        """Each number of a row as in `exact`."""
        return [self.exact(x) for x in entries]

    def value(
        self, entries: Any, scalar: bool, spelled: list[str | None] | None = None
    ) -> tuple[str, str]:
        """A row of exact numbers where they are readable, and certified digits where needed."""
        spelled = self.spelled(entries) if spelled is None else spelled
        exact = "" if any(s is None for s in spelled) else self.row(
            [s for s in spelled if s is not None], scalar
        )  # fmt: skip
        exact = exact if len(visible(exact)) <= LONGEST else ""
        if all(is_fraction(x) for x in entries) and exact:
            return exact, ""
        return exact, self.row([self.decimal(x) for x in entries], scalar)

    def brief(self, entries: Any, scalar: bool) -> str:
        """A row in little space: exact where that is short, else cut off after three digits."""
        exact, _ = self.value(entries, scalar)
        if exact and len(visible(exact)) <= BRIEF:
            return exact
        few = type(self)(self.style, min(3, self.digits), self.heads)
        shown = [few.cut_off(x) for x in entries]
        if len(shown) > FEW:
            shown = [*shown[: FEW - 1], self.e(DOTS), shown[-1]]
        return self.row(shown, scalar)

    def exact(self, x: Any) -> str | None:
        """The number written out; None for a number that is too long, or known only by a name."""
        if not isinstance(x, Number):
            return self.plain(x)
        if any(a.named for a in x.atoms()):
            return None
        e = short(x, MOST_LETTERS if x.rational is not None else 2 * LONG, simplest)
        return None if e is None else self.e(e)

    def decimal(self, x: Any) -> str:
        if not isinstance(x, Number):
            return self.plain(x)
        try:
            text = x.decimal(self.digits)
        except Undecided:
            text = enclosure(x, self.digits)
            return text.replace("±", r"\pm") if self.style == "latex" else text
        number, power, exponent = text.partition("e")
        if self.style == "latex":
            return rf"{number} \cdot 10^{{{exponent}}}" if power else text
        number, exponent = number.replace("-", "−"), exponent.replace("-", "−")
        if self.style == "typst":
            return f"{number}·10^({exponent})" if power else number
        if self.style == "mathml":
            more = f"<mo>⋅</mo><msup><mn>10</mn><mrow>{exponent}</mrow></msup>" if power else ""
            return f"<mrow>{with_signs(number + more)}</mrow>"
        return number + power + exponent

    def plain_number(self, x: Number) -> str:
        """A number written out, or ≈ and its digits where that is too long."""
        return self.exact(x) or self.near(x)

    def near(self, x: Number) -> str:
        """The digits of a number, after ≈ where they are rounded."""
        about = r"\approx " if self.style == "latex" else "≈ "
        return about * self.is_rounded(x) + self.decimal(x)

    def cut_off(self, x: Any) -> str:
        """The first digits of a number, with … for the rest: nothing is rounded."""
        return self.e(first_digits(x, self.digits)) if self.is_rounded(x) else self.decimal(x)

    def compared(self, more: str, less: str) -> str:
        """Why one number is greater than another: ``because $3 > 2$``."""
        if not any(sign in more + less for sign in ("≈", r"\approx")):
            return f"because ${more} > {less}$"
        return f"because its score, ${more}$, is greater than ${less}$"

    def is_rounded(self, x: Any) -> bool:
        """Whether the digits are rounded."""
        if not isinstance(x, Number):
            return False
        try:
            return x.rational is None or Fraction(x.decimal(self.digits)) != x.rational
        except Undecided:
            return False  # an enclosure, which says so itself

    def plain(self, x: Any) -> str:
        """A whole number, or ±∞."""
        if isinstance(x, float) and np.isinf(x):
            return self.e(INFINITY if x > 0 else Apply("neg", (INFINITY,)))
        return self.e(num(int(x)))


class Decimals(NumberFormulas):
    """Writes the same in decimals, for readers who want no fractions and powers of e."""

    def exact(self, x: Any) -> str | None:
        return None if isinstance(x, Number) else super().exact(x)

    def cut_off(self, x: Any) -> str:
        return self.decimal(x)

    def writer(self, known: Collection[int]) -> EntryWriter:
        return DecimalWriter(self.digits, known)


class DecimalWriter(EntryWriter):
    """Writes entries with the numbers put in, as decimals."""

    def __init__(self, digits: int, known: Collection[int]) -> None:
        super().__init__(True, True, known)
        self.digits = digits

    def number(self, x: Number) -> Expr:
        try:
            text = x.decimal(self.digits)
        except Undecided:
            return word(f"({enclosure(x, self.digits)})")
        text, _, exponent = text.partition("e")
        out = word(text.removeprefix("-")) if "." in text else num(abs(int(text)))
        if exponent:
            out = Apply("times", (out, Apply("pow", (num(10), num(int(exponent))))))
        return Apply("neg", (out,)) if text.startswith("-") else out


def is_fraction(x: Any) -> bool:
    return not isinstance(x, Number) or x.rational is not None


def same(put_in: Sequence[Any]) -> bool:
    """Whether all entries are given numbers, so that nothing was computed."""
    return all(not isinstance(x, Unevaluated) or x.op == "leaf" for x in put_in)


__all__ = ["Decimals", "NumberFormulas", "same"]
