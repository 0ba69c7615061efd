"""The costs of a card for a length and a batch: what ``viete show --costs`` prints."""

from __future__ import annotations

from viete.analysis.cost import costs
from viete.document.tree import Block
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.notation.printer import show


def cost_blocks(
    card: CardData, style: str = "unicode", length: int | None = None, batch: int = 1
) -> list[Block]:
    """Parameters by row, operations by equation, the totals of both, and bytes by dtype.

    ``length`` is the length of the card's first input; by default the greatest. Raises VieteError
    where `costs` does, and for a length where the card has none.
    """
    lengths = {}
    if length is not None:
        sizes = [show(e) for i in card.inputs[:1] for e in i.shape]
        free = [name for name in card.lengths if name in sizes]
        if not free:
            raise VieteError(f"{card.title} has no length that could be {length}")
        lengths = {free[0]: length}
    return costs(card, lengths, batch).page(style)
