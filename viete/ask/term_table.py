"""An expansion as a document: its terms, the remainder, and what was held fixed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.document.tree import Block, paragraph, table
from viete.evaluate.labelled import Array
from viete.notation.printer import letters, show

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion
    from viete.ask.remainder import Remainder
    from viete.ask.term import Term


def term_table(e: Expansion, style: str = "unicode", numbered: bool = False) -> list[Block]:
    """A table with a row for each listed term, then the constants, the others and the whole.

    With ``numbered`` the listed ones have numbers before their names.
    """
    of = "its value" if floats(e.total).size == 1 else "its length"
    rows = [row(t, style) for t in e.terms]
    if numbered:
        rows = [[f"{k}. {first}", *rest] for k, (first, *rest) in enumerate(rows, 1)]
    if e.hidden.count:
        rows.append(together(e.hidden, e.hidden.label))
    for terms, what in ((e.unopened, "unopened"), (e.constants, "constant")):
        first = sorted((t for t in terms if t.size), key=lambda t: -t.size)[: e.options.top]
        rows += [row(t, style) for t in first]
        if len(first) < len(terms):
            others = e.together(what, set(terms) - {*first})
            which = "other" if others.size else "zero"
            ending = "s" * (what == "constant" and others.count > 1)
            rows.append(together(others, f"{others.count} {which} {what}{ending}"))
    rows.append(["**the total**", number(e.total), "", f"${e.run.in_words(e.formula, style)}$"])
    out: list[Block] = [table(["term", of, "share of sizes", "formula"], rows)]
    if e.held:
        names = [f"${letters(name, style)}$" for name in e.held]
        out.append(paragraph(f"held constant: {', '.join(names)}"))
    for function, within in stops(e).items():
        out.append(paragraph(f"unopened: {function} is not linear; expand `{within}` instead"))
    if e.note:
        out.append(paragraph(e.note))
    finite = np.isfinite(norm(e.rest))  # a larger remainder has been refused
    rest = "rounding error only" if finite else "not a number"
    out.append(paragraph(f"remainder: {rest}"))
    return out


def terms_json(e: Expansion) -> str:
    """The table as data; a value is a number or a list of numbers."""
    terms = [
        {"label": t.label, "kind": t.kind, "value": floats(t.value).tolist(), "share": t.share,
         "expression": t.expression, "stopped": None if t.stopped is None else asdict(t.stopped)}
        for t in (*e.terms, *e.unopened, *e.constants)
    ]  # fmt: skip
    hidden = {"count": e.hidden.count, "value": floats(e.hidden.value).tolist(),
              "mass": e.hidden.size}  # fmt: skip
    found = {"expression": show(e.formula), "total": floats(e.total).tolist(),
             "held": list(e.held), "note": e.note, "terms": terms, "hidden": hidden,
             "rest": floats(e.rest).tolist()}  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def row(t: Term, style: str) -> list[str]:
    """The row of one term."""
    kind = "" if t.kind == "term" else f" ({t.kind})"
    if t.stopped is not None:
        kind = f" ({t.kind}: {t.stopped.function})"
    formula = t.expansion.run.in_words(t.formula, style)
    return [t.label + kind, number(t.value), f"{t.share:.1%}", f"${formula}$"]


def stops(e: Expansion) -> dict[str, str]:
    """The operations that are not linear, each with its argument in the largest term."""
    found: dict[str, str] = {}
    for t in sorted(e.unopened, key=lambda t: -t.size)[: e.options.top]:
        if t.size and t.stopped is not None:
            found.setdefault(t.stopped.function, t.stopped.within)
    return found


def together(some: Remainder, label: str) -> list[str]:
    """The row of a remainder, which stands for several terms."""
    return [label, number(some.value), f"{some.share:.1%}", ""]


def norm(value: Any) -> float:
    """The absolute value of a number, the length of an array."""
    return float((floats(value) ** 2).sum() ** 0.5)


def number(value: Any) -> str:
    """A number with its sign; for an array, its length."""
    a = floats(value)
    return f"{a.item():+.4f}" if a.size == 1 else f"{norm(a):.4f}"


def floats(array: Array) -> Any:
    """An array of any library, or a number, as NumPy's floats."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        array = array.float() if "bfloat16" in str(array.dtype) else array  # NumPy has none
    a = np.asarray(array)
    return a if a.dtype.kind == "f" else a.astype(np.float64)


def in_short(value: Any) -> str:
    """A number, or the kind of an array."""
    a = floats(value)
    return f"{float(a):+.4g}" if a.ndim == 0 else f"array of {' × '.join(map(str, a.shape))}"


__all__ = ["floats", "in_short", "norm", "term_table", "terms_json"]
