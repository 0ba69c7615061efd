"""Where an expansion stops: the nonlinear operation of a term that cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass

from viete.analysis.linearity import ATOM, PAIR, PRODUCTS, UNOPENED
from viete.ask.stream import Stream, key_of
from viete.notation.tree import Apply, Expr

WORDS = {"div": "a quotient", **dict.fromkeys(PRODUCTS, "a product")}


@dataclass(frozen=True)
class Stop:
    """The operation that stopped an expansion: its name, and the part it is applied to.

    ``function`` is softcap, GELU, LN (a norm that is not held), or in words 'a product' or 'a
    quotient', of parts that all depend on the text. ``within`` is an expression of the run, which
    can be expanded instead.
    """

    function: str
    within: str


def stop_of(stream: Stream, e: Expr) -> Apply | None:
    """The first operation that is not linear in a formula, or in the values it is made of.

    Values of the stream are not opened to find it.
    """
    lines, seen, left = stream.lines, set[Expr](), [e]
    while left:
        e = left.pop()
        if e in seen:
            continue
        seen.add(e)
        parts = lines.parts(stream.opened(e) if lines.is_value(e) else e)
        for p in parts:
            if p.kind in (UNOPENED, PAIR) and (found := outermost(stream, p.focus)) is not None:
                return found
        left += [p.focus for p in reversed(parts) if p.kind == ATOM
                 and key_of(p.focus) not in stream.stream]  # fmt: skip
    return None


def outermost(stream: Stream, e: Expr) -> Apply | None:
    """The library function that a part calls, directly or through the card's; else its operation.

    In a product, the first factor that is not linear counts.
    """
    card, lines = stream.card, stream.lines
    while isinstance(e, Apply) and e.op in card.function and not card.library_name(e):
        e = lines.inlined(e)
    if not isinstance(e, Apply):
        return None
    if e.op in PRODUCTS:
        for p in (p for a in e.args for p in lines.parts(a)):
            if p.kind == UNOPENED and (found := outermost(stream, p.focus)) is not None:
                return found
    return e


def function_name(stream: Stream, e: Apply) -> str:
    """The name of an operation."""
    return WORDS.get(e.op) or stream.card.library_name(e) or e.op


def argument(stream: Stream, e: Apply) -> Expr:
    """The first argument of an operation that depends on the text."""
    return next((a for a in e.args if stream.lines.depends(a)), e)


__all__ = ["Stop", "argument", "function_name", "stop_of"]
