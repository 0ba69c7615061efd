"""What a derivative passes through: a model and what is differentiated by in, the values out."""

from __future__ import annotations

from collections.abc import Collection

from viete.algebra.model import Model
from viete.notation.expr import Apply, Bind, Expr, Pick, Ref, Table

FLAT = frozenset("argmax floor rows cols lt le gt ge eq ne".split())  # no derivative passes


def reached(model: Model, wanted: Collection[str]) -> frozenset[str]:
    """The values that depend on what is wanted, and that a derivative can pass through."""
    active, types = set(wanted), model.shapes.types
    while True:
        before = len(active)
        for e in model.equations:
            if types[e.name].kind == "real" and depends(e.right, active):
                active.add(e.name)
        if len(active) == before:
            return frozenset(active)


def depends(e: Expr, active: Collection[str]) -> bool:
    """Whether a derivative passes from ``e`` to such a value; none through indices and tests."""
    match e:
        case Ref():
            return e.key in active
        case Pick():
            return depends(e.value, active)
        case Bind() | Table():
            return depends(e.body, active)
        case Apply():
            args = e.args[1:] if e.op == "where" else e.args
            return e.op not in FLAT and any(depends(a, active) for a in args)
    return False
