"""Probes as a document: how accurate each is, beside its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from viete.document.tree import Block, listed, paragraph, table
from viete.evaluate.answer_page import literal
from viete.probes.fits import FITS

if TYPE_CHECKING:
    from viete.probes.effects import ProbeEffect
    from viete.probes.probing import Probes

FITTED = {"logistic": "logistic regression", "means": "nearest class mean"}
FEW = 8  # classes that are named


def opening(probes: Probes) -> str:
    """The question asked, and its texts."""
    examples = probes.examples
    of = f"{literal(examples.of)} for {literal(examples.label)}"
    count = sum(len(v.labels) for v in examples.vectors)
    several = f", {count:,} examples in all" if count > len(examples.texts) else ""
    return (
        f"A linear probe of {of}: {classes(probes)}. It learns from {len(probes.train)} texts "
        f"and is measured on {len(probes.held)} others{several}."
    )


def classes(probes: Probes) -> str:
    """The classes that the probe distinguishes."""
    names = probes.examples.classes
    if not names:
        return "a number"
    if len(names) > FEW:
        return f"{len(names)} classes"
    return listed([literal(f'"{name}"') for name in names]).replace(" and ", " or ")


def probe_table(probes: Probes) -> Iterator[Block]:
    """One probe with all its comparisons, or a table with a row for each of several."""
    yield paragraph(opening(probes))
    measure = "accuracy" if probes.count else "R²"
    if probes.places > 1:
        constant = "most frequent class" if probes.count else "the mean"
        header = [listed(list(probes.examples.places.axes)), measure, "95%", constant,
                  "shuffled labels"]  # fmt: skip
        yield table(header, [
            [literal(probes.examples.places.name(k)), three(s.value), span(s.low, s.high),
             three(s.constant), three(s.shuffled)]
            for k, s in enumerate(probes.scores)
        ])  # fmt: skip
        return
    yield table(["", f"{measure} held out", "95%"], list(rows(probes)))


def rows(probes: Probes) -> Iterator[list[str]]:
    """The comparisons of a probe."""
    score = probes.scores[0]
    own = FITTED[probes.method] if probes.count else "ridge regression"
    yield [f"the probe: {own}", three(score.value), span(score.low, score.high)]
    for method in (m for m in FITS if probes.count and m != probes.method):
        yield [FITTED[method], three(probes.accuracy(probes.fitted(0, method))), ""]
    constant = "always the most frequent class" if probes.count else "always the mean"
    yield [constant, three(score.constant), ""]
    yield ["the probe of shuffled labels", three(score.shuffled), ""]
    this, new = probes.erased()
    what = "direction" if probes.basis.shape[1] == 1 else "directions"
    yield [f"the probe, without its {what}", three(this), ""]
    yield [f"a new probe, without this one's {what}", three(new), ""]


def effect_table(effects: Sequence[ProbeEffect]) -> Iterator[Block]:
    """The effects of the directions: a row for each number."""
    if effects:
        yield paragraph("What the direction does, in means over the held-out texts:")
        names = list(effects[0].values)
        yield table(["", *names], [
            [literal(e.question), *(f"{e.values[n]:.4f}" for n in names)] for e in effects
        ])  # fmt: skip


def three(x: float) -> str:
    """A number with three decimals."""
    return f"{x:.3f}".replace("-0.000", "0.000")


def span(low: float, high: float) -> str:
    """An interval as text."""
    return f"{three(low)} to {three(high)}"


__all__ = ["FEW", "FITTED", "effect_table", "opening", "probe_table", "three"]
