"""A lesson as plain data: what every format writes. Formulas stand between dollar signs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chip:
    """One stage of the pipeline; ``now`` is what this step computes."""

    text: str
    now: bool = False
    done: bool = False


@dataclass(frozen=True)
class Line:
    """``name = came about = value ≈ digits``; each a formula or empty.

    ``note`` says what is left out.
    """

    name: str
    put_in: str = ""
    value: str = ""
    digits: str = ""
    note: str = ""

    def formula(self, about: str) -> str:
        """All of it as one formula; ``about`` is the sign before the digits."""
        out = self.name
        for text in dict.fromkeys(t for t in (self.put_in, self.value) if t):
            out += f" = {text}"
        return out + (f" {about} {self.digits}" if self.digits else "")


@dataclass
class Substep:
    """A stage on the way to a step's value."""

    formula: str
    why: str
    lines: list[Line]


@dataclass
class Step:
    """One equation for the followed position."""

    number: int
    title: str
    why: list[str]
    formula: str
    parts: list[Substep] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    pipeline: list[Chip] = field(default_factory=list)


@dataclass
class Grid:
    """A small table of numbers with a caption."""

    caption: str
    header: list[str]
    rows: list[list[str]]


@dataclass
class Section:
    """One followed position."""

    title: str
    intro: list[str]
    steps: list[Step]


@dataclass
class Lesson:
    """A title, what is given, the followed positions, and what may be concluded."""

    title: str
    intro: list[str]
    grids: list[Grid]
    positions: list[str]
    sections: list[Section]
    closing: list[str]
