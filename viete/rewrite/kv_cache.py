"""KV caches: the two ways in which earlier rows of a value are joined with the new ones.

A `DynamicCache` grows: m earlier rows come in, and the n new rows are stacked below them. A
`StaticCache` has room for c rows from the start; the new rows are written into it at the positions
q, so all steps have the same shapes. Both classes define everything that depends on this choice: a
new position, the number of positions, and rows of a table of positions.

Formulas are rewritten with the placeholders of this module, which get their names last: at the top
those of the card, inside a function those of its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping

from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Pick, Ref, Slice, Slot, Symbol, transform

NEW, ALL = "new", "all"
NEW_COUNT, ALL_COUNT = Ref(Symbol("dim", "@new")), Ref(Symbol("dim", "@all"))
BEFORE, ROOM = Ref(Symbol("dim", "@before")), Ref(Symbol("dim", "@room"))
PLACES = Ref(Symbol("input", "@places"))


class Stuck(Exception):
    """No form exists for new positions alone; the message says why, as a clause."""


class DynamicCache:
    """A cache of the rows of m earlier positions, ``BEFORE``; the new ones come after them."""

    label, suffix = Slot("past"), "after"
    own: tuple[Ref, ...] = (BEFORE,)

    def position(self, letter: Expr) -> Expr:
        """The position of the new row with this number."""
        return Apply("add", (letter, BEFORE))

    def counts(self, new: Expr | None, every: Expr | None) -> dict[str, Expr]:
        """The number of new positions and of all positions, each in terms of what is given."""
        if new is None and every is None:
            return {}
        return {
            NEW_COUNT.key: new or Apply("sub", (every, BEFORE)),  # type: ignore[arg-type]
            ALL_COUNT.key: every or Apply("add", (BEFORE, new)),  # type: ignore[arg-type]
        }

    def rows(self, kind: str, start: Expr | None, stop: Expr | None) -> Expr:
        """The rows of the new positions, or of all, in a table that begins at ``start``."""
        if kind == ALL:
            return Slice(start, stop)
        return Slice(BEFORE if start is None else Apply("add", (start, BEFORE)), stop)

    def joined(self, before: Ref, new: Ref, as_rows: bool, stack: Expr, written: Expr) -> Expr:
        """Earlier rows and new ones; ``stack`` and ``written`` are the library's calls for rows."""
        return stack if as_rows else Apply("concat", (before, new))

    def new_columns(self, e: Ref) -> Expr:
        """The columns of the new positions, of a value with a column for each position."""
        return Pick(e, (Slice(None, None), Slice(BEFORE, None)))


class StaticCache(DynamicCache):
    """A cache with room for ``ROOM`` rows; the new positions are ``PLACES``.

    Rows beyond the last position are never read: a sum over positions is allowed only under a mask
    that hides all positions later than the row's.
    """

    label, suffix = Slot("room"), "at"
    own = PLACES, ROOM

    def position(self, letter: Expr) -> Expr:
        """The position of the new row with this number."""
        return Pick(PLACES, (letter,))

    def counts(self, new: Expr | None, every: Expr | None) -> dict[str, Expr]:
        """The number of new positions, and the room as the number of all."""
        new = Apply("cols", (PLACES,)) if new is None else new
        return {NEW_COUNT.key: new, ALL_COUNT.key: ROOM if every is None else every}

    def rows(self, kind: str, start: Expr | None, stop: Expr | None) -> Expr:
        """The rows of the new positions, which are themselves the indices."""
        if kind == NEW:
            return PLACES if start is None else Apply("add", (start, PLACES))
        return Slice(start, ROOM if start is None else Apply("add", (start, ROOM)))

    def joined(self, before: Ref, new: Ref, as_rows: bool, stack: Expr, written: Expr) -> Expr:
        """The room with the new rows in it."""
        if not as_rows:
            raise Stuck(f"{show(new)} has its positions as columns")
        return written

    def new_columns(self, e: Ref) -> Expr:
        """Raise Stuck: the room has rows only."""
        raise Stuck(f"{show(e)} is asked for at its new columns alone")


def with_names(e: Expr, names: Mapping[str, Expr]) -> Expr:
    """A formula with names in place of placeholders."""
    return transform(e, lambda x: names.get(x.key) if isinstance(x, Ref) else None)
