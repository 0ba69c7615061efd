"""A side of `where` for a library that differentiates it: formula in, formula out.

Autograd takes the derivatives of both sides and chooses afterwards. Where the side that is not
chosen has an infinite derivative, that of `log` at 0, it makes 0 times infinity of it, which is
NaN. So such a function gets, where it is not chosen, another argument:
``where(z > 0, log(where(z > 0, z, 1)), 0)``.
"""

from __future__ import annotations

from collections.abc import Callable

from viete.algebra.adjoint.guards import APART, constant
from viete.algebra.functions import inlined
from viete.algebra.model import Model
from viete.notation.expr import Apply, Expr, Num, num


def sheltered(
    e: Expr, test: Expr, holds: bool, fixed: Callable[[Expr], bool], model: Model
) -> Expr:  # fmt: skip
    """A side ``e``, chosen where ``test`` holds or where it does not, with harmless arguments.

    It reaches down to what mixes entries. What is ``fixed`` has no derivative. A function of the
    card's own is written out where something in it needs another argument.
    """
    own = {f.name for f in model.functions}

    def put(z: Expr, other: int) -> Expr:
        z = within(z)
        if fixed(z) or (isinstance(z, Apply) and z.op == "where" and z.args[0] == test):
            return z
        return Apply("where", (test, z, num(other)) if holds else (test, num(other), z))

    def within(x: Expr) -> Expr:
        match x:
            case Apply("log" | "sqrt" as op, (z,)):
                return Apply(op, (put(z, 1),))
            case Apply("exp", (z,)):
                return Apply("exp", (put(z, 0),))
            case Apply("div", (a, b)):
                return Apply("div", (within(a), put(b, 1)))
            case Apply("pow", (a, Num(value) as c)) if value < 0 or value.denominator > 1:
                return Apply("pow", (put(a, 1), c))
            case Apply("where", (condition, a, b)):
                return Apply("where", (condition, within(a), within(b)))
            case Apply("prod", (a, b)) if constant(a) or constant(b):
                return Apply("prod", (within(a), within(b)))
            case Apply(op, args) if op in APART:
                return Apply(op, tuple(map(within, args)))
            case Apply(name) if name in own:
                body = inlined(x, model.function, taken=model.names)
                made = within(body)
                return x if made == body else made
        return x

    return within(e)
