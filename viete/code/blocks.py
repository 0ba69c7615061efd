"""Values that each block has separately: dictionaries by block number, or lists for JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viete.code.identifiers import plain_letter
from viete.graph.card import Input, Parameter

if TYPE_CHECKING:
    from viete.code.body import Body


def block_range(body: Body, letter: str) -> str:
    """``range(1, N + 1)`` for the blocks of a letter."""
    low = body.lowering
    loop = {x.index: x for x in body.model.loops if not x.down}[letter]
    return f"range({low.integer(loop.lower, low.env)}, {low.above(loop.upper, low.env)})"


def first_block(body: Body, letter: str) -> str:
    """The number of a letter's first block."""
    return block_range(body, letter).removeprefix("range(").split(",")[0]


def shifted(place: str, first: str) -> str:
    """A place in a list of blocks, from the block's number and that of the first."""
    if place.isdigit() and first.isdigit():
        return str(int(place) - int(first))
    return place if first == "0" else f"{place} - {first}"


def per_block(body: Body, item: Input | Parameter, text: str) -> str:
    """``{i: … for i in range(1, N + 1)}`` for a value that each block has separately."""
    letters = body.model.blocks_of(item.symbol)
    if not letters:
        return text
    if body.target.lists:
        for x in reversed(letters):
            text = f"[{text} for {plain_letter(x)} in {block_range(body, x)}]"
        return text
    keys = ", ".join(map(plain_letter, letters))
    loops = " ".join(f"for {plain_letter(x)} in {block_range(body, x)}" for x in letters)
    return f"{{{f'({keys})' if len(letters) > 1 else keys}: {text} {loops}}}"
