"""Simplifies a formula as one does when writing it down: the rules of simplify.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain
from operator import add, mul, neg, sub, truediv

from viete.graph.rules import Rule, first, head, table
from viete.notation.tree import Apply, Bind, Expr, Num, rebuilt

# Sections of simplify.md that are asked for by themselves; the last two for nothing else.
NEUTRAL, TERMS, ROWS = "Neutral parts", "Terms of a sum", "Rows"
ARITHMETIC: Mapping[str, Callable[..., Fraction]] = {
    "add": add, "sub": sub, "neg": neg, "had": mul, "times": mul, "prod": mul, "div": truediv,
}  # fmt: skip


@cache
def rules() -> dict[str, list[Rule]]:
    """The rules by the operations they fit."""
    out: dict[str, list[Rule]] = {}
    sections = table("rewrite", "simplify.md")
    for rule in chain(*(sections[s] for s in sections if s not in (TERMS, ROWS))):
        out.setdefault(rule.head, []).append(rule)
    return out


def by_section(section: str, e: Expr) -> Expr | None:
    """The result of the first rule of a section that fits a formula."""
    found = first(table("rewrite", "simplify.md")[section], e)
    return None if found is None else found[1]


def neutral(e: Expr) -> Expr | None:
    """A sum without 0, or a product without 1."""
    return by_section(NEUTRAL, e)


@lru_cache(maxsize=1 << 15)
def simplified(e: Expr) -> Expr:
    """A formula without ones, zeros, double signs and double transposes."""
    e = rebuilt(e, [simplified(x) for x in e.children])
    new = evaluated(e)
    for rule in rules().get(head(e), ()):
        new = new or rule.of(e)
    match e:
        case Apply("add", (a, Bind("sum") as b)):
            new = new or joined_sums(a, b)
    return e if new is None else simplified(new)


def joined_sums(a: Expr, b: Bind) -> Expr | None:
    """``∑_h x + ∑_h y`` as ``∑_h (x + y)``, wherever in the sum ``a`` the first is."""
    match a:
        case Apply("add", (x, y)) if found := joined_sums(y, b):
            return Apply("add", (x, found))
        case Apply("add" | "sub" as op, (x, y)) if found := joined_sums(x, b):
            return Apply(op, (found, y))
        case Bind(index=letter) if letter != b.index and letter in b.body.binders:
            return None  # the letter has a meaning below it
    return by_section(TERMS, Apply("add", (a, b)))


def row_sum(e: Expr) -> Expr:
    """``log(sum_{k=0}^{m}(exp(x)))`` as ``log(sum(exp(table_{k<m + 1}(x))))``, which rules fit."""
    new = by_section(ROWS, e)
    return e if new is None else simplified(new)


def evaluated(e: Expr) -> Expr | None:
    """``3 - 1`` as 2; powers stay."""
    if not isinstance(e, Apply) or e.op not in ARITHMETIC:
        return None
    values = [a.value for a in e.args if isinstance(a, Num)]
    if len(values) < len(e.args) or (e.op == "div" and not values[1]):
        return None
    return Num(ARITHMETIC[e.op](*values))
