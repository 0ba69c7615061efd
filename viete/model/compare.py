"""A card against a file of weights, and against values recorded from the model.

What does not fit is listed, and for whatever does not fit the likely reason is looked for: another
name, a transposed or merged layout, tied weights, other dimensions, another function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from viete.ask.card_claims import Claims, place_said
from viete.errors import VieteError
from viete.evaluate.schedule import parameter_shapes, program
from viete.formats.files import TensorFile, TensorInfo
from viete.graph.card import CardData
from viete.model.drift import Bias, biases, constant, sizes, turned_squares, untold
from viete.model.mapping import (
    Expected,
    Match,
    expected_tensors,
    listed,
    match,
    read_weights,
    show_shape,
)
from viete.model.recorded import Difference, Recorded, check_recorded
from viete.model.suggest import (
    Question,
    Suggestion,
    axes,
    families,
    patterns,
    suggest,
    tied,
)
from viete.printable import printable

Array = Any
DTYPES = {"fp16": "float16", "f16": "float16", "half": "float16", "fp32": "float32"}
DTYPES |= {"f32": "float32", "float": "float32", "fp64": "float64", "f64": "float64"}
DTYPES |= {"double": "float64", "bf16": "bfloat16"}
MOST = 40  # lines of one kind that are shown
FEW = 12  # names that are listed one by one


@dataclass(frozen=True)
class Missing:
    """A tensor that the card expects; ``tied`` are those that may serve in its place."""

    name: str
    shape: tuple[int, ...]
    holds: tuple[str, ...]
    tied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extra:
    """A tensor of the file that the card does not have, and those that it equals.

    ``constant`` is 0 or 1 where all its numbers are that.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    equals: tuple[str, ...] = ()
    constant: str = ""


@dataclass(frozen=True)
class OtherShape:
    """A tensor whose shapes differ; ``patterns`` are those that would read it as the card's."""

    name: str
    card: tuple[int, ...]
    file: tuple[int, ...]
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that `compare` found, and what became of the card's claims, if they were evaluated.

    ``ok`` says whether card and file agree, ``lines()`` says it in words. Counts are of numbers.
    ``sizes`` are the dimensions with which more of the file would fit.
    """

    card: str
    file: str
    card_tensors: int
    card_count: int
    file_tensors: int
    file_count: int
    missing: tuple[Missing, ...] = ()
    extra: tuple[Extra, ...] = ()
    shapes: tuple[OtherShape, ...] = ()
    dtypes: tuple[tuple[str, str, str], ...] = ()  # name, the card's, the file's
    ignored: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    prefixed: tuple[str, ...] = ()  # the file's names that differ by it
    suggestions: tuple[Suggestion, ...] = ()
    questions: tuple[Question, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    biases: tuple[Bias, ...] = ()
    turned: tuple[str, ...] = ()  # matrices of the file that are transposed
    squares: tuple[str, ...] = ()  # square ones, which then may be too
    untold: tuple[str, ...] = ()  # what shapes cannot tell
    missing_count: int = 0
    extra_count: int = 0
    recorded: Recorded | None = None
    claims: Claims | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing that was compared differs, and no claim is false."""
        agrees = all(part is None or part.ok for part in (self.recorded, self.claims))
        return agrees and not (self.missing or self.extra or self.shapes or self.dtypes)

    def lines(self) -> list[str]:
        """The report as text; names that differ only in numbers share a line."""
        out = [
            f"{self.card}: {self.card_count:,} parameters in {self.card_tensors} tensors",
            f"{self.file}: {self.file_count:,} parameters in {self.file_tensors} tensors",
        ]
        if self.prefix:
            some = 0 < len(self.prefixed) < self.card_tensors - len(self.missing)
            which = f"{listed(self.prefixed)} in the file" if some else "The file's names"
            one = len(self.prefixed) == 1 and some
            what = "is the card's name" if one else "are the card's"
            out.append(f"{which} {what} {_prefixed(self.prefix)}.")
        if self.ignored:
            out.append(f"Left out, as the card says: {_folded(self.ignored)}.")
        out += [f"{n} equals {same}, so it is the same weights." for n, same in self.copies.items()]
        if not (self.missing or self.extra or self.shapes or self.dtypes):
            out.append("Every tensor has its parameter, and every parameter its tensor.")
        out += self._names() + self._guesses()
        if self.untold and self.recorded is None:
            out += ["", f"Shapes cannot tell {', nor '.join(self.untold)}; recorded values can: "
                    f"--outputs FILE."]  # fmt: skip
        out += self._values()
        out += ["", *self.claims.lines()] if self.claims is not None else []
        return list(map(printable, out))  # a file's names may hold anything

    def _names(self) -> list[str]:
        out: list[str] = []
        if self.missing:
            sums = f"{self.missing_count:,} of the card's {self.card_count:,} parameters"
            out += ["", f"Missing in the file ({len(self.missing)}): {sums}"]
            out += _shown([
                f"  {name} ({show_shape(m.shape)}){_holding(m)}"
                f"{f'; may be tied to {listed(m.tied)}' if m.tied else ''}"
                for name, m in _families(self.missing)
            ])  # fmt: skip
            unreadable = [n for n in self.refused if any(n == m.name for m in self.missing)]
            out += [f"  {n} is there, but is {self.refused[n]}" for n in unreadable]
        if self.extra:
            sums = f"{self.extra_count:,} of the file's {self.file_count:,} parameters"
            out += ["", f"Not in the card ({len(self.extra)}): {sums}"]
            out += _shown([
                f"  {name} ({show_shape(x.shape)}, {x.dtype})"
                f"{f'; equals {listed(x.equals)}' if x.equals else ''}"
                f"{f'; all {x.constant}' if x.constant else ''}"
                for name, x in _families(self.extra)
            ])  # fmt: skip
        if self.shapes:
            out += ["", f"Of another shape ({len(self.shapes)}):"]
            out += _shown([
                f"  {name}: {show_shape(s.file)} in the file, {show_shape(s.card)} by the card"
                f"{_or('; fits by `', s.patterns)}"
                for name, s in _families(self.shapes)
            ])  # fmt: skip
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
            out += _shown([f"  {n}: {f} in the file, {c} by the card" for n, c, f in self.dtypes])
        return out

    def _guesses(self) -> list[str]:
        out: list[str] = []
        if self.biases:
            out += ["", "Biases of weights that the card has; for its Parameters (symbol, shape, "
                    "checkpoint):"]  # fmt: skip
            for b in self.biases:
                out.append(f"  {b.row}")
                out.append(f"    the bias of {', '.join(b.of)}" + (
                    f"; in equation {b.equation}, {b.term}" if b.term else ""))  # fmt: skip
        if self.suggestions:
            out += ["", "Perhaps, in the card's checkpoint column:"]
            for s in self.suggestions:
                other = _or("; or by `", s.others)
                out.append(f"  {', '.join(s.parameters)} | `{s.column}`  ({s.why}{other})")
        if self.questions:
            out += ["", "Several fit; which is it?"]
            out += [f"  {listed(q.parameters)}: {listed(q.candidates, 8)}" for q in self.questions]
        return out

    def _values(self) -> list[str]:
        if self.recorded is None:
            return []
        r, out = self.recorded, [""]
        if r.agree:
            out.append(f"Agree with what was recorded ({len(r.agree)}): {_folded(r.agree)}.")
        elif not r.differences:
            out.append("None of what was recorded could be compared.")
        if r.repaired:
            out.append(f"With the changes below, these agree too, and only with them "
                       f"({len(r.repaired)}): {_folded(r.repaired)}.")  # fmt: skip
        for k, d in enumerate(r.differences):
            out += _difference(d, "The first that differs is" if k == 0 else "Then")
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
    """Hold a card to a file of weights, and with ``outputs`` to values recorded from the model.

    ``outputs`` holds arrays under the card's names (``S``, ``x^3``, ``A^{1,2}``) and formulas, with
    the inputs they were recorded for beside them, unless ``tokens`` (for the card's first input) or
    ``inputs`` give those. ``formulas`` are what other names stand for. Raises VieteError where the
    card cannot be read as one, or the inputs are missing; whatever differs is in the report.
    """
    found = match(card, tensors)
    free = [tensors.infos[n] for n in found.extra]
    lacking = biases(card, found, free)
    guesses, questions = suggest(card, found.missing, free)
    turned, squares = turned_squares(card, found, tensors)
    ties = tied(card, found.missing, found)
    wanted = expected_tensors(card)
    given = {p.name for p in card.parameters if p.given}
    counted = [i for n, i in tensors.infos.items() if n not in (*found.ignored, *found.copies)]
    report = Report(
        card.title, str(tensors.path),
        len(found.fits) + len(found.missing) + len(found.misshaped) or len(wanted),
        sum(prod(shape) for name, shape in parameter_shapes(card).items() if name not in given),
        len(counted), sum(prod(i.shape) for i in counted),
        tuple(
            Missing(n, e.shape, e.holds, ties.get(n, ())) for n, e in found.missing.items()
        ),
        tuple(
            Extra(i.name, i.shape, i.dtype, _equals(i, tensors), constant(i, tensors))
            for i in free
        ),
        tuple(_other_shape(card, n, e, tensors.infos[n]) for n, e in found.misshaped.items()),
        tuple(_dtypes(found, tensors)),
        found.ignored, found.copies, tensors.refused, found.prefix, found.prefixed,
        tuple(guesses), tuple(questions), sizes(card, found, tensors), tuple(lacking),
        tuple(turned), tuple(squares), tuple(untold(card, found)),
        sum(prod(e.shape) for e in found.missing.values()), sum(prod(i.shape) for i in free),
        None if outputs is None else _recorded(
            card, tensors, found, outputs, tokens, inputs, formulas
        ),
    )  # fmt: skip
    return report


def _recorded(
    card: CardData, tensors: TensorFile, found: Match, outputs: TensorFile,
    tokens: Array | Sequence[int] | None, inputs: Mapping[str, Array],
    formulas: Mapping[str, str] | None,
) -> Recorded:  # fmt: skip
    given = dict(inputs)
    if tokens is not None:
        if not card.inputs:
            raise VieteError(f"{card.title} takes no input")
        given[card.inputs[0].name] = np.asarray(tokens)
    # What the card may lack: vectors, and matrices unless they may be the missing ones.
    most = 1 if found.missing else 2
    small = [tensors.infos[n] for n in found.extra if 0 < len(tensors.infos[n].shape) <= most]
    small = [i for i in small if "float" in i.dtype]
    extra = {f: [tensors.load(n) for n in f.names] for f in families(small)}
    return check_recorded(card, read_weights(found, tensors), outputs, given, extra, formulas)


def _equals(info: TensorInfo, tensors: TensorFile) -> tuple[str, ...]:
    """Tensors of the same numbers. A vector says little: norms begin as ones, biases as zeros."""
    if len(info.shape) < 2:
        return ()
    mine, out = tensors.load(info.name), []
    for n, other in tensors.infos.items():
        if n == info.name or other.dtype != info.dtype:
            continue
        if other.shape == info.shape and np.array_equal(mine, tensors.load(n)):
            out.append(n)
        elif other.shape == info.shape[::-1] and np.array_equal(mine, tensors.load(n).T):
            out.append(f"{n} transposed")
    return tuple(out)


def _other_shape(card: CardData, name: str, e: Expected, info: TensorInfo) -> OtherShape:
    """With the patterns that lead from the file's shape to the array of the weights."""
    ready = program(card)
    parameters = {id(p): p for p in (ready.parameters[w][0] for w in e.holds)}
    named = axes(ready, tuple(parameters.values()), set(card.loop_letters))
    alike = tuple(size for _, size, _ in named) == e.stacked
    found = patterns(named, info.shape)[:3] if alike else []
    return OtherShape(name, e.shape, info.shape, tuple(found))


def _dtypes(found: Match, tensors: TensorFile) -> list[tuple[str, str, str]]:
    out = []
    for name, e in (*found.fits.items(), *found.misshaped.items()):
        stated = e.dtype.strip().lower().removeprefix("torch.")
        stated = DTYPES.get(stated, stated)
        if stated and stated != tensors.infos[name].dtype:
            out.append((name, stated, tensors.infos[name].dtype))
    return out


# -- in words --------------------------------------------------------------------------------------


def _families(items: Sequence[Any]) -> list[tuple[str, Any]]:
    """(folded name, one of them) for many items whose names differ only in numbers."""
    if len(items) <= FEW:
        return [(x.name, x) for x in items]
    by_name = {x.name: x for x in items}
    folded = families([TensorInfo(x.name, _key(x), "") for x in items])
    return [(f.name(), by_name[f.names[0]]) for f in folded]


def _key(x: Any) -> tuple[Any, ...]:
    """What must be alike for two items to share a line."""
    if isinstance(x, OtherShape):
        return (x.card, x.file)
    alike = (getattr(x, "dtype", ""), getattr(x, "constant", ""), len(getattr(x, "equals", ())))
    return (x.shape, *alike)


def _holding(m: Missing) -> str:
    return "" if m.holds == (m.name,) else f" for {listed(m.holds)}"


def _or(begin: str, found: Sequence[str]) -> str:
    return f"{begin}{'` or `'.join(p or 'as it is' for p in found)}`" if found else ""


def _shown(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"  and {len(lines) - MOST} more"]


def _folded(names: Sequence[str]) -> str:
    if len(names) <= FEW:
        return ", ".join(names)
    return ", ".join(f.name() for f in families([TensorInfo(n, (), "") for n in names]))


def _prefixed(prefix: str) -> str:
    sign, what = prefix.split(" ", 1)
    return f"with {what} in front" if sign == "+" else f"without the {what} in front"


def _difference(d: Difference, begin: str) -> list[str]:
    what = f"equation {d.number}: {d.equation}" if d.number else f"which is {d.equation}"
    changed = " (computed with the changes above)" if d.repaired else ""
    head = f"{begin} {d.name}, {what}{changed}"
    if d.shapes is not None:
        recorded, computed = map(show_shape, d.shapes)
        return [head, f"    it was recorded as {recorded}, and the card gives {computed}"]
    return [
        head,
        f"    by up to {d.absolute:.3g}, {d.relative:.2g} of the largest (tolerance "
        f"{d.tolerance:.0e}) at {place_said(d.where)}: recorded {d.recorded:.6g}, by the card "
        f"{d.computed:.6g}",
    ]


__all__ = ["Extra", "Missing", "OtherShape", "Report", "compare"]
