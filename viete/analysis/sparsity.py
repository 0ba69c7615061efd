"""Structural sparsity: sums in which a factor made by `top` keeps only a few terms of each row.

In ``∑_e (column(p; e - 1) ⊙ h^e) W^e``, with p made from ``top(…; k)``, each row of p is 0 for all
but k values of e: a row of a mixture of experts needs only its k chosen experts. The equations show
where the zeros are: `top` makes them, and products and quotients preserve them. Such a term may be
computed only for the rows whose factor is not 0, provided that row j of the term depends only on
row j of the values that it reads. `viete.analysis.flows` decides that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viete.analysis.def_use import bodies
from viete.analysis.flow import Flow
from viete.analysis.flows import flows_of
from viete.analysis.traits import counts_rows
from viete.graph.card import CardData, Equation, memoised
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, refs


@dataclass(frozen=True)
class SparseSum:
    """``∑_letter term``, in which rows are 0 wherever ``factor`` is 0.

    ``inside`` are the equations, in order, of values that nothing else reads, and ``rows`` the
    names whose own rows (or columns, of a vector) are those of the sum, by the label of that axis.
    """

    equation: Equation
    letter: str
    term: Expr
    factor: Expr
    inside: tuple[Equation, ...]
    rows: dict[str, str]


@memoised
def sparse_sums(card: CardData) -> dict[str, SparseSum]:
    """The sparse sums among a card's equations, by the names of their values."""
    kept = {e.name: (e, f) for e in card.equations if (f := sparse_factor(card, e)) is not None}
    if not kept:  # most cards have none: what each row is made of need not be found
        return {}
    flows = flows_of(card)
    alone = {  # of every value, whether its rows are made of their own rows
        e.name: flow.place is not None
        and not reads
        and flow.used_lengths.isdisjoint(flow.place.names())
        and not any(counts_rows(x, conditions=True) for x in bodies(card, e.right))
        for e, (flow, reads) in zip(card.equations, flows.found, strict=True)
    }
    return {
        name: sparse_sum(card, e, factor, flows.known, alone)
        for name, (e, factor) in kept.items() if alone[name]
    }  # fmt: skip


def sparse_factor(card: CardData, e: Equation) -> Expr | None:
    """The factor that makes an equation a sum of few terms in each row, if it is one."""
    match e.right:
        case Bind("sum", letter, body=term) if letter not in card.loop_letters:
            return next((f for f in factors(term) if letter in f.free and has_zeros(card, f)), None)
    return None


def sparse_sum(
    card: CardData, e: Equation, factor: Expr, known: dict[str, Flow], alone: dict[str, bool]
) -> SparseSum:
    """An equation as a sparse sum."""
    assert isinstance(e.right, Bind)
    letter, term = e.right.index, e.right.body
    inside = only_inside(card, e, letter, alone)
    names = term.keys.union(*(i.reads for i in inside)).difference(i.name for i in inside)
    flows = ((name, known[name]) for name in names if name in known)
    rows = {name: x.own for name, x in flows if x.own and x.place == known[e.name].place}
    return SparseSum(e, letter, term, factor, inside, rows)


def only_inside(
    card: CardData, e: Equation, letter: str, alone: dict[str, bool]
) -> tuple[Equation, ...]:
    """The equations of members of the letter's family that only this sum reads."""
    before = card.equations[: card.equations.index(e)]
    inside: list[Equation] = []
    for x in reversed(before):
        readers = [y for y in card.equations if x.name in y.reads]
        members = [r for y in readers for r in refs(y.right) if r.key == x.name]
        if (
            x.loop == e.loop and alone[x.name] and Idx(letter) in x.left.index
            and readers and all(y is e or y in inside for y in readers)
            and all(r.index == x.left.index for r in members)
            and not any(x.name in d.reads for d in card.derived)
            and sum(y.name == x.name for y in card.equations) == 1
        ):  # fmt: skip
            inside.append(x)
    return tuple(reversed(inside))


def factors(e: Expr) -> Iterator[Expr]:
    """The parts that make a product 0: entrywise factors, and the left one of a matrix product."""
    match e:
        case Apply("had" | "times", (a, b)):
            yield from (a, b)
            yield from factors(a)
            yield from factors(b)
        case Apply("prod" | "div", (a, _)) | Apply("neg", (a,)):
            yield from factors(a)


def kept_count(card: CardData, e: Expr) -> Expr | None:
    """How many entries of each row `top` keeps, of a factor that `has_zeros`."""
    if card.library_name(e) == "top":
        assert isinstance(e, Apply)
        return e.args[1]
    made = [x.right for x in card.equations if isinstance(e, Ref) and x.name == e.key]
    counts = (kept_count(card, x) for x in (*made, *e.children))
    return next((k for k in counts if k is not None), None)


def has_zeros(card: CardData, e: Expr) -> bool:
    """Whether most of an expression is 0: made by `top`, then by operations that keep zeros."""
    match card.library_name(e), e:
        case "top", _:
            return True
        case (("column" | "part"), Apply(args=(a, *_))):
            return has_zeros(card, a)
    match e:
        case Apply("div", (a, _)) | Apply("neg", (a,)) | Pick(a):
            return has_zeros(card, a)
        case Apply("had" | "times" | "prod", args):
            return any(has_zeros(card, a) for a in args)
        case Ref():
            made = [x for x in card.equations if x.name == e.key]
            return bool(made) and all(has_zeros(card, x.right) for x in made)
    return False
