"""A data-flow diagram as plain data, and what every writer does to its texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from viete.printable import display_width


@dataclass(frozen=True)
class Box:
    """A value, or a step that makes one. Texts are Unicode, with indices such as W^Q and d_k."""

    id: str
    title: str
    lines: tuple[str, ...] = ()  # equations and shapes
    kind: str = "value"  # 'input' | 'value' | 'sum' (of a stream and a branch) | 'output'
    group: str | None = None
    keys: tuple[str, ...] = ()  # plain names of the values it makes
    numbers: tuple[int, ...] = ()  # of its equations


@dataclass(frozen=True)
class BoxGroup:
    """A loop such as 'for i = 1 … N', drawn as a frame around its boxes."""

    id: str
    title: str


@dataclass(frozen=True)
class Arrow:
    """The values that one box passes to another, both named by their ids."""

    source: str
    target: str
    label: str = ""
    residual: bool = False  # a stretch of the residual stream: drawn as one straight line
    back: bool = False  # the recurrence of a loop; it has no say in the rows
    keys: tuple[str, ...] = ()  # plain names of the values it carries
    step: str = ""  # what is done to them where they arrive: 'linear'


@dataclass(frozen=True)
class Diagram:
    """A graph without cycles except for the arrows that lead back."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
    groups: tuple[BoxGroup, ...] = ()


def check(d: Diagram) -> None:
    """Check that a diagram refers only to its own boxes and groups."""
    for what, ids in (("box", [b.id for b in d.boxes]), ("group", [g.id for g in d.groups])):
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"two {what}es have the id {twice[0]!r}".replace("groupes", "groups"))
    boxes, groups = {b.id for b in d.boxes}, {g.id for g in d.groups}
    for b in d.boxes:
        if b.group is not None and b.group not in groups:
            raise ValueError(f"box {b.id!r} is in the group {b.group!r}, which is not there")
    for a in d.arrows:
        for end in (a.source, a.target):
            if end not in boxes:
                raise ValueError(
                    f"the arrow {a.source!r} → {a.target!r} has no box {end!r} to hold on to"
                )


@lru_cache(10_000)
def _clean(text: str) -> str:
    """One line without characters that no medium can show: control characters, lone surrogates."""
    shown = []
    for c in text:
        kind = unicodedata.category(c)
        if c.isspace():
            shown.append(" ")
        elif kind in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE:
            shown.append("\N{REPLACEMENT CHARACTER}")
        elif kind != "Cf":  # invisible, and able to turn the text around
            shown.append(c)
    return " ".join("".join(shown).split())


def cleaned(d: Diagram) -> Diagram:
    """The same diagram, with texts that every medium can show in one line."""
    return Diagram(
        _clean(d.title),
        tuple(
            replace(b, title=_clean(b.title), lines=tuple(_clean(t) for t in b.lines))
            for b in d.boxes
        ),
        tuple(replace(a, label=_clean(a.label), step=_clean(a.step)) for a in d.arrows),
        tuple(replace(g, title=_clean(g.title)) for g in d.groups),
    )


def wrap(text: str, limit: float, wide: Callable[[str], float] = display_width) -> list[str]:
    """Lines no wider than ``limit``, broken at spaces, or anywhere if a word is wider."""
    if wide(text) <= limit:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        if line and wide(f"{line} {word}") > limit:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
        while wide(line) > limit and len(line) > 1:
            cut = next(n for n in range(1, len(line)) if wide(line[: n + 1]) > limit)
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line]
