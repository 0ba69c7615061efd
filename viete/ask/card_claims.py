"""A card's claims against runs of it: on given weights and inputs, or on random ones.

A random draw forgets the card's ``init`` column, in which biases are 0 and norms 1: of such
weights much would hold that is false of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from viete.ask.claims import TOLERANCE, Failure, failure
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.initial_weights import initial_weights
from viete.evaluate.inputs import host
from viete.evaluate.memory import rounded
from viete.evaluate.schedule import Program, parameter_shapes, program
from viete.graph.card import CardData, Claim, Input
from viete.notation.printer import show
from viete.notation.tree import Num

Array = Any
DRAWS = 3  # of what is random
MOST_WEIGHTS = 2 * 10**8  # of float64: 1.6 GB
LENGTHS = (5, 2, 7)  # of a draw's texts
NAMES = {"row": "row", "col": "column", "batch": "sequence"}


@dataclass(frozen=True)
class Verdict:
    """One claim, and where it is false; ``draw`` counts from 1."""

    claim: Claim
    failure: Failure | None = None
    draw: int = 1


@dataclass(frozen=True)
class Claims:
    """What became of a card's claims: ``of`` says of which weights and inputs."""

    card: str
    of: str
    verdicts: tuple[Verdict, ...] = ()
    why_not: str = ""  # the claims were not evaluated

    @property
    def ok(self) -> bool:
        """Whether no claim was found false."""
        return all(v.failure is None for v in self.verdicts)

    def lines(self) -> list[str]:
        """The verdicts as text, with the numbers of what is false."""
        if self.why_not:
            return [f"Its claims were not evaluated: {self.why_not}."]
        if not self.verdicts:
            return [f"{self.card} makes no claims."]
        out = [f"Claims of {self.card}, with {self.of}, to {TOLERANCE:.0e} of their terms:"]
        for v in self.verdicts:
            said = show(v.claim.statement) + (f": {v.claim.meaning}" if v.claim.meaning else "")
            out.append(f"  {'holds' if v.failure is None else 'FALSE'}  {said}")
            if v.failure is not None:
                out.append(f"         {failure_line(v)}")
        return out


def failure_line(v: Verdict) -> str:
    """The two sides of a false claim, where they are furthest apart."""
    f = v.failure
    assert f is not None
    alone = f.comparison == show(v.claim.statement)
    return (
        f"{'' if alone else f'{f.comparison}: '}left {f.left:.6g}, right {f.right:.6g}, a "
        f"difference of {f.difference:.3g} (tolerance {f.tolerance:.0e}) at {place_text(f.where)}"
        f"{f', draw {v.draw}' if v.draw > 1 else ''}"
    )


def place_text(where: Mapping[str, int]) -> str:
    """``i 2, row 3, column 0``."""
    return ", ".join(f"{NAMES.get(s, s)} {k}" for s, k in where.items()) or "its only number"


def check_claims(
    card: CardData, weights: Mapping[str, Array] | None = None,
    inputs: Mapping[str, Array] | None = None, seed: int = 0,
) -> Claims:  # fmt: skip
    """Evaluate every claim of a card in float64, for all blocks, heads and positions.

    ``weights`` are by the names of `parameter_shapes`; without them they are the card's own
    ``value`` column, and what has none is drawn. An input that is not given is drawn too, unless
    the card has a default. What is drawn comes from ``seed``, `DRAWS` times. Raises VieteError for
    weights or inputs that do not fit the card, and for a claim about a block that is not there.
    """
    if not card.claims:
        return Claims(card.title, "")
    ready = program(card)
    own = all(p.value for p in card.parameters)
    loose = [i.name for i, _ in ready.inputs.values() if i.default is None]
    loose = [name for name in loose if name not in (inputs or {})]
    drawn = [what for what, some in (("weights", weights is None and not own), ("inputs", loose))
             if some]  # fmt: skip
    fixed = "the card's own weights" if weights is None else "these weights"
    of = [] if "weights" in drawn else [fixed]
    if drawn:
        of.append(f"random {' and '.join(drawn)} ({DRAWS} draws, seed {seed})")
    elif inputs:
        of.append("this input")
    count = sum(map(prod, parameter_shapes(card).values()))
    if weights is None and count > MOST_WEIGHTS:
        raise VieteError(
            f"{card.title} has {rounded(count)} weights, too many to draw for its claims; give "
            f"smaller dimensions with --set, such as {smaller(card)}"
        )
    wide = None if weights is None else {n: host(w).astype(np.float64) for n, w in weights.items()}
    verdicts = [Verdict(c) for c in card.claims]
    for k in range(DRAWS if drawn else 1):
        draw = np.random.default_rng([seed, k])
        given = {**random_inputs(ready, draw, LENGTHS[k], inputs or {}), **(inputs or {})}
        run = execute(ready, given, random_weights(card, seed + k) if wide is None else wide)
        for j, v in enumerate(verdicts):
            if v.failure is None:
                verdicts[j] = Verdict(v.claim, failure(run, v.claim), k + 1)
    return Claims(card.title, " and ".join(of), tuple(verdicts))


def smaller(card: CardData) -> str:
    """An example of small dimensions: a 64th of each large one that is a number of its own."""
    shapes = [card.size(e) for p in card.parameters for e in p.shape]
    sizes = {n for s in shapes if s is not None for n in s.substitute(card.definitions).names()}
    large = {d.name: int(card.sizes[d.name]) for d in card.dims
             if d.name in sizes and isinstance(d.value, Num) and d.value.value > 1000}  # fmt: skip
    return " ".join(f"--set {name}={n // 64}" for name, n in large.items()) or "--set N=2"


def random_weights(card: CardData, seed: int) -> dict[str, np.ndarray]:
    """Weights of which none is 0 and no norm 1, unless the card's ``value`` column says so."""
    plain = tuple(replace(p, init="") for p in card.parameters)
    return initial_weights(replace(card, parameters=plain), seed)


def random_inputs(
    ready: Program, draw: np.random.Generator, length: int, given: Mapping[str, Array]
) -> dict[str, np.ndarray]:
    """A value for each input that has none; texts are ``length`` long where the card allows it.

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
    """One input: any of its whole numbers, or normal ones."""

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


__all__ = ["Claims", "Verdict", "check_claims"]
