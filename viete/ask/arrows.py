"""An expansion as a graph: which head carried what, from which position to which.

A term that passed through heads is a chain of arrows ``x^{i'}_k →(A^{i,h}) x^i_j``, from the output
of block i' at position k to the output of block i at position j; the last arrow ends at the
expression. An arrow carries the sum of the terms that pass through it, and the sum of their
absolute values.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from viete.ask.expansion import Expansion, Term
from viete.ask.remainder import Remainder
from viete.ask.term_table import floats
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.notation.tree import Expr, Num, Pick, Ref, num, transform


@dataclass(frozen=True)
class Vertex:
    """A residual vector ``x^i_j``, or an end of the terms: an embedding, an MLP, the whole.

    ``label`` is its name without the position, ``tex`` that name as a formula of LaTeX. ``stream``
    says that it is a residual vector.
    """

    name: str
    block: int | None = None
    position: int | None = None
    token: str = ""
    label: str = ""
    tex: str = ""
    stream: bool = False


@dataclass
class Edge:
    """An arrow between two vertices: the sum of the terms through it, and the sum of their sizes.

    ``terms`` are the labels of these terms with their values. ``opens`` asks what its start was
    made of, where that is a question.
    """

    start: str
    end: str
    by: str
    value: float = 0.0
    mass: float = 0.0
    terms: list[tuple[str, float]] = field(default_factory=list)
    opens: str = ""


@dataclass
class Arrows:
    """The graph of an expansion; all arrows lead to the expression ``of``.

    ``hidden`` is an arrow to it for the ``count`` terms that the expansion does not list. ``rests``
    are such arrows to other vertices, each with its number of terms. ``rows`` are names of blocks,
    for blocks without a stream.
    """

    of: str
    hidden: Edge | None = None
    count: int = 0
    rests: list[tuple[Edge, int]] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    nodes: dict[str, Vertex] = field(default_factory=dict)
    arrows: dict[tuple[str, str, str], Edge] = field(default_factory=dict)

    def add(
        self, start: Vertex, end: Vertex, by: str, value: float, mass: float, term: str
    ) -> None:  # fmt: skip
        """Add one term to an arrow."""
        for node in (start, end):
            self.nodes.setdefault(node.name, node)
        there = self.arrows.setdefault((start.name, end.name, by), Edge(start.name, end.name, by))
        there.terms += [(term, value)] * bool(term)
        there.value, there.mass = there.value + value, there.mass + mass


def arrows(e: Expansion) -> Arrows:
    """The graph of the terms that an expansion lists, the largest first.

    Raises VieteError where none of them is of a block.
    """
    out = Arrows(e.run.in_words(e.formula, "unicode"), count=len(e.hidden.terms))
    for term in e.terms:
        follow(out, e, term)
    if not out.arrows:
        stop = next((t.stopped for t in e.unopened if t.stopped), None)
        more = "" if stop is None else f"; expand what {stop.function} reads, {stop.within}"
        raise VieteError(
            f"none of the listed terms of {out.of} belongs to a block, so there is no arrow{more}"
        )
    if out.count:
        out.hidden = Edge("", out.of, "", value_of_term(e.hidden), e.hidden.size)
    return out


def value_of_term(term: Term | Remainder) -> float:
    """The value of a term; for a vector, its length."""
    value = floats(term.value)
    return term.size if value.ndim else float(value)


def follow(out: Arrows, e: Expansion, term: Term) -> None:
    """Add the arrows of one term, from the expression back to where the term begins."""
    position, value, first = row_of(e), value_of_term(term), True
    end = Vertex(out.of, label=out.of, tex=e.run.in_words(e.formula, "latex"))
    marks = term.counted
    while marks:
        mark = marks.pop(0)
        if mark.word != "block" or mark.number is None:
            continue
        block, heads, source = mark.number, list[str](), position
        while marks and marks[0].word != "block":
            inner = marks.pop(0)
            if inner.word == "head":
                heads.append(str(inner.number))
            elif inner.word == "source":
                source = inner.number
        here = stream_node(e, mark.letter, block, position)
        if first:  # what it adds to the stream stays there
            out.add(here, end, "W_U", value, term.size, term.label)
            first = False
        elif here.name != end.name:
            out.add(here, end, "", value, term.size, term.label)
        if not heads:
            out.add(focus_node(term, block, position), here, "+", value, term.size, term.label)
            return
        name = f"A^{{{','.join([str(block), *heads])}}}"
        end, position = stream_node(e, mark.letter, block - 1, source), source
        out.add(end, here, name, value, term.size, term.label)


def focus_node(term: Term, block: int, position: int | None) -> Vertex:
    """The vertex where a term begins: an embedding, a sub-layer."""
    put: dict[str, Expr] = {k: num(v) for k, v in term.letters.items()}
    focus = term.expansion.card.substitute(term.family.focus, letters=put)
    return vertex(term.expansion.run, focus, block, position)


def vertex(run: Run, e: Expr, block: int, position: int | None, token: str = "") -> Vertex:
    """A value as a vertex; its label omits the row of the position."""

    def without_row(x: Expr) -> Expr | None:
        if not isinstance(x, Pick):
            return None
        other = isinstance(x.items[0], Num) and x.items[0] != num(position or 0)
        return None if other else x.value

    bare = transform(e, without_row)
    label = run.in_words(bare, "unicode")
    name = label
    if position is not None:
        row: Expr = num(position)
        if isinstance(e, Pick) and isinstance(e.items[0], Pick):  # the row of a token, W_E[t_j]
            row = Pick(e.items[0].value, (row,))
        name = run.in_words(Pick(bare, (row,)), "unicode")
    return Vertex(name, block, position, token, label, run.in_words(bare, "latex"))


def stream_node(e: Expansion, letter: str, block: int, position: int | None) -> Vertex:
    """The vertex ``x^i_j``, with the token at its position."""
    carried = [q for q in e.card.equations if q.name in e.expander.carried
               and q.loop is not None and q.loop.index == letter]  # fmt: skip
    symbol = carried[-1].left.symbol
    index = tuple(num(block) if s == letter else x
                  for s, x in zip(symbol.slots, symbol.member.index, strict=True))  # fmt: skip
    value: Expr = Ref(symbol, index)
    token = ""
    if position is not None:
        value = Pick(value, (num(position),))
        token = e.position_name(position)
    return replace(vertex(e.run, value, block, position, token), stream=True)


def row_of(e: Expansion) -> int | None:
    """The position that an expression is about, or None."""
    for x in e.picked_values():
        if (end := x.from_end(0)) is not None:
            return e.length_of(x.value) - end
        if not x.items[0].free and e.expander.lines.rank(x.items[0]) == 0:
            found = e.card.size(x.items[0])
            return None if found is None else int(found.evaluate(e.run.sizes))
    return None


def arrows_json(graph: Arrows) -> str:
    """The graph as JSON.

    ``of`` is the expression; ``nodes`` have a name, a block, a position and its token, a label and
    TeX; ``arrows`` a start, an end, what they pass through, a value, a mass and their terms.
    ``hidden`` is the arrow for terms not listed, and ``count`` their number.
    """
    said = {
        "of": graph.of,
        "nodes": [asdict(n) for n in graph.nodes.values()],
        "arrows": [asdict(a) for a in graph.arrows.values()],
        "hidden": None if graph.hidden is None else asdict(graph.hidden),
        "count": graph.count,
    }
    return json.dumps(said, ensure_ascii=False, indent=1) + "\n"


__all__ = ["Arrows", "Edge", "Vertex", "arrows", "arrows_json"]
