"""Guards: what `where` does not choose gets a derivative of 0, whatever the local factors are.

The derivative of ``where(z > 0, log(z), 0)`` by z is ``where(z > 0, ∂y / z, 0)``. To choose before
the factor, ``where(z > 0, ∂y, 0) / z``, is the same except where z is 0: there 0 / 0 is NaN. A
guard is therefore carried down to what its side is made of, and written around the product of all
local factors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from viete.algebra.adjoint.rules import Rule
from viete.algebra.dims import Size
from viete.algebra.kinds import COMPARISONS, LOGICAL
from viete.algebra.model import Function
from viete.algebra.shapes import ENTRYWISE
from viete.notation.expr import Apply, Bind, Expr, Num, Pick, Ref, Table, num, walk

# Each entry of what these make is made of the same entry of what they are applied to.
APART = ENTRYWISE | COMPARISONS | LOGICAL | {"where", "sigmoid"}


@dataclass(frozen=True)
class Guard:
    """The condition of a `where`, and whether its side is chosen where the condition holds."""

    test: Expr
    holds: bool
    shape: tuple[Size, ...]  # of the condition

    def around(self, back: Expr) -> Expr:
        """``back`` where the side is chosen, else 0."""
        sides = (back, num(0)) if self.holds else (num(0), back)
        return Apply("where", (self.test, *sides))


def guarded(back: Expr, guards: Iterable[Guard]) -> Expr:
    """``back`` under every one of the guards."""
    for guard in guards:
        back = guard.around(back)
    return back


def entrywise(rule: Rule) -> bool:
    """Whether every entry of what a rule hands on comes from the same entry of what it got."""

    def apart(x: Expr) -> bool:
        match x:
            case Apply("prod", (a, b)):
                return constant(a) or constant(b)
            case Apply(op):
                return op in APART
        return not isinstance(x, Bind | Table | Pick)

    return all(map(apart, (x for _, formula in rule.formulas for x in walk(formula))))


def infinite(e: Expr, functions: Mapping[str, Function], rules: Collection[Rule]) -> bool:
    """Whether a derivative by something in ``e`` can be infinite or NaN though that is finite.

    It can through logarithms, roots, quotients, powers that are not natural, exponentials that
    overflow, and functions whose rule has such factors, or whose definition where they have none.
    """

    def at(x: Expr) -> bool:
        match x:
            case Apply("log" | "sqrt" | "exp", (z,)):
                return not constant(z)
            case Apply("div", (_, b)):
                return not constant(b)
            case Apply("pow", (a, c)):
                natural = isinstance(c, Num) and c.value >= 0 and c.value.denominator == 1
                return not natural and not (constant(a) and constant(c))
            case Apply(name) if name in functions:
                own = [f for r in rules if r.name == name for _, f in r.formulas]
                parts = [y for f in own for y in walk(f)]
                if not own:
                    return within(functions[name].body)
                return any(at(y) for y in parts if not isinstance(y, Apply) or y.op != "exp")
        return False

    def within(x: Expr) -> bool:
        return any(map(at, walk(x)))

    return within(e)


def constant(e: Expr) -> bool:
    """Whether a formula is made of numbers and dimensions alone."""
    match e:
        case Ref(symbol):
            return symbol.kind == "dim"
        case Apply(op, args):
            return op in ("rows", "cols") or all(map(constant, args))
    return isinstance(e, Num)
