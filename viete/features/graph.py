"""Attribution graphs of features: nodes and edges, and the same graph as arrows to draw.

A node is a feature, an error or an embedding at a position, or the number asked for. See Ameisen et
al. 2025; `viete.features.tracing` finds nodes and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from viete.ask.arrows import Arrows, Edge, Vertex
from viete.notation.words import quoted

FEATURE, ERROR, EMBEDDING, TARGET = "feature", "error", "embedding", "target"


@dataclass
class FeatureNode:
    """A feature, an error, an embedding or a target at a position.

    Blocks and positions are numbered throughout: those of an encoder come before those of its
    decoder. ``value`` is the activation, or the number of a target, and ``influence`` its share in
    the targets, through all paths. For a target that is a score, ``feature`` is its token, and
    ``probability`` that of the token.
    """

    kind: str
    block: int | None
    position: int
    feature: int | None = None
    value: float = 0.0
    influence: float = 0.0
    probability: float = 0.0
    name: str = ""


@dataclass
class FeatureGraph:
    """Nodes, and edges by the numbers of their nodes: source, target, weight.

    ``ids`` are the tokens of the text and ``tokens`` their labels; ``blocks`` is the number of
    blocks, and ``first`` the number of the first one. ``rows`` names the blocks where their numbers
    do not. ``into`` has for all sources of a node, edges here or not, the sum of sizes, the sum and
    the number, where these are known.
    """

    nodes: list[FeatureNode] = field(default_factory=list)
    edges: list[tuple[int, int, float]] = field(default_factory=list)
    tokens: Sequence[str] = ()
    ids: Sequence[int] = ()
    blocks: int = 0
    first: int = 1
    rows: dict[int, str] = field(default_factory=dict)
    into: dict[int, tuple[float, float, int]] = field(default_factory=dict)

    def arrows(self) -> Arrows:
        """The graph as arrows, for a drawing."""
        known = [Vertex(x.name, self.row(x), x.position, self.called(x), self.short(x))
                 for x in self.nodes]  # fmt: skip
        blocks = range(self.first, self.first + self.blocks)
        rows = {self.first - 1: "tokens", **{k: f"block {k}" for k in blocks}, **self.rows}
        out = Arrows(next((x.name for x in self.nodes if x.kind == TARGET), ""), rows=rows)
        here: dict[int, list[float]] = {}
        for _, t, w in self.edges:
            here.setdefault(t, []).append(w)
        for s, t, w in self.edges:
            mass = self.nodes[t].influence * abs(w) / self.size(t, here[t])
            out.add(known[s], known[t], "", w, mass, "")
            if self.nodes[s].kind == FEATURE:
                out.arrows[known[s].name, known[t].name, ""].opens = known[s].name
        for t, (size, total, number) in self.into.items():
            weights = here.get(t, [])
            if number > len(weights):
                mass = self.nodes[t].influence * (1 - sum(map(abs, weights)) / size)
                rest = Edge("", known[t].name, "", total - sum(weights), mass)
                out.rests.append((rest, number - len(weights)))
        return out

    def size(self, node: int, weights: Sequence[float]) -> float:
        """The sum of the sizes of all sources of a node; ``weights`` are those of its edges."""
        return self.into[node][0] if node in self.into else sum(map(abs, weights)) or 1.0

    def row(self, x: FeatureNode) -> int | None:
        """The row of a node: its block's row; embeddings are below the first."""
        return None if x.kind == TARGET else self.first - 1 if x.block is None else x.block

    def called(self, x: FeatureNode) -> str:
        """The label of a node's position."""
        known = x.kind != TARGET and x.position < len(self.tokens)
        return f"{x.position} {quoted(self.tokens[x.position])}" if known else ""

    def short(self, x: FeatureNode) -> str:
        """The label of a node in a drawing that shows its block and position."""
        if x.kind == TARGET:
            return x.name
        return str(x.feature) if x.feature is not None else x.kind * (x.block is not None)


__all__ = ["EMBEDDING", "ERROR", "FEATURE", "TARGET", "FeatureGraph", "FeatureNode"]
