"""Small simplifications of a formula, as one makes them while writing it down."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from viete.notation.substitution import substitute
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Table,
    num,
    transform,
    walk,
)

TIMES = ("had", "times", "prod")


def simplified(e: Expr) -> Expr:
    """Without ones, zeros, double signs and double transposes."""
    return transform(e, rule)


def row_sum(e: Expr) -> Expr:
    """``log(sum_{k=0}^{m}(exp(x)))`` as ``log(sum(exp(table_{k<m + 1}(x))))``, which rules know."""
    match e:
        case Apply("log", (Bind("sum", k, Expr() as low, Expr() as high, Apply("exp", (x,))),)):
            if any(k in i.free for r in walk(x) if isinstance(r, Ref) for i in r.index):
                return e  # a sum over heads or blocks
            count = simplified(Apply("add", (Apply("sub", (high, low)), num(1))))
            x = x if is_number(low, 0) else shifted(x, k, low)
            return exp_sum(Table(((k, count),), simplified(x)))
    return e


def shifted(e: Expr, letter: str, by: Expr) -> Expr:
    """A formula in which a letter counts from 0, and stood for so many more."""
    return substitute(e, letters={letter: Apply("add", (Idx(letter), by))})


def exp_sum(z: Expr) -> Apply:
    """``log(sum(exp(z)))``."""
    return Apply("log", (Apply("sum", (Apply("exp", (z,)),)),))


def is_number(e: Expr, value: int) -> bool:
    """Whether it is this number."""
    return isinstance(e, Num) and e.value == value


def rule(e: Expr) -> Expr | None:
    """The simpler form of one node whose arguments are simple, or None."""
    match e:
        case Apply("add", (a, b)):
            if is_number(a, 0) or is_number(b, 0):
                return b if is_number(a, 0) else a
            if isinstance(b, Apply) and b.op == "neg":
                return Apply("sub", (a, b.args[0]))
            if isinstance(a, Apply) and a.op == "sub" and a.args[1] == b:
                return a.args[0]
            if a == b:
                return Apply("times", (num(2), a))
            return together(a, b) or constants(e)
        case Apply("sub", (a, b)):
            if is_number(b, 0):
                return a
            if is_number(a, 0):
                return simplified(Apply("neg", (b,)))
            if isinstance(a, Apply) and a.op == "add" and a.args[1] == b:
                return a.args[0]
            if isinstance(b, Apply) and b.op == "neg":
                return Apply("add", (a, b.args[0]))
        case Apply("had" | "times" | "prod" as op, (a, b)):
            if is_number(a, 1) or is_number(b, 1):
                return b if is_number(a, 1) else a
            if op == "had" and isinstance(a, Num) and not isinstance(b, Num):
                return simplified(Apply("times", (a, b)))
            if op != "prod" and isinstance(b, Num) and not isinstance(a, Num):
                return simplified(Apply("times", (b, a)))
            if (
                op != "prod"
                and isinstance(a, Num)
                and a.value.numerator == 1
                and not isinstance(b, Num)
            ):
                return Apply("div", (b, num(a.value.denominator)))
            for x, y in ((a, b), (b, a)):
                if isinstance(x, Apply) and x.op == "neg" and op != "prod":
                    pair = (x.args[0], y) if x is a else (y, x.args[0])
                    return Apply("neg", (simplified(Apply(op, pair)),))
        case Apply("div", (a, b)):
            if is_number(b, 1):
                return a
            if isinstance(a, Apply) and a.op == "neg":
                return Apply("neg", (Apply("div", (a.args[0], b)),))
            if isinstance(a, Apply) and a.op == "div":
                below = simplified(Apply("had", (a.args[1], b)))
                return Apply("div", (a.args[0], below))
            return constants(e)
        case Apply("pow", (a, b)):
            if is_number(b, 1):
                return a
        case Apply("neg", (a,)):
            if isinstance(a, Apply) and a.op == "neg":
                return a.args[0]
            if isinstance(a, Num):
                return Num(-a.value)
        case Apply("T", (a,)):
            if isinstance(a, Apply) and a.op == "T":
                return a.args[0]
            if isinstance(a, Apply) and a.op == "prod" and matrices(a):
                x, y = a.args
                return Apply("prod", (simplified(Apply("T", (y,))), simplified(Apply("T", (x,)))))
        case Pick(Pick(value, (Idx() | Num() as row,)), (entry,)):
            return Pick(value, (row, entry))
        case Apply("where", (test, a, b)):
            if is_number(a, 0) and is_number(b, 0):
                return Num(Fraction(0))
            match a, b:  # of what is not chosen, an inner condition chooses nothing
                case Apply("where", (inner, a, _)), _ if inner == test:
                    return Apply("where", (test, a, b))
                case _, Apply("where", (inner, _, b)) if inner == test:
                    return Apply("where", (test, a, b))
    return constants(e)


def together(a: Expr, b: Expr) -> Expr | None:
    """``∑_h x + ∑_h y`` as ``∑_h (x + y)``, wherever in the sum ``a`` the first stands."""
    if not (isinstance(b, Bind) and b.op == "sum"):
        return None
    if isinstance(a, Bind) and replace(a, body=b.body) == b:
        return replace(b, body=simplified(Apply("add", (a.body, b.body))))
    if isinstance(a, Apply) and a.op in ("add", "sub"):
        x, y = a.args
        if a.op == "add" and (found := together(y, b)) is not None:
            return Apply("add", (x, found))
        if (found := together(x, b)) is not None:
            return Apply(a.op, (found, y))
    return None


def matrices(e: Apply) -> bool:
    """Whether one factor at least is a transpose already, so that turning both is no longer."""
    return any(isinstance(x, Apply) and x.op == "T" for x in e.args)


def constants(e: Expr) -> Expr | None:
    """``3 - 1`` as 2."""
    match e:
        case Apply("add" | "sub" as op, (Num(a), Num(b))):
            return Num(a + b if op == "add" else a - b)
        case Apply("had" | "times" | "prod", (Num(a), Num(b))):
            return Num(a * b)
        case Apply("div", (Num(a), Num(b))) if b:
            return Num(a / b)
    return None
