"""Normal forms of cosines and sines of sums: the addition theorem, multiplied out.

The square of a sine becomes one minus the square of the cosine. So formulas that the addition
theorem makes equal have one form.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from viete.notation.tree import Apply, Expr
from viete.rewrite.forms import ONE, Form, Term, added, scaled

MOST_ANGLES = 4  # of a sum, of which cosine and sine are multiplied out
Times = Callable[[Form, Form], Form]
Circular = Callable[[str, Form], Form]  # the form of cos or sin of one term


def of_sum(op: str, angle: Form, times: Times, of: Circular) -> Form:
    """The form of ``cos`` or ``sin`` of an angle."""
    cos, sin = circle(list(angle.items()), times, of)
    return cos if op == "cos" else sin


def circle(
    terms: list[tuple[Term, Fraction]], times: Times, of: Circular
) -> tuple[Form, Form]:  # fmt: skip
    """The forms of the cosine and of the sine of a sum of terms."""
    if not terms:
        return {(): ONE}, {}
    (term, c), *rest = terms
    size: Form = {term: abs(c)}  # the cosine has no sign, and the sine keeps it
    cos, sin = of("cos", size), scaled(of("sin", size), ONE if c > 0 else -ONE)
    others, their_sin = circle(rest, times, of)
    return (
        added(times(cos, others), scaled(times(sin, their_sin), -ONE)),
        added(times(sin, others), times(cos, their_sin)),
    )


def squared_sine(factor: Expr, p: Fraction) -> bool:
    """Whether a power of a factor contains the square of a sine."""
    return isinstance(factor, Apply) and factor.op == "sin" and p.denominator == 1 and p >= 2


__all__ = ["MOST_ANGLES", "of_sum", "squared_sine"]
