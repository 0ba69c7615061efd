r"""Tensor products: ``(A ⊗ W) x`` is ``A x W``, as A mixes positions and W maps each row.

``⊗`` is no operation of its own: it is written out as it is read. Sums, multiples and products of
such operators act term by term: ``(∑_h (A^h ⊗ W^h)) x`` is ``∑_h A^h x W^h``, and
``(A ⊗ W) (B ⊗ V) x`` is ``A B x V W``. See Elhage et al. 2021.
"""

from __future__ import annotations

from collections.abc import Callable

from viete.errors import VieteError
from viete.notation.tree import Apply, Bind, Expr, rebuilt, walk

TENSOR = "tensor"
LINEAR = frozenset(("add", "sub", "neg", "times", "div"))  # what an operator may stand in


def is_operator(e: Expr) -> bool:
    """Whether a formula is made of tensor products, which act on what stands behind it."""
    if isinstance(e, Bind):
        return e.op in ("sum", "mean") and is_operator(e.body)
    if not isinstance(e, Apply):
        return False
    if e.op == "prod":  # what an operator acts on stands to its right
        return is_operator(e.args[1])
    return e.op == TENSOR or (e.op in LINEAR and any(map(is_operator, e.args)))


def acted(e: Expr, error: Callable[[str, Expr], VieteError]) -> Expr:
    """The formula in which each tensor product acts on what follows it.

    ``error`` makes the error at a part. Raises it for a tensor product that acts on nothing.
    """

    def by(m: Expr, x: Expr) -> Expr:
        match m:
            case Apply(op, (a, w)) if op == TENSOR:
                return Apply("prod", (Apply("prod", (a, x)), w))
            case Apply("prod", (a, b)):
                return by(a, by(b, x)) if is_operator(a) else Apply("prod", (a, by(b, x)))
            case Apply("add" | "sub" | "neg") if all(map(is_operator, m.args)):
                return m.over([by(a, x) for a in m.args])
            case Apply("times" | "div"):
                return m.over([by(a, x) if is_operator(a) else a for a in m.args])
            case Bind() if m.index not in x.free:
                return m.over([*m.children[:-1], by(m.body, x)], m.bound)
        raise error("a ⊗ adds to another ⊗ only; write what each of them acts on", m)

    def go(x: Expr) -> Expr:
        match x:
            case Apply("prod", (m, y)) if is_operator(m) and not is_operator(y):
                return go(by(m, y))
        return rebuilt(x, [go(y) for y in x.children])

    out = go(e)
    for x in walk(out):
        if isinstance(x, Apply) and x.op == TENSOR:
            raise error("a ⊗ acts on what stands behind it: write (A ⊗ W) x, which is A x W", x)
    return out


__all__ = ["TENSOR", "acted"]
