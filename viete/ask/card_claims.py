"""Checks a card's claims, or claims given beside it, and reports the verdict on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from viete.analysis.kinds import COMPARISONS
from viete.ask.claim_means import OverTexts, is_over_texts
from viete.ask.claim_proofs import proof_of
from viete.ask.claim_runs import ClaimRuns
from viete.ask.claim_texts import ReadTexts, Texts, is_drawn
from viete.ask.claims import Choice, Finding, all_of, one_of, outcomes
from viete.ask.statements import TOLERANCE, Witness
from viete.document.displayed import Displayed
from viete.document.tree import Block, CodeBlock, paragraph, table
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.evaluate.memory import rounded
from viete.evaluate.schedule import parameter_shapes, program
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.tree import Apply, Num
from viete.notation.words import Words

Array = Any
MOST_WEIGHTS = 2 * 10**8  # of float64: 1.6 GB
NAMES = {"row": "row", "col": "column", "batch": "sequence"}


@dataclass(frozen=True)
class Verdict:
    """One claim and what became of it over ``texts`` runs; ``proof`` says why it always holds.

    ``written`` is the claim with its tokens by their words. ``instead`` says that other texts were
    given than the file has that it names.
    """

    claim: Claim
    finding: Finding
    texts: int = 0
    proof: str = ""
    written: str = ""
    instead: bool = False

    @property
    def failure(self) -> Witness | None:
        """Where the claim is false."""
        return self.finding.failure

    @property
    def ok(self) -> bool:
        """Whether it is as it is said to be: true, or false of a claim that is said to be."""
        return not self.finding.empty and (self.failure is None) != self.claim.refuted

    @property
    def word(self) -> str:
        """The verdict in a word; in capitals where it is not as it is said to be."""
        if self.finding.empty:
            return "EMPTY"
        if self.claim.refuted:
            return "fails" if self.ok else "HOLDS"
        return "proved" if self.proof else "holds" if self.failure is None else "FALSE"

    def lines(self) -> list[str]:
        """The verdict as text: the claim, then what was found of it."""
        said = self.written
        said += f": {self.claim.meaning}" if self.claim.meaning else ""
        text = self.claim.text
        if not self.ok and text.file.endswith(".md"):
            said += f" ({text.file}:{text.line})"
        return [f"  {self.word:7} {said}", f"          {self.found()}"]

    def found(self) -> str:
        """What was found, in a line."""
        claim = self.claim
        over = f"{self.texts} text{'s' * (self.texts != 1)}"
        if claim.texts:
            over += " given in place of these" if self.instead else f" of {claim.texts}"
        if self.proof:
            return f"{self.proof}; {self.measured(over)}"
        return self.measured(over)

    def measured(self, over: str) -> str:
        """What was found in runs."""
        claim, out = self.claim, self.finding
        if out.empty:
            return f"it says nothing: nothing satisfies its conditions, over {over}"
        chosen = f" with {place_text(dict(out.choice))}" if out.choice else ""
        if out.failure is not None:
            return numbers_of(out.failure, claim) + chosen
        said = f"measured over {over}{chosen}"
        if (near := out.closest) is None:
            return said
        if near.equates:
            return f"{said}, to {near.difference:.0e}".replace("to 0e+00", "exactly")
        return f"{said}; closest {near.left:.6g} to {near.right:.6g} at {place_text(near.where)}"


@dataclass(frozen=True)
class Claims(Displayed):
    """What became of a card's claims: ``of`` says of which weights and inputs."""

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
        """Whether every claim that can be read is as it is said to be, and there is one."""
        return all(v.ok for v in self.verdicts) and not (self.unread and not self.verdicts)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def joined(self, other: Claims) -> Claims:
        """These and others in one report."""
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
        """What the claims are of."""
        if self.why_not:
            return f"Its claims were not evaluated: {self.why_not}."
        if not self.verdicts:
            return f"{self.card} makes no claims."
        near = f"to {TOLERANCE:.0e} of their terms" if self.meaning == "float" else "exactly"
        return f"Claims of {self.card}, with {self.of}, {near}:"

    def lines(self) -> list[str]:
        """The verdicts as text, with the numbers of what is false."""
        return [self.first_line, *(line for v in self.verdicts for line in v.lines()),
                *self.notes()]  # fmt: skip

    def page(self, style: str = "unicode") -> list[Block]:
        """A row for each verdict."""
        rows = [[f"**{v.word}**", literal(v.written), v.claim.meaning, literal(v.found())]
                for v in self.verdicts]  # fmt: skip
        out: list[Block] = [paragraph(self.first_line)]
        out += [table(["", "claim", "meaning", "found"], rows)] * bool(rows)
        return [*out, *([CodeBlock("\n".join(notes))] if (notes := self.notes()) else [])]

    def notes(self) -> list[str]:
        """What is to be known besides, a line each."""
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
    """The two sides of a false claim, where they are furthest apart."""
    alone = isinstance(claim.statement, Apply) and claim.statement.op in COMPARISONS
    return (
        f"{'' if alone else f'{f.comparison}: '}left {f.left:.6g}, right {f.right:.6g}, a "
        f"difference of {f.difference:.3g} (tolerance {f.tolerance:.0e}) at {place_text(f.where)}"
    )


def place_text(where: Mapping[str, int]) -> str:
    """``i 2, row 3, column 0``."""
    return ", ".join(f"{NAMES.get(s, s)} {k}" for s, k in where.items()) or "its only number"


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
    ``value`` column, and what has none is drawn. ``texts`` are ids (n) for the first input, one run
    each; without them, and without an input of ``inputs``, an input is drawn, unless the card has a
    default. A claim that names texts that are drawn is evaluated on those, and one that names a
    file on this where no texts are given; ``read`` gives the ids of a file of texts, and ``words``
    are the tokens'. What is drawn comes from ``seed``, weights and inputs three times, texts that a
    claim names twelve times. Raises VieteError for weights or inputs that do not fit the card, and
    for a claim about a block that is not there.
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
                  read, seed, words, meaning)  # fmt: skip
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
                written[j] = claim.show("unicode", run.in_words)
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
            verdict = Verdict(claim, finding, runs, written=written[j], instead=instead)
            holds = verdict.failure is None and not verdict.finding.empty and j not in together
            verdicts[j] = replace(verdict, proof=proof_of(card, claim)) if holds else verdict
    ordered = tuple(verdicts[j] for j in range(len(claims)))
    return Claims(card.title, runs_of.of, ordered, meaning=meaning)


def at(out: Finding, place: Mapping[str, int]) -> Finding:
    """An outcome whose places say also in which run they are."""

    def moved(x: Witness | None) -> Witness | None:
        return x and replace(x, where={**x.where, **place})

    return replace(out, failure=moved(out.failure), closest=moved(out.closest))


def smaller(card: CardData) -> str:
    """An example of small dimensions: a 64th of each large one that is a number of its own."""
    shapes = [card.size(e) for p in card.parameters for e in p.shape]
    sizes = {n for s in shapes if s is not None for n in s.substitute(card.definitions).names()}
    large = {d.name: int(card.sizes[d.name]) for d in card.dims
             if d.name in sizes and isinstance(d.value, Num) and d.value.value > 1000}  # fmt: skip
    return " ".join(f"--set {name}={n // 64}" for name, n in large.items()) or "--set N=2"


__all__ = ["Claims", "Verdict", "check_claims"]
