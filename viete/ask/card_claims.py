"""Checks a card's claims, or claims given beside it, and reports the verdict on each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any

from viete.analysis.kinds import COMPARISONS
from viete.ask.claim_means import OverTexts, is_over_texts
from viete.ask.claim_proofs import Proof, proof_of
from viete.ask.claim_runs import ClaimRuns, inputs_needed
from viete.ask.claim_texts import ReadTexts, Texts, is_drawn
from viete.ask.claims import Choice, Finding, all_of, one_of, outcomes
from viete.ask.statements import TOLERANCE, Witness
from viete.document.displayed import Displayed
from viete.document.tree import Block, CodeBlock, paragraph, table
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.evaluate.labels import word_printer
from viete.evaluate.memory import rounded
from viete.evaluate.schedule import parameter_shapes, program
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.tree import Apply, Num
from viete.notation.words import Words

Array = Any
MOST_WEIGHTS = 2 * 10**8  # of float64: 1.6 GB
WRONG = "✗"  # before a verdict that is not the one claimed
NAMES = {"row": "row", "col": "column", "batch": "sequence"}


@dataclass(frozen=True)
class Verdict:
    """One claim and its verdict over ``texts`` runs; ``proof`` says why it always holds.

    ``written`` is the claim with its tokens as words. ``instead`` says that the given texts
    replaced those of the file that the claim names. With the ``meaning`` 'exact' each comparison is
    decided.
    """

    claim: Claim
    finding: Finding
    texts: int = 0
    proof: Proof | None = None
    written: str = ""
    instead: bool = False
    meaning: str = "float"

    @property
    def failure(self) -> Witness | None:
        """The place where the claim is false, or None."""
        return self.finding.failure

    @property
    def ok(self) -> bool:
        """Whether the verdict is the expected one: true, or false of a claim given as false."""
        return not self.finding.empty and (self.failure is None) != self.claim.refuted

    @property
    def word(self) -> str:
        """The verdict in a word: proved, holds, false, or empty."""
        if self.finding.empty:
            return "empty"
        return "proved" if self.proof else "holds" if self.failure is None else "false"

    def lines(self) -> list[str]:
        """The verdict as text: the claim, then what was found."""
        said = self.written
        said += f": {self.claim.meaning}" if self.claim.meaning else ""
        text = self.claim.text
        if not self.ok and text.file.endswith(".md"):
            said += f" ({text.file}:{text.line})"
        return [f"{' ' if self.ok else WRONG} {self.word:7} {said}", f"          {self.found()}"]

    @property
    def data(self) -> dict[str, Any]:
        """The verdict as data; a proof with all rules and definitions that it used."""
        claim, near, proof = self.claim, self.failure or self.finding.closest, self.proof
        out: dict[str, Any] = {"claim": self.written, "verdict": self.word, "ok": self.ok,
                               "found": self.found(), "runs": self.texts}  # fmt: skip
        if proof is not None:
            out["proof"] = {"rules": [*proof.rules], "definitions": [*proof.definitions]}
        if near is not None:
            numbers = {"left": near.left, "right": near.right}
            out |= {side: x if isfinite(x) else str(x) for side, x in numbers.items()}
            out["at"] = {NAMES.get(s, s): k for s, k in near.where.items()}
        if claim.meaning:
            out["meaning"] = claim.meaning
        return out

    def found(self) -> str:
        """What was found, in one line."""
        claim = self.claim
        over = f"{self.texts} text{'s' * (self.texts != 1)}"
        if claim.texts:
            over += " given instead" if self.instead else f" of {claim.texts}"
        if self.proof:
            return f"{self.proof}; {self.measured(over)}"
        return self.measured(over)

    def measured(self, over: str) -> str:
        """What was found on the runs."""
        claim, out = self.claim, self.finding
        if out.empty:
            return f"it says nothing: nothing satisfies its conditions, over {over}"
        chosen = f" with {place_text(dict(out.choice))}" if out.choice else ""
        if out.failure is not None:
            return numbers_of(out.failure, claim) + chosen
        said = f"{'decided' if self.meaning == 'exact' else 'measured'} over {over}{chosen}"
        if (near := out.closest) is None:
            return said
        if near.equates:
            return f"{said}, to {near.difference:.0e}".replace("to 0e+00", "exactly")
        return f"{said}; closest {near.left:.6g} to {near.right:.6g}{at_place(near.where)}"


@dataclass(frozen=True)
class Claims(Displayed):
    """The verdicts on a card's claims; ``of`` says with which weights and inputs."""

    card: str
    of: str
    verdicts: tuple[Verdict, ...] = ()
    why_not: str = ""  # the claims were not evaluated
    defined: tuple[str, ...] = ()  # by a page of claims, names
    readings: tuple[str, ...] = ()  # how something was read that may be meant otherwise
    prose: tuple[str, ...] = ()  # of a page, formulas that are not claims
    unread: tuple[VieteError, ...] = ()  # and why others cannot be read
    meaning: str = "float"

    @property
    def ok(self) -> bool:
        """Whether all verdicts are the expected ones, and at least one if there are statements."""
        return all(v.ok for v in self.verdicts) and not (self.unread and not self.verdicts)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def joined(self, other: Claims) -> Claims:
        """This report with the claims of another added."""
        return replace(
            self,
            verdicts=(*self.verdicts, *other.verdicts),
            defined=(*self.defined, *other.defined),
            readings=(*self.readings, *other.readings),
            prose=(*self.prose, *other.prose),
            unread=(*self.unread, *other.unread),
        )

    @property
    def first_line(self) -> str:
        """A line that says what the claims are of."""
        if self.why_not:
            return f"Its claims were not evaluated: {self.why_not}."
        if not self.verdicts:
            return f"{self.card} makes no claims."
        near = (
            f"within {TOLERANCE:.0e} of the size of their terms"
            if self.meaning == "float"
            else "exactly"
        )
        return f"Claims of {self.card}, with {self.of}, {near}:"

    def lines(self) -> list[str]:
        """The verdicts as text, with the numbers of each false claim."""
        return [self.first_line, *(line for v in self.verdicts for line in v.lines()),
                *self.notes()]  # fmt: skip

    @property
    def json(self) -> str:
        """The report as JSON: an object for each verdict, and the notes."""
        verdicts = [v.data for v in self.verdicts]
        said = {"card": self.card, "of": self.of, "verdicts": verdicts, "notes": self.notes()}
        return json.dumps(said, ensure_ascii=False, indent=1)

    def page(self, style: str = "unicode") -> list[Block]:
        """A table with a row for each verdict."""
        rows = [[f"{'' if v.ok else WRONG + ' '}**{v.word}**", literal(v.written), v.claim.meaning,
                 literal(v.found())] for v in self.verdicts]  # fmt: skip
        out: list[Block] = [paragraph(self.first_line)]
        out += [table(["", "claim", "meaning", "found"], rows)] * bool(rows)
        return [*out, *([CodeBlock("\n".join(notes))] if (notes := self.notes()) else [])]

    def notes(self) -> list[str]:
        """Further notes, a line each."""
        out: list[str] = []
        if self.defined:
            out.append(f"Defined for them: {', '.join(self.defined)}.")
        out += [f"Note: {said}" for said in dict.fromkeys(self.readings)]
        if self.prose:
            out.append(f"No claims: {'; '.join(dict.fromkeys(self.prose))}.")
        for error in self.unread:
            out += ["Not read:", *str(error).splitlines()]
        return out


def numbers_of(f: Witness, claim: Claim) -> str:
    """The two sides of a false claim at the place where they differ most."""
    alone = isinstance(claim.statement, Apply) and claim.statement.op in COMPARISONS
    allowed = f" (tolerance {f.tolerance:.0e})" if f.tolerance else ""  # none of exact numbers
    return (
        f"{'' if alone else f'{f.comparison}: '}left {f.left:.6g}, right {f.right:.6g}, a "
        f"difference of {f.difference:.3g}{allowed}{at_place(f.where)}"
    )


def place_text(where: Mapping[str, int]) -> str:
    """A place as text: ``i 2, row 3, column 0``."""
    return ", ".join(f"{NAMES.get(s, s)} {k}" for s, k in where.items())


def at_place(where: Mapping[str, int]) -> str:
    """`` at row 3, column 0``, or nothing for a claim about a single number."""
    return f" at {place_text(where)}" if where else ""


def check_claims(
    card: CardData, weights: Mapping[str, Array] | None = None,
    inputs: Mapping[str, Array] | None = None, seed: int = 0, *,
    claims: Sequence[Claim] | None = None, texts: Texts | None = None,
    read: ReadTexts | None = None, words: Callable[[], Words] | None = None,
    meaning: str = "float",
) -> Claims:  # fmt: skip
    """Evaluate claims, by default the card's, for all values of their letters.

    With the ``meaning`` 'float' that is in float64, to rounding; with 'exact' all is decided.

    ``weights`` are by the names of `parameter_shapes`; without them they are the card's own
    ``value`` column, and weights without a value are drawn. ``texts`` are ids (n) for the first
    input, one run each; without them, and without an input of ``inputs``, an input is drawn, unless
    the card has a default. A claim that names drawn texts is evaluated on these, and one that names
    a file on that file if no texts are given; ``read`` gives the ids of a file of texts, and
    ``words`` are the words of tokens. Draws come from ``seed``: weights and inputs three times,
    texts that a claim names twelve times. Raises VieteError for weights or inputs that do not fit
    the card, and for a claim about a missing block.
    """
    claims = card.claims if claims is None else claims
    if not claims:
        return Claims(card.title, "")
    own = all(p.value for p in card.parameters)
    count = sum(map(prod, parameter_shapes(card).values()))
    if weights is None and count > MOST_WEIGHTS:
        raise VieteError(
            f"{card.title} has {rounded(count)} weights, too many to draw for its claims; give "
            f"smaller dimensions with --set, such as {smaller(card)}"
        )
    runs_of = ClaimRuns(program(card), weights, weights is None and not own, inputs or {}, texts,
                  read, seed, words, meaning,
                  inputs_needed(card, claims))  # fmt: skip
    verdicts: dict[int, Verdict] = {}
    for about in dict.fromkeys((c.texts, c.count) for c in claims):
        group = {j: c for j, c in enumerate(claims) if (c.texts, c.count) == about}
        instead = bool(about[0]) and texts is not None and not is_drawn(about[0])
        found: dict[int, dict[Choice, Finding]] = {j: {} for j in group}
        together = {j: OverTexts(c) for j, c in group.items() if is_over_texts(c)}
        runs, written = 0, dict[int, str]()
        for place, run in runs_of.runs(*about):
            runs += 1
            for j, claim in group.items():
                written[j] = claim.show("unicode", word_printer(run, "unicode"))
                if j in together:
                    together[j].add(run)
                    continue
                for choice, made in outcomes(run, claim).items():
                    before = found[j].get(choice)
                    placed = at(made, place)
                    found[j][choice] = placed if before is None else all_of((before, placed))
        for j, over in together.items():
            found[j] = outcomes(run, over.made())
        for j, claim in group.items():
            finding = one_of(found[j].values())
            verdict = Verdict(claim, finding, runs, None, written[j], instead, meaning)
            holds = verdict.failure is None and not verdict.finding.empty and j not in together
            verdicts[j] = replace(verdict, proof=proof_of(card, claim)) if holds else verdict
    ordered = tuple(verdicts[j] for j in range(len(claims)))
    return Claims(card.title, runs_of.of, ordered, meaning=meaning)


def at(out: Finding, place: Mapping[str, int]) -> Finding:
    """A finding whose places also name the run."""

    def moved(x: Witness | None) -> Witness | None:
        return x and replace(x, where={**x.where, **place})

    return replace(out, failure=moved(out.failure), closest=moved(out.closest))


def smaller(card: CardData) -> str:
    """An example of small dimensions: each large one that is a plain number, divided by 64."""
    shapes = [card.size(e) for p in card.parameters for e in p.shape]
    sizes = {n for s in shapes if s is not None for n in s.substitute(card.definitions).names()}
    large = {d.name: int(card.sizes[d.name]) for d in card.dims
             if d.name in sizes and isinstance(d.value, Num) and d.value.value > 1000}  # fmt: skip
    return " ".join(f"--set {name}={n // 64}" for name, n in large.items()) or "--set N=2"


__all__ = ["Claims", "Verdict", "check_claims"]
