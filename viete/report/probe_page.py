"""Probes as a picture and as a page: what they read, how accurate they are, and the card of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viete.cards.writer import CardWriter, blocks
from viete.document.tree import Block, CodeBlock, heading, paragraph
from viete.errors import Text
from viete.graph.card import CardData
from viete.notation.letters import own_letters
from viete.notation.parser import parse
from viete.probes.card import PROBE
from viete.probes.effects import ProbeEffect
from viete.probes.probing import Probes
from viete.probes.table import effect_table, probe_table
from viete.report.pictures.bars import bars
from viete.report.pictures.curve import curve
from viete.report.pictures.dots import Dot, rows_of_dots, scatter
from viete.report.pictures.heat import HeatPanel, heat
from viete.report.pictures.picture import Picture


def probe_picture(probes: Probes) -> Picture:
    """The picture of probes.

    Several probes are a curve, or a heat map of two axes; one probe is shown by its results on the
    texts held out: along its direction, or as a table of classes.
    """
    examples, measure = probes.examples, "accuracy" if probes.count else "R²"
    places, title = examples.places, f"{examples.of}: {examples.label}"
    values = np.array([s.value for s in probes.scores])
    if probes.places == 1:
        return of_one(probes, title)
    if len(places.shape) == 1:
        lows, highs = (np.array([getattr(s, n) for s in probes.scores]) for n in ("low", "high"))
        constant = "most frequent class" if probes.count else "the mean"
        beside = {constant: np.array([s.constant for s in probes.scores]),
                  "shuffled labels": np.array([s.shuffled for s in probes.scores])}  # fmt: skip
        return curve(title, places.labels[0], values, places.axes[0], (lows, highs), beside,
                     f"{measure} held out, 95%")  # fmt: skip
    if len(places.shape) == 2:
        panel = HeatPanel(f"{measure} held out", values.reshape(places.shape))
        rows, columns = places.labels
        return heat(title, [panel], rows, columns, (places.axes[0], places.axes[1]))
    return bars(title, [places.name(k) for k in range(probes.places)], values.tolist())


def of_one(probes: Probes, title: str) -> Picture:
    """The results of one probe on the texts held out."""
    examples, probe = probes.examples, probes.one
    found = [(float(c), probe(v.values[0])[j], example_name(probes, k, j))
             for k in probes.held for v in [examples.vectors[k]]
             for j, c in enumerate(examples.codes[k])]  # fmt: skip
    if not probes.count:
        dots = [Dot(c, float(score[0]), 0, name) for c, score, name in found]
        return scatter(title, dots, ("the number", "what the probe reads"))
    if probes.count == 2:
        rows = [[(float(score[0]), name) for c, score, name in found if c == k] for k in range(2)]
        axis = "along the direction; the line is where the probe decides"
        return rows_of_dots(title, examples.classes, rows, axis, 0.0)
    table = np.zeros((probes.count, probes.count))
    for c, score, _ in found:
        table[int(c), int(score.argmax())] += 1
    table /= np.maximum(table.sum(1, keepdims=True), 1)
    panel = HeatPanel("share of each class that is taken for each", table)
    return heat(title, [panel], examples.classes, examples.classes, ("class", "taken for"))


def example_name(probes: Probes, k: int, j: int) -> str:
    """The name of an example: its text, and its position."""
    text, vectors = probes.examples.texts[k].text, probes.examples.vectors[k]
    said = text if isinstance(text, str) else " ".join(map(str, text))
    return f"{said}, position {vectors.names[j]}" if vectors.names else said


def probe_page(
    probes: Probes, card: CardData, effects: Sequence[ProbeEffect] = (), style: str = "mathml"
) -> list[Block]:  # fmt: skip
    """The page: the table, the picture, the effect of the direction, and the card with the probe.

    ``card`` has the probe, or is the model's own where there are several.
    """
    picture, write = probe_picture(probes), CardWriter(card, style)
    source = Text(probes.examples.of, "<of>")
    e = parse(source, card.scope.inside(own_letters(source, card.scope)))
    out = [heading(1, f"What {card.title} has at ${write.e(e)}$"), *probe_table(probes),
           CodeBlock("\n".join(picture.lines), picture=picture.svg),
           *effect_table(effects)]  # fmt: skip
    if probes.places > 1:
        return out
    made = next(d for d in card.derived if d.name == PROBE)
    equation = paragraph(f"${write.equation(made.left, made.right)}$")
    return [out[0], equation, *out[1:], heading(2, "The card with the probe"),
            *blocks(card, style)[1:]]  # fmt: skip


__all__ = ["probe_page", "probe_picture"]
