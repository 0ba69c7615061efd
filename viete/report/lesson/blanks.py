"""The values that a worksheet asks for: names such as ``A``, ``A^2`` or ``A^{2,1}`` in a lesson."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from viete.document.tree import Chain, RegisterRow, listed
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.report.lesson.document import LessonStep

Heads = Mapping[str, int]  # the head of each letter that a question is about; of others every head
_ROW = re.compile(r"_\{?-?\d+\}?$|\[[^\]]*\]$")


def questions(steps: Sequence[LessonStep], names: Sequence[str]) -> dict[int, list[Heads]]:
    """The numbers of the steps that make a named value, with the heads that are asked for.

    Without names, every step. Raises VieteError for a name that no step makes.
    """
    if not names:
        return {s.number: [{}] for s in steps}
    known = heads(steps)
    out: dict[int, list[Heads]] = {}
    for name in names:
        found = {s.number: at for s in steps if (at := selected(s, name)) is not None}
        ranges = [k in known.get(letter, [k]) for at in found.values() for letter, k in at.items()]
        if not found or not all(ranges):
            raise VieteError(f"--blank: {refusal(steps, name)}")
        for number, at in found.items():
            out.setdefault(number, []).append(at)
    return out


def check_names(card: CardData, names: Sequence[str]) -> None:
    """Raise VieteError for a name that no equation can make, before a lesson is made."""
    made = dict.fromkeys(e.left.symbol.base for e in card.equations)
    bases = {*made, *(parts(show(e.left))[0] for e in card.equations)}
    for name in names:
        if parts(_ROW.sub("", name.strip()))[0] not in bases:
            raise VieteError(f"--blank: no step makes {name}; the steps make {listed([*made])}")


def is_about(line: Chain | RegisterRow, asked: Sequence[Heads]) -> bool:
    """Whether one of the questions is about a line, or about its value in a register."""
    own = dict(line.heads)
    return any(all(own.get(letter, k) == k for letter, k in at.items()) for at in asked)


def selected(step: LessonStep, name: str) -> Heads | None:
    """The heads that a name asks for in a step's value; None if it names another value.

    ``A`` is the value of every block and head, ``A^2`` that of block 2, ``A^{2,1}`` of its head 1.
    """
    base, scripts = parts(name)
    own, made = parts(step.makes)
    family = parts(step.family)[1]
    if base != own or len(scripts) > len(made):
        return None
    out = {}
    for script, number, letter in zip(scripts, made, family, strict=False):
        if script in (number, letter):
            continue
        if number.isdigit() or not script.isdigit():
            return None
        out[number] = int(script)
    return out


def parts(name: str) -> tuple[str, list[str]]:
    """``A`` and its scripts 2 and h, of ``A^{2,h}``."""
    base, _, above = name.partition("^")
    return base.strip(), [x for x in re.sub(r"[{}\s]", "", above).split(",") if x]


def heads(steps: Sequence[LessonStep]) -> dict[str, list[int]]:
    """The heads that the lines of a lesson are about, by their letters."""
    out: dict[str, set[int]] = {}
    for line in (x for s in steps for side in s.sides for x in side.lines):
        for letter, k in line.heads:
            out.setdefault(letter, set()).add(k)
    return {letter: sorted(found) for letter, found in out.items()}


def refusal(steps: Sequence[LessonStep], name: str) -> str:
    """Why a name is refused, and the names that are not."""
    without = _ROW.sub("", name.strip())
    if without != name.strip() and any(selected(s, without) is not None for s in steps):
        return (f"{name} is one row of {without}; write --blank {without}, and --position for "
                "the position")  # fmt: skip
    numbers: dict[str, dict[int, None]] = {}
    for s in steps:
        for number, letter in zip(parts(s.makes)[1], parts(s.family)[1], strict=False):
            if number != letter:
                numbers.setdefault(letter, {})[int(number)] = None
    numbers |= {letter: dict.fromkeys(found) for letter, found in heads(steps).items()}
    where = "; ".join(f"{letter} = {', '.join(map(str, k))}" for letter, k in numbers.items())
    names = listed(dict.fromkeys(s.family for s in steps))
    return f"no step makes {name}; the steps make {names}" + f" (for {where})" * bool(where)


__all__ = ["Heads", "is_about", "questions"]
