"""The parameters of a card, counted with the arithmetic."""

from __future__ import annotations

from itertools import groupby

from viete.analysis.cost import ParameterCost
from viete.document.tree import Block, paragraph, table
from viete.notation.printer import letters
from viete.report.names import SizedCard


def count(n: SizedCard) -> list[Block]:
    """The parameters, grouped by the equation that uses them first, with the arithmetic."""
    rows: list[list[str]] = []
    for part, group in groupby(arranged(n), key=lambda row: row[0]):
        found, total = list(group), 0
        for _, bundles in found:
            one = sum(r.each.number or 0 for r in bundles[0])
            many = sum(r.all.number or 0 for b in bundles for r in b)
            total += many
            slots = bundles[0][0].parameter.symbol.slots
            times = [str(len(bundles))] * (len(bundles) > 1)
            times += [f"{n.copies(s)} (${letters(s, n.style)}$)" for s in slots]
            shapes = [[n.size(e) for e in r.parameter.shape] for r in bundles[0]]
            sums = " + ".join(n.product(s)[1] or "1" for s in shapes)
            text = f"{sums} = {one:,}" if sums != str(one) else sums
            names = ", ".join(n.value(r.parameter.name) for b in bundles for r in b)
            rows.append(
                [
                    titled(n, part) if found[0][1] is bundles else "",
                    names,
                    text + " each" * (len(bundles) > 1),
                    f"× {' × '.join(times)}" if times else "",
                    f"{many:,}",
                ]
            )
        if len(found) > 1:
            rows.append(["", f"all of {titled(n, part)}", "", "", f"{total:,}"])
    all_of = n.costs.parameters.total
    total = all_of.number or 0
    rows.append(["**Total**", "", "", "", f"**{total:,}**"])
    header = ["used first in", "parameters", "of one", "how many", "numbers"]
    short = next(
        (
            f" (about {total / 10**p:.2f} {unit})"
            for p, unit in ((9, "billion"), (6, "million"))
            if total >= 10**p
        ),
        "",
    )
    symbols = all_of.symbolic.show(n.style)
    said = f"In all {total:,} numbers{short}"
    if all_of.symbolic.names():
        said += f", ${symbols}$"
    return [table(header, rows), paragraph(f"{said}.")]


def titled(n: SizedCard, part: int | None) -> str:
    """A part by its title, or by its equation."""
    if part is None:
        return "no equation"
    first = n.model.equations[n.uses.parts[part][0]]
    return first.part or f"equation {n.uses.parts[part][0] + 1}"


def arranged(n: SizedCard) -> list[tuple[int | None, list[list[ParameterCost]]]]:
    """Part and bundles: what one equation uses first, and bundles alike, in one row."""
    home = {k: at for at, part in enumerate(n.uses.parts) for k in part}

    def first(r: ParameterCost) -> int:
        return min(n.uses.parameters[r.parameter.name], default=len(n.model.equations))

    ordered = sorted(n.costs.parameters.rows, key=first)
    bundles = [
        list(g) for _, g in groupby(ordered, key=lambda r: (first(r), r.parameter.symbol.slots))
    ]

    def alike(b: list[ParameterCost]) -> object:
        shapes = tuple(r.parameter.shape for r in b)
        return home.get(first(b[0])), shapes, b[0].parameter.symbol.slots

    return [
        (home.get(first(g[0][0])), g) for g in (list(x) for _, x in groupby(bundles, key=alike))
    ]
