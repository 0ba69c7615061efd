"""The runs on which claims are checked: with given weights and inputs, or with random ones.

A random draw ignores the card's ``init`` column, in which biases are 0 and norm gains are 1: many
false claims would hold for such weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.ask.claim_texts import ReadTexts, Texts, is_drawn, texts_of
from viete.ask.example_list import Example, numbers_of
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.initial_weights import initial_weights, literal_fractions
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program
from viete.graph.card import CardData, Input
from viete.graph.claim import Claim
from viete.graph.dependence import backward_slice, names_read
from viete.meanings.entries import run_entries
from viete.meanings.run import MEANINGS
from viete.notation.printer import show
from viete.notation.words import Words
from viete.rewrite.opening import underived

DRAWS = 3  # of what is random
LENGTHS = (5, 2, 7)  # of a draw's texts


@dataclass(frozen=True)
class ClaimRuns:
    """The runs on which claims are checked; ``loose`` says whether the weights are drawn.

    ``words`` are those of a tokenizer, if the card has none. ``needed`` are the inputs on which the
    claims depend, by name.
    """

    ready: Program
    weights: Mapping[str, Array] | None
    loose: bool
    inputs: Mapping[str, Array]
    texts: Texts | None
    read: ReadTexts | None
    seed: int
    words: Callable[[], Words] | None = None
    meaning: str = "float"
    needed: frozenset[str] = frozenset()

    @property
    def of(self) -> str:
        """The weights and inputs of these runs, in words."""
        first = [i.name for i in self.ready.model.inputs[:1]] if self.texts is not None else []
        missing = [name for name in self.missing if name not in first]
        given = bool(self.inputs or first)  # then only some of the inputs are drawn
        which = ", ".join(missing) if given else "inputs"
        drawn = ["weights"] * self.loose + [which] * bool(missing)
        fixed = "the card's own weights" if self.weights is None else "these weights"
        of = [] if self.loose else [fixed]
        of += ["this input"] * bool(self.inputs) + ["these texts"] * (self.texts is not None)
        if drawn:
            draws = f"{DRAWS} draws, " * (self.loose or self.texts is None)
            of.append(f"random {' and '.join(drawn)} ({draws}seed {self.seed})")
        return ", ".join(of[:-1]) + " and " * (len(of) > 1) + of[-1] if of else ""

    def runs(self, source: str, count: int = 0) -> Iterator[tuple[dict[str, int], Run]]:
        """Each run, on these texts or on given or drawn inputs, with the place that names it.

        Given texts replace those of a file.
        """
        texts = self.texts
        if source and (texts is None or is_drawn(source)):
            texts = texts_of(source, self.ready.model, self.seed, self.read, count)
        drawn = self.loose or (texts is None and self.draws_inputs)
        weights = None
        for k in range(DRAWS if drawn else 1):
            weights = self.weights_of(k) if weights is None or self.loose else weights
            draw = np.random.default_rng([self.seed, k])
            several: Sequence[Example | None] = [None] if texts is None else texts
            for number, text in enumerate(several, 1):
                given = dict(self.inputs)
                if text is not None:
                    given |= self.inputs_of(text, several, is_drawn(source))
                rest = random_inputs(self.ready, draw, LENGTHS[k], given)
                place = {"draw": k + 1} if drawn and k else {}
                place |= {"text": number} if text is not None else {}
                run = self.run({**rest, **given}, weights)
                if self.words is not None:
                    run.scope = replace(run.scope, words=self.words)
                yield place, run

    def inputs_of(
        self, text: Example, texts: Sequence[Example | None], drawn: bool
    ) -> dict[str, Array]:
        """The inputs that a text gives: its ids, and the tokens and numbers that come with texts.

        Raises VieteError for a text that is not drawn and lacks a token or a number that the card
        needs.
        """
        first, *others = self.ready.model.inputs
        words = self.ready.model.words if self.words is None else self.words()
        known = set[str]().union(*(x.values for x in texts if x is not None))
        if not drawn:
            known |= {i.name for i in others if not i.shape and i.default is None}
        own = [i.name for i in others if i.name in known - {*self.inputs}]
        return {
            first.name: text.text,
            **{n: np.array(x) for n, x in numbers_of(text, own, words).items()},
        }

    def run(self, given: Mapping[str, Array], weights: Mapping[str, Array]) -> Run:
        """One run in these numbers."""
        kind = MEANINGS[self.meaning]
        if kind is None:
            return execute(self.ready, given, weights)
        return run_entries(kind(), self.ready, given, weights, None, {})

    @property
    def draws_inputs(self) -> bool:
        """Whether an input that the claims need, and that has no default, is not given."""
        return bool(self.missing)

    @property
    def missing(self) -> list[str]:
        """The inputs that the claims need and that are not given."""
        found = dict.fromkeys(i.name for i, _ in self.ready.inputs.values() if i.default is None)
        return [x for x in found if x in self.needed and x not in self.inputs]

    def weights_of(self, k: int) -> dict[str, Any]:
        """The weights of draw ``k``, in float64, or as the card writes them."""
        if self.weights is None:
            drawn = random_weights(self.ready.model, self.seed + k)
            literal = {} if self.meaning == "float" else literal_fractions(self.ready.model)
            return {**drawn, **literal}
        return {n: host(w).astype(np.float64) for n, w in self.weights.items()}


def inputs_needed(card: CardData, claims: Sequence[Claim]) -> frozenset[str]:
    """The inputs on which claims depend."""
    own = frozenset(i.name for i in card.inputs)
    try:
        keys = frozenset[str]().union(
            *(underived(card, e).keys for c in claims for e in c.formulas)
        )
    except VieteError:  # too long to write out
        return own
    return own & (keys | names_read(backward_slice(card, keys)))


def random_weights(card: CardData, seed: int) -> dict[str, np.ndarray]:
    """Random weights, none 0 and no norm 1 unless the card's ``value`` column says so."""
    plain = tuple(replace(p, init="") for p in card.parameters)
    return initial_weights(replace(card, parameters=plain), seed)


def random_inputs(
    ready: Program, draw: np.random.Generator, length: int, given: Mapping[str, Array]
) -> dict[str, np.ndarray]:
    """A value for each missing input; texts have ``length`` tokens where the card allows it.

    Texts whose length is another dimension have another length.
    """
    model, sizes = ready.model, dict(ready.sizes)
    for k, (name, most) in enumerate(model.lengths.items()):
        limit = model.size(most)
        longest = length + k if limit is None else ready.evaluate(limit, f"the length {name}")
        sizes[name] = Fraction(min(length + k, longest))
    for name, (item, _) in ready.inputs.items():  # what is given says how long its text is
        if name in given:
            shape = np.shape(given[name])[-len(item.shape) or None :]
            for e, n in zip(item.shape, shape, strict=False):
                if show(e) in model.lengths:
                    sizes[show(e)] = Fraction(n)
    return {
        name: random_input(ready, item, sizes, draw)
        for name, (item, _) in ready.inputs.items()
        if name not in given and item.default is None
    }


def random_input(
    ready: Program, item: Input, sizes: Mapping[str, Fraction], draw: np.random.Generator
) -> np.ndarray:
    """One input: integers of its range, or normally distributed numbers."""

    def number(e: Any) -> int:
        size = ready.model.size(e)
        assert size is not None
        return int(size.evaluate(sizes))

    heads = ready.model.heads_of(item.symbol)
    shape = (*(len(ready.range_of(s)) for s in heads), *map(number, item.shape))
    if item.low is None or item.high is None:
        return draw.standard_normal(shape)
    out = draw.integers(number(item.low), number(item.high), shape, endpoint=True)
    if shape and (number(item.low), number(item.high)) == (0, 1):
        out[..., 0] = 1  # of a mask: a row of scores of which all are hidden has no softmax
    return out


__all__ = ["DRAWS", "ClaimRuns"]
