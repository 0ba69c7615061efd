"""Studies the features of one place of a model on a corpus: contexts, measures, effects.

The features are values of the card in one block (`viete.model.coders`). Texts are run a batch at a
time, and `viete.features.contexts` keeps what is shown. The measures of all features together are
the number active at a position, the share of the value's variance that they miss, and how much of
the loss is recovered when their reconstruction replaces the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from viete.analysis.features import FeatureEquations, features_of
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Value
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, program
from viete.features.contexts import FeatureStatistics
from viete.graph.card import CardData, Equation
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Ref, num, refs

Array = Any
ROOM = 1 << 25  # numbers of features, or of scores, of the texts that are run together
LOSSES = 128  # texts on which the loss is measured, three runs of each


@dataclass(frozen=True)
class FeatureMeasures:
    """The quality of all features together, on the texts that were run.

    ``active`` is the mean number active at a position (L0), ``lacking`` the share of the value's
    variance that they do not explain, ``dead`` the number never active. ``loss`` is the mean
    cross-entropy of next tokens, ``spliced`` with the decoded value instead of the value,
    ``without`` with 0 instead; all three are NaN where the card has no scores.
    """

    features: int
    dead: int
    active: float
    lacking: float
    loss: float
    spliced: float
    without: float

    @property
    def recovered(self) -> float:
        """The share of the loss recovered: 0 as with zeros instead, 1 as with the value."""
        return (self.without - self.spliced) / (self.without - self.loss)


class FeatureStudy:
    """The features of one block of a card with its weights. ``of`` is their family: feature^2.

    Raises VieteError for a card without features, and if it is unclear which block is meant.
    """

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], of: str | None = None, seed: int = 0
    ) -> None:
        self.card, self.weights, self.program = card, weights, program(card)
        self.kind, self.block = self.chosen(of)
        self.written = self.equation_of_value()
        self.feature, self.error = (self.here(x) for x in (self.kind.feature, self.kind.error))
        self.value = self.member(self.written.left)
        self.decoded = self.member(next(
            x for x in refs(self.written.right) if self.decodes(x)))  # fmt: skip
        self.directions = np.asarray(host(self.weights[show_key(self.here(self.kind.decoder))]))
        self.scores = "logits" if any(e.name == "logits" for e in card.equations) else ""
        self.statistics = FeatureStatistics(len(self.directions), seed)
        self.sums: dict[str, np.ndarray] = {}
        self.losses: list[np.ndarray] = []
        self.measured = 0  # texts of which the loss is among them

    # -- which features ----------------------------------------------------------------------------

    def chosen(self, of: str | None) -> tuple[FeatureEquations, int]:
        """The requested kind of features and block, or the only ones."""
        kinds = features_of(self.card)
        if not kinds:
            raise VieteError(
                f"{self.card.title} has no features; add a run of viete train, or a file of "
                f"an autoencoder: --put RUN"
            )
        there = {
            f"{k.feature.base}^{block}": (k, block)
            for k in kinds for block in self.program.range_of(k.loop.index)
            if np.any(host(self.weights[show_key(Ref(k.decoder, (num(block),)))]))
        }  # fmt: skip
        if of is None and len(there) == 1:
            return next(iter(there.values()))
        if of not in there:
            asked = "say which" if of is None else f"{of} is none of them"
            raise VieteError(f"there are features {', '.join(there)}; {asked}: --of feature^2")
        return there[of]

    def here(self, symbol: Any) -> Ref:
        """The member of a family for this block."""
        return self.member(symbol.member)

    def member(self, ref: Ref) -> Ref:
        """A member for this block, and for the head that its equation names."""
        index = tuple(
            num(self.block) if k == Idx(self.kind.loop.index) else self.heads.get(s, k)
            for s, k in zip(ref.symbol.slots, ref.index, strict=True)
        )
        return Ref(ref.symbol, index)

    def equation_of_value(self) -> Equation:
        """The equation of the value that the features stand for."""
        return next(
            e for e in self.card.equations
            if self.kind.error.key in {x.key for x in refs(e.right)}
            and e.name != self.kind.error.key and e.loop == self.kind.loop
        )  # fmt: skip

    @cached_property
    def heads(self) -> dict[str, Expr]:
        """The head of the value that the features stand for, by its letter."""
        error = next((e for e in self.card.equations if e.name == self.kind.error.key), None)
        loop = self.kind.loop.index
        old = [x for x in refs(error.right) if x.symbol.slots] if error is not None else []
        return {s: k for x in old for s, k in zip(x.symbol.slots, x.index, strict=True)
                if s != loop and not k.free}  # fmt: skip

    def decodes(self, ref: Ref) -> bool:
        """Whether a value is decoded from the features."""
        made = next((e for e in self.card.equations if e.name == ref.key), None)
        return made is not None and self.kind.feature.key in {x.key for x in refs(made.right)}

    @cached_property
    def name(self) -> str:
        """The value that the features stand for, as a question names it."""
        return show(self.value)

    # -- texts -------------------------------------------------------------------------------------

    def room(self, length: int) -> int:
        """The number of texts of a length to run together."""
        wide = len(self.directions)
        if self.scores and self.measured < LOSSES:
            wide = max(wide, int(self.weights_of_scores()))
        return max(1, min(64, ROOM // (length * wide)))

    def weights_of_scores(self) -> int:
        """The number of scores of a position."""
        shape = self.program.shapes.types[self.scores].shape
        return int(shape[-1].evaluate(self.program.sizes))

    def run(self, ids: Array, put: Mapping[Member, Intervention] | None = None) -> Run:
        """A run of some texts, with nothing computed yet."""
        inputs = {self.card.inputs[0].name: np.asarray(ids)}
        return execute(self.program, inputs, self.weights, [], put=put)

    def array(self, run: Run, e: Expr) -> np.ndarray:
        """A value of a run of several texts."""
        run.supply(run.needed_by(e))
        v = run.for_each(run.evaluate(query(run, e)))
        return np.asarray(host(run.ordered(v, ())))

    def add(self, ids: Array) -> None:
        """Add texts of one length, (texts, n): their features and their errors."""
        run = self.run(ids)
        needed = {m for e in (self.feature, self.value, self.error) for m in run.needed_by(e)}
        run.supply(needed)
        self.statistics.add(np.asarray(ids), self.array(run, self.feature))
        value, error = (self.array(run, e) for e in (self.value, self.error))
        flat, lacking = (a.reshape(-1, a.shape[-1]).astype(float) for a in (value, error))
        for name, total in (("sum", flat.sum(0)), ("square", np.square(flat).sum(0)),
                            ("lacking", np.square(lacking).sum(0))):  # fmt: skip
            self.sums[name] = self.sums.get(name, 0.0) + total
        if self.scores and self.measured < LOSSES and np.shape(ids)[1] > 1:
            self.losses += list(np.stack(self.three_losses(run, ids), 1))
            self.measured += len(ids)

    def three_losses(self, run: Run, ids: Array) -> list[np.ndarray]:
        """The cross-entropy of each text unchanged, with the decoded value, and with 0."""
        none = {self.key(self.error): zeros}
        runs = [run, self.run(ids, none), self.run(ids, {**none, self.key(self.decoded): zeros})]
        return [self.surprise(x, np.asarray(ids)) for x in runs]

    def surprise(self, run: Run, ids: np.ndarray) -> np.ndarray:
        """The mean cross-entropy of the next tokens of each text."""
        scores = self.array(run, Ref(self.card.symbols[self.scores]))[:, :-1].astype(float)
        top = scores.max(-1, keepdims=True)
        whole = np.log(np.exp(scores - top).sum(-1)) + top[..., 0]
        own = np.take_along_axis(scores, ids[:, 1:, None], 2)[..., 0]
        return np.asarray((whole - own).mean(1))

    def key(self, ref: Ref) -> Member:
        """The key of a member in runs."""
        return ref.key, (self.block,)

    # -- what was found ----------------------------------------------------------------------------

    @property
    def measures(self) -> FeatureMeasures:
        """The quality measures on the texts so far. Raises VieteError if no texts were added."""
        s = self.statistics
        if not s.tokens:
            raise VieteError("features need texts, and no text has a token")
        variance = self.sums["square"].sum() - np.square(self.sums["sum"]).sum() / s.tokens
        three = np.mean(self.losses, 0) if self.losses else np.full(3, np.nan)
        return FeatureMeasures(
            len(s.counts), int((s.counts == 0).sum()), float(s.counts.sum() / s.tokens),
            float(self.sums["lacking"].sum() / variance), *map(float, three))  # fmt: skip

    @property
    def shares(self) -> np.ndarray:
        """The mean square of each feature's output, as a share of that of all."""
        energy = self.statistics.squares * np.square(self.directions.astype(float)).sum(1)
        return np.asarray(energy / max(energy.sum(), 1e-300))

    def ranked(self, count: int) -> list[int]:
        """The features with the largest outputs, among those that were ever active."""
        order = np.argsort(-self.shares, kind="stable")[:count]
        return [int(k) for k in order if self.statistics.counts[k]]

    def nearest(self, feature: int, count: int = 6) -> list[tuple[int, float]]:
        """The features whose directions have the greatest cosines with that of one."""
        w = self.directions
        lengths = np.maximum(np.linalg.norm(w, axis=1), 1e-30)
        cosines = (w @ w[feature]) / (lengths * lengths[feature])
        cosines[feature] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:count]
        return [(int(k), float(cosines[k])) for k in order if k != feature]


def zeros(value: Value, _: int | None) -> Value:
    """Zeros that replace a value."""
    return replace(value, array=value.array * 0)


def show_key(ref: Ref) -> str:
    """The name of a parameter's member among the weights."""
    return show(ref)


__all__ = ["FeatureMeasures", "FeatureStudy"]
