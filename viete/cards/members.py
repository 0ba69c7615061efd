"""Finds the equations that change a value which another defines: ``A^{2,1} = 0`` after ``A^{i,h}``.

An equation is such a change if it has a condition (``for j ≥ 5``), if its left side is some rows
(``x^3_j``, ``logits[-1]``), or if its left side is a member of a family that is defined above. A
derivative is not a change: a backward loop does not reach every value, so a value such as ``∂x^0``
has a separate equation after the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import zip_longest

from viete.errors import Text, VieteError
from viete.notation.cursor import parse_name, top_level
from viete.notation.lexer import tokenize
from viete.notation.tree import Symbol
from viete.rewrite.replacement import words_of

Range = tuple[Fraction | None, Fraction | None]  # the first and the last number


def changes(maths: Iterable[Text], ranges: Mapping[str, Range]) -> list[bool]:
    """For each line, whether it changes a value that an earlier line defines.

    ``ranges`` are the first and the last number of every index letter, where they are known.
    """
    out: list[bool] = []
    before: set[Symbol] = set()
    families: list[Symbol] = []  # those of them that have an index letter
    for math in maths:
        tokens = tokenize(math)
        equals = next(top_level(tokens, "="), None)
        if equals is None:
            out.append(False)
            continue
        behind = {tokens[k].text for k in words_of(tokens, equals)}
        symbol = name_of(math.cut(0, tokens[equals].start), ranges)
        change = "for" in behind or any(t.text == "[" for t in tokens[:equals]) or (
            symbol is not None and symbol not in before
            and any(is_member(symbol, family, ranges) for family in families)
        )  # fmt: skip
        out.append(change)
        if not change and symbol is not None:
            before.add(symbol)
            if any(slot.index for slot in (*symbol.sub, *symbol.sup)):
                families.append(symbol)
    return out


def name_of(left: Text, letters: Collection[str]) -> Symbol | None:
    """The name on a left side; None if it is more than a name."""
    try:
        return parse_name(left, "value", set(letters))
    except VieteError:
        return None


def is_member(symbol: Symbol, family: Symbol, ranges: Mapping[str, Range]) -> bool:
    """Whether a name is a numbered member, or rows of one: x^3, x^3_j, A^{2,1}_{j,0}.

    A number beyond the family's range names a separate value, as x^0 before x^1, ….
    """
    if symbol.base != family.base or len(symbol.sup) != len(family.sup):
        return False
    numbered = False
    for given, own in ((symbol.sub, family.sub), (symbol.sup, family.sup)):
        for one, slot in zip_longest(given, own):
            if one is None:
                return False
            if slot is None:  # a row or an entry
                if len(one.text) > 1 and not one.text.isdigit():
                    return False
            elif slot.index and not one.index:
                first, last = ranges.get(slot.text, (None, None))
                if not one.text.isdigit():
                    return False
                if (first is not None and int(one.text) < first) or (
                    last is not None and int(one.text) > last
                ):
                    return False
                numbered = True
            elif one != slot:
                return False
    return numbered


__all__ = ["changes"]
