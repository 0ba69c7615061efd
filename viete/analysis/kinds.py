"""Whole numbers, truth values and real numbers; and intervals that bound whole numbers.

Every meaning, plan and export follows this one rule. An operation on whole numbers gives a whole
number, truth values count as 0 and 1, and all other results (quotients, means, functions of real
numbers) are real. A whole number is computed in 64-bit integers if its interval, found from the
card's declarations, fits into them; otherwise it is computed in the run's floating-point type.
"""

from __future__ import annotations

from collections.abc import Sequence

from viete.notation.tree import MEASURES, Apply, Expr

Interval = tuple[int, int]  # the least and the greatest that a number may be

REAL, WHOLE, TRUTH = "real", "int", "bool"
LOGICAL = frozenset("and or not".split())
COMPARISONS = frozenset("lt le gt ge eq ne".split())
# Through which no derivative passes.
FLAT = LOGICAL | COMPARISONS | frozenset(("argmax", "floor", *MEASURES))
# Functions of the library that take whole numbers for real ones.
OF_REALS = frozenset(
    "softmax logsumexp logsoftmax cross_entropy LN RMSNorm causal "
    "GELU GELU_tanh sigmoid SiLU softplus".split()
)
# Operations that make whole numbers of whole numbers.
CLOSED = frozenset("add sub had times prod inner neg abs max min mod where sum floor".split())
BIT, LONG = (0, 1), (1 - 2**63, 2**63 - 1)
MOST = 100_000_000  # the length of an axis whose length is not known yet


def kind_of(op: str, kinds: Sequence[str]) -> str:
    """The kind of an operation's value, from those of its arguments (of ``where``: its sides)."""
    if op in LOGICAL or op in COMPARISONS:
        return TRUTH
    if op == "where" and all(k == TRUTH for k in kinds):
        return TRUTH
    if op in ("floor", "argmax") or (op in CLOSED and REAL not in kinds):
        return WHOLE
    return REAL


def interval_of(
    op: str, of: Sequence[Interval | None], within: Interval = LONG, count: int = 1
) -> Interval | None:  # fmt: skip
    """The interval of an operation on integers; None where it may leave ``within``.

    ``count`` is the number of terms that a sum or a product of matrices adds up. Remainders and
    quotients by a possible 0 have none either: floats have a value for them.
    """
    if not of or any(x is None for x in of):
        return None
    a, b = (*of, BIT)[:2]
    assert a is not None and b is not None
    match op:
        case "add":
            out = a[0] + b[0], a[1] + b[1]
        case "sub":
            out = a[0] - b[1], a[1] - b[0]
        case "had" | "times" | "prod" | "inner":
            ends = [x * y for x in a for y in b]
            out = count * min(ends), count * max(ends)
        case "sum":
            out = min(count * a[0], 0), max(count * a[1], 0)
        case "neg":
            out = -a[1], -a[0]
        case "abs":
            out = max(a[0], -a[1], 0), max(-a[0], a[1])
        case "max" if len(of) == 2:
            out = max(a[0], b[0]), max(a[1], b[1])
        case "min" if len(of) == 2:
            out = min(a[0], b[0]), min(a[1], b[1])
        case "max" | "min" | "floor":  # of rows, or of what is whole already
            out = a
        case "where" | "concat":
            out = min(x[0] for x in of if x), max(x[1] for x in of if x)
        case "mod" if b[0] > 0:
            out = a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
        case "mod" if b[1] < 0:
            out = b[0] + 1, 0
        case "quotient" if b[0] > 0 or b[1] < 0:
            ends = [x // y for x in a for y in b]
            out = min(ends), max(ends)
        case "pow" if b[0] == b[1] and 0 <= b[0] <= 64:
            ends = [x ** b[0] for x in a] + ([0] if a[0] < 0 < a[1] else [])
            out = min(ends), max(ends)
        case _:
            return None
    return out if within[0] <= out[0] and out[1] <= within[1] else None


def quotient(e: Expr) -> tuple[Expr, Expr] | None:
    """a and b where ``e`` is ⌊a / b⌋, which is whole division if both are whole: ⌈h/4⌉ as well."""
    if not isinstance(e, Apply) or e.op != "floor":
        return None
    match e.args[0]:
        case Apply("div", (a, b)):
            return a, b
        case Apply("neg", (Apply("div", (a, b)),)):
            return Apply("neg", (a,)), b
    return None
