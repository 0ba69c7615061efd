"""What a model does, in a few sentences before the first step, from the roles of its equations."""

from __future__ import annotations

from collections.abc import Sequence

from viete.analysis import roles as role
from viete.document.tree import listed
from viete.evaluate.labelled import COL
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step as Turn
from viete.notation.printer import show
from viete.notation.tree import Ref
from viete.report.lesson.reasons import Reasons


def overview(run: Run, turns: Sequence[Turn], words: Reasons) -> list[str]:
    """The way from tokens to scores."""
    found = {r: t for t in reversed(turns) for r in words.roles(t.equation)}
    out = []
    if embed := found.get(role.EMBED):
        width = run.store[embed.makes].size(COL)
        out.append(f"Each token becomes a vector, a row of {width} numbers. So there is a row for "
                   "each position of the text; positions are counted from 0.")  # fmt: skip
    parts = ["attention lets the positions read from each other"] * (role.MIX in found)
    parts += ["the MLP works on each position by itself"] * (role.MLP in found)
    blocks = len({tuple(t.loops.items()) for t in turns if t.loops})
    often = f", {blocks} times over" if blocks > 1 else ""
    out += [f"Then {listed(parts)}{often}."] * bool(parts)
    if role.UNEMBED in found:
        out.append("At the end each row becomes scores: one for every token of the vocabulary. The "
                   "greatest score is the prediction at that position.")  # fmt: skip
    if run.program.model.parameters and out:
        out.append("Training finds the numbers in the tables and matrices; here they are given.")
    return [" ".join(out)] * bool(out)


def letters(run: Run, turns: Sequence[Turn], style: str) -> list[str]:
    """What the letters in shapes stand for, and how large they are here."""
    types = run.program.shapes.types
    used = {n for t in turns for size in types[t.equation.name].shape for n in size.names()}
    told = [
        f"${show(Ref(d.symbol), style)} = {run.sizes[d.name]}$ ({d.meaning})"
        for d in run.program.model.dims if d.name in used and d.name in run.sizes and d.meaning
    ]  # fmt: skip
    return [f"Shapes are written with letters: {listed(told)}."] * bool(told)


__all__ = ["letters", "overview"]
