"""Notes on a card: masks, residual connections, norms, layers, shared weights, positions.

Each note is a fact of the equations, or says that they have no such thing.
"""

from __future__ import annotations

from viete.document.tree import Block, fact
from viete.graph.sizes import spell
from viete.notation.printer import letters
from viete.notation.tree import Idx, walk
from viete.report.drawing.flow import turns
from viete.report.names import SizedCard, listed


def notes(n: SizedCard) -> list[Block]:
    """All notes of a document, in order."""
    out = [*sight(n), *context(n), *adding(n), *norms(n), *depth(n)]
    return [*out, *sharing(n), *positions(n)]


def sight(n: SizedCard) -> list[Block]:
    """Which positions an equation takes in."""
    past, every = n.traits.masked(True), n.traits.masked(False)

    def said(found: list[tuple[int, list[str]]]) -> str:
        each = [
            f"{n.name(k)} takes in {listed([n.value(v) for v in names])} ({n.equations([k])})"
            for k, names in found
        ]
        return "; ".join(each)

    out = [fact("Causal masking", f"up to its own position only, {said(past)}")] * bool(past)
    if not past:
        out.append(fact("No causal masking", "no equation hides later positions from earlier"))
    if every:
        out.append(fact("Seen from everywhere", f"at positions before and after, {said(every)}"))
    return [*out]


def context(n: SizedCard) -> list[Block]:
    """The greatest lengths."""
    out: list[Block] = []
    g = n.traits.generation()
    for name, limit in n.model.lengths.items():
        most = n.sizes.number(n.size(limit))
        text = f"${spell(name, n.style)}$ is at most {most}"
        if g is not None and name in g.length.names():
            text += f"; of a longer context only the last {most} tokens are seen"
        out.append(fact("Context window", text))
    return out


def adding(n: SizedCard) -> list[Block]:
    """Residual connections, or that there are none."""
    found = n.traits.residuals()
    if not found:
        return [
            fact(
                "No residual connections",
                "no equation adds a value to what was computed from it",
            )
        ]
    said = [
        f"{listed([f'${n.write.e(r)}$' for r in refs])} in {n.equations([k])}" for k, refs in found
    ]
    return [fact("Residual connections", f"added to what was computed from it: {listed(said)}")]


def norms(n: SizedCard) -> list[Block]:
    """Normalization, or that there is none."""
    where: dict[str, list[int]] = {}
    for k in range(len(n.model.equations)):
        for name in n.traits.normalizing(k):
            where.setdefault(name, []).append(k)
    if not where:
        return [fact("No normalization", "nothing is divided by the root of a mean")]
    said = [f"{name} in {n.equations(ks)}".removeprefix(" in ") for name, ks in where.items()]
    return [fact("Normalization", listed(said))]


def depth(n: SizedCard) -> list[Block]:
    """Loops, and what index letters put side by side."""
    out: list[Block] = []
    for loop in n.model.loops:
        inside = [k for k, e in enumerate(n.model.equations) if e.loop == loop]
        often = turns(n.model, loop, n.sizes)
        out.append(fact("Layers", f"{n.equations(inside)}, for ${n.write.loop(loop)}$, {often}"))
    if not n.model.loops:
        out.append(fact("No repeated layers", "there is no loop; every equation is computed once"))
    for i in n.model.indices:
        used = [
            k
            for k, e in enumerate(n.model.equations)
            if any(isinstance(x, Idx) and x.name == i.name for x in walk(e.left))
        ]
        if used:
            out.append(
                fact(
                    "Side by side",
                    f"{n.letter(i.name)}, {n.copies(i.name)} at once, in {n.equations(used)}",
                )
            )
    return out


def sharing(n: SizedCard) -> list[Block]:
    """Parameters in more than one place, or in none."""
    out: list[Block] = []
    for p in n.model.parameters:
        places = n.uses.parameters[p.name]
        loops = [
            e.loop
            for e in (n.model.equations[k] for k in places)
            if e.loop is not None and e.loop.index not in p.symbol.slots
        ]
        name = n.value(p.name)
        if len(places) > 1:
            out.append(fact("Shared weights", f"{name} is used in {n.equations(places)}"))
        elif loops:
            out.append(
                fact(
                    "Shared weights",
                    f"{name} is the same in every turn of ${letters(loops[0].index, n.style)}$",
                )
            )
        elif not places:
            out.append(fact("Unused weights", f"no equation of the forward pass uses {name}"))
    return out or [fact("No shared weights", "every parameter is used in one equation only")]


def positions(n: SizedCard) -> list[Block]:
    """How the card knows where a token stands."""
    out: list[Block] = []
    for name, kinds in n.traits.embeddings.items():
        if "position" in kinds:
            places = n.equations(n.uses.parameters[name])
            out.append(fact("Learned positions", f"{n.value(name)}, in {places}"))
    where: dict[str, list[int]] = {}
    for k in range(len(n.model.equations)):
        for function in n.traits.positional(k):
            where.setdefault(function, []).append(k)
    for function, ks in where.items():
        meaning = n.model.function[function].meaning if function else ""
        said = f"{function} in {n.equations(ks)}" if function else n.equations(ks)
        text = f"{said}: {meaning.rstrip('.')}" if meaning else said
        out.append(fact("Computed positions", text))
    if not out:
        out.append(
            fact(
                "No positions",
                "nothing is learned for a position or computed from its number, masks aside",
            )
        )
    return out
