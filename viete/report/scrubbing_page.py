"""Causal scrubbing as a page: the numbers, a picture, and the card of each resampled value."""

from __future__ import annotations

import json

from viete.cards.writer import blocks
from viete.causes.findings import ScrubFindings
from viete.causes.hypothesis import EdgeClaim
from viete.causes.scrubbing import Scrubbing, shown_card
from viete.document.tree import Block, CodeBlock, Heading, heading, paragraph
from viete.evaluate.answer_page import literal
from viete.notation.printer import show
from viete.report.pictures.bars import bars
from viete.report.pictures.picture import Picture

DEEPER = 2  # levels of headings below those of a card of its own


def scrubbing_picture(found: ScrubFindings) -> Picture:
    """The share that is explained, and the cost of each claim, as bars."""
    names, values = ["explained"], [found.recovered]
    for claim, cost in found.costs.items():
        names.append(f"lost by {claim}")
        values.append(cost)
    return bars("Causal scrubbing", names, values, "share of the number")


def scrubbing_page(
    made: Scrubbing, found: ScrubFindings, style: str = "unicode"
) -> list[Block]:  # fmt: skip
    """The findings, and the computed values: a card for the number and for each value."""
    out: list[Block] = [heading(1, f"Causal scrubbing of {made.model.card.title}")]
    if style == "mathml":
        drawn = scrubbing_picture(found)
        out.append(CodeBlock("\n".join(drawn.lines), picture=drawn.svg))
    said = (
        "Each value below has a card of its own. The inputs of a card are residual streams, each "
        "with a note on the texts that its parts come from. A value without claims below it is "
        "the model's own, on a text that agrees."
    )
    out += [*found.page(style), heading(2, "What was computed"), paragraph(said)]
    for claim, value in made.values.items():
        name = literal(show(made.model.of, "unicode")) if claim is None else (
            f"{show(value.name, 'unicode')} for {claim}" if value.name is not None else str(claim)
        )  # fmt: skip
        for block in blocks(shown_card(value, name), style):
            out.append(lower(block))
    return out


def lower(block: Block) -> Block:
    """A card's heading, lowered to fit within a page."""
    if isinstance(block, Heading):
        return Heading(min(block.level + DEEPER, 6), block.text)
    return block


def scrubbing_json(found: ScrubFindings) -> str:
    """All numbers, and the claims with their nesting."""

    def claim(c: EdgeClaim) -> dict[str, object]:
        return {"edge": str(c), "features": list(c.features), "agree": found.agreement[c],
                "lost": found.costs[c], "parts": [claim(x) for x in c.parts]}  # fmt: skip

    said = {
        "of": show(found.of), "texts": found.texts, "recovered": found.recovered,
        "error": found.error, "draws": found.draws, "seed": found.seed,
        "of_model": found.of_model.tolist(), "of_random": found.of_random.tolist(),
        "scrubbed": found.scrubbed.tolist(), "claims": [claim(c) for c in found.claims],
    }  # fmt: skip
    return json.dumps(said, ensure_ascii=False, indent=1) + "\n"


__all__ = ["scrubbing_json", "scrubbing_page", "scrubbing_picture"]
