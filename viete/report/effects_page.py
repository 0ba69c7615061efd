"""Causal effects as a page: the question, the numbers, a picture, the card of a changed model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import numpy as np

from viete.causes.mediation import Effects
from viete.document.tree import Block, CodeBlock, Heading, heading, paragraph
from viete.evaluate.answer_page import literal
from viete.graph.card import CardData
from viete.report.differences import difference_blocks
from viete.report.pictures.choosing import draw
from viete.report.pictures.heat import HeatPanel, heat
from viete.report.pictures.picture import Picture, stacked


def effects_picture(found: Effects, blocks: Sequence[str] = ()) -> Picture:
    """The effects of all members: heat maps, curves over blocks, or bars."""
    title = "Indirect and direct effects" if found.direct is not None else "Change of the number"
    answers = found.answers()
    first = answers[0][1]
    if len(first.axes) == 2:
        panels = [HeatPanel(name * (len(answers) > 1), answer.array) for name, answer in answers]
        rows, columns = ([str(x) for x in labels] for labels in first.labels)
        return heat(title, panels, rows, columns, (first.axes[0], first.axes[1]), len(panels))
    pictures = [draw(answer, blocks, name) for name, answer in found.answers()]
    return stacked(pictures, title)


def effects_page(
    found: Effects, card: CardData, changed: CardData, style: str = "unicode",
    top: int | None = None,
) -> list[Block]:  # fmt: skip
    """The whole page; ``changed`` is the ``card`` with the largest mediator from another text."""
    title = "Causal mediation" if found.direct is not None else "Resample ablation"
    out: list[Block] = [heading(1, f"{title} in {card.title}"), *asked_for(found)]
    if style == "mathml":
        drawn = effects_picture(found, sorted(card.loop_letters))
        out.append(CodeBlock("\n".join(drawn.lines), picture=drawn.svg))
    out += found.page(style, top)
    _, letters = next(found.members())
    out += [heading(2, "The changed model"),
            paragraph(f"The largest effect is that of `{found.mediators.changes(letters)}`. "
                      "With this change the model differs from "
                      f"{card.title} in these lines:")]  # fmt: skip
    for block in difference_blocks(card, changed, style)[1:]:
        out.append(Heading(3, block.text) if isinstance(block, Heading) else block)
    return out


def asked_for(found: Effects) -> list[Block]:
    """The questions in the notation."""
    of, changes = found.of, found.mediators.changes()
    if found.direct is None:
        return [paragraph(f"{literal(f'{of} with {changes}')}, where a prime marks a value of "
                          f"another text.")]  # fmt: skip
    return [
        paragraph(f"The indirect effect is {literal(f'{of} with {changes}')} less {literal(of)}: "
                  f"only this value comes from the text against, whose values have a prime."),
        paragraph("The direct effect is the other way round: everything but this value comes from "
                  "the text against. Both are differences from the number on the text itself."),
    ]  # fmt: skip


def effects_csv(found: Effects) -> str:
    """One line for each member."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    direct = [] if found.direct is None else ["direct"]
    writer.writerow([*found.axes, "value", "indirect", "error", *direct])
    inner, error = found.mean(found.indirect), found.error(found.indirect)
    for place, letters in found.members():
        more = [] if found.direct is None else [float(found.mean(found.direct)[place])]
        writer.writerow([*letters.values(), found.mediators.names(letters), float(inner[place]),
                         float(error[place]), *more])  # fmt: skip
    return out.getvalue()


def effects_json(found: Effects) -> str:
    """All numbers, also those of each pair."""

    def listed(x: np.ndarray | None) -> object:
        return None if x is None else x.tolist()

    said = {
        "of": found.of, "with": found.mediators.changes(), "texts": found.texts,
        "draws": found.draws, "seed": found.seed, "axes": list(found.axes),
        "labels": [list(map(str, x)) for x in found.labels], "base": listed(found.base),
        "other": listed(found.other), "indirect": listed(found.indirect),
        "direct": listed(found.direct),
    }  # fmt: skip
    return json.dumps(said, ensure_ascii=False, indent=1) + "\n"


__all__ = ["effects_csv", "effects_json", "effects_page", "effects_picture"]
