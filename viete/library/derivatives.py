"""The rules of differentiation, read from derivatives.md beside this file."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from viete.errors import Text
from viete.library.functions import library, resolved
from viete.notation.lexer import GREEK
from viete.notation.parser import parse
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Ref, Symbol

LETTERS = "a b c w x z t h H A B γ β ε ρ θ".split()
RANKS = {"number": 0, "vector": 1, "matrix": 2}
_LINE = re.compile(r"^- (\$.+)$")
_MATH = re.compile(r"\$(.+?)\$")
_KINDS = re.compile(r"\$ \(([a-z, ]+)\):")


@dataclass(frozen=True)
class Rule:
    """``pattern`` with value y: formulas for parts of it and for ∂ of its arguments, in order.

    ``ranks`` are the numbers of axes that the two factors of a product must have; ``complete`` says
    that every position must have a target t.
    """

    pattern: Expr
    formulas: tuple[tuple[str, Expr], ...]
    ranks: tuple[int, ...] = ()
    complete: bool = False

    @property
    def name(self) -> str:
        """The operation or function that the rule is of."""
        assert isinstance(self.pattern, Apply)
        return self.pattern.op

    def among(self, hidden: Collection[str]) -> Rule:
        """The same rule in a card that has functions of its own by the names in ``hidden``."""
        if not hidden:
            return self
        formulas = tuple((name, resolved(f, hidden)) for name, f in self.formulas)
        return replace(self, pattern=resolved(self.pattern, hidden), formulas=formulas)


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order in which they are tried."""
    source = resources.files("viete.library").joinpath("derivatives.md").read_text("utf-8")
    scope = rule_scope()
    out = []
    for number, line in enumerate(source.splitlines(), 1):
        if not _LINE.match(line):
            continue
        formulas = [
            sides(Text(m[1], "rules.md", number, m.start(1) + 1, line), scope)
            for m in _MATH.finditer(line)
            if "=" in m[1]
        ]
        kinds = _KINDS.search(line)
        complete = kinds is not None and kinds[1] == "every target"
        ranks = (
            tuple(RANKS[k.strip()] for k in kinds[1].split(",")) if kinds and not complete else ()
        )
        out.append(Rule(formulas[0][1], tuple(formulas[1:]), ranks, complete))
    return tuple(out)


def rule_scope() -> Scope:
    """The letters of rules: arguments, the value y, a part ŷ of it, and ∂ of each."""
    scope = Scope()
    scope.functions |= {f.name: f.signature for f in library().values()}
    names = [GREEK.get(x, x) for x in LETTERS] + ["y", "hat{y}"]
    for base in (*names, *(f"partial{{{n}}}" for n in names)):
        scope.declare(Symbol("argument", base))
    return scope


def sides(text: Text, scope: Scope) -> tuple[str, Expr]:
    """``∂z = …`` as the name on the left and the formula on the right."""
    left, _, _ = text.text.partition("=")
    name = parse(text.cut(0, len(left)), scope)
    assert isinstance(name, Ref), text
    return name.key, parse(text.cut(len(left) + 1), scope)
