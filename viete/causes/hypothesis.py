"""A hypothesis about a model: a nested list of claims about what the value on each edge depends on.

    - r^{2,1} → logits: answer
      - x^0 → Q^{2,1}: t_{-1}
      - r^{1,1} → K^{2,1}: place, t_{-1}

After the colon stand features of a text: formulas, or words and numbers of its line. ``nothing``
says that the value depends on none. The claims nested below are about the inputs of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from viete.errors import Text, VieteError, os_refusals
from viete.notation.cursor import top_level
from viete.notation.lexer import tokenize
from viete.regular import SETTINGS, regular

NOTHING = "nothing"
_ITEM = re.compile(r"(\s*)[-*] (.*)")
_ARROW = re.compile(r"→|->|\\to\b")


@dataclass(frozen=True)
class EdgeClaim:
    """A writer's effect on a reader depends only on ``features``, and is made as ``parts`` say.

    ``writer`` and ``reader`` are kept as written.
    """

    writer: Text
    reader: Text
    features: tuple[str, ...]
    parts: tuple[EdgeClaim, ...] = ()

    def __str__(self) -> str:
        return f"{self.writer.text} → {self.reader.text}"

    def walk(self) -> Iterator[EdgeClaim]:
        """The claim and all claims below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def read_hypothesis(source: str | Path) -> tuple[EdgeClaim, ...]:
    """The claims of a page, a path or the text itself; those about the number come first.

    Raises VieteError, with the line, for an item that is not a claim, and for a page without one.
    """
    if isinstance(source, Path):
        name = str(source)
        try:
            with os_refusals(source):
                content = regular(source, SETTINGS).read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise VieteError(
                f"{source}: the file is not UTF-8; write a claim a line in UTF-8"
            ) from None
    else:
        content, name = source, "<hypothesis>"
    rows: list[tuple[int, Text]] = []
    for k, line in enumerate(content.splitlines(), 1):
        if (found := _ITEM.fullmatch(line)) is not None:
            column = len(line) - len(found[2]) + 1
            rows.append((len(found[1].expandtabs(4)), Text(found[2], name, k, column, line)))
    if not rows:
        raise VieteError(f"{name}: the file has no claim, such as - r^{{2,1}} → logits: t_{{-1}}")
    return tuple(below(rows, 0, len(rows)))


def below(rows: Sequence[tuple[int, Text]], first: int, end: int) -> Iterator[EdgeClaim]:
    """The claims of some lines, each with the more indented ones after it."""
    k = first
    while k < end:
        depth, text = rows[k]
        last = next((j for j in range(k + 1, end) if rows[j][0] <= depth), end)
        yield claim_of(text, tuple(below(rows, k + 1, last)))
        k = last


def claim_of(text: Text, parts: tuple[EdgeClaim, ...]) -> EdgeClaim:
    """One line as a claim."""
    said = Text(re.sub(r"[$`]", " ", text.text), text.file, text.line, text.column, text.whole)
    arrow, colon = _ARROW.search(said.text), said.text.rfind(":")
    if arrow is None or colon < arrow.end():
        raise text.error("a claim is an edge and what it depends on: r^{2,1} → logits: t_{-1}")
    writer, reader = said.cut(0, arrow.start()), said.cut(arrow.end(), colon)
    behind = said.cut(colon + 1, len(said.text))
    if not (writer.text and reader.text and behind.text):
        raise text.error("a claim is an edge and what it depends on: r^{2,1} → logits: t_{-1}")
    return EdgeClaim(writer, reader, features_of(behind), parts)


def features_of(text: Text) -> tuple[str, ...]:
    """Split formulas at commas."""
    if text.text.strip().rstrip(".") == NOTHING:
        return ()
    tokens = tokenize(text)
    cuts = [-1, *top_level(tokens[:-1], ","), len(tokens) - 1]
    parts = [text.cut(tokens[a + 1].start, tokens[b].start).text.strip()
             for a, b in pairwise(cuts)]  # fmt: skip
    if not all(parts):
        raise text.error("write features with commas between them: place, t_{-1}")
    return tuple(parts)


__all__ = ["EdgeClaim", "read_hypothesis"]
