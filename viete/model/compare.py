"""Compares a card with a file of weights, and with values recorded from the model: a report.

The report lists every mismatch and its likely reason: another name, a transposed or merged layout,
tied weights, other dimensions, another function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from viete.ask.card_claims import Claims, at_place
from viete.document.displayed import Displayed
from viete.document.tree import Block, CodeBlock
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes, program
from viete.formats.files import TensorFile, TensorInfo
from viete.graph.card import CardData
from viete.model.drift import Bias, ambiguous, biases, constant, sizes, turned_squares
from viete.model.expected import Expected, show_shape
from viete.model.mapping import FileMatch, equals, listed, match, read_weights
from viete.model.recorded import Difference, Recorded, check_recorded
from viete.model.suggest import Question, Suggestion, axes, families, patterns, suggest, tied
from viete.printable import printable

Array = Any
MOST = 40  # lines of one kind that are shown
FEW = 12  # names that are listed one by one


@dataclass(frozen=True)
class Missing:
    """A tensor that the card expects and the file lacks; ``tied`` are possible substitutes."""

    name: str
    shape: tuple[int, ...]
    holds: tuple[str, ...]
    tied: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        holding = "" if self.holds == (self.name,) else f" for {listed(self.holds)}"
        ties = f"; may be tied to {listed(self.tied)}" if self.tied else ""
        return f"({show_shape(self.shape)}){holding}{ties}"


@dataclass(frozen=True)
class Extra:
    """A tensor of the file that the card lacks, and the tensors that equal it.

    ``constant`` is 0 or 1 where all its numbers are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    equals: tuple[str, ...] = ()
    constant: str = ""

    @property
    def line(self) -> str:
        same = f"; equals {listed(self.equals)}" if self.equals else ""
        every = f"; all {self.constant}" if self.constant else ""
        return f"({show_shape(self.shape)}, {self.dtype}){same}{every}"


@dataclass(frozen=True)
class OtherShape:
    """A tensor of another shape than expected; ``patterns`` would read it as expected."""

    name: str
    card: tuple[int, ...]
    file: tuple[int, ...]
    patterns: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        fits = either("; fits by `", self.patterns)
        return f": {show_shape(self.file)} in the file, {show_shape(self.card)} by the card{fits}"


@dataclass(frozen=True)
class Report(Displayed):
    """All that `compare` found, and the results of the card's claims, if they were evaluated.

    ``ok`` says whether card and file agree, ``lines()`` gives the differences in words. Counts are
    of numbers. ``sizes`` are the dimensions with which more of the file would fit.
    """

    found: FileMatch
    missing: tuple[Missing, ...]
    extra: tuple[Extra, ...]
    shapes: tuple[OtherShape, ...]
    dtypes: tuple[tuple[str, str, str], ...]  # name, the card's, the file's
    suggestions: tuple[Suggestion, ...]
    questions: tuple[Question, ...]
    sizes: Mapping[str, int]
    biases: tuple[Bias, ...]
    turned: tuple[str, ...]  # matrices of the file that are transposed
    squares: tuple[str, ...]  # square ones, which then may be too
    ambiguous: tuple[str, ...]  # what shapes cannot tell
    recorded: Recorded | None = None
    claims: Claims | None = None

    @property
    def agrees(self) -> bool:
        """Whether no tensor differs."""
        return not (self.missing or self.extra or self.shapes or self.dtypes)

    @property
    def ok(self) -> bool:
        """Whether nothing that was compared differs, and no claim is false."""
        parts = (self.recorded, self.claims)
        return self.agrees and all(part is None or part.ok for part in parts)

    def with_claims_of(self, other: Report) -> Report:
        """This report with the claims of another added."""
        if self.claims is None or other.claims is None:
            return self if other.claims is None else replace(self, claims=other.claims)
        return replace(self, claims=self.claims.joined(other.claims))

    @property
    def copies(self) -> Mapping[str, str]:
        """Tensors that the card does not expect, each with the expected tensor that it equals."""
        return self.found.copies

    @property
    def card_tensors(self) -> int:
        f = self.found
        return len(f.fits) + len(f.missing) + len(f.misshaped)

    @property
    def card_count(self) -> int:
        card = self.found.card
        given = {p.name for p in card.parameters if p.from_config}
        return sum(prod(s) for name, s in parameter_shapes(card).items() if name not in given)

    @property
    def counted(self) -> list[TensorInfo]:
        """The tensors of the file that are weights."""
        other = (*self.found.ignored, *self.found.copies)
        return [i for n, i in self.found.file.infos.items() if n not in other]

    @property
    def file_tensors(self) -> int:
        return len(self.counted)

    @property
    def file_count(self) -> int:
        return sum(prod(i.shape) for i in self.counted)

    def lines(self) -> list[str]:
        """The report as text; names that differ only in numbers share a line."""
        f = self.found
        out = [
            f"{f.card.title}: {self.card_count:,} parameters in {self.card_tensors} tensors",
            f"{f.file.path}: {self.file_count:,} parameters in {self.file_tensors} tensors",
        ]
        if f.prefix:
            some = 0 < len(f.prefixed) < self.card_tensors - len(self.missing)
            which = f"{listed(f.prefixed)} in the file" if some else "The file's names"
            what = "is the card's name" if some and len(f.prefixed) == 1 else "are the card's"
            sign, prefix = f.prefix.split(" ", 1)
            how = f"with {prefix} in front" if sign == "+" else f"without the {prefix} in front"
            out.append(f"{which} {what} {how}.")
        if f.ignored:
            out.append(f"Left out, as the card says: {folded(f.ignored)}.")
        out += [f"{n} equals {same}, so it is the same weights." for n, same in f.copies.items()]
        if self.agrees:
            out.append("Every tensor has its parameter, and every parameter its tensor.")
        out += self.differing() + self.guessed()
        if self.ambiguous and self.recorded is None:
            out += ["", f"Shapes cannot tell {', nor '.join(self.ambiguous)}; recorded values can: "
                    f"--against FILE."]  # fmt: skip
        out += self.compared()
        out += ["", *self.claims.lines()] if self.claims is not None else []
        return list(map(printable, out))  # a file's names may hold anything

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def page(self, style: str = "unicode") -> list[Block]:
        """The comparison as printed, then a table of the claims."""
        compared = replace(self, claims=None).lines()
        claims = [] if self.claims is None else self.claims.page(style)
        return [CodeBlock("\n".join(compared)), *claims]

    def differing(self) -> list[str]:
        """The differences in names, shapes and dtypes of tensors."""
        out: list[str] = []

        def part(title: str, items: Sequence[Any], space: str = " ") -> None:
            lines = [f"  {name}{space}{x.line}" for name, x in families_of(items)]
            out.extend(["", f"{title}"] + at_most(lines) if items else [])

        numbers = sum(prod(m.shape) for m in self.missing)
        part(f"Missing in the file ({len(self.missing)}): {numbers:,} of the card's "
             f"{self.card_count:,} parameters", self.missing)  # fmt: skip
        refused = self.found.file.refused
        out += [f"  {m.name} is there, but is {refused[m.name]}" for m in self.missing
                if m.name in refused]  # fmt: skip
        numbers = sum(prod(x.shape) for x in self.extra)
        part(f"Not in the card ({len(self.extra)}): {numbers:,} of the file's "
             f"{self.file_count:,} parameters", self.extra)  # fmt: skip
        part(f"Of another shape ({len(self.shapes)}):", self.shapes, "")
        if self.squares:
            out.append(
                f"  {listed(self.turned)} are transposed, so these square ones are likely to be "
                f"too, by the pattern `b a -> a b`: {listed(self.squares, 8)}"
            )
        if self.sizes:
            sets = " ".join(f"--set {name}={n}" for name, n in self.sizes.items())
            out.append(f"  The file's sizes would fit with {sets}")
        if self.dtypes:
            out += ["", f"Of another dtype ({len(self.dtypes)}):"]
            out += at_most([f"  {n}: {f} in the file, {c} by the card" for n, c, f in self.dtypes])
        return out

    def guessed(self) -> list[str]:
        """Likely reasons for a difference: biases, names, and what a file cannot tell."""
        out: list[str] = []
        if self.biases:
            out += ["", "Biases of weights that the card has; for its Parameters (symbol, shape, "
                    "checkpoint):"]  # fmt: skip
            for b in self.biases:
                where = f"; in equation {b.equation}, {b.term}" if b.term else ""
                out += [f"  {b.row}", f"    the bias of {', '.join(b.of)}{where}"]
        if self.suggestions:
            out += ["", "Perhaps these rows of the card's checkpoint column:"]
            for s in self.suggestions:
                other = either("; or by `", s.others)
                out.append(f"  {', '.join(s.parameters)} | `{s.column}`  ({s.why}{other})")
        if self.questions:
            out += ["", "Several fit; which is it?"]
            out += [f"  {listed(q.parameters)}: {listed(q.candidates, 8)}" for q in self.questions]
        return out

    def compared(self) -> list[str]:
        """The results for the recorded values."""
        if self.recorded is None:
            return []
        r, out = self.recorded, [""]
        if r.agree:
            out.append(f"Agree with what was recorded ({len(r.agree)}): {folded(r.agree)}.")
        elif not r.differences:
            out.append("None of what was recorded could be compared.")
        if r.repaired:
            out.append(f"With the changes below, these agree too, and only with them "
                       f"({len(r.repaired)}): {folded(r.repaired)}.")  # fmt: skip
        for k, d in enumerate(r.differences):
            out += difference(d, "The first that differs is" if k == 0 else "Then")
            for said, reads in d.fits:
                out += [f"    matches if {said}:", f"      {reads}"]
            if not d.fits and d.shapes is None:
                out.append("    nothing that was tried fits: another function, bias, norm, mask, "
                           "scale, ε, a residual or a transposed matrix")  # fmt: skip
        out += [f"Not compared: {name}, because {why}." for name, why in r.skipped.items()]
        return out


def compare(
    card: CardData, tensors: TensorFile, outputs: TensorFile | None = None,
    tokens: Array | Sequence[int] | None = None, formulas: Mapping[str, str] | None = None,
    **inputs: Array,
) -> Report:  # fmt: skip
    """Compare a card with a file of weights, and with ``outputs`` recorded from the model.

    ``outputs`` holds arrays under the card's names (``S``, ``x^3``, ``A^{1,2}``) and formulas, and
    the inputs of the recorded run, unless ``tokens`` (for the card's first input) or ``inputs``
    give those. ``formulas`` are the meanings of other names. Raises VieteError for a card that
    cannot be read and for missing inputs; every difference is in the report.
    """
    found = match(card, tensors)
    ties, free = tied(found), [tensors.infos[n] for n in found.extra]
    stated = ((n, e.parameters[0].dtype) for n, e in {**found.fits, **found.misshaped}.items())
    if tokens is not None:
        if not card.inputs:
            raise VieteError(f"{card.title} takes no input")
        inputs[card.inputs[0].name] = np.asarray(tokens)
    return Report(
        found,
        tuple(Missing(n, e.shape, e.holds, ties.get(n, ())) for n, e in found.missing.items()),
        tuple(
            Extra(i.name, i.shape, i.dtype, same_numbers(i, tensors), constant(i, tensors))
            for i in free
        ),
        tuple(other_shape(card, n, e, tensors.infos[n]) for n, e in found.misshaped.items()),
        tuple((n, dtype, tensors.infos[n].dtype) for n, dtype in stated
              if dtype and dtype != tensors.infos[n].dtype),
        *suggest(found), sizes(found), tuple(biases(found)), *turned_squares(found),
        tuple(ambiguous(found)),
        None if outputs is None else recorded_values(found, outputs, inputs, formulas),
    )  # fmt: skip


def recorded_values(
    found: FileMatch, outputs: TensorFile, given: Mapping[str, Array],
    formulas: Mapping[str, str] | None,
) -> Recorded:  # fmt: skip
    """Compare a run with the file's weights with the recorded values."""
    # What the card may lack: vectors, and matrices unless they may be the missing ones.
    most = 1 if found.missing else 2
    free = [found.file.infos[n] for n in found.extra]
    small = [i for i in free if 0 < len(i.shape) <= most and "float" in i.dtype]
    extra = {f: [found.file.load(n) for n in f.names] for f in families(small)}
    return check_recorded(found.card, read_weights(found), outputs, given, extra, formulas)


def same_numbers(info: TensorInfo, tensors: TensorFile) -> tuple[str, ...]:
    """Tensors with the same numbers; none for a vector (norms begin as ones, biases as zeros)."""
    if len(info.shape) < 2:
        return ()
    mine = tensors.load(info.name)
    turned = [
        f"{n} transposed" for n, other in tensors.infos.items()
        if n != info.name and other.dtype == info.dtype and other.shape == info.shape[::-1]
        and other.shape != info.shape and np.array_equal(mine, tensors.load(n).T)
    ]  # fmt: skip
    return (*equals(tensors, info.name, tensors.infos), *turned)


def other_shape(card: CardData, name: str, e: Expected, info: TensorInfo) -> OtherShape:
    """A difference in shape, with the patterns from the file's shape to the expected array."""
    named = axes(program(card), e.parameters, set(card.loop_letters))
    alike = tuple(size for _, size, _ in named) == e.stacked
    found = patterns(named, info.shape)[:3] if alike else []
    return OtherShape(name, e.shape, info.shape, tuple(found))


# -- in words --------------------------------------------------------------------------------------


def families_of(items: Sequence[Any]) -> list[tuple[str, Any]]:
    """(folded name, one of the items) for many items whose names differ only in numbers."""
    if len(items) <= FEW:
        return [(x.name, x) for x in items]
    by_name = {x.name: x for x in items}
    folds = families([TensorInfo(x.name, alike(x), "") for x in items])
    return [(f.name(), by_name[f.names[0]]) for f in folds]


def alike(x: Any) -> tuple[Any, ...]:
    """The properties that two items on one line must share."""
    if isinstance(x, OtherShape):
        return (x.card, x.file)
    same = (getattr(x, "dtype", ""), getattr(x, "constant", ""), len(getattr(x, "equals", ())))
    return (x.shape, *same)


def either(begin: str, found: Sequence[str]) -> str:
    return f"{begin}{'` or `'.join(p or 'as it is' for p in found)}`" if found else ""


def at_most(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"  and {len(lines) - MOST} more"]


def folded(names: Sequence[str]) -> str:
    if len(names) <= FEW:
        return ", ".join(names)
    return ", ".join(f.name() for f in families([TensorInfo(n, (), "") for n in names]))


def difference(d: Difference, begin: str) -> list[str]:
    what = f"equation {d.number}: {d.equation}" if d.number else f"which is {d.equation}"
    changed = " (computed with the changes above)" if d.repaired else ""
    head = f"{begin} {d.name}, {what}{changed}"
    if d.shapes is not None:
        recorded, computed = map(show_shape, d.shapes)
        return [head, f"    it was recorded as {recorded}, and the card gives {computed}"]
    return [
        head,
        f"    by up to {d.absolute:.3g}, {d.relative:.2g} of the largest (tolerance "
        f"{d.tolerance:.0e}){at_place(d.where)}: recorded {d.recorded:.6g}, by the card "
        f"{d.computed:.6g}",
    ]


__all__ = ["Extra", "Missing", "OtherShape", "Report", "compare"]
