"""Parameters that change nothing, or whose entries are all alike: what a reader may skip."""

from __future__ import annotations

import numpy as np

from viete.document.tree import listed
from viete.evaluate.labelled import COL
from viete.notation.tree import Apply, Expr, Ref, walk
from viete.report.lesson.lines import Lines, rational


def idle(lines: Lines, formula: Expr) -> list[str]:
    """Sentences on the identity matrices of a formula, and on its vectors of one number."""
    parameters = [x for x in dict.fromkeys(walk(formula))
                  if isinstance(x, Ref) and x.symbol.kind == "parameter"]  # fmt: skip
    factors = {x for e in walk(formula) if isinstance(e, Apply) and e.op == "prod" for x in e.args}
    factors |= {x for e in factors if isinstance(e, Apply) and e.op == "T" for x in e.args}
    names = [f"${lines.formulas.e(w)}$" for w in parameters
             if w in factors and lines.is_identity(w)]  # fmt: skip
    out = [
        f"Here {listed(names)} {'are identity matrices' if names[1:] else 'is the identity matrix'}"
        f": {'they change' if names[1:] else 'it changes'} nothing."
    ] * bool(names)
    same = [f"of ${lines.formulas.e(b)}$ is {x}" for b in parameters if (x := only(lines, b))]
    return out + [f"Here every entry {listed(same)}."] * bool(same)


def only(lines: Lines, b: Ref) -> str:
    """``0`` or ``1``, if each entry of a vector is that number."""
    v = lines.held(b)
    if v is None or v.axes != (COL,):
        return ""
    entries = {rational(x) for x in np.asarray(v.array, dtype=object)}
    return next((str(k) for k in (0, 1) if entries == {k}), "")


__all__ = ["idle"]
