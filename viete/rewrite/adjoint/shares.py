"""Shares of a derivative: what each use of a value adds to it, with the place and the reason.

A `Reason` is the provenance of a share: the forward equation and the rules it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viete.analysis.types import TypeEnv
from viete.document.tree import listed
from viete.graph.card import Loop
from viete.notation.tree import Apply, Expr, Ref, Symbol, num

Binder = tuple[str, Expr | None, Expr | None]


@dataclass(frozen=True)
class Reason:
    """The number of a forward equation and the rules applied to it, or ``said`` in words."""

    equation: int = 0
    rules: tuple[str, ...] = ()
    said: str = ""

    def by(self, rule: str) -> Reason:
        """This reason with one more rule."""
        return replace(self, rules=(*self.rules, rule))


UNSAID = Reason()


@dataclass
class Share:
    """The share of one use of a value in its derivative: ``∂X^{index} += expr``, and the reason."""

    index: tuple[Expr, ...]  # of the block slots
    expr: Expr
    reason: Reason

    def only_at(self, block: Expr) -> Share:
        """The share of one ``block``: 0 unless it is the share's block."""
        test = Apply("eq", (block, self.index[0]))
        return replace(self, index=(block,), expr=Apply("where", (test, self.expr, num(0))))


@dataclass
class Context:
    """A place in an equation: its loop, the indices bound so far, the types of its letters."""

    loop: Loop | None
    binders: tuple[Binder, ...]
    env: TypeEnv
    reason: Reason = UNSAID
    sides: tuple[tuple[Expr, bool], ...] = ()  # of which `where` with a doubled condition


def because(reasons: Sequence[Reason]) -> str:
    """``from 3, 4 and 5``, ``from 10, and from 9 by the rule of LN``."""
    clauses = [r.said for r in dict.fromkeys(reasons) if r.said]
    groups: dict[tuple[str, ...], set[int]] = {}
    for r in reasons:
        if not r.said and r.equation:
            groups.setdefault(tuple(dict.fromkeys(r.rules)), set()).add(r.equation)
    ruled = set[int]().union(*(n for rules, n in groups.items() if rules))
    for rules, numbers in sorted(groups.items()):
        if not rules and not (numbers := numbers - ruled):
            continue
        s = "s" if len(rules) > 1 else ""
        by = f" by the rule{s} of {listed(rules)}" if rules else ""
        clauses.append(f"from {listed(map(str, sorted(numbers)))}{by}")
    return ", and ".join(clauses)


def partial(symbol: Symbol) -> Symbol:
    """The symbol of ∂X."""
    return replace(symbol, base=f"partial{{{symbol.base}}}", kind="value")


def partial_of(letter: str) -> str:
    """The key of ∂z, or of ∂f^k for the letter of a family."""
    base, sign, index = letter.partition("^")
    return f"partial{{{base}}}{sign}{index}"


def hatted(part: str, whole: Ref | None) -> Symbol | None:
    """The symbol û or ∂û, for the ŷ or ∂ŷ of a rule applied to a value u."""
    if whole is None:
        return None
    hat = replace(whole.symbol, base=f"hat{{{whole.symbol.base}}}", kind="value")
    return partial(hat) if part.startswith("partial") else hat
