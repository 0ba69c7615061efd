"""The printer for Typst: expression trees as Typst maths."""

from __future__ import annotations

import re
from collections.abc import Collection

from viete.notation.lexer import COMMANDED, GREEK, GREEK_NAMES, PREFIXES, accent_of, unprimed
from viete.notation.printer import ATOM, FACTOR, INFIX, SUM, Printer, branches, is_phrase
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table

_LETTERS = {name: char for char, name in reversed(GREEK.items())}
_MARKS = {"tilde": "tilde", "hat": "hat", "bar": "macron", "vec": "arrow", "overline": "overline",
          "underline": "underline"}  # fmt: skip


def word(text: str) -> str:
    """A name: a letter as it is, Greek as its character, a word in quotes."""
    text, primes = unprimed(text)
    if primes:
        return word(text) + primes
    accent, under = accent_of(text)
    if accent:
        inner = word(under)
        return f"{_MARKS[accent]}({inner})" if accent in _MARKS else f"{PREFIXES[accent]} {inner}"
    if text in GREEK_NAMES:
        return _LETTERS[text]
    return text if len(text) == 1 or text.isdigit() else f'"{text}"'


class Typst(Printer, style="typst"):
    """The printer of Typst maths, which uses most of Unicode's signs."""

    def __init__(
        self, style: str = "typst", loss: Ref | None = None, functions: Collection[str] = ()
    ) -> None:
        super().__init__("unicode", None, functions)

    def write(self, e: Expr) -> tuple[str, int]:
        match e:
            case Num():
                return self.number(e, "typst")
            case Idx():
                return word(e.name), ATOM
            case Slice():
                a = "" if e.start is None else self.show(e.start)
                b = "" if e.stop is None else self.show(e.stop)
                return f"{a} : {b}".strip(), ATOM
            case Table():
                inner = ", ".join(f"{word(i)} < {self.show(s)}" for i, s in e.ranges)
                return f'"table"_({inner}) ({self.show(e.body)})', ATOM
        return super().write(e)

    def to_power(self, base: str, above: str) -> str:
        return f"{base}^{above}" if len(above) == 1 else f"{base}^({above})"

    def index(self, name: str) -> str:
        return word(name)

    def ref(self, e: Ref, extra: tuple[Expr, ...]) -> str:
        sub, sup = self.slots(e, word)
        sub += [self.show(x) for x in extra]
        if is_phrase(e.symbol):
            return f'"{self.phrase(e.symbol)}"' + self.script("_", sub[len(e.symbol.sub) :])
        return word(e.symbol.base) + self.script("_", sub) + self.script("^", sup)

    def script(self, sign: str, items: list[str]) -> str:
        text = ",".join(items)
        return f"{sign}{text}" if len(text) == 1 else f"{sign}({text})" if text else ""

    def picked(self, e: Pick) -> str:
        text = super().picked(e)
        # Without a space a bracket would go below the line with a subscript before it.
        return re.sub(r" ?\[(.*)\]$", r" [\1]", text) if text.endswith("]") else text

    def function(self, name: str) -> str:
        return name if name in COMMANDED else word(name)

    def bind(self, e: Bind) -> tuple[str, int]:
        below = word(e.index) + (f" = {self.show(e.lower)}" if e.lower is not None else "")
        name = "∑" if e.op == "sum" else self.function(e.op)
        text = name + self.script("_", [below])
        if e.upper is not None:
            text += self.script("^", [self.show(e.upper)])
        if e.op == "sum":
            return f"{text} {self.show(e.body, SUM)}", SUM
        return f"{text} ({self.show(e.body)})", ATOM

    def apply(self, e: Apply) -> tuple[str, int]:
        match e.op, e.args:
            case "div", (a, b):
                return f"frac({self.show(a)}, {self.show(b)})", FACTOR
            case "sqrt", (a,):
                return f"sqrt({self.show(a)})", ATOM
            case "length", (a,):
                return f"abs({self.show(a)})", ATOM
            case "where", _:
                found, last = branches(e)
                rows = [f'{self.show(yes)} &"if" {self.show(test)}' for yes, test in found]
                return f'cases({", ".join(rows)}, {self.show(last)} &"otherwise")', ATOM
            case (("T" | "pow"), (a, *rest)):
                mark = self.show(rest[0]) if rest else "⊤"
                base = self.show(a, ATOM)
                raised = (isinstance(a, Ref) and bool(a.symbol.sup)) or (
                    isinstance(a, Apply) and a.op in ("T", "pow", "sqrt")
                )
                base = f"({base})" if raised or "^" in base.rsplit(")", 1)[-1] else base
                return base + self.script("^", [mark]), ATOM
            case (("and" | "or" | "mod"), (a, b)):
                strength = INFIX[e.op][0]
                sign = "mod" if e.op == "mod" else f'"{e.op}"'
                return f"{self.show(a, strength)} {sign} {self.show(b, strength + 1)}", strength
        return super().apply(e)
