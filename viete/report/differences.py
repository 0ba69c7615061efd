"""The equations in which two cards differ: what ``viete show --against`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from viete.cards.writer import CardWriter
from viete.document.tree import Block, heading, item, paragraph
from viete.graph.card import CardData, Equation, Loop


def difference_blocks(old: CardData, new: CardData, style: str = "unicode") -> list[Block]:
    """The equations, parameters and derived names of ``new`` that ``old`` lacks, and the reverse.

    Equations are in the order of the cards; one that replaces another follows it.
    """
    before, after = CardWriter(old, style), CardWriter(new, style)
    title = f"{new.title}, against {old.title}" if new.title != old.title else new.title
    out: list[Block] = [heading(1, title)]
    for what, one, other in (
        ("Parameters", parameters(before), parameters(after)),
        ("Equations", equations(before, old.equations), equations(after, new.equations)),
        ("Derived", equations(before, old.derived), equations(after, new.derived)),
    ):
        if lines := differences(one, other):
            out += [heading(2, what), *(item(f"**{sign}** {said}") for sign, said in lines)]
    if len(out) == 1:
        out.append(paragraph("Both have the same parameters, equations and derived names."))
    elif new.title != old.title:
        out.insert(1, paragraph(f"**−** is only in {old.title}, **+** only in {new.title}."))
    return out


def parameters(writer: CardWriter) -> list[str]:
    """A card's parameters with their shapes."""
    return [
        writer.math(f"{writer.symbol(p.symbol)}: "
                    f"{writer.sign(' x ', ' × ', ' × ').join(map(writer.e, p.shape)) or 1}")
        for p in writer.model.parameters
    ]  # fmt: skip


def equations(writer: CardWriter, of: Sequence[Equation]) -> list[str]:
    """Equations, each with the blocks that it holds for."""

    def turns(loop: Loop | None) -> str:
        if loop is None:
            return ""
        return ", " + writer.math(
            f"{loop.index} = {writer.e(loop.lower)}, …, {writer.e(loop.upper)}"
        )

    return [writer.math(writer.equation(e.left, e.right)) + turns(e.loop) for e in of]


def differences(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """The items only in the first (−) and only in the second (+)."""
    out: list[tuple[str, str]] = []
    for op, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op != "equal":
            out += [("−", x) for x in old[a:b]] + [("+", x) for x in new[c:d]]
    return out


__all__ = ["difference_blocks"]
