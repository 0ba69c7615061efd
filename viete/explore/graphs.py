"""Graphs on a page: the arrows of an expansion by heads and positions, and graphs of features.

A graph is data with an ``svg``. The ``made`` entry of a feature graph holds, for each feature in
it, the terms that made the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viete.analysis.features import features_of
from viete.ask.arrows import arrows
from viete.ask.expansion import Expansion
from viete.ask.expansion_options import Options
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.features.graph import EMBEDDING, FEATURE, FeatureNode
from viete.features.search import FeatureSearch
from viete.features.tracing import FeatureTracer, Sources
from viete.notation.printer import show
from viete.notation.tree import Expr, Pick, Ref, num
from viete.report.drawing.arrows import arrows_svg
from viete.rewrite.opening import without_calls

INTO = ("head", "source")
MOST = 150  # terms of a graph
EDGES, EXPLAINED = 40, 16  # edges of a graph of features, and the features whose makers are in it
MADE = 24  # features of a graph that a page opens by itself
SOURCES = 40  # listed of what made a feature


def graph_of(run: Run, e: Expr) -> str | None:
    """The graph of a number as SVG; None where its terms belong to no block."""
    card = run.program.model
    found = Expansion(run, without_calls(card, e), Options(INTO, MOST), frozenset(card.lengths))
    try:
        return arrows_svg(arrows(found), listed=0)
    except VieteError:
        return None


def has_features(run: Run) -> bool:
    """Whether a graph of features is available."""
    return bool(features_of(run.program.model))


def feature_graph_of(run: Run, of: str) -> dict[str, Any]:
    """The graph of the features that contributed to a number."""
    search = FeatureSearch(FeatureTracer(run))
    graph = search.graph([of], EDGES, EXPLAINED)
    nodes = [x for x in graph.nodes if x.kind == FEATURE and not search.tracer.is_given(x)][:MADE]
    return {"svg": arrows_svg(graph.arrows(), listed=0), "made": makings(search.tracer, nodes)}


def making_of(run: Run, name: str) -> dict[str, Any]:
    """The terms of one feature, as ``feature^2_{3,8}``. Raises VieteError for another name."""
    tracer = FeatureTracer(run)
    node = tracer.node(run.parse(name))
    if node is None or tracer.is_given(node):
        raise VieteError(f"{name} is not a feature that the model made")
    return makings(tracer, [node])[tracer.name(node)]


def makings(tracer: FeatureTracer, nodes: Sequence[FeatureNode]) -> dict[str, Any]:
    """The terms of some features before their gates, by the features' names."""
    if not nodes:
        return {}
    every = tracer.edges(tracer.of_features(nodes), SOURCES)
    return {
        tracer.name(node): making(tracer, node, found)
        for node, found in zip(nodes, every, strict=True)
    }


def making(tracer: FeatureTracer, node: FeatureNode, found: Sources) -> dict[str, Any]:
    """The terms of one feature, the largest sources first, then the rest and the constant."""
    total = tracer.before(node)
    terms = [term(words(tracer, x), "term", w,
                  tracer.name(x) if x.kind == FEATURE and not tracer.is_given(x) else None)
             for x, w in found.pairs]  # fmt: skip
    if rest := found.number - len(terms):
        value = found.total - sum(w for _, w in found.pairs)
        terms.append(term(f"{rest} smaller source{'s' * (rest > 1)}", "hidden", value))
    terms.append(term("biases", "constant", total - found.total))
    return {"terms": terms, "within": "", "total": total}


def term(label: str, kind: str, value: float, opens: str | None = None) -> dict[str, Any]:
    """One line of a list of terms."""
    return {"label": label, "kind": kind, "value": value, "math": None, "formula": "", "off": None,
            "expression": None, "opens": opens}  # fmt: skip


def words(tracer: FeatureTracer, x: FeatureNode) -> str:
    """A source in words, with its token."""
    tokens = [w for t in tracer.texts for w in t.words]
    at = f"“{tokens[x.position]}”" if x.position < len(tokens) else str(x.position)
    if x.kind == EMBEDDING:
        return f"token {x.position} {at}"
    what = "error" if x.feature is None else f"feature {x.feature}"
    if len(tracer.sites) > 1:
        what = tracer.name(x).partition("_{")[0] + ("" if x.feature is None else f", {x.feature}")
        return f"{what}, at {x.position} {at}"
    return f"block {x.block}, {what}, at {x.position} {at}"


def greatest_graphs(run: Run, step: Step, room: int) -> list[dict[str, Any]]:
    """The graph of the greatest entry of each row of a matrix, the last row first.

    The last row also has the graph of features, if available.
    """
    symbol, value = step.equation.left.symbol, np.asarray(run[step.equation.name])
    if value.ndim != 2 or symbol.slots:
        return []
    out = list[dict[str, Any]]()
    for j in reversed(range(len(value))):
        at = [j, int(value[j].argmax())]
        entry = Pick(Ref(symbol), tuple(map(num, at)))
        svg = graph_of(run, entry)
        if svg is None or (room := room - len(svg)) < 0:
            break
        found: dict[str, Any] = {"at": at, "svg": svg}
        if not out and has_features(run):
            found["features"] = feature_graph_of(run, show(entry))
        out.append(found)
    return out


__all__ = ["feature_graph_of", "graph_of", "greatest_graphs", "has_features", "making_of"]
