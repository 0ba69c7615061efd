"""Who made each feature of a text, and who made a number: the edges of a feature graph.

With the patterns of attention, the scales of norms and the errors of the features given, what a
feature reads is linear in the features of earlier blocks, in the errors and in the embeddings. An
edge is one of its terms: a source's value times its derivative. So the edges into a node and its
constant add up to it. A node is a seed of the derived backward pass: many targets are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from viete.analysis.linearity import CONSTANT, linearity
from viete.ask.feature_graph import EMBEDDING, FeatureNode
from viete.ask.holding import with_held
from viete.ask.term_table import floats
from viete.ask.terms import Expander
from viete.errors import Text, VieteError
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program, program
from viete.graph.card import CardData, Input
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Ref,
    Slot,
    Symbol,
    num,
    refs,
    transform,
)
from viete.rewrite.adjoint.grad import grad
from viete.rewrite.opening import underived, without_calls
from viete.rewrite.transcoding import ERROR, FEATURE, PRE

SEED = "seed"
Sources = tuple[list[tuple[FeatureNode, float]], float]  # with their weights; the sum of sizes


class FeatureTracer:
    """One run whose card has features, with what is taken as given."""

    def __init__(self, run: Run) -> None:
        if run.batch not in (None, 1):
            raise VieteError("a graph of features is of one text, and this run has several")
        self.run, self.card = run, run.program.model
        made = {e.left.symbol.base: e for e in self.card.equations}
        if not {PRE, FEATURE, ERROR} <= made.keys():
            raise VieteError(
                f"{self.card.title} has no features: put in transcoders or an autoencoder first"
            )
        self.pre, self.feature, self.error = made[PRE], made[FEATURE], made[ERROR]
        assert self.pre.loop is not None
        self.letter = self.pre.loop.index
        self.numbers = run.program.range_of(self.letter)
        self.held = with_held(run, self.held_names())

    def held_names(self) -> list[str]:
        """What is taken as given: patterns, scales, features and errors."""
        lines = linearity(self.card)
        patterns = [show(e.left) for e in self.card.equations if lines.is_pattern(e.left)]
        scales = [show(d.left) for d in self.card.derived
                  if d.left.symbol.base == "scale" and self.is_computed(d.right)]  # fmt: skip
        return [*patterns, *scales, show(self.feature.left), show(self.error.left)]

    def is_computed(self, e: Expr) -> bool:
        """Whether a formula is made of values; a scale is 1 where there is no norm."""
        return any(x.symbol.kind == "value" for x in refs(underived(self.card, e)))

    # -- values ------------------------------------------------------------------------------------

    def value(self, name: str) -> np.ndarray:
        """A value of the run, or a weight."""
        return floats(self.run[name])

    @cached_property
    def start(self) -> str:
        """The stream before the first block."""
        made = {e.left.symbol for e in self.card.equations if e.loop == self.pre.loop}
        for e in self.card.equations:
            if (
                e.loop is None
                and e.left.symbol in made
                and e.left.index == (num(self.numbers[0] - 1),)
            ):
                return show(e.left)
        raise VieteError(f"no stream of {self.card.title} comes into its blocks")

    @cached_property
    def active(self) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """By block the positions, the features and the values of what is active."""
        out = {}
        for i in self.numbers:
            f = self.value(f"{FEATURE}^{i}")
            where, which = np.nonzero(f)
            out[i] = where, which, f[where, which]
        return out

    @cached_property
    def decoders(self) -> dict[int, dict[int, np.ndarray]]:
        """By block what each active feature writes to each block that it writes to."""
        symbol = next(p.symbol for p in self.card.parameters if p.name.startswith("W_dec"))
        out: dict[int, dict[int, np.ndarray]] = {}
        for i in self.numbers:
            _, feature, value = self.active[i]
            later = [k for k in self.numbers if k >= i] if len(symbol.slots) > 1 else [i]
            names = {
                k: show(Ref(symbol, tuple(map(num, (i, k)[: len(symbol.slots)])))) for k in later
            }
            out[i] = {k: value[:, None] * self.value(name)[feature] for k, name in names.items()}
        return out

    # -- backwards ---------------------------------------------------------------------------------

    def derivatives(self, run: Run, of: Expr, store: dict[object, Value]) -> dict[str, np.ndarray]:
        """The derivatives of a number by the errors and the first stream, (batch, n, d) each."""
        card = run.program.model
        by = [*(p.name for p in card.parameters), self.error.name]
        ready = program(grad(card, underived(card, of), by))
        names = set(whole_names(card)) - {self.seed.key}
        origins = {name: Origin(run, name, {}) for name in names}
        back = run.extended(ready.at(run.sizes), run.sizes, store, origins)  # type: ignore[arg-type]
        out = {}
        for name in (self.start, *(f"{ERROR}^{i}" for i in self.numbers)):
            found = parse(Text(f"∂{name}"), ready.scope)
            assert isinstance(found, Ref)
            member = found.key, ready.places(found, {})
            if found.key not in {e.name for e in ready.model.equations}:
                continue
            back.supply({member})
            v = back.lookup(*member)
            array = floats(
                back.arrays.xp.moveaxis(v.array, [v.axes.index(a) for a in (ROW, COL)], [-2, -1])
            )
            out[name] = array if "batch" in v.axes else array[None]
        return out

    def of_number(self, of: Expr) -> dict[str, np.ndarray]:
        """The derivatives of a number that is asked for, with the scales of its own norms given."""
        run = self.run
        opened = Expander(run.program, frozenset(("block",)), sizes=run.sizes)
        plain = without_calls(self.card, query(run, of).formula)
        parts = opened.lines.parts(opened.normal(plain))
        named = [opened.named(p.whole) for p in parts if p.kind != CONSTANT]
        there = self.held.program.model.symbols

        def as_given(x: Expr) -> Expr | None:
            return Ref(there[x.key], x.index) if isinstance(x, Ref) and x.key in there else None

        total = transform(total_of(named), as_given)
        return self.derivatives(self.held, total, {})

    def of_features(self, targets: Sequence[FeatureNode]) -> dict[str, np.ndarray]:
        """The derivatives of what stands before the gates of some features."""
        kind = np.asarray(self.run[self.start]).dtype
        kind = kind if kind.kind == "f" else np.dtype(float)
        seeds = {i: np.zeros((len(targets), *self.source_shape), kind) for i in self.numbers}
        for b, t in enumerate(targets):
            assert t.block is not None
            seeds[t.block][b, t.position] = self.value(f"W_enc^{t.block}")[:, t.feature]
        store: dict[object, Value] = {
            (self.seed.key, (i,)): Value(a, ("batch", ROW, COL)) for i, a in seeds.items()
        }
        return self.derivatives(self.seeded, self.goal, store)

    @cached_property
    def source(self) -> Expr:
        """What features read, over the letter of their block."""
        held = self.held.program.model.equations  # where norms divide by what is given
        right = next(e.right for e in held if e.name == self.pre.name)
        assert isinstance(right, Apply) and isinstance(right.args[0], Apply)
        return right.args[0].args[0]

    @cached_property
    def source_shape(self) -> tuple[int, int]:
        n, _ = self.value(f"{FEATURE}^{self.numbers[0]}").shape
        return n, self.value(f"W_enc^{self.numbers[0]}").shape[0]

    @cached_property
    def seed(self) -> Symbol:
        return Symbol("input", SEED, (), (Slot(self.letter, True),))

    @cached_property
    def goal(self) -> Expr:
        """The sum of what is read, each entry by its seed."""
        card = self.held.program.model
        row = Idx(fresh(card.names | card.loop_letters | set(card.ranges), "jpqs"))
        terms = []
        for i in self.numbers:
            read = card.substitute(self.source, letters={self.letter: num(i)})
            seed = Ref(self.seed, (num(i),))
            terms.append(Apply("inner", (Pick(seed, (row,)), Pick(read, (row,)))))
        last = Apply("sub", (Ref(card.symbols[next(iter(card.lengths))]), num(1)))
        return Bind("sum", row.name, num(0), last, total_of(terms))

    @cached_property
    def seeded(self) -> Run:
        """The run with seeds among its inputs."""
        held = self.held
        card = held.program.model
        shape = (Ref(card.symbols[next(iter(card.lengths))]), num(self.source_shape[1]))
        more: CardData = replace(card, inputs=(*card.inputs, Input(self.seed, shape)))
        origins = {name: Origin(held, name, {}) for name in whole_names(card)}
        return held.extended(Program(more.unstated), held.sizes, {}, origins)

    def edges(self, slopes: dict[str, np.ndarray], most: int) -> list[Sources]:
        """The largest sources of each target of a batch, so many, and the sum of all sizes."""
        first = self.value(self.start)
        rows = np.arange(len(first))
        batch = max(map(len, slopes.values()))  # what no target reaches comes without a batch
        slopes = {k: np.broadcast_to(g, (batch, *g.shape[1:])) for k, g in slopes.items()}
        kinds: list[tuple[str, int | None, np.ndarray, np.ndarray | None, np.ndarray | None]] = []
        found: list[np.ndarray] = []
        if self.start in slopes:
            kinds.append((EMBEDDING, None, rows, None, None))
            found.append((slopes[self.start] * first).sum(-1))
        for i in self.numbers:
            there = {
                k: g for k in self.decoders[i] if (g := slopes.get(f"{ERROR}^{k}")) is not None
            }
            if there:
                kinds.append((FEATURE, i, *self.active[i]))
                found.append(sum(self.of_active(i, k, g) for k, g in there.items()))  # type: ignore[arg-type]
            if i in there:
                kinds.append((ERROR, i, rows, None, None))
                found.append((there[i] * self.value(f"{ERROR}^{i}")).sum(-1))
        weights = np.concatenate(found, axis=1)
        ends = np.cumsum([0, *(w.shape[1] for w in found)])
        out = []
        for row in weights:
            order = np.argsort(-np.abs(row), kind="stable")[:most]
            pairs = []
            for k in order[row[order] != 0]:
                which = int(np.searchsorted(ends, k, "right")) - 1
                kind, block, where, feature, value = kinds[which]
                at = k - ends[which]
                number = None if feature is None else int(feature[at])
                active = 0.0 if value is None else float(value[at])
                pairs.append(
                    (FeatureNode(kind, block, int(where[at]), number, active), float(row[k]))
                )
            out.append((pairs, float(np.abs(row).sum()) or 1.0))
        return out

    def of_active(self, i: int, k: int, slope: np.ndarray) -> np.ndarray:
        """What the active features of block i add to each target by what they write to block k."""
        where, rows = self.active[i][0], self.decoders[i][k]
        ends = np.searchsorted(where, np.arange(slope.shape[1] + 1))
        parts = [slope[:, j] @ rows[a:b].T for j, (a, b) in enumerate(pairwise(ends))]
        return np.concatenate(parts, axis=1)


def total_of(terms: Sequence[Expr]) -> Expr:
    """The sum of some formulas."""
    total: Expr = num(0)
    for k, term in enumerate(terms):
        total = Apply("add", (total, term)) if k else term
    return total


__all__ = ["FeatureTracer", "Sources"]
