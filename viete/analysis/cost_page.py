"""Costs as a document: what ``viete show --costs`` prints, and what a notebook shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viete.document.tree import Block, TextTable, heading, paragraph, table
from viete.notation.printer import show, show_symbol

if TYPE_CHECKING:
    from viete.analysis.cost import Costs, Operations, Quantity


class CostPage:
    """Writes one model's costs in one style."""

    def __init__(self, found: Costs, style: str) -> None:
        self.costs, self.style = found, style

    def symbolic(self, q: Quantity) -> str:
        return f"${q.symbolic.show(self.style)}$"

    def blocks(self) -> list[Block]:
        c = self.costs
        given = ", ".join(f"{name} = {n:,}" for name, n in c.lengths.items())
        out: list[Block] = [heading(1, f"{c.model.title}: costs")]
        out.append(paragraph(
            f"For {c.batch} sequence{'s' * (c.batch > 1)}" + (f" with {given}" if given else "") +
            ". A matrix product of m × k and k × n counts as 2 m n k operations, every other "
            "operation as 1 for each entry, and causal attention as the full n × n square."
        ))  # fmt: skip
        out += [heading(2, "Parameters"), self.parameters()]
        out += [heading(2, "Operations"), self.operations(), self.rates()]
        if c.whole != c.forward:
            out.append(paragraph(
                "A run computes each expert only for the positions that keep it; the operations "
                "are those. Of the parameters, one position uses "
                f"{number(c.parameters.active) or self.symbolic(c.parameters.active)}."
            ))  # fmt: skip
        return [*out, heading(2, "Bytes"), self.bytes(), *self.cache()]

    def parameters(self) -> TextTable:
        p = self.costs.parameters
        rows = [
            [f"${show_symbol(r.parameter.symbol, self.style)}$", self.symbolic(r.all),
             number(r.all), ", ".join(sorted(r.embeds)), r.parameter.meaning]
            for r in p.rows
        ]  # fmt: skip
        rows.append(["**total**", self.symbolic(p.total), number(p.total), "", ""])
        rows.append(["**without embeddings**", self.symbolic(p.without_embeddings),
                     number(p.without_embeddings), "", ""])  # fmt: skip
        return table(["symbol", "count", "number", "embedding", "meaning"], rows)

    def operations(self) -> TextTable:
        rows = []
        for e in self.costs.equations:
            name = f"{e.number}. ${show(e.equation.left, self.style)}$"
            rows.append([name, self.symbolic(e.forward.products), *self.work(e.forward),
                         number(e.backward.total)])  # fmt: skip
        c = self.costs
        rows.append(["**total**", self.symbolic(c.forward.products), *self.work(c.forward),
                     number(c.backward.total)])  # fmt: skip
        header = ["equation", "matrix products", "number", "other operations", "backward pass"]
        return table(header, rows)

    def work(self, w: Operations) -> list[str]:
        return [number(w.products), number(w.operations)]

    def rates(self) -> TextTable:
        c = self.costs
        rows = [
            [name, *self.work(w), number(w.total)]
            for name, w in (
                ("forward, each token", c.forward_per_token),
                ("backward, each token", c.backward_per_token),
                ("forward", c.forward), ("backward", c.backward), ("training step", c.step),
                ("forward, with all experts", c.whole),
            )[: None if c.whole != c.forward else -1]
        ]  # fmt: skip
        return table(["", "matrix products", "other operations", "all"], rows)

    def bytes(self) -> TextTable:
        c = self.costs
        amounts = [("weights", c.weights), ("activations, all kept", c.activations)]
        if c.cache.rows:
            amounts += [
                ("KV cache, each token", c.cache.per_token),
                ("KV cache, full", c.cache.full),
            ]
        rows = [
            [what, number(q), *(size(q.bytes(d).number) for d in c.dtypes)] for what, q in amounts
        ]
        return table(["", "entries", *c.dtypes], rows)

    def cache(self) -> list[Block]:
        c = self.costs.cache
        if not c.rows:
            return [paragraph(f"There is no KV cache: {c.why}.")]
        names = ", ".join(f"${show(r.left, self.style)}$" for r in c.rows)
        said = f"The KV cache keeps what later positions read: {names}."
        if c.least != c.per_token:
            less = ", ".join(f"${show(x, self.style)}$" for x in c.source)
            said += (f" Kept as {less}, of which these can be made again, it has "
                     f"{number(c.least)} entries for each token.")  # fmt: skip
        return [paragraph(said)]


def number(q: Quantity) -> str:
    """A number with its thousands separated; empty where a dimension has no value."""
    return "" if q.number is None else f"{q.number:,}"


def size(n: int | None) -> str:
    """A number of bytes, in the unit that gives three or four digits."""
    if n is None:
        return ""
    if n >= 2**80:
        return f"{rounded(n)} B"
    value, unit = float(n), 0
    while value >= 1024 and unit < 5:
        value, unit = value / 1024, unit + 1
    return f"{n} B" if not unit else f"{value:,.1f} {('KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit - 1]}"


def rounded(n: int) -> str:
    """A count to three digits, however large: ``1.24e+08``, ``10^200``."""
    return f"{n:.3g}" if n < 10**300 else f"10^{n.bit_length() * 3 // 10}"
