"""What a model does, in a few sentences before the first step, from the roles of its equations."""

from __future__ import annotations

from collections.abc import Sequence

from viete.analysis import roles as role
from viete.analysis.traits import predicts_next
from viete.document.tree import listed
from viete.evaluate.labelled import COL
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step as Turn
from viete.graph.card import Loop
from viete.notation.printer import show
from viete.notation.tree import Ref
from viete.report.lesson.reasons import Reasons


def overview(run: Run, turns: Sequence[Turn], words: Reasons) -> list[str]:
    """The path from tokens to scores."""
    found = {r: t for t in reversed(turns) for r in words.roles(t.equation)}
    out = []
    next_one = predicts_next(run.program.model)
    if role.UNEMBED in found:
        out.append(
            "A language model predicts the next token of a text."
            if next_one
            else "This model scores every token of the vocabulary at each position of a text."
        )
    if embed := found.get(role.EMBED):
        width = run.store[embed.makes].size(COL)
        out.append(f"This one first turns each token into a vector of {width} numbers, so that it "
                   "can calculate. Each position of the text, counted from 0, has a "
                   "vector.")  # fmt: skip
    parts = ["attention lets each position read from others"] * (role.MIX in found)
    parts += ["the MLP transforms each position on its own"] * (role.MLP in found)
    stacks: dict[Loop | None, set[tuple[int, ...]]] = {}  # the blocks of each loop
    for t in turns:
        if t.loops:
            stacks.setdefault(t.equation.loop, set()).add(tuple(t.loops.values()))
    counts = [len(blocks) for blocks in stacks.values()]
    often = (
        f". This happens in each of the {counts[0]} blocks" if max(counts, default=1) > 1 else ""
    )
    if len(counts) > 1:
        sizes = listed(map(str, counts))
        often = f". This happens in each block of {len(counts)} stacks, of {sizes} blocks"
    out += [f"Then {listed(parts)}{often}."] * bool(parts)
    if role.UNEMBED in found:
        out.append("At the end each position has a score for every token of the vocabulary, and "
                   "the token with the greatest score is predicted"
                   f"{' to come next' * next_one}.")  # fmt: skip
    if run.program.model.parameters and out:
        out.append("The numbers in its tables and matrices are its weights. In a real model they "
                   "are learned from text.")  # fmt: skip
    return [" ".join(out)] * bool(out)


def letters(run: Run, turns: Sequence[Turn], style: str) -> list[str]:
    """The sizes of the letters in shapes."""
    types = run.program.shapes.types
    used = {n for t in turns for size in types[t.equation.name].shape for n in size.names()}
    told = [
        f"${show(Ref(d.symbol), style)} = {run.sizes[d.name]}$ ({d.meaning})"
        for d in run.program.model.dims if d.name in used and d.name in run.sizes and d.meaning
    ]  # fmt: skip
    return [f"Sizes: {listed(told)}."] * bool(told)


__all__ = ["letters", "overview"]
