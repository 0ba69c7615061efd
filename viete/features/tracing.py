"""The edges of a feature graph: what made each feature of a text, and what made a number.

With the attention patterns, the norms' scales and the errors of the features held fixed, what a
feature reads is linear in the features of earlier blocks, the errors and the embeddings. An edge is
one term of that sum: a source's value times its derivative. So the edges into a node, plus a
constant, add up to the node. A node is the start of a derived backward pass, and many nodes form
one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from viete.analysis.features import features_of
from viete.analysis.linearity import ATOM, CONSTANT, linearity
from viete.analysis.shapes import shapes_of
from viete.ask.holding import with_held
from viete.ask.term_table import floats
from viete.ask.terms import Expander
from viete.errors import Text, VieteError
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program, program
from viete.features.graph import EMBEDDING, ERROR, FEATURE, FeatureNode
from viete.features.sites import Site, Start, offset_of, starts_of, texts_of
from viete.graph.card import CardData, Input
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slot,
    Symbol,
    num,
    refs,
    transform,
    walk,
)
from viete.rewrite.adjoint.grad import grad
from viete.rewrite.opening import underived, without_calls

SEED = "seed"


class Sources(NamedTuple):
    """The largest sources of a node; of all sources the sum of sizes, the sum and the number."""

    pairs: list[tuple[FeatureNode, float]]
    size: float
    total: float
    number: int


class FeatureTracer:
    """Traces one run whose card has features, with some values held."""

    def __init__(self, run: Run) -> None:
        if run.batch not in (None, 1):
            raise VieteError("a graph of features explains one text, and this run has several")
        self.run, self.card = run, run.program.model
        found = features_of(self.card)
        if not found:
            raise VieteError(
                f"{self.card.title} has no features: add transcoders or an autoencoder first"
            )
        self.texts = texts_of(run)
        self.starts = starts_of(run, self.texts)
        self.sites: list[Site] = []
        before = run.program.range_of(found[0].loop.index)[0]
        for f in found:
            numbers = run.program.range_of(f.loop.index)
            offset = offset_of(self.card, f.pre.name, self.texts)
            self.sites.append(Site(f, numbers, before, offset, self.value))
            before += len(numbers)
        if not self.starts:
            raise VieteError(f"no residual stream enters the blocks of {self.card.title}")
        self.held = with_held(run, self.held_names())
        self.check_named()

    def held_names(self) -> list[str]:
        """The held values: patterns, scales, features and errors."""
        lines = linearity(self.card)
        patterns = [show(e.left) for e in self.card.equations if lines.is_pattern(e.left)]
        scales = [show(d.left) for d in self.card.derived
                  if d.left.symbol.base == "scale" and self.is_computed(d.right)]  # fmt: skip
        coded = [x for s in self.sites for x in (s.found.feature, s.found.error)]
        return [*patterns, *scales, *(show(x.member) for x in coded if x.kind == "value")]

    def check_named(self) -> None:
        """Raise VieteError for a norm or a pattern without a name that features read through."""
        card = self.held.program.model
        tight, loose = linearity(card, frozenset()), linearity(card)
        waiting, seen = [s.found.pre.name for s in self.sites], set[str]()
        while waiting:
            name = waiting.pop()
            seen.add(name)
            for e in (e for e in card.equations if e.name == name and e.loop is not None):
                kinds = {p.kind for p in tight.parts(e.right)} - {ATOM, CONSTANT}
                if kinds and not {p.kind for p in loose.parts(e.right)} - {ATOM, CONSTANT}:
                    raise VieteError(
                        f"{show(e.left)} of {card.title} contains an attention pattern or the "
                        "scale of a norm without a name, and a graph holds these constant: name a "
                        "pattern by an equation, a scale under Derived, such as - $scale_A^i = …$"
                    )
                waiting += [x for x in e.reads if x not in seen]

    def is_computed(self, e: Expr) -> bool:
        """Whether a formula depends on values; a scale without a norm is 1."""
        return any(x.symbol.kind == "value" for x in refs(underived(self.card, e)))

    def value(self, name: str) -> np.ndarray:
        """A value of the run, or a weight."""
        return floats(self.run[name])

    def site_of(self, layer: int) -> tuple[Site, int]:
        """The features of a block given by its number among all, and its number in its loop."""
        site = next(s for s in reversed(self.sites) if s.before <= layer)
        return site, layer - site.before + site.numbers[0]

    def name(self, node: FeatureNode) -> str:
        """The name of a node in the run."""
        if node.block is None:
            start = next(s for s in reversed(self.starts_in_order) if s.offset <= node.position)
            return f"{start.name}_{{{node.position - start.offset}}}"
        site, i = self.site_of(node.block)
        row = node.position - site.offset
        if node.feature is None:
            return f"{site.error(i)}_{{{row}}}"
        return f"{site.feature(i)}_{{{row},{node.feature}}}"

    def node(self, e: Expr) -> FeatureNode | None:
        """The feature that a formula names, as ``feature^2_{3,8}``; None for any other formula."""
        match e:
            case Pick(Ref(symbol, (Num() as i,)), (Num() as row, Num() as k)):
                for site in self.sites:
                    if site.found.feature == symbol and int(i.value) in site.numbers:
                        at, layer = site.offset + int(row.value), site.layer(int(i.value))
                        return FeatureNode(FEATURE, layer, at, int(k.value))
        return None

    def before(self, node: FeatureNode) -> float:
        """The value before the gate of a feature."""
        assert node.block is not None
        site, i = self.site_of(node.block)
        return float(self.value(site.pre(i))[node.position - site.offset, node.feature])

    @cached_property
    def starts_in_order(self) -> list[Start]:
        """The starts of the streams, by position."""
        return sorted(self.starts, key=lambda s: s.offset)

    def is_given(self, node: FeatureNode) -> bool:
        """Whether a feature was set to a value, so that it has no sources."""
        assert node.block is not None and node.feature is not None
        site, i = self.site_of(node.block)
        return site.is_given(i, node.position - site.offset, node.feature)

    # -- backwards ---------------------------------------------------------------------------------

    def derivatives(self, run: Run, of: Expr, store: dict[object, Value]) -> dict[str, np.ndarray]:
        """By name, derivatives with respect to errors and first streams, (batch, n, d) each."""
        card = run.program.model
        by = [*(p.name for p in card.parameters), *(s.found.error.key for s in self.sites)]
        ready = program(grad(card, underived(card, of), by))
        names = set(whole_names(card)) - {self.seed(s).key for s in self.sites}
        origins = {name: Origin(run, name, {}) for name in names}
        back = run.extended(ready.at(run.sizes), run.sizes, store, origins)  # type: ignore[arg-type]
        out = {}
        errors = [s.error(i) for s in self.sites for i in s.numbers]
        for name in (*(s.name for s in self.starts), *errors):
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
        """The derivatives of a requested number, with the scales of its norms held."""
        run = self.run
        opened = Expander(run.program, frozenset(("block",)), sizes=run.sizes)
        plain = without_calls(self.card, query(run, of).formula)
        parts = opened.lines.parts(opened.normal(plain))
        named = [opened.named(p.whole) for p in parts if p.kind != CONSTANT]
        if not named:
            raise VieteError(f"no feature and no token leads to {show(of)}, so it has no graph")
        there = self.held.program.model.symbols

        def as_given(x: Expr) -> Expr | None:
            return Ref(there[x.key], x.index) if isinstance(x, Ref) and x.key in there else None

        total = transform(total_of(named), as_given)
        return self.derivatives(self.held, total, {})

    def of_features(self, targets: Sequence[FeatureNode]) -> dict[str, np.ndarray]:
        """The derivatives of the values before the gates of some features."""
        kind = np.asarray(self.run[self.starts[0].name]).dtype
        kind = kind if kind.kind == "f" else np.dtype(float)
        seeds = {(s.before, i): np.zeros((len(targets), *s.shape), kind)
                 for s in self.sites for i in s.numbers}  # fmt: skip
        for b, t in enumerate(targets):
            assert t.block is not None
            site, i = self.site_of(t.block)
            seeds[site.before, i][b, t.position - site.offset] = site.encoder(i)[:, t.feature]
        store: dict[object, Value] = {
            (self.seed(s).key, (i,)): Value(seeds[s.before, i], ("batch", ROW, COL))
            for s in self.sites for i in s.numbers
        }  # fmt: skip
        return self.derivatives(self.seeded, self.goal, store)

    def source(self, site: Site) -> Expr:
        """The formula that features read, over the letter of their block, with the scales held."""
        card = self.held.program.model
        right = next(e.right for e in card.equations if e.name == site.found.pre.name)
        return next(
            x.args[0] for x in walk(right)
            if isinstance(x, Apply) and x.op == "prod" and isinstance(x.args[1], Ref)
            and x.args[1].symbol == site.found.encoder
        )  # fmt: skip

    def seed(self, site: Site) -> Symbol:
        """The input that multiplies the rows that some features read."""
        return Symbol("input", f"{SEED}{site.before}", (), (Slot(site.found.loop.index, True),))

    @cached_property
    def goal(self) -> Expr:
        """The sum of what features read, each entry times its seed."""
        card = self.held.program.model
        total = []
        for site in self.sites:
            row = Idx(fresh(card.names | card.loop_letters | set(card.ranges), "jpqs"))
            terms = []
            for i in site.numbers:
                letters: dict[str, Expr] = {site.found.loop.index: num(i)}
                read = card.substitute(self.source(site), letters=letters)
                seed = Ref(self.seed(site), (num(i),))
                terms.append(Apply("inner", (Pick(seed, (row,)), Pick(read, (row,)))))
            last = Apply("sub", (self.rows(site), num(1)))
            total.append(Bind("sum", row.name, num(0), last, total_of(terms)))
        return total_of(total)

    def rows(self, site: Site) -> Expr:
        """The number of positions of a kind of features."""
        return self.card.size_expr(shapes_of(self.card).types[site.found.pre.name].shape[0])

    @cached_property
    def seeded(self) -> Run:
        """The run with seeds among its inputs."""
        held = self.held
        card = held.program.model
        seeds = [Input(self.seed(s), (self.rows(s), num(s.shape[1]))) for s in self.sites]
        more: CardData = replace(card, inputs=(*card.inputs, *seeds))
        origins = {name: Origin(held, name, {}) for name in whole_names(card)}
        return held.extended(Program(more.unstated), held.sizes, {}, origins)

    def edges(self, slopes: dict[str, np.ndarray], most: int) -> list[Sources]:
        """The ``most`` largest sources of each target of a batch, and the sum of all sizes."""
        batch = max(map(len, slopes.values()))  # what no target reaches comes without a batch
        slopes = {k: np.broadcast_to(g, (batch, *g.shape[1:])) for k, g in slopes.items()}
        kinds: list[tuple[str, int | None, np.ndarray, np.ndarray | None, np.ndarray | None]] = []
        found: list[np.ndarray] = []
        for start in self.starts:
            if start.name in slopes:
                first = self.value(start.name)
                kinds.append((EMBEDDING, None, start.offset + np.arange(len(first)), None, None))
                found.append((slopes[start.name] * first).sum(-1))
        for site, k in ((s, k) for s in self.sites for k in s.numbers):
            later = {j: slopes[e] for j in site.decoders[k] if (e := site.error(j)) in slopes}
            rows, features, values = site.active[k]
            if later:
                kinds.append((FEATURE, site.layer(k), site.offset + rows, features, values))
                found.append(sum(of_active(site, k, j, g) for j, g in later.items()))  # type: ignore[arg-type]
            if k in later:
                rows = site.offset + np.arange(site.shape[0])
                kinds.append((ERROR, site.layer(k), rows, None, None))
                found.append((later[k] * self.value(site.error(k))).sum(-1))
        weights = np.concatenate(found, axis=1)
        ends = np.cumsum([0, *(w.shape[1] for w in found)])
        out = []
        for row in weights:
            order = np.argsort(-np.abs(row), kind="stable")[:most]
            pairs = []
            for place in order[row[order] != 0]:
                which = int(np.searchsorted(ends, place, "right")) - 1
                kind, block, where, feature, value = kinds[which]
                at = place - ends[which]
                number = None if feature is None else int(feature[at])
                active = 0.0 if value is None else float(value[at])
                pairs.append(
                    (FeatureNode(kind, block, int(where[at]), number, active), float(row[place]))
                )
            size = float(np.abs(row).sum()) or 1.0
            out.append(Sources(pairs, size, float(row.sum()), int((row != 0).sum())))
        return out


def of_active(site: Site, i: int, k: int, slope: np.ndarray) -> np.ndarray:
    """The contributions of block i's active features to each target, through block k."""
    where, rows = site.active[i][0], site.decoders[i][k]
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
