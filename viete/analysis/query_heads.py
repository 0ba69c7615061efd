"""Letters for the query heads of a group (grouped-query attention): r, used only after g."""

from __future__ import annotations

from viete.graph.card import CardData, memoised
from viete.notation.heads import Heads
from viete.notation.tree import Slot, num

HEAD = "h"


@memoised
def query_heads(card: CardData) -> Heads | None:
    """The letter for a group and a member of it, where a card has two; else None.

    A name of the card keeps its meaning.
    """
    ranges = {i.name: i for i in card.indices if i.lower == num(1)}
    symbols = tuple(card.symbols.values())
    for member, index in ranges.items():
        with_it = [s for s in symbols if member in s.slots]
        before = {side[k - 1].text if k else "" for s in with_it for side in (s.sub, s.sup)
                  for k, x in enumerate(side) if x == Slot(member, True)}  # fmt: skip
        group = before.pop() if len(before) == 1 else ""
        taken = card.plain_names | card.ranges.keys()  # h^{i,e} is no h alone
        if group in ranges and group != member and HEAD not in taken:
            return Heads(HEAD, group, member, index.upper, tuple(with_it))
    return None
