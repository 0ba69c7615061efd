"""Claims proved for all weights and inputs: a card and a claim in, a proof or nothing out.

An equation is proved by algebra. An inequality is proved by bounds of both sides, or of their
difference after algebra. ``a ≈ b`` is proved in either way. A claim without a proof may still be
true.
"""

from __future__ import annotations

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.tree import Apply, Expr, sides_near
from viete.rewrite.bounds import DEFINITION, Bounds, bounding
from viete.rewrite.identity import identity, normal_forms
from viete.rewrite.normal_form import TooLarge
from viete.rewrite.opening import without_calls


def proof_of(card: CardData, claim: Claim) -> str:
    """The proof of a claim, in words; empty if none is found."""
    links, used = [claim.statement], list[str]()
    while links:
        link = links.pop()
        match link:
            case Apply("and", (a, b)):
                links += [b, a]
                continue
            case Apply("eq", (a, b)):
                found = equation(card, a, b)
            case Apply(("le" | "ge" | "lt" | "gt") as op, (a, b)):
                near = sides_near(link)
                left, right = (a, b) if op in ("le", "lt") else (b, a)
                found = None if near is None else equation(card, *near[:2])
                if found is None or near is None or bounds(card, b).least < 0:
                    found = order(card, left, right, strict=op in ("lt", "gt"))
            case _:
                return ""
        if found is None:
            return ""
        used += found
    facts = dict.fromkeys(used)
    bounded = [x for x in facts if not x.startswith(DEFINITION)]
    defined = [x.removeprefix(DEFINITION) for x in facts if x.startswith(DEFINITION)]
    parts = [f"by the bounds of {', '.join(bounded)}"] * bool(bounded)
    parts += [f"by the definition of {', '.join(defined)}"] * bool(defined)
    return " and ".join(parts) or "by algebra alone"


def equation(card: CardData, a: Expr, b: Expr) -> list[str] | None:
    """The definitions by which two formulas are equal; None where no proof is found."""
    names = identity(card, a, b)
    return None if names is None else [f"{DEFINITION}{name}" for name in names]


def order(card: CardData, low: Expr, high: Expr, strict: bool) -> list[str] | None:
    """The facts by which ``low`` is at most ``high``, or less; None where no proof is found."""
    a, b = bounds(card, low), bounds(card, high)
    if a.most < b.least or (a.most == b.least and not strict):
        return [*a.facts, *b.facts]
    try:
        forms = normal_forms(card)
        apart = forms.formula(forms.of(without_calls(card, Apply("sub", (high, low)))))
    except (TooLarge, RecursionError, VieteError):
        return None
    found = bounds(card, apart)
    if found.least > 0 or (found.least == 0 and not strict):
        return [*found.facts]
    return None if strict else equation(card, low, high)


def bounds(card: CardData, e: Expr) -> Bounds:
    """The bounds of a formula, with calls of the card's functions of values written out."""
    try:
        return bounding(card).of(without_calls(card, e))
    except VieteError:  # of too many blocks, one after the other
        return Bounds()


__all__ = ["proof_of"]
