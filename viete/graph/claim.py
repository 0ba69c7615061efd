"""A claim as data: a statement, the ranges of its letters, and the texts that it is about."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Self

from viete.errors import Text
from viete.notation.lexer import decimals
from viete.notation.printer import Printer, letters, printer
from viete.notation.tree import Apply, Expr


@dataclass(frozen=True)
class Claim:
    """``left = right`` (or ``≤``, …), claimed for every run; ``meaning`` may name a number system.

    It holds for all values of its letters, of those that satisfy every condition in ``given`` and
    lie in ``ranges``, first and last value included; of letters in ``some`` it holds for one value.
    ``texts`` names the texts that it is about, as ``repeated(16)``; it is empty for all texts.
    ``count`` says how many of them, 0 as many as there are, or as are drawn. ``refuted`` marks a
    claim that is said not to hold.
    """

    statement: Expr
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)
    given: tuple[Expr, ...] = ()
    ranges: tuple[tuple[str, Expr, Expr], ...] = ()
    some: tuple[str, ...] = ()
    texts: str = ""
    count: int = 0
    refuted: bool = False

    @property
    def formulas(self) -> tuple[Expr, ...]:
        """All formulas of the claim, the statement first."""
        bounds = (e for _, *ends in self.ranges for e in ends)
        return (self.statement, *self.given, *bounds)

    @property
    def free(self) -> frozenset[str]:
        """The letters that the claim is about."""
        own = (self.statement, *self.given)
        return frozenset(x for x, *_ in self.ranges).union(self.some, *(e.free for e in own))

    @property
    def keys(self) -> frozenset[str]:
        """The names to which the claim refers."""
        return frozenset[str]().union(*(e.keys for e in self.formulas))

    @property
    def about(self) -> str:
        """The claim's texts in words, such as ``200 texts of random(2)``; empty for all texts."""
        return f"{self.count or ''} texts of {self.texts}".strip() if self.texts else ""

    @property
    def implication(self) -> Expr:
        """The statement, or the failure of one of its conditions, as one formula."""
        out = self.statement
        for condition in reversed(self.given):
            out = Apply("or", (Apply("not", (condition,)), out))
        return out

    def over(self, rule: Callable[[Expr], Expr]) -> Self:
        """The claim with a rule applied to its formulas."""
        return replace(
            self,
            statement=rule(self.statement),
            given=tuple(map(rule, self.given)),
            ranges=tuple((x, rule(a), rule(b)) for x, a, b in self.ranges),
        )

    def printed(self, write: Printer) -> Callable[[Expr], str]:
        """What makes a text of the claim's formulas, with decimals where somebody wrote them."""
        write = copy(write)
        write.decimals = decimals(self.text.text)
        return write.show

    def show(self, style: str = "plain", own: Printer | None = None) -> str:
        """The claim in one of the printer's styles, as the reader of claims takes it.

        ``own`` is a printer of that style.
        """
        write = self.printed(own or printer(style))
        latex = style == "latex"
        word = r" \text{{ {} }} ".format if latex else " {} ".format
        dots = {"plain": "...", "latex": r"\dots"}.get(style, "…")
        out = write(self.statement)
        for x, first, last in self.ranges:
            ends = f"{write(first)}, {dots}, {write(last)}"
            out += f"{word('for')}{letters(x, style)} = {ends}"
        for condition in self.given:
            out += word("for") + write(condition)
        if self.some:
            out += word("for some") + ", ".join(letters(x, style) for x in self.some)
        if self.texts:
            out += word(f"for {self.about}").rstrip()
        return out


__all__ = ["Claim"]
