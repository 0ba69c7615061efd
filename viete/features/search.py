"""Finds the important part of a feature graph: the most influential nodes and edges of a number.

A node's influence is the sum over the nodes that it leads to: their influence times this edge's
share of all edges into them. Features are traced in the order of their influence, several at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.features.graph import FEATURE, TARGET, FeatureGraph, FeatureNode
from viete.features.tracing import FeatureTracer, Sources
from viete.notation.printer import show
from viete.notation.tree import Expr, Num, Pick

BATCH = 16  # targets of one backward pass


def feature_graph(
    run: Run, of: str | Sequence[str], top: int = 200, nodes: int = 32
) -> FeatureGraph:
    """The graph of some numbers of a run of one text: its ``top`` edges, by influence.

    The ``nodes`` most influential features are explained too, in the order of their influence.
    Raises VieteError for a card without features, for several texts, and for what is not a number.
    """
    return FeatureSearch(FeatureTracer(run)).graph([of] if isinstance(of, str) else of, top, nodes)


class FeatureSearch:
    """Finds the feature graph of one run."""

    def __init__(self, tracer: FeatureTracer) -> None:
        self.tracer = tracer

    def graph(self, asked: Sequence[str], top: int, most: int) -> FeatureGraph:
        """The graph, the most influential features first."""
        nodes: dict[tuple[str, int | None, int, int | None], FeatureNode] = {}
        into: list[tuple[FeatureNode, Sources]] = []
        targets = list[FeatureNode]()

        def known(node: FeatureNode) -> FeatureNode:
            return nodes.setdefault((node.kind, node.block, node.position, node.feature), node)

        def spread(target: FeatureNode, found: Sources) -> None:
            pairs = [(known(node), w) for node, w in found.pairs]
            for node, w in pairs:
                node.influence += target.influence * abs(w) / found.size
            into.append((target, found._replace(pairs=pairs)))

        for text in asked:
            target = self.target(text, 1 / len(asked))
            targets.append(target)
            slopes = self.tracer.of_number(self.tracer.run.parse(text))
            spread(target, self.tracer.edges(slopes, top)[0])
        done: set[int] = set()
        while len(done) < most:
            waiting = [x for x in nodes.values() if x.kind == FEATURE and id(x) not in done
                       and not self.tracer.is_given(x)]  # fmt: skip
            waiting.sort(key=lambda x: -x.influence)
            if not (some := waiting[: min(BATCH, most - len(done))]):
                break
            sources = self.tracer.edges(self.tracer.of_features(some), top)
            for target, found in zip(some, sources, strict=True):
                done.add(id(target))
                spread(target, found)
        return self.trimmed(targets, into, top)

    def target(self, text: str, share: float) -> FeatureNode:
        """A number that the graph explains, as a node."""
        formula, value = self.tracer.run.parse(text), self.tracer.value(text)
        if value.ndim:
            raise VieteError(f"a graph explains one number, but {text} has the shape {value.shape}")
        if not np.isfinite(value):
            raise VieteError(f"a graph explains a finite number, but {text} is {value}")
        name = self.tracer.run.in_words(formula, "unicode")
        node = FeatureNode(TARGET, None, self.place(formula), None, float(value), share, 0.0, name)
        if (
            isinstance(formula, Pick)
            and len(formula.items) == 2
            and isinstance(formula.items[1], Num)
        ):
            row = self.tracer.value(show(Pick(formula.value, formula.items[:1])))
            node.feature = int(formula.items[1].value)
            exps = np.exp(row - row.max())
            node.probability = float(exps[node.feature] / exps.sum())
        return node

    def place(self, formula: Expr) -> int:
        """The position of a number: that of its row, else the last."""
        texts = self.tracer.texts
        last = texts[-1].offset + len(texts[-1].ids) - 1 if texts else 0
        if not isinstance(formula, Pick):
            return last
        rows, (row, *_) = self.tracer.value(show(formula.value)), formula.items
        end = formula.from_end(0)
        at = (
            len(rows) - end if end is not None else int(row.value) if isinstance(row, Num) else None
        )
        return last if at is None else last + 1 - len(rows) + at

    def trimmed(
        self, targets: Sequence[FeatureNode],
        into: Sequence[tuple[FeatureNode, Sources]], top: int,
    ) -> FeatureGraph:  # fmt: skip
        """The graph of the edges that carry most influence."""
        leading = {id(target): sources for target, sources in into}
        waiting: list[tuple[float, int, FeatureNode, FeatureNode, float]] = []
        reached: set[int] = set()
        chosen: list[tuple[FeatureNode, FeatureNode, float]] = []

        def reach(node: FeatureNode) -> None:
            """Add a node's edges to the candidates."""
            if id(node) in reached or id(node) not in leading:
                return
            reached.add(id(node))
            found = leading[id(node)]
            for source, w in found.pairs:
                share = node.influence * abs(w) / found.size
                heappush(waiting, (-share, next(order), source, node, w))

        order = count()
        for target in targets:
            reach(target)
        while waiting and len(chosen) < top:
            _, _, source, node, w = heappop(waiting)
            chosen.append((source, node, w))
            reach(source)
        texts, sites = self.tracer.texts, self.tracer.sites
        out = FeatureGraph(
            tokens=[x for t in texts for x in t.words], ids=[x for t in texts for x in t.ids],
            blocks=sum(len(s.numbers) for s in sites), first=sites[0].before,
        )  # fmt: skip
        if len(sites) > 1:
            out.rows = {s.layer(i): f"{s.found.loop.index} = {i}" for s in sites for i in s.numbers}
        place: dict[int, int] = {}
        for node in (*targets, *(x for s, t, _ in chosen for x in (s, t))):
            if id(node) not in place:
                place[id(node)] = len(out.nodes)
                out.nodes.append(replace(node, name=node.name or self.tracer.name(node)))
        out.edges = [(place[id(s)], place[id(t)], w) for s, t, w in chosen]
        out.into = {place[k]: found[1:] for k, found in leading.items() if k in reached}
        return out


__all__ = ["feature_graph"]
