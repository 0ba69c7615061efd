"""Checks that a run fits into memory: its bytes are estimated from shapes before it begins.

Without this check, the system would kill a run that needs too much memory after minutes, without a
message.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from viete.analysis.cost import Costs, costs
from viete.analysis.cost_page import rounded
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.notation.tree import Num

# Bytes of a fraction with its place in an array (measured), and of a value of an exact run with
# its derivation.
WEIGHT, VALUE = 80, 400
MOST = 1 << 56  # numbers: their bytes and gradients can still be counted in 64 bits
LONG = 200_000  # exact operations, some seconds if not all on fractions


def available() -> int | None:
    """The bytes of free memory, or None if the system does not report them."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def check_room(needed: int, what: str, remedy: str) -> None:
    """Raise VieteError if ``what`` needs more memory than is free; ``remedy`` is the advice."""
    free = available()
    if free is not None and needed > free:
        raise VieteError(
            f"{what} needs about {gigabytes(needed)} of memory, but this machine has "
            f"{gigabytes(free)} free; {remedy}"
        )


def gigabytes(size: int) -> str:
    """``5.7 GB``; ``11 MB`` below a tenth of a gigabyte."""
    if 10**6 <= size < 10**8:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e9:,.1f} GB" if 10**8 <= size < 10**15 else f"{rounded(size)} bytes"


def counted(card: CardData, positions: int, batch: int = 1) -> Costs | None:
    """The costs of a run on texts of ``positions`` positions; None if they cannot be computed."""
    try:
        return costs(card, dict.fromkeys(card.lengths, positions), batch)
    except VieteError:  # the run itself will say what is wrong
        return None


def check_countable(card: CardData, positions: int) -> None:
    """Raise VieteError for sizes that no array can have, even if only planned."""
    found = counted(card, positions)
    for quantity in () if found is None else (found.weights, found.activations):
        if quantity.number is not None and quantity.number >= MOST:
            raise VieteError(
                f"{card.title} has more than 2^56 numbers with these sizes, and no array can hold "
                f"that many; choose smaller dimensions with --set"
            )


def check_exact(card: CardData, positions: int, batch: int = 1, trained: bool = False) -> str:
    """Raise VieteError for an exact run that does not fit into memory; describe a long one.

    The sentence is empty for a run of some seconds. The dimensions of a ``trained`` model are those
    of its weights.
    """
    found = counted(card, positions, batch)
    if found is None or found.weights.number is None or found.activations.number is None:
        return ""
    needed = WEIGHT * found.weights.number + VALUE * found.activations.number
    remedy = "choose smaller dimensions with --set, or run without exact numbers"
    check_room(needed, f"an exact run of {card.title}", remedy)
    operations = found.whole.total.number or 0
    if operations < LONG:
        return ""
    less = "" if trained else largest(card)
    return (
        f"{operations:,} exact operations with {found.weights.number:,} weights: this takes about "
        f"{gigabytes(needed)} of memory and may take minutes; a shorter text takes less{less}"
    )


def largest(card: CardData) -> str:
    """``, and so do smaller dimensions: the largest is d_f = 11008 (--set d_f=…)``."""
    numbers = [(d.value.value, d.name) for d in card.dims if isinstance(d.value, Num)]
    value, name = max(numbers, default=(0, ""))
    which = f": the largest is {name} = {value} (--set {name}=…)" if name else " (--set)"
    return f", and so do smaller dimensions{which}"


__all__ = ["available", "check_countable", "check_exact", "check_room", "counted", "rounded"]
