"""Claims on a page: each as mathematics, with its verdict in the run."""

from __future__ import annotations

from html import escape
from typing import Any

from viete.ask.card_claims import Claims, Verdict, check_claims
from viete.document.html import prose
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.explore.reruns import inputs_of, weights_of
from viete.graph.claim import Claim
from viete.notation.mathml import MathML, framed
from viete.notation.printer import letters


def claims_of(run: Run) -> Claims:
    """The verdicts on the card's own claims on the run's text, with its weights."""
    card = run.program.model
    try:
        return check_claims(card, weights_of(run), inputs_of(run), words=run.scope.words)
    except VieteError as error:
        return Claims(card.title, "", why_not=error.message)


def claims_data(found: Claims) -> dict[str, Any]:
    """Claims and their verdicts as JSON, with further notes."""
    notes = [found.first_line] if found.verdicts or found.why_not else []
    return {"verdicts": list(map(verdict_data, found.verdicts)), "notes": [*notes, *found.notes()]}


def verdict_data(v: Verdict) -> dict[str, Any]:
    """One claim: its verdict in a word, the claim, its meaning, and the finding."""
    return {"word": v.word, "ok": v.ok, "refuted": v.claim.refuted, "claim": v.written,
            "math": claim_html(v.claim), "meaning": prose(v.claim.meaning),
            "found": v.found()}  # fmt: skip


def claim_html(claim: Claim) -> str:
    """A claim as formulas with words between them."""
    show = claim.printed(MathML())
    out = framed(show(claim.statement))
    for x, first, last in claim.ranges:
        ends = f"{framed(show(first))}, …, {framed(show(last))}"
        out += f" for {framed(letters(x, 'mathml'))} = {ends}"
    out += "".join(f" for {framed(show(condition))}" for condition in claim.given)
    if claim.some:
        out += " for some " + ", ".join(framed(letters(x, "mathml")) for x in claim.some)
    return out + (f" for {escape(claim.about)}" if claim.texts else "")


__all__ = ["claims_data", "claims_of"]
