"""Hand-written functions that need no library, so that every program has the same; see `idioms`."""

from __future__ import annotations

from typing import Any

Array = Any


def within(start: int, stop: int, count: int) -> Array:
    """A slice of an axis, refused if it asks for more than there is."""
    if not 0 <= start <= stop <= count:
        raise ValueError(f"{start}:{stop} is asked for of an axis of {count}")
    return slice(start, stop)
