"""The outline of a lesson: its parts, and the pipeline that every step shows its place in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from viete.document.tree import Chip
from viete.evaluate.schedule import Step as Turn
from viete.report.lesson.words import StepWords


@dataclass(frozen=True)
class Station:
    """Turns that are one stage of the pipeline, in one block."""

    chips: tuple[str, ...]
    block: str
    turns: tuple[Turn, ...]


class Outline:
    """The stations of a run: consecutive turns of the same stage, in one block."""

    def __init__(self, turns: list[Turn], words: StepWords) -> None:
        self.words = words
        keyed = groupby(turns, key=lambda t: (block_of(t), tuple(words.chips(t.equation))))
        self.stations = [Station(chips, block, tuple(found)) for (block, chips), found in keyed]
        last = turns[-1].equation if turns else None
        self.ends = last is not None and "argmax" in words.chips(last)

    def chips(self, now: Turn | None) -> list[Chip]:
        """``tokens``, then every stage; for another block only its number."""
        out = [Chip("tokens", now is None, now is not None)]
        here = next((k for k, s in enumerate(self.stations) if now in s.turns), -1)
        block = self.stations[here].block if here >= 0 else ""
        for k, station in enumerate(self.stations):
            names = (station.block,) if station.block and station.block != block else station.chips
            for name in names:
                chip = Chip(name, k == here, k < here)
                if out[-1].text != name or name not in (station.block,):
                    out.append(chip)
        return out + [Chip("output token", False, False)] * self.ends


def block_of(turn: Turn) -> str:
    """``block 2``; empty outside of a loop."""
    numbers = ", ".join(str(k) for k in turn.loops.values())
    return f"block {numbers}" if numbers else ""


__all__ = ["Outline", "Station"]
