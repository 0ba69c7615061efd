"""Memos that several threads use at once: what is missing is made, and read in one step.

To check for a key and then read it fails where another thread empties the memo in between.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

Found = TypeVar("Found")


def remembered(memo: MutableMapping[Any, Found], key: Any, make: Callable[[], Found]) -> Found:
    """The value of a key, made if missing."""
    found = memo.get(key)
    if found is None:
        found = memo[key] = make()
    return found


def recent(
    memo: MutableMapping[Any, Found], key: Any, make: Callable[[], Found], most: int
) -> Found:
    """The value of a key, made if missing; the ``most`` last used stay in the memo."""
    try:
        found = memo[key]  # which may be None
    except KeyError:
        found = make()
    memo.pop(key, None)
    memo[key] = found
    for old in list(memo)[:-most]:
        memo.pop(old, None)
    return found


__all__ = ["recent", "remembered"]
