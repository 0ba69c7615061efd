"""Summaries of exact numbers: up to which step they are fractions, and what is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from viete.analysis import roles as role
from viete.document.tree import listed
from viete.evaluate.schedule import Step as Turn
from viete.meanings.exact.factoring import is_evident, reason
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun
from viete.report.lesson.formulas import NumberFormulas
from viete.report.lesson.outline import Station
from viete.report.lesson.positions import Track
from viete.report.lesson.summaries import MOST_SEEN, Summaries
from viete.report.lesson.words import StepWords

KINDS = {
    RATIONAL: "fractions", CLOSED: "roots and powers of e", NAMED: "too long to write out",
}  # fmt: skip


class ExactSummaries(Summaries):
    """Writes the summaries of one exact run."""

    def __init__(
        self, run: ExactRun, tracks: list[Track], words: StepWords, formulas: NumberFormulas,
        place: Callable[[int], str], token: Callable[[int], str], name: Callable[[Turn], str],
    ) -> None:  # fmt: skip
        super().__init__(run, words, formulas, place, token, name)
        self.exact, self.tracks = run, tracks
        self.level: dict[int, int] = {}  # of each position, as far as it was told
        self.left = False  # whether any position has left the fractions
        self.named = False  # whether it was said what a named number is

    def levels(self, station: Station, followed: Sequence[int]) -> list[str]:
        """The positions whose numbers change their kind in a part, and from where on."""
        out: dict[tuple[Any, int, int], tuple[Turn, list[int]]] = {}
        for j in followed:
            track = next((t for t in self.tracks if t.position == j), None)
            inside = [x for x in track.levels if x[0] in station.turns] if track else []
            before = self.level.get(j, RATIONAL)
            if inside and (level := inside[-1][1]) != before:
                turn = next(turn for k, (turn, _) in enumerate(inside)
                            if {x for _, x in inside[k:]} == {level})  # fmt: skip
                out.setdefault((turn.makes, before, level), (turn, []))[1].append(j)
                self.level[j] = level
        changed = {j for _, found in out.values() for j in found}
        said = [self.change(turn, before, level, found)
                for (_, before, level), (turn, found) in out.items()]  # fmt: skip
        here = {t.position for t in self.tracks if any(x in station.turns for x, _ in t.levels)}
        still = [j for j in followed
                 if j in here - changed and self.level.get(j, RATIONAL) == RATIONAL]  # fmt: skip
        tried = {role.NORM, role.WEIGHTS} & {r for t in station.turns
                                             for r in self.words.roles(t.equation)}  # fmt: skip
        if still and (said or tried):
            every = len(still) == len(self.tracks)
            of = "all positions" if every else self.together(still)
            said.append(f"The numbers of {of} are {'still ' * (not self.left)}fractions.")
        self.left |= bool(out)
        return said

    def together(self, found: list[int]) -> str:
        return f"position{'s' * (len(found) > 1)} {listed(map(self.place, found))}"

    def change(self, turn: Turn, before: int, level: int, found: list[int]) -> str:
        name, whose = self.name(turn), f"the numbers of {self.together(found)}"
        if level == RATIONAL:
            why = "the irrational parts cancel exactly" if (
                role.NORM in self.words.roles(turn.equation)
            ) else "no root or power of e is left in them"  # fmt: skip
            return f"From {name} on, {whose} are fractions again: {why}."
        if level == CLOSED and before == RATIONAL:
            return (f"From {name} on, {whose} are no longer fractions: {self.brings(turn)}, and "
                    "Viète keeps them exactly.")  # fmt: skip
        if level == CLOSED:
            return f"From {name} on, {whose} are again made of roots and powers of e."
        first, self.named = not self.named, True
        meant = (" They are still exact, and their digits are proven. Whether two of them are "
                 "equal cannot always be decided.")  # fmt: skip
        return (
            f"From {name} on, {whose} are too long to write out, so their "
            f"first digits are shown.{meant * first}"
        )

    def brings(self, turn: Turn) -> str:
        found = self.words.roles(turn.equation)
        if role.WEIGHTS in found or role.PROBABILITIES in found:
            return "softmax of several scores gives powers of e"
        if role.NORM in found:
            return "the norm gives square roots"
        if role.SCORES in found:
            return "the division gives square roots"
        return "here come roots or powers of e"

    # -- what is predicted -------------------------------------------------------------------------

    def because(self, best: Number, second: Number, gap: Number) -> str:
        f = self.formulas
        if best.rational is not None and second.rational is not None:
            return f.compared(f.plain_number(best), f.plain_number(second))
        if is_evident(best) and is_evident(second) and best.sign() > 0 >= second.sign():
            return "because its score is the only positive one"
        if (found := reason(gap)) is not None:
            left, sign, right = found
            return f"because ${f.e(left)} {sign} {f.e(right)}$"
        if is_evident(gap) and (more := f.exact(gap)):
            return f"because its score is greater by ${more}$"
        return super().because(best, second, gap)

    # -- the end -----------------------------------------------------------------------------------

    def conclusions(self) -> list[str]:
        """Sentences on the numbers of the whole run."""
        alike: dict[Any, list[Track]] = {}
        for track in self.tracks[:MOST_SEEN]:
            levels = tuple((turn.makes, level) for turn, level in track.levels)
            alike.setdefault(levels, []).append(track)
        out = [self.track(found) for found in alike.values()]
        turns = [t for t in self.run.program.steps if t.makes in self.exact.status]
        if any(self.exact.status[t.makes].level == CLOSED for t in turns):
            out.append("Whether two numbers with roots and powers of e are equal is decided by "
                       "theorems (Besicovitch 1940; Lindemann and Weierstrass), not by "
                       "rounding.")  # fmt: skip
        if count := len(self.exact.names):
            many = f"{count} numbers are" if count > 1 else "One number is"
            out.append(f"{many} too long to write out.")
        bits = max((self.exact.status[t.makes].bits for t in turns), default=0)
        if bits:
            out.append("Which of two numbers is greater was decided by computing binary digits "
                       f"until it was certain: at most {bits} digits.")  # fmt: skip
        for t in turns:
            out += [f"In {self.name(t)}, {tie}." for tie in self.exact.status[t.makes].ties]
        if all(self.exact.status[t.makes].level == RATIONAL for t in turns):
            out.append("Every number here is a fraction. Nothing was rounded.")
        else:
            out.append("The digits after ≈ are proven; only the last one is rounded.")
        return [*out, "All this holds for these weights and this text. With floating-point "
                      "numbers the last digits may differ."]  # fmt: skip

    def track(self, alike: list[Track]) -> str:
        """``At position 1 the numbers are fractions up to S, roots and powers of e from A …``"""
        track, where_from = alike[0], self.together([t.position for t in alike])
        runs = [(level, [t for t, _ in found])
                for level, found in groupby(track.levels, key=lambda x: x[1])]  # fmt: skip
        if len(runs) <= 1:
            level = runs[0][0] if runs else RATIONAL
            return f"At {where_from} all numbers are {KINDS[level]}."
        parts = []
        for k, (level, turns) in enumerate(runs):
            first, last = self.name(turns[0]), self.name(turns[-1])
            again = " again" if level == RATIONAL and k else ""
            where = f"up to {last}" if k == 0 else f"from {first} on" if k == len(runs) - 1 else (
                f"in {first}" if len(turns) == 1 else f"from {first} to {last}")  # fmt: skip
            parts.append(f"{KINDS[level]}{again} {where}")
        return f"At {where_from} the numbers are {listed(parts)}."


__all__ = ["ExactSummaries"]
