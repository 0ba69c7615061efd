"""Notes on a card: masks, residual connections, norms, layers, shared weights, positions.

Each note is a fact of the equations, or says that they lack the feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from viete.document.tree import Block, fact, listed
from viete.graph.sizes import spell
from viete.notation.printer import letters
from viete.notation.tree import Idx, walk
from viete.report.drawing.sizes import turns
from viete.report.names import SizedCard


def notes(n: SizedCard) -> list[Block]:
    """All notes of a document, in order."""
    out = [*sight(n), *context(n), *adding(n), *norms(n), *depth(n)]
    return [*out, *sharing(n), *positions(n)]


def by_name(n: SizedCard, names: Callable[[int], Iterable[str]]) -> dict[str, list[int]]:
    """The equations for each of the names that ``names`` gives them."""
    found: dict[str, list[int]] = {}
    for k in range(len(n.model.equations)):
        for name in names(k):
            found.setdefault(name, []).append(k)
    return found


def sight(n: SizedCard) -> Iterator[Block]:
    """The positions that an equation reads."""

    def found(past: bool) -> str:
        return "; ".join(
            f"{n.name(k)} reads {listed([n.value(v) for v in names])} ({n.equations([k])})"
            for k, names in n.traits.masked(past)
        )

    if past := found(True):
        yield fact(
            "Causal masking", f"each position sees itself and earlier positions only: {past}"
        )
    else:
        yield fact("No causal masking", "no equation hides later positions from earlier ones")
    if every := found(False):
        yield fact(
            "Seen from everywhere", f"each position sees the positions before and after it: {every}"
        )


def context(n: SizedCard) -> Iterator[Block]:
    """The greatest lengths."""
    g = n.traits.generation()
    for name, limit in n.model.lengths.items():
        most = n.sizes.number(n.size(limit))
        text = f"${spell(name, n.style)}$ is at most {most}"
        if g is not None and name in g.length.names():
            text += f"; of a longer context the model sees only the last {most} tokens"
        yield fact("Context window", text)


def adding(n: SizedCard) -> Iterator[Block]:
    """Residual connections, or a note that the card has none."""
    if found := n.traits.residuals():
        sums = [f"{listed([f'${n.write.e(r)}$' for r in refs])} in {n.equations([k])}"
                for k, refs in found]  # fmt: skip
        yield fact(
            "Residual connections", f"a value is added to what was computed from it: {listed(sums)}"
        )
    else:
        lacking = "no equation adds a value to what was computed from it"
        yield fact("No residual connections", lacking)


def norms(n: SizedCard) -> Iterator[Block]:
    """Normalization, or a note that the card has none."""
    if found := by_name(n, n.traits.normalizing):
        each = [f"{name} in {n.equations(ks)}".removeprefix(" in ") for name, ks in found.items()]
        yield fact("Normalization", listed(each))
    else:
        yield fact("No normalization", "no equation divides by the root of a mean")


def depth(n: SizedCard) -> Iterator[Block]:
    """Loops, and the values that index letters put side by side."""
    equations = n.model.equations
    for loop in n.model.loops:
        inside = n.equations(k for k, e in enumerate(equations) if e.loop == loop)
        often = turns(n.model, loop, n.sizes)
        yield fact("Layers", f"{inside}, for ${n.write.loop(loop)}$, {often}")
    if not n.model.loops:
        yield fact("No repeated layers", "there is no loop, so every equation is computed once")
    for i in n.model.indices:
        if used := [k for k, e in enumerate(equations) if Idx(i.name) in walk(e.left)]:
            text = (
                f"{n.copies(i.name)} values of {n.letter(i.name)} at once, in {n.equations(used)}"
            )
            yield fact("Side by side", text)


def sharing(n: SizedCard) -> list[Block]:
    """Parameters that are used more than once, or never."""
    out: list[Block] = []
    for p in n.model.parameters:
        places, name = n.uses.parameters[p.name], n.value(p.name)
        inside = (n.model.equations[k].loop for k in places)
        loops = [x for x in inside if x is not None and x.index not in p.symbol.slots]
        if len(places) > 1:
            out.append(fact("Shared weights", f"{name} is used in {n.equations(places)}"))
        elif loops:
            letter = letters(loops[0].index, n.style)
            out.append(fact("Shared weights", f"{name} is the same for every ${letter}$"))
        elif not places:
            out.append(fact("Unused weights", f"no equation of the forward pass uses {name}"))
    return out or [fact("No shared weights", "every parameter is used in one equation only")]


def positions(n: SizedCard) -> list[Block]:
    """How the card represents the position of a token."""
    out: list[Block] = []
    for name, kinds in n.traits.embeddings.items():
        if "position" in kinds:
            places = n.equations(n.uses.parameters[name])
            out.append(fact("Learned positions", f"{n.value(name)}, in {places}"))
    for function, ks in by_name(n, n.traits.positional).items():
        text = f"{function} in {n.equations(ks)}" if function else n.equations(ks)
        if meaning := n.model.function[function].meaning if function else "":
            text += f": {meaning.rstrip('.')}"
        out.append(fact("Computed positions", text))
    lacking = "apart from masks, nothing is learned for a position or computed from its number"
    return out or [fact("No positions", lacking)]
