"""A letter that nothing declares counts what it stands at: asked of it is asked of each number."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import (
    World,
    expressions,
    random_inputs,
    random_weights,
    shipped,
    tiny,
    worlds,
)  # fmt: skip
from viete.analysis.query_heads import query_heads
from viete.ask.card_claims import check_claims
from viete.errors import Text, VieteError
from viete.evaluate.queries import query
from viete.evaluate.schedule import program
from viete.meanings.run import run
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Idx, Num, Pick, Ref, Slot, Symbol, num, transform

PYTHIA = vt.read("pythia").bind(V=9, d=16, N=3, H=2, n_max=8, d_f=12)
WEIGHTS = PYTHIA.initial_weights(seed=0)
TEXTS = np.array([[3, 1, 4, 1], [2, 7, 0, 5]])


def lettered(draw: st.DrawFn, e: Expr, letters: list[str]) -> Expr:
    """A formula with letters in the place of some of the numbers that are indices in it."""

    def index(x: Expr) -> Expr:
        some = isinstance(x, Num) and draw(st.booleans())
        return Idx(draw(st.sampled_from(letters))) if some else x

    def rule(x: Expr) -> Expr | None:
        match x:
            case Ref(symbol, indices) if indices:
                return Ref(symbol, tuple(map(index, indices)))
            case Pick(value, items):
                return Pick(value, tuple(map(index, items)))
        return None

    return transform(e, rule)


def with_numbers(e: Expr, numbers: dict[str, int]) -> Expr:
    """A formula with numbers in the place of letters."""
    return transform(
        e, lambda x: num(numbers[x.name]) if isinstance(x, Idx) and x.name in numbers else None
    )


def ranges_of(made: Any, question: str) -> dict[str, Any]:
    """The values of a question's letters."""
    about = query(made, made.parse(question))
    own = made.axis_letters(about.places)
    return about.blocks | {s: range(x.first, x.first + x.count) for s, x in own.items()}


def stacked(made: Any, e: Expr) -> None:
    """Holds the answer to a formula to the answers to it with numbers for its letters."""
    ranges = ranges_of(made, show(e))
    whole, axes = np.asarray(made[show(e)]), made.axes(show(e))
    assert whole.shape[: len(ranges)] == tuple(len(ranges[s]) for s in axes[: len(ranges)])
    order = axes[: len(ranges)]
    for place in product(*(range(len(ranges[s])) for s in order)):
        numbers = {s: ranges[s][k] for s, k in zip(order, place, strict=True)}
        one = np.asarray(made[show(with_numbers(e, numbers))])
        np.testing.assert_allclose(whole[place], one, rtol=1e-9, atol=1e-12, err_msg=show(e))


@settings(max_examples=15)
@given(world=worlds(), data=st.data())
def test_random_formulas(world: World, data: st.DataObject) -> None:
    e, _ = data.draw(expressions(world, depth=3, free="none"))
    letters = [f"{world.loop}'", f"{world.head}'", f"{world.head}''"]
    asked = lettered(data.draw, e, letters)
    assume(asked.free)
    model = world.model
    made = run(model, None, random_weights(model), **random_inputs(model, 3))
    try:
        made[show(asked)]
    except VieteError as error:  # one letter of rows here and of columns there
        assert re.search(
            "count|combinations of the blocks|any block|outside|takes no value", str(error)
        )
        assume(False)
    stacked(made, asked)


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_rows_and_entries_of_shipped_cards(path: str) -> None:
    """Every value of every family, by its rows, its entries, and sums of them."""
    model = tiny(path)
    made = run(model, None, random_weights(model), **random_inputs(model))
    ready, seen = program(model), set()
    for name, (key, _) in ready.names.items():
        if name not in made or key in seen or ready.shapes.types[key].kind != "real":
            continue
        seen.add(key)
        array = np.asarray(made[name])
        assert len(made.axes(name)) == array.ndim
        if (rank := len(ready.shapes.types[key].shape)) == 0:
            continue
        letters = [x for x in "jklmopq" if x not in model.scope.bases()][:rank]
        j = letters[0]
        entry = f"({name})_{{{','.join(letters)}}}"
        np.testing.assert_array_equal(made[entry], array)
        assert made.axes(entry)[-rank:] == tuple(letters)
        total = made[f"sum_{{{','.join(letters)}}} {entry}"]
        kept = tuple(range(array.ndim - rank, array.ndim))
        np.testing.assert_allclose(total, array.sum(axis=kept), rtol=1e-9, atol=1e-9)
        if array.shape[-rank] > 1:
            assert len(made.axes(f"({name})_{{{j}}}")) == made[f"({name})_{{{j}}}"].ndim
            shifted = made[f"({name})_{{{j}+1}} - ({name})_{{{j}}}"]
            first = np.moveaxis(array, -rank, 0)
            with np.errstate(invalid="ignore"):  # infinite scores
                apart = first[1:] - first[:-1]
            wanted = np.moveaxis(apart, 0, -rank)
            np.testing.assert_allclose(shifted.reshape(wanted.shape), wanted)  # rows of one entry
    assert seen or not model.equations


X = [f"x^{k}" for k in range(4)]
BY_HAND = {
    "x^i_j": lambda r: np.stack([r[x] for x in X]),
    "⟨x^i_j, U_5⟩": lambda r: np.stack([r[x] @ r["U"][5] for x in X]),
    "⟨x^i_j, x^{i'}_{j'}⟩": lambda r: np.einsum("ijd,kld->ijkl", *[r["x^i"]] * 2),
    "A^{i,h}_{j,k}": lambda r: r["A^{i,h}"],
    "A^{i,h'}_{j,-1}": lambda r: r["A^{i,h}"][..., -1],
    "W_{OV}^{i,h} W_{QK}^{i',h'}":
        lambda r: np.einsum("ihab,klbc->ihklac", r["W_{OV}^{i,h}"], r["W_{QK}^{i,h}"]),
    "logits_{j, t_{j+1}}": lambda r: r["logits"][np.arange(3), np.asarray(r["t"])[1:]],
    "x^3_j - x^3_{j-1}": lambda r: np.diff(r["x^3"], axis=0),
    "x^3_{j-1}": lambda r: r["x^3"],
    "A^{i,h}_{j+1,j}": lambda r: np.stack([np.diagonal(a, -1) for a in
                                           r["A^{i,h}"].reshape(6, 4, 4)]).reshape(3, 2, 3),
    "mean_j(x^i_j)": lambda r: r["x^i"].mean(1),
    "max_j(A^{i,h}_{j,k})": lambda r: r["A^{i,h}"].max(2),
    "sum_j A^{i,h}_{j,k}": lambda r: r["A^{i,h}"].sum(2),
    "sum_{i,h,j,k} A^{i,h}_{j,k}": lambda r: r["A^{i,h}"].sum(),
    "mean_{i,j}(x^i_j)": lambda r: r["x^i"].mean((0, 1)),
    "sum_i Δx^i": lambda r: r["x^3"] - r["x^0"],
    "sum_{k=2}^{3} Δx^k_j": lambda r: r["x^3"] - r["x^1"],
    "x^3_j - mean_j(x^3_j)": lambda r: r["x^3"] - r["x^3"].mean(0),
    "x^i_j + 0 j'' x^{j''}_0": lambda r: np.broadcast_to(r["x^i"][:, :, None], (4, 4, 4, 16)),
    "mean_{texts}(x^i_j)": lambda r: r["x^i"],
}  # fmt: skip


@pytest.mark.parametrize("question", BY_HAND)
def test_by_hand(question: str) -> None:
    """Of one text, of a batch, and of what was computed for the question alone."""
    runs = [PYTHIA.run(t, WEIGHTS) for t in TEXTS]
    found = [one[question] for one in runs]
    for one, array in zip(runs, found, strict=True):
        np.testing.assert_allclose(array, BY_HAND[question](one), rtol=1e-9, atol=1e-12)
    of_weights = "W_" in question
    wanted = np.mean(found, axis=0) if "texts" in question or of_weights else np.stack(found)
    for names in None, [question]:
        both = PYTHIA.run(TEXTS, WEIGHTS, names=names)
        np.testing.assert_allclose(both[question], wanted, rtol=1e-9, atol=1e-12)
        assert len(both.axes(question)) == both[question].ndim


def test_texts() -> None:
    made = PYTHIA.run(TEXTS, WEIGHTS)
    for op in "sum", "mean", "max":
        found = getattr(np, op)(made["x^3"], axis=0)
        np.testing.assert_allclose(made[f"{op}_{{texts}}(x^3)"], found, rtol=1e-12)
    np.testing.assert_allclose(made["sum_{texts} W_E"], 2 * WEIGHTS["W_E"])
    gram = np.einsum("bjd,bje->de", made["x^3"], made["x^3"])
    np.testing.assert_allclose(made["sum_{texts} {x^3}^T x^3"], gram, rtol=1e-9)
    with pytest.raises(VieteError, match="nor texts"):
        made["concat_{texts}(x^3)"]


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_every_library(library: str) -> None:
    xp = pytest.importorskip(library)
    made = PYTHIA.run(TEXTS, {k: xp.asarray(v) for k, v in WEIGHTS.items()})
    plain = PYTHIA.run(TEXTS, WEIGHTS)
    for question in ("⟨x^i_j, x^{i'}_{j'}⟩", "logits_{j, t_{j+1}}", "mean_{texts}(A^{i,h}_{j,k})",
                     "max_j(x^i_j)"):  # fmt: skip
        np.testing.assert_allclose(np.asarray(made[question]), plain[question], 2e-4, 1e-5)


@pytest.mark.parametrize("meaning", ["exact", "interval"])
def test_every_meaning(meaning: str) -> None:
    card = vt.read("attention-only-2").bind(V=4, d=4, H=2, n_max=6)
    weights = {k: np.round(v, 2) for k, v in card.initial_weights(seed=0).items()}
    made = card.run([1, 2, 3], weights, meaning=meaning)
    for e in "x^i_j - x^i_{j-1}", "⟨x^0_j, x^{1}_{k'}⟩", "logits_{j, t_{j+1}}", "mean_j(x^i_j)":
        formula, found, ranges = made.parse(e), made[e], ranges_of(made, e)
        order = [a for a in made.axes(e) if a in ranges]
        for place in product(*(range(len(ranges[s])) for s in order)):
            numbers = {s: ranges[s][k] for s, k in zip(order, place, strict=True)}
            one = made[show(with_numbers(formula, numbers))]
            assert str(found[place]) == str(one)


@pytest.mark.parametrize(("question", "message"), [
    ("x^1_j + W_U[j]", "j counts n places from 0 elsewhere and d from 0 here"),
    ("2^q", "the letter q counts no rows, columns, heads or blocks here"),
    ("x^1_{j+k}", "the letter j counts no rows"),
    ("mean_q(x^1)", "the letter q counts no rows, columns, heads or blocks here"),
    ("x^1_{j+9}", "index 4 is outside"),
    ("mean_{j ≥ 2}(x^1_j)", "a range has both bounds: mean_{j=4}^{n-1}"),
    ("mean_{2≤j≤3}(x^1_j)", "mean needs an index letter below it; a range is written mean_{j=4}"),
])  # fmt: skip
def test_what_is_refused(question: str, message: str) -> None:
    made = PYTHIA.run(TEXTS[0], WEIGHTS)
    if "+9" in question:
        assert made[question].shape == (4, 16)  # j from -9 on
        return
    with pytest.raises(VieteError, match=re.escape(message)):
        made[question]


def test_labels_of_letters() -> None:
    made = PYTHIA.run(TEXTS[0], WEIGHTS)
    assert list(made.labels("x^i_j")[0]) == ["0", "1", "2", "3"]
    assert list(made.labels("x^3_{j+1} - x^3_j")[0]) == ["0", "1", "2"]
    assert list(made.labels("A^{1,h'}_0")[0]) == ["1 = L0H0", "2 = L0H1"]


def test_a_claim_has_the_letters_of_a_question() -> None:
    claims = r"""
## Claims

- $sum_k A^{i,h}_{j,k} = 1$
- $x^i_j - x^{i-1}_j = Δx^i_j$
- $A^{i,h}_{j,j+1} = 0$
- $A^{i,h}_{j+1,j} = 0$
- $⟨x^i_j, x^{i'}_{j'}⟩ = ⟨x^{i'}_{j'}, x^i_j⟩$
- $mean_{i,j}(x^i_j) = mean_j(mean_i(x^i_j))$
"""
    found = check_claims(vt.read(PYTHIA.write().split("## Claims")[0] + claims))
    assert [v.failure is None for v in found.verdicts] == [True, True, True, False, True, True]


def test_a_derivative_of_a_sum_without_bounds() -> None:
    made = PYTHIA.run(TEXTS[0], WEIGHTS)
    np.testing.assert_allclose(
        made["∂(sum_k logits_{-1,k})/∂x^1_j"],
        sum(made[f"∂(logits_{{-1,{k}}})/∂x^1"] for k in range(9)), 1e-9, 1e-12,
    )  # fmt: skip


# The last block ----------------------------------------------------------------------------------


def member(family: Symbol, block: object) -> str:
    """A value's name with something in the place of its block's letter."""
    before, _, behind = show(family.member).rpartition(family.slots[0])
    return f"{before}{block}{behind}"


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_n_and_l_are_the_last_block(path: str) -> None:
    """Whatever a card calls its number of blocks, in each of its loops."""
    model = tiny(path)
    made = run(model, None, random_weights(model), **random_inputs(model))
    for loop in model.loops:
        key = next(e.left.symbol for e in model.equations
                   if e.loop == loop and e.left.symbol.slots == (loop.index,))  # fmt: skip
        last = program(model).range_of(loop.index)[-1]
        for letter in "N", "L":
            own = model.symbols.get(letter)
            if own is not None and own.kind != "dim":
                with pytest.raises(VieteError, match="the last block is"):
                    made[member(key, letter)]
            elif own is None:
                np.testing.assert_array_equal(made[member(key, letter)], made[member(key, last)])


def test_the_last_block_elsewhere() -> None:
    made = PYTHIA.run(TEXTS, WEIGHTS)
    for asked, plain in {"x^L": "x^3", "x^{L-1}_j": "x^2", "A^{L,h}": "A^{3,h}",
                         "sum_{i=1}^{L} Δx^i": "x^3 - x^0", "B_L(x^2)": "x^3",
                         "L x^3": "3 x^3", "L": "3"}.items():  # fmt: skip
        np.testing.assert_allclose(made[asked], made[plain], rtol=1e-9, atol=1e-12)


def test_a_family_with_the_letter_keeps_it() -> None:
    """``L^2`` is a member of ``L^h`` where a card has one, and without one a square."""
    family = Symbol("parameter", "L", sup=(Slot("h", index=True),))
    scope = replace(Scope.of([family], ["h"]), last={"i": num(3)})
    for asked, wanted in {"L^2": Ref(family, (num(2),)), "L": num(3)}.items():
        assert parse(Text(asked, "<name>"), scope) == wanted
    bare = parse(Text("L^2", "<name>"), replace(scope, symbols={}))
    assert bare == Apply("pow", (num(3), num(2)))


# One letter for grouped heads -------------------------------------------------------------------

GROUPED = [p for p in shipped() if query_heads(vt.read(p))]


@pytest.mark.parametrize("path", GROUPED, ids=lambda p: Path(p).stem)
def test_heads_of_grouped_queries(path: str) -> None:
    """``A^{i,h}`` is ``A^{i,g,r}`` with the heads of a group one after the other, keys repeated."""
    card = vt.read(path)
    heads = query_heads(card)
    sizes = {"d": 24, "H": 6, "G": 3, "d_k": 4, "V": 9}
    card = tiny(path).bind(**{k: v for k, v in sizes.items() if k in card.scope.symbols})
    made = run(card, None, random_weights(card), **random_inputs(card))
    g, r = (list(program(card).range_of(x)) for x in (heads.group, heads.member))
    assert len(g) > 1 and len(r) > 1
    asked = 0
    for symbol in {e.left.symbol for e in (*card.equations, *card.derived)} | {
        p.symbol for p in card.parameters
    }:
        if heads.group not in symbol.slots or len(card.blocks_of(symbol)) != 1:
            continue
        whole = np.asarray(made[symbol.key])
        assert whole.shape[1] == len(g)
        if heads.member in symbol.slots:
            wanted = whole.reshape(len(whole), -1, *whole.shape[3:])
            name = show(symbol.member).replace(f"{heads.group},{heads.member}", "h")
            one = "5".join(name.rsplit("h", 1))
            np.testing.assert_array_equal(made[one], wanted[:, 4])
            for style in "plain", "latex", "unicode":
                assert made.parse(show(made.parse(one), style)) == made.parse(one)
        else:
            wanted = np.repeat(whole, len(r), axis=1)
            name = "h".join(show(symbol.member).rsplit(heads.group, 1))
        np.testing.assert_array_equal(made[name], wanted)
        assert made.axes(name)[:2] == (card.blocks_of(symbol)[0], "h")
        total = np.asarray(made[f"sum_h ({name})"])
        np.testing.assert_allclose(total, wanted.sum(1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(made["h'".join(name.rsplit("h", 1))], wanted)
        asked += 1
    assert asked > 4


def test_a_group_is_no_head() -> None:
    card = vt.read("llama").bind(V=9, d=12, N=2, H=6, G=3, d_f=12, n_max=8)
    made = card.run([1, 2, 3], card.initial_weights(seed=0))
    assert np.array_equal(made["A^{2,5}"], made["A^{2,3,1}"])
    assert np.array_equal(made["K^{2,3}"], made["K^{2,g}"][2])  # a number is the card's: a group
    np.testing.assert_allclose(
        made["A^{2,h}_{j,k}"], made["softmax(causal(Q^{2,h} {K^{2,h}}^T / sqrt(d_k)))"], 1e-9
    )
    assert list(made.labels("A^{2,h}_0")[0]) == [f"{k} = L1H{k - 1}" for k in range(1, 7)]
    with pytest.raises(
        VieteError, match=re.escape("A^{i,h} takes the head h; with the letters g and r")
    ):
        made["A^{i,g}"]
