"""Claims proved for all weights and inputs: a card and a claim in, a proof or nothing out.

An equation is proved by algebra. An inequality is proved by bounds of both sides, or of their
difference after algebra. ``a ≈ b`` is proved in either way. A claim without a proof may still be
true.
"""

from __future__ import annotations

from dataclasses import dataclass

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.tree import Apply, Expr, sides_near
from viete.rewrite.bounds import Bounds, bounding
from viete.rewrite.identity import identity
from viete.rewrite.normal_form import NormalForms, TooLarge
from viete.rewrite.opening import without_calls
from viete.rewrite.proof_rules import DEFINITION, PLAIN, ProofRule


@dataclass(frozen=True)
class Proof:
    """Why a claim is always true: the rules that were used, and the names whose equations were."""

    rules: tuple[ProofRule, ...]
    definitions: tuple[str, ...]

    def __str__(self) -> str:
        said: list[str] = [rule for rule in self.rules if rule not in PLAIN]
        if self.definitions:
            said.append(f"by {DEFINITION}{', '.join(self.definitions)}")
        return "; ".join(said) or "by algebra alone"


def proof_of(card: CardData, claim: Claim) -> Proof | None:
    """The proof of a claim; None if none is found."""
    links, used = [claim.statement], set[str]()
    names = dict[str, None]()
    while links:
        link = links.pop()
        match link:
            case Apply("and", (a, b)):
                links += [b, a]
                continue
            case Apply("eq", (a, b)):
                found = identity(card, a, b)
            case Apply(("le" | "ge" | "lt" | "gt") as op, (a, b)):
                near = sides_near(link)
                left, right = (a, b) if op in ("le", "lt") else (b, a)
                found = None if near is None else identity(card, *near[:2])
                if found is None or near is None or bounds(card, b).least < 0:
                    found = order(card, left, right, strict=op in ("lt", "gt"))
            case _:
                return None
        if found is None:
            return None
        used |= {*found}
        names |= dict.fromkeys(x.removeprefix(DEFINITION) for x in found if x not in [*ProofRule])
    return Proof(tuple(rule for rule in ProofRule if rule in used), tuple(names))


def order(card: CardData, low: Expr, high: Expr, strict: bool) -> tuple[str, ...] | None:
    """The facts by which ``low`` is at most ``high``, or less; None where no proof is found."""
    a, b = bounds(card, low), bounds(card, high)
    if a.most < b.least or (a.most == b.least and not strict):
        return (ProofRule.INTERVALS, *a.facts, *b.facts)
    forms = NormalForms(card)
    try:
        apart = forms.formula(forms.of(without_calls(card, Apply("sub", (high, low)))))
    except (TooLarge, RecursionError, VieteError):
        return None
    found = bounds(card, apart)
    if found.least > 0 or (found.least == 0 and not strict):
        return (*forms.used, ProofRule.INTERVALS, *found.facts)
    return None if strict else identity(card, low, high)


def bounds(card: CardData, e: Expr) -> Bounds:
    """The bounds of a formula, with calls of the card's functions of values written out."""
    try:
        return bounding(card).of(without_calls(card, e))
    except VieteError:  # of too many blocks, one after the other
        return Bounds()


__all__ = ["Proof", "proof_of"]
