"""Results of causal scrubbing: the share of a number that survives, and the cost of each claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viete.causes.hypothesis import EdgeClaim
from viete.causes.mediation import brief
from viete.causes.scrubbing import Scrubbing, check_length
from viete.circuits.ablation import check_finite
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, paragraph, table
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.notation.printer import show
from viete.notation.tree import Expr

SAME = 1e-6  # of two numbers, in relation to them


@dataclass(frozen=True)
class ScrubFindings(Displayed):
    """The number ``of`` for the model, for random texts' values, and for a hypothesis.

    ``of_model``, ``of_random`` and ``scrubbed`` have a number for each text, the latter two for
    each of ``draws`` of them. ``costs`` are the share that each claim loses, ``agreement`` the
    number of other texts that agree with a text on the claim's features.
    """

    of: Expr
    texts: str
    claims: tuple[EdgeClaim, ...]
    of_model: np.ndarray
    of_random: np.ndarray
    scrubbed: np.ndarray
    costs: Mapping[EdgeClaim, float]
    agreement: Mapping[EdgeClaim, float]
    draws: int
    seed: int

    @property
    def recovered(self) -> float:
        """The share of the number that is left: 1 for the model, 0 with random texts' values."""
        return self.share(self.scrubbed)

    def share(self, numbers: np.ndarray) -> float:
        """The place of a number on the way from random texts' values (0) to the model (1)."""
        none = float(self.of_random.mean())
        return (float(numbers.mean()) - none) / (float(self.of_model.mean()) - none)

    @property
    def error(self) -> float:
        """The standard error of the share that is left, by the spread over texts and draws."""
        span = float(self.of_model.mean()) - float(self.of_random.mean())
        count = max(len(self.scrubbed), 2)
        return float(self.scrubbed.std(ddof=1)) / abs(span) / count**0.5

    def sentences(self) -> list[str]:
        """The measurements in words."""
        model, none, here = (brief(x.mean()) for x in
                             (self.of_model, self.of_random, self.scrubbed))  # fmt: skip
        return [
            f"The mean of {literal(show(self.of, 'unicode'))} over {self.texts} is {model}. It is "
            f"{none} with all values from random other texts, and {here} with values from texts "
            f"that agree on the features of the hypothesis.",
            f"So the hypothesis explains {self.recovered:.1%} of the number, ± {self.error:.1%} "
            f"(standard error). {self.draws} draws for each text, seed {self.seed}.",
        ]

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """A table with a row for each claim, indented by depth."""
        rows: list[list[str]] = []

        def add(claim: EdgeClaim, deep: int) -> None:
            alike = self.agreement[claim]
            said = ", ".join(claim.features) or "nothing"
            rows.append([f"{'· ' * deep}{claim}", said, f"{alike:.1f}",
                         f"{self.costs[claim]:+.1%}"])  # fmt: skip
            for part in claim.parts:
                add(part, deep + 1)

        for claim in self.claims:
            add(claim, 0)
        header = ["edge", "depends on", "other texts that agree", "lost by it"]
        return [*map(paragraph, self.sentences()), table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def scrub_findings(scrubbing: Scrubbing, texts: str, draws: int, seed: int) -> ScrubFindings:
    """The measurements of a hypothesis.

    Raises VieteError where the number is the same with all values from random texts, and for texts
    of which no two have the same length.
    """
    check_length(scrubbing.groups)
    of_model, of_random = scrubbing.model.of_model, scrubbing.random(draws, seed)
    check_finite(scrubbing.model.of, of_model, "as it is")
    check_finite(scrubbing.model.of, of_random, "where all values are of any text")
    whole, none = float(of_model.mean()), float(of_random.mean())
    if not abs(whole - none) > SAME * max(abs(whole), abs(none)):
        raise VieteError(
            f"the mean of {show(scrubbing.model.of)} is {whole:.6g}, and stays the same when every "
            f"value comes from a random text, so there is nothing to explain"
        )
    scrubbed = scrubbing.numbers(draws, seed)
    every = [c for top in scrubbing.claims for c in top.walk()]
    costs = {c: float(scrubbing.numbers(draws, seed, c).mean() - scrubbed.mean()) / (whole - none)
             for c in every}  # fmt: skip
    return ScrubFindings(
        scrubbing.model.of, texts, scrubbing.claims, of_model, of_random, scrubbed, costs,
        {c: scrubbing.agreement(c) for c in every}, draws, seed,
    )  # fmt: skip


__all__ = ["ScrubFindings", "scrub_findings"]
