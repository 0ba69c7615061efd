"""Law 9: what a rewriting makes is well-formed, of shipped cards and of random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given

import viete as vt
from tests.laws.strategies import Card, cards, shipped, tiny
from viete.analysis.well_formed import check_well_formed
from viete.errors import Text, VieteError
from viete.graph.distinct import distinct
from viete.graph.rules import rewrite, rules
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, Symbol, num
from viete.rewrite.adjoint.double_where import double_where
from viete.rewrite.folding import folded
from viete.rewrite.incremental import derived
from viete.rewrite.joining import heads_joined
from viete.rewrite.padding import padded
from viete.rewrite.relevance import relevance
from viete.rewrite.renaming import joined
from viete.rewrite.transcoding import Coding, transcoded


def coded(m: vt.Card) -> vt.Card:
    """A card with features of a cross-layer transcoder in the place of its MLPs."""
    if not {"v^i", "m^i", "x^i"} <= m.symbols.keys():
        raise VieteError("no MLP")
    v, made = m.symbols["v^i"].member, m.symbols["m^i"].member
    return transcoded(m, Coding(6, v, made, "jumprelu", across=True, skip=True))


def with_heads_together(m: vt.Card) -> vt.Card:
    """A card with its values of heads side by side."""
    found = next((k for k in m.symbols if k.startswith("V^{i,")), None)
    if found is None:
        raise VieteError("no heads")
    return heads_joined(m, m.symbols[found].member, Text(found))[0]


REWRITINGS: dict[str, Callable[[vt.Card], vt.Card]] = {
    "grad": vt.Card.grad,
    "incremental": lambda m: derived(m).model,
    "incremental in place": lambda m: derived(m, fixed=True).model,
    "padded": padded,
    "double where": double_where,
    "distinct": distinct,
    "folded": lambda m: [m, *(x.model for x in folded(m))][-1],
    "padded grad": lambda m: padded(m.grad()),
    "relevance": relevance,
    "recognised": lambda m: rewrite(m, rules("rewrite", "recognition.md"))[0],
    "incremental padded": lambda m: derived(padded(m)).model,
    "coded": coded,
    "heads together": with_heads_together,
    "beside itself": lambda m: joined(m, m, ())[0],
    "beside itself, of the same sizes": lambda m: joined(m, m, {*m.sizes, *m.ranges})[0],
}


def results(model: vt.Card) -> Iterator[str]:
    """The rewritings that there are of a model, each checked."""
    for name, rewriting in REWRITINGS.items():
        try:
            found = rewriting(model)
        except VieteError:
            continue
        try:
            check_well_formed(found)
        except VieteError as fault:
            pytest.fail(f"{name}: {fault}")
        yield name


@pytest.mark.parametrize("path", shipped())
def test_of_shipped_cards(path: str) -> None:
    model = tiny(path)
    check_well_formed(model)
    assert "distinct" in results(model)


@given(card=cards())
def test_of_random_cards(card: Card) -> None:
    check_well_formed(card.model)
    assert "distinct" in results(card.model)


x = Ref(Symbol("value", "x"))
FAULTS = {
    "is no value that is declared": Ref(Symbol("value", "nowhere")),
    "is no parameter that is declared": Ref(Symbol("parameter", "x")),
    "is bound by nothing": Idx("zz"),
    "nothing is not an operation": Apply("nothing", (x,)),
    "has 1 arguments": Apply("add", (x,)),
    "has 3 arguments": Apply("softmax", (x, x, x)),
    "has 1 of 0 indices": Ref(x.symbol, (num(0),)),
    "binds x, which is a name in it": Bind("sum", "x", num(0), num(1), x),
}


@pytest.mark.parametrize("why", FAULTS)
def test_what_is_not(why: str) -> None:
    model = vt.read("# C\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | 4 |\n\n"
                     "## Inputs\n\n- $y ∈ ℝ^d$\n\n## Forward pass\n\n1. $x = 2 * y$\n")  # fmt: skip
    check_well_formed(model)
    wrong: Expr = Apply("add", (num(1), FAULTS[why]))
    last = replace(model.equations[-1], right=wrong)
    with pytest.raises(VieteError, match=why):
        check_well_formed(replace(model, equations=(*model.equations[:-1], last)))
