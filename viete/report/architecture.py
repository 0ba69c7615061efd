"""The architecture document of a card: its data flow, components, shapes, parameters and traits.

Everything is derived from the equations for a batch and a length, so it works for any card. This
module knows no names and no kind of model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from math import prod

from viete.analysis.cost import ParameterCost
from viete.analysis.def_use import called, losses
from viete.analysis.traits import Generation
from viete.document.columns import table_width
from viete.document.rendering import STYLES, check_format, render
from viete.document.tree import (
    Block,
    CodeBlock,
    TextTable,
    fact,
    heading,
    item,
    listed,
    paragraph,
    table,
)
from viete.graph.card import CardData
from viete.graph.sizes import Size, spell
from viete.notation.printer import letters, show, show_equation, show_symbol
from viete.notation.tree import Apply, Bind, Expr, Ref, num, walk
from viete.printable import display_width
from viete.report.drawing import Arrow, Box, Diagram, to_svg, to_text
from viete.report.drawing.flow import flow
from viete.report.drawing.sizes import turns
from viete.report.given_values import vocabulary, with_matrices
from viete.report.names import SizedCard
from viete.report.notes import notes

WIDTH = 150  # columns of the drawing in a file


def write_architecture(
    card: CardData,
    form: str,
    batch: int = 64,
    length: int | Mapping[str, int] | None = None,
    picture: str | None = None,
) -> str:
    """The document of `architecture` in one of `PAGES`.

    ``picture`` is the name of an image of the data flow, which Markdown shows above its drawing; a
    page of HTML has the drawing itself as SVG.
    """
    check_format("an architecture document", form)
    drawn = "plain" if form == "latex" else "unicode"
    width = min(WIDTH, table_width()) if form == "text" else WIDTH
    document = _Document(card, batch, lengths_given(card, length), STYLES[form], drawn, width)
    document.pictured = form == "html"
    blocks = document.blocks()
    for block in blocks:
        if isinstance(block, CodeBlock):
            block.file = picture or ""
    return render(blocks, form)


def data_flow(
    card: CardData, batch: int = 64, length: int | Mapping[str, int] | None = None
) -> str:  # fmt: skip
    """The drawing of the document as an SVG. Raises as `architecture`."""
    return to_svg(_Document(card, batch, lengths_given(card, length), "latex", "unicode").drawing())


def architecture(
    card: CardData,
    batch: int = 64,
    length: int | Mapping[str, int] | None = None,
    style: str = "latex",
    drawn: str = "unicode",
    width: int = WIDTH,
) -> list[Block]:
    """The architecture document for ``batch`` texts of ``length`` (the greatest, if none is given).

    ``length`` is a number for every length of the card, or a number for each by name. Formulas are
    in ``style`` between dollar signs, those of the drawing in ``drawn``. The drawing has at most
    ``width`` columns: where it needs more, the steps after the scores are left out of it, and at
    last a sentence says so in its place. Raises VieteError for a
    dimension that has no value and a batch or length that does not fit.
    """
    return _Document(card, batch, lengths_given(card, length), style, drawn, width).blocks()


def lengths_given(card: CardData, length: int | Mapping[str, int] | None) -> dict[str, int]:
    """A number for each length of a card, from one number for all or from some by name."""
    if length is not None and not isinstance(length, Mapping):
        length = dict.fromkeys(card.lengths, length)
    return dict(length or {})


class _Document(SizedCard):
    pictured = True  # whether the drawing is an SVG too

    def __init__(
        self, card: CardData, batch: int, lengths: dict[str, int], style: str, drawn: str,
        width: int = WIDTH,
    ) -> None:  # fmt: skip
        super().__init__(card, batch, lengths, style)
        self.drawn, self.width = drawn, width

    def blocks(self) -> list[Block]:
        model = self.model
        out: list[Block] = [heading(1, f"{model.title}: architecture")]
        out += map(paragraph, model.about)
        lengths = [f"${spell(n, self.style)}$ = {self.sizes.values[n]}" for n in model.lengths]
        numbers = listed([f"${self.batch_letter}$ = {self.batch} (batch)", *lengths])
        out += [paragraph(f"The numbers are for {numbers}. Every line follows from the equations.")]
        out += vocabulary(model)
        if model.notation:
            out += [heading(2, "Notation"), *map(self.write.glossary, model.notation)]
        out += [heading(2, "Data flow")]
        out += [self.data_flow()]
        out += [heading(2, "Key components"), *self.components()]
        out += [heading(2, "Example with real numbers"), self.dimensions()]
        out += [heading(3, "Forward pass trace"), self.trace(), *self.losses()]
        if found := self.traits.generation():
            out += [heading(2, "Generation process"), *self.generation(found)]
        out += [heading(2, "Parameter count"), *count(self)]
        if any(p.value for p in model.parameters):
            out += [heading(2, "Weights"), with_matrices(self.write)]
        if functions := self.functions():
            out += [heading(2, "Functions"), *functions]
        return [*out, heading(2, "Notes"), *notes(self)]

    def data_flow(self) -> Block:
        """The drawing, or in a terminal that is too narrow a sentence on how to see it."""
        for after in (True, False):
            text = to_text(self.drawing(self.drawn, after), self.width)
            needed = max(map(display_width, text.split("\n")))
            if needed <= self.width or self.width == WIDTH:
                return CodeBlock(text, picture=to_svg(self.drawing()) if self.pictured else "")
        return paragraph(f"The drawing needs {needed} columns, and this terminal has {self.width}: "
                         "see it in a file, with -o page.html.")  # fmt: skip

    def drawing(self, style: str = "unicode", after: bool = True) -> Diagram:
        """The data flow, with the steps ``after`` the scores in training and in writing."""
        drawn = flow(self.model, "parts", self.lengths, self.batch, style)
        found = self.traits.generation() if after else None
        if found is None:
            return drawn
        scores = next(b for b in drawn.boxes if found.scores + 1 in b.numbers)
        name = show(self.model.equations[found.scores].left, style)
        ends = [("Generation", self.next_token(found, name, style))]
        if not any(losses(self.model, e.right) for e in self.model.equations):
            tokens = show_symbol(found.tokens.symbol, style)
            text = f"cross-entropy of {name} and the tokens {tokens}, one further"
            ends.insert(0, ("Training", [text]))
        boxes = [Box(title.lower(), title, tuple(lines), "output") for title, lines in ends]
        said = next((a.label for a in drawn.arrows if a.source == scores.id and not a.back), "")
        arrows = [Arrow(scores.id, b.id, said, keys=scores.keys[-1:]) for b in boxes]
        return replace(drawn, boxes=(*drawn.boxes, *boxes), arrows=(*drawn.arrows, *arrows))

    def next_token(self, found: Generation, scores: str, style: str) -> list[str]:
        """How the next token is made from the last row of the scores."""
        size, number = found.vocabulary.show(style), self.sizes.text(found.vocabulary)
        last = f"last row of {scores}: (1, {size}) = (1, {number})"
        sign = "->" if style == "plain" else "→"
        how = [] if found.probabilities else [f"temperature {sign} top-k {sign} softmax"]
        return [last, *how, "draw the next token, append it, repeat"]

    # -- components --------------------------------------------------------------------------------

    def components(self) -> list[Block]:
        out: list[Block] = []
        for number, part in enumerate(self.uses.parts, 1):
            first = self.model.equations[part[0]]
            out.append(heading(3, f"{number}. {first.part or self.called(part[0])}"))
            out += self.component(part)
        return out

    def component(self, part: list[int]) -> list[Block]:
        out: list[Block] = []
        loop = self.model.equations[part[0]].loop
        if loop is not None:
            often = turns(self.model, loop, self.sizes)
            out.append(fact("Repeated", f"for ${self.write.loop(loop)}$, {often}"))
        out.append(fact("Input", listed(self.incoming(part)) or "parameters only"))
        for alike in self.side_by_side(part):
            equations = [self.model.equations[k] for k in alike]
            shown = [f"${show_equation(e.left, e.right, self.style)}$" for e in equations]
            of, k = " of" if len(alike) == 1 else ", each of", alike[0]
            # An item is a formula and its meaning where "$: " stands between them.
            out.append(item(f"{listed(shown)}{of} shape {self.shape(k)}{self.each(k)}"))
            out += [item(line) for line in (*self.maps(alike), *self.joins(k))]
            for e in equations:
                if e.meaning and e.part:
                    said = f"${self.write.e(e.left)}$: {e.meaning}" if len(alike) > 1 else e.meaning
                    out.append(fact("Note", said))
        leaving = [k for k in part if self.uses.is_output(k) or self.uses.readers[k] - set(part)]
        out.append(fact("Output", listed([f"{self.name(k)}, {self.shape(k)}" for k in leaving])))
        if own := [
            p
            for p in self.costs.parameters.rows
            if set(self.uses.parameters[p.parameter.name]) & set(part)
        ]:
            groups = groupby(own, key=lambda p: (p.parameter.shape, p.parameter.symbol.slots))
            out += [fact("Parameters", self.arrays(list(g))) for _, g in groups]
        else:
            out.append(fact("Parameters", "none"))
        return out

    def side_by_side(self, part: list[int]) -> list[list[int]]:
        """The equations of a part; similar ones that read the same grouped, as Q, K and V do."""

        def reads(k: int) -> object:
            used = {(u.ref, u.maker) for u in self.uses.all if u.reader == k}
            return used, self.shape(k), self.joins(k)

        out: list[list[int]] = []
        for k in part:
            if out and reads(out[-1][0]) == reads(k) and any(maker is not None for maker in
                    (u.maker for u in self.uses.all if u.reader == k)):  # fmt: skip
                out[-1].append(k)
            else:
                out.append([k])
        return out

    def incoming(self, part: list[int]) -> list[str]:
        """The values that a part reads and does not make, with shapes."""
        out: dict[str, str] = {}
        for use in self.uses.all:
            if use.reader in part and (use.maker not in part or use.around):
                name = f"${self.write.e(use.ref)}$"
                if use.maker is None:
                    shape = self.sized(self.uses.shapes.types[use.ref.key].shape, True)
                else:
                    shape = self.shape(use.maker)
                out[name] = f"{name}, {shape}"
        return list(out.values())

    def each(self, k: int) -> str:
        """The shape for one value of each index letter of a family."""
        family = self.axes.family(k)
        slots = self.model.equations[k].left.symbol.slots
        named = [
            s for s in slots if s in self.uses.shapes.types[self.model.equations[k].name].family
        ]
        if not family:
            return ""
        _, one = self.pair(self.axes.of(k)[len(family) :], self.batched(k))
        return f"; {one} for each {listed([self.letter(s) for s in named])}"

    def maps(self, alike: list[int]) -> list[str]:
        """The parameter matrices that rows are multiplied with: ``256 → 16``."""
        found: dict[tuple[Size, Size], dict[str, None]] = {}
        products: list[Apply] = []
        for e in (self.model.equations[k] for k in alike):
            place = e.text.place
            own = [x for x in walk(e.right) if isinstance(x, Apply) and x.op == "prod"]
            places = [place(x.args[1])[1] or 0 for x in own]
            products += [own[n] for n in sorted(range(len(own)), key=places.__getitem__)]
        for x in products:
            match x:
                case Apply("prod", (_, Ref() as matrix)) if matrix.symbol.kind == "parameter":
                    shape = self.uses.shapes.types[matrix.key].shape
                case Apply("prod", (_, Apply("T", (Ref() as matrix,)))):
                    shape = self.uses.shapes.types[matrix.key].shape[::-1]
                    if matrix.symbol.kind != "parameter":
                        continue
                case _:
                    continue
            if len(shape) == 2:
                found.setdefault((shape[0], shape[1]), {})[self.value(matrix.key)] = None
        arrow = self.write.sign(" -> ", r" \to ", " → ")
        out = []
        for (a, b), names in found.items():
            numbers = f"{self.sizes.text(a)} → {self.sizes.text(b)}"
            symbols = a.show(self.style) + arrow + b.show(self.style)
            verb = "map" if len(names) > 1 else "maps"
            out.append(f"{listed(list(names))} {verb} {self.both(symbols, numbers)}")
        return out

    def joins(self, k: int) -> list[str]:
        """Values put side by side: ``4 × 16 = 64``."""
        out = []
        for x in walk(self.model.equations[k].right):
            if isinstance(x, Bind) and x.op == "concat" and x.lower is None:
                columns = self.sizes.number(self.uses.shapes.of(x.body).shape[-1])
                n = self.copies(x.index)
                out.append(
                    f"**Concatenation** over {self.letter(x.index)}, "
                    f"{n} × {columns} = {n * columns} columns"
                )
        return out

    def arrays(self, rows: list[ParameterCost]) -> str:
        """``$W_Q^h$ and $W_K^h$, each $d × d_k$ = `256 × 16` for each $h$``."""
        shape = [self.size(e) for e in rows[0].parameter.shape]
        symbols, numbers = self.product(shape)
        names = listed([self.value(r.parameter.name) for r in rows])
        text = f"{names}, {'each ' * (len(rows) > 1)}" + (
            self.both(symbols, numbers) if shape else "one number"
        )
        slots = rows[0].parameter.symbol.slots
        return text + (f" for each {listed([self.letter(s) for s in slots])}" if slots else "")

    # -- numbers -----------------------------------------------------------------------------------

    def dimensions(self) -> TextTable:
        rows = [[f"${self.batch_letter}$", str(self.batch), "", "batch: texts at once"]]
        for d in self.model.dims:
            value = self.sizes.values.get(d.name)
            given = d.at_most if d.at_most is not None else d.value
            how = ""
            if given is not None and (d.at_most is not None or size_names(self.model, given)):
                sign = self.write.sign("<= ", r"\le ", "≤ ") if d.at_most is not None else "= "
                how = f"${sign.lstrip('= ')}{self.write.e(given)}$"
            shown = "" if value is None else show(num(value))
            rows.append([f"${show_symbol(d.symbol, self.style)}$", shown, how, d.meaning])
        for i in self.model.indices:
            dots = self.write.range(i.lower, i.upper)
            name = f"${letters(i.name, self.style)}$"
            rows.append([name, f"{self.copies(i.name)} values", f"${dots}$", i.meaning])
        return table(["symbol", "value", "defined as", "meaning"], rows)

    def trace(self) -> TextTable:
        rows = []
        for i in self.model.inputs:
            shape = self.uses.shapes.types[i.name].shape
            rows.append(["", f"${show_symbol(i.symbol, self.style)}$", *self.pair(shape, True)])
        loop = None
        for k, e in enumerate(self.model.equations):
            if e.loop is not None and e.loop != loop:
                often = turns(self.model, e.loop, self.sizes)
                rows.append(["", f"for ${self.write.loop(e.loop)}$, {often}:", "", ""])
            loop = e.loop
            shown = f"${show_equation(e.left, e.right, self.style)}$"
            axes = self.axes.of(k)
            one = ("one number", "") if not axes and not self.batched(k) else None
            rows.append([str(k + 1), shown, *(one or self.pair(axes, self.batched(k)))])
        return table(["", "equation", "shape", "with numbers"], rows)

    def losses(self) -> list[Block]:
        """Single numbers made from values with rows: the values compared, and how many rows."""
        out: list[Block] = []
        for k, e in enumerate(self.model.equations):
            t = self.uses.shapes.types[e.name]
            if t.shape or t.family or t.kind != "real" or not self.uses.is_end(k):
                continue
            if not self.batched(k):
                continue
            out += [heading(3, self.called(k))]
            shown = f"${show_equation(e.left, e.right, self.style)}$"
            out += [item(f"{shown}, one number for each text")]
            for use in (u for u in self.uses.all if u.reader == k):
                axes = (
                    self.uses.shapes.types[use.ref.key].shape
                    if use.maker is None
                    else self.axes.of(use.maker)
                )
                counts = [int(self.sizes.number(a)) for a in axes]
                text = f"${self.write.e(use.ref)}$, {self.sized(axes, True)}"
                if axes:
                    rows = self.batch * prod(counts[:-1] if len(counts) > 1 else counts)
                    by = " × ".join(map(str, [self.batch, *(counts[:-1] or counts)]))
                    if len(counts) > 1:
                        text += f", in all {by} = {rows:,} rows, `({rows}, {counts[-1]})`"
                    else:
                        text += f", in all {by} = {rows:,} entries, `({rows})`"
                out.append(item(text))
        return out

    # -- generation --------------------------------------------------------------------------------

    def generation(self, g: Generation) -> list[Block]:
        """The loop that writes text, one token after another."""
        n, v = g.length.show(self.style), self.sizes.text(g.vocabulary)
        plain = g.length.show("unicode")
        tokens, scores = self.value(g.tokens.name), self.name(g.scores)
        (length,) = g.length.names()
        most = self.sizes.number(self.size(self.model.lengths[length]))
        needed = self.uses.inputs_of(g.scores)
        spare = [self.value(i.name) for i in self.model.inputs if i.name not in needed]
        fixed = [
            self.value(i.name)
            for i in self.model.inputs
            if i.name in needed and i.name != g.tokens.name
        ]
        first = f"Start with a context {tokens} of shape `(1, {plain})`, ${n}$ from 1 to {most}"
        if fixed:
            first += f"; {listed(fixed)} stay{'s' * (len(fixed) == 1)} the same throughout"
        forward = f"Forward pass up to {scores} of shape `(1, {plain}, {v})`"
        if spare:
            forward += f"; {listed(spare)} {'is' if len(spare) == 1 else 'are'} not needed for it"
        last = f"Take the last position of {scores}, row ${n} - 1$, of shape `(1, {v})`"
        if g.probabilities:
            draw = [f"It holds probabilities; draw one of the {v} tokens from them, `(1, 1)`"]
        else:
            draw = [
                "Divide by a temperature (a temperature of 1 changes nothing)",
                "Top-k, if wanted: keep the k greatest entries and drop the others",
                f"Softmax over the {v} entries; draw one token from these probabilities, `(1, 1)`",
            ]
        steps = [
            first,
            forward,
            last,
            *draw,
            f"Append it to the context, now `(1, {plain} + 1)`",
            f"Keep the last {most} tokens where the context is longer",
            "Repeat from step 2 until there are enough tokens, or one that ends the text",
        ]
        said = (
            f"At every position {scores} has an entry for each of the {v} values of {tokens}, and "
            f"no position depends on a later one. So text is written one token at a time."
        )
        return [paragraph(said), *(item(s, numbered=True) for s in steps)]

    # -- functions ---------------------------------------------------------------------------------

    def functions(self) -> list[Block]:
        """The definitions of the named functions in the equations."""
        found = {f.name: f for e in self.model.equations for f in called(self.model, e.right)}
        return [
            item(f"${self.write.function(f)}$: {f.meaning}".removesuffix(": "))
            for f in found.values()
        ]


def size_names(card: CardData, e: Expr) -> bool:
    """Whether the size of a dimension depends on other dimensions."""
    size = card.size(e)
    return size is not None and bool(size.names())


# -- the count of parameters -----------------------------------------------------------------------


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
            rows.append([
                titled(n, part) if found[0][1] is bundles else "", names,
                text + " each" * (len(bundles) > 1),
                f"× {' × '.join(times)}" if times else "", f"{many:,}",
            ])  # fmt: skip
        if len(found) > 1:
            rows.append(["", f"all of {titled(n, part)}", "", "", f"{total:,}"])
    all_of = n.costs.parameters.total
    total = all_of.number or 0
    rows.append(["**Total**", "", "", "", f"**{total:,}**"])
    header = ["used first in", "parameters", "of one", "how many", "numbers"]
    units = [(10**9, "billion"), (10**6, "million")]
    short = next((f" (about {total / one:.2f} {name})" for one, name in units if total >= one), "")
    symbols = all_of.symbolic.show(n.style)
    said = f"In all {total:,} numbers{short}"
    if all_of.symbolic.names():
        said += f", ${symbols}$"
    return [table(header, rows), paragraph(f"{said}.")]


def titled(n: SizedCard, part: int | None) -> str:
    """A part's title, or the equation that it is."""
    if part is None:
        return "no equation"
    first = n.model.equations[n.uses.parts[part][0]]
    return first.part or f"equation {n.uses.parts[part][0] + 1}"


def arranged(n: SizedCard) -> list[tuple[int | None, list[list[ParameterCost]]]]:
    """Parts with bundles: what one equation uses first, similar bundles in one row."""
    home = {k: at for at, part in enumerate(n.uses.parts) for k in part}

    def first(r: ParameterCost) -> int:
        return min(n.uses.parameters[r.parameter.name], default=len(n.model.equations))

    ordered = sorted(n.costs.parameters.rows, key=first)
    by_use = groupby(ordered, key=lambda r: (first(r), r.parameter.symbol.slots))
    bundles = [list(group) for _, group in by_use]

    def alike(b: list[ParameterCost]) -> object:
        shapes = tuple(r.parameter.shape for r in b)
        return home.get(first(b[0])), shapes, b[0].parameter.symbol.slots

    groups = (list(group) for _, group in groupby(bundles, key=alike))
    return [(home.get(first(group[0][0])), group) for group in groups]


__all__ = ["architecture", "data_flow", "write_architecture"]
