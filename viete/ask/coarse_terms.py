"""The next step of an expansion: the coarsest split of a formula that gives several terms."""

from __future__ import annotations

from collections.abc import Collection

from viete.analysis.linearity import UNOPENED
from viete.ask.expansion import Expansion
from viete.ask.expansion_options import Options
from viete.ask.explaining import LADDER
from viete.ask.stopping import argument, function_name, stop_of
from viete.evaluate.run import Run
from viete.notation.tree import Expr


def next_expansion(
    run: Run, e: Expr, lengths: Collection[str], top: int | None = None
) -> Expansion | None:
    """The coarsest split of a formula into several terms, from blocks to neurons; else None.

    A head's source is split as the stream there, which has blocks again.
    """
    for word in ("block", *LADDER):
        found = Expansion(run, e, Options((word,), top), frozenset(lengths))
        if len(found.families) > 1 or any(f.letters for f in found.families):
            return found
    return None


def opening(
    run: Run, e: Expr, lengths: Collection[str], top: int | None = None
) -> tuple[str, Expansion] | None:
    """A formula in several terms; if it is not linear, the number that its operation is applied to.

    The word names the operation, such as GELU; it is empty for the formula itself. None for a
    formula without several terms.
    """
    found = next_expansion(run, e, lengths, top)
    if found is not None:
        return "", found
    alone = Expansion(run, e, Options(), frozenset(lengths))
    at = stop_of(alone.expander, alone.families[0].focus)
    if alone.families[0].kind != UNOPENED or at is None:
        return None
    inside = argument(alone.expander, at)
    if alone.expander.lines.rank(inside):
        return None
    inner = next_expansion(run, inside, lengths, top)
    return None if inner is None else (function_name(alone.expander, at), inner)


__all__ = ["next_expansion", "opening"]
