"""Law 5, of incremental forms: over any splits of a text they give what the whole run gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import (
    Card,
    World,
    cards,
    expressions,
    random_inputs,
    random_weights,
    shipped,
    tiny,
    with_rows_changed,
    worlds,
)
from viete import read
from viete.analysis.cost import costs
from viete.analysis.next_token import text_of
from viete.analysis.traits import Traits
from viete.cards.writer import write
from viete.errors import Text, VieteError
from viete.evaluate.initial_weights import initial_weights
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import Equation
from viete.meanings.run import run
from viete.notation.printer import show
from viete.notation.tree import Expr, Ref, Symbol, transform
from viete.rewrite.incremental import Derived, derived

BOTH_WAYS = ("bert.md", "roberta.md", "encoder.md", "symbolic-transformer.md")
CAUSAL = [p for p in shipped() if not p.endswith(BOTH_WAYS)]

BLOCKED = [p for p in CAUSAL if tiny(p).loop_letters]


def stepped(
    model: vt.Card,
    found: Derived,
    weights: dict[str, Any],
    inputs: dict[str, Any],
    cuts: list[int],
) -> Any:
    """The target's rows, computed piece by piece with the cache joined by hand."""
    whole = run(model, None, weights, **inputs)
    length = text_of(model).shape
    positional = {i.name for i in model.inputs if i.shape == length}
    kept: dict[str, Any] = {}
    first: Run | None = None
    rows = []
    for a, b in pairwise(cuts):
        part = {k: np.asarray(v)[..., a:b] if k in positional else v for k, v in inputs.items()}
        if a == 0:
            first = at = run(model, None, weights, **part)
        else:
            there = {k: v for k, v in part.items() if k in {i.name for i in found.model.inputs}}
            once = {n: whole[n] for n, (i, _) in program(found.model).inputs.items()
                    if i.name in found.once}  # fmt: skip
            at = run(found.model, None, own(found, weights), **there, **once, **kept)
        for name, (item, blocks) in program(found.model).inputs.items():
            if item.name in found.past:
                of = found.past[item.name]
                given = next((i for i in model.inputs if i.name == of), None)
                new = np.asarray(part[of]) if given else at.ordered(
                    at.store[of, blocks], item.symbol.slots)  # fmt: skip
                axis = -1 if len(item.shape) == 1 else -2
                kept[name] = new if a == 0 else np.concatenate([kept[name], new], axis)
        rows.append(np.asarray(at[found.target]))
    assert first is not None
    return np.concatenate(rows, -2), np.asarray(whole[found.target])


def own(found: Derived, weights: dict[str, Any]) -> dict[str, Any]:
    """The weights of the incremental form: an encoder's are not among them."""
    return {name: weights[name] for name in program(found.model).parameters}


def in_rooms(
    model: vt.Card,
    found: Derived,
    weights: dict[str, Any],
    inputs: dict[str, Any],
    cuts: list[int],
) -> Any:
    """As `stepped`, with room for all rows; what no row was written to holds any numbers."""
    whole = run(model, None, weights, **inputs)
    length, rng = text_of(model).shape, np.random.default_rng(0)
    positional = {i.name for i in model.inputs if i.shape == length}
    names = program(found.model).inputs
    room = int(model.greatest[length[0].key])  # type: ignore[attr-defined]
    rooms, rows = {}, []
    for name, (item, blocks) in names.items():
        if item.name in found.past:
            full = whole.ordered(whole.store[found.past[item.name], blocks], item.symbol.slots)
            shape = (*full.shape[:-2], room, full.shape[-1])
            rooms[name] = 100 * rng.standard_normal(shape)
    once = {n: whole[n] for n, (i, _) in names.items() if i.name in found.once}
    for a, b in pairwise(cuts):
        part = {k: np.asarray(v)[..., a:b] if k in positional else v for k, v in inputs.items()}
        part = {k: v for k, v in part.items() if k in names} | {found.places: np.arange(a, b)}
        at = run(found.model, None, own(found, weights), **part, **once, **rooms)
        for name, array in rooms.items():
            item, blocks = names[name]
            of = at.store[found.past[item.name], blocks]
            array[..., a:b, :] = at.ordered(of, item.symbol.slots)
        rows.append(np.asarray(at[found.target]))
    return np.concatenate(rows, -2), np.asarray(whole[found.target])


def check(model: vt.Card, weights: dict[str, Any], inputs: dict[str, Any], cuts: list[int]) -> None:
    found = derived(model)
    got, wanted = stepped(model, found, weights, inputs, cuts)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 * max(1, abs(wanted).max()))
    try:
        found = derived(model, fixed=True)
    except VieteError as error:
        assert "positions as columns" in str(error)
        return
    got, wanted = in_rooms(model, found, weights, inputs, cuts)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 * max(1, abs(wanted).max()))


@pytest.mark.parametrize("path", CAUSAL, ids=lambda p: p.rsplit("/", 1)[-1])
@pytest.mark.parametrize("batch", [None, 2])
def test_every_causal_card_runs_piece_by_piece(path: str, batch: int | None) -> None:
    model = tiny(path)
    weights = initial_weights(model, 1)
    inputs = random_inputs(model, 3, 8, batch)
    longest = np.asarray(inputs[text_of(model).name]).shape[-1]
    check(model, weights, inputs, list(range(longest + 1)))
    check(model, weights, inputs, [0, 1, longest])


@pytest.mark.parametrize("path", BLOCKED, ids=lambda p: p.rsplit("/", 1)[-1])
def test_changed_cards_run_piece_by_piece(path: str) -> None:
    """Interventions commute with the cache: a place is one of the whole text, in every piece."""
    card = tiny(path)
    weights, inputs = initial_weights(card, 1), random_inputs(card, 3, 4)
    name, _, changed = next(with_rows_changed(card, Path(path).stem))
    try:
        found = derived(changed)
    except VieteError as error:  # a pattern that is no longer 0 for later positions
        assert "a position reads later ones" in str(error) and name[0] in "AS"
        return
    ends = [0, 2, 3, np.shape(inputs[text_of(card).name])[-1]]
    got, wanted = stepped(changed, found, weights, inputs, ends)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 * max(1, abs(wanted).max()))


@given(cards(), st.data())
def test_random_cards_run_piece_by_piece(card: Card, data: st.DataObject) -> None:
    try:
        derived(card.model)
    except VieteError as error:
        assert not card.causal
        assert "later" in str(error)
        return
    assert card.causal
    weights = {k: v / 4 for k, v in card.weights().items()}
    inputs = card.given()
    n = np.asarray(inputs["t"]).shape[-1]
    inner = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    check(card.model, weights, inputs, [0, *inner, n])


@settings(max_examples=12, deadline=None)
@given(worlds(), st.data())
def test_random_formulas_run_piece_by_piece(world: World, data: st.DataObject) -> None:
    """Or end in a sentence that names the equation."""
    e, _shape = data.draw(
        expressions(world, tame=True, free="none").filter(
            lambda pair: len(pair[1]) == 2 and pair[1][0] == "n" != pair[1][1]
        )
    )
    target = Ref(Symbol("value", "target"))
    last = Equation(target, e, text=Text(show(e)))
    model = replace(world.model, equations=(*world.model.equations, last))
    weights = random_weights(model)
    inputs = {world.tokens.key: np.random.default_rng(3).integers(0, 7, 5)}
    for way, fixed in ((stepped, False), (in_rooms, True)):
        try:
            found = derived(model, "target", fixed)
        except VieteError as error:
            assert "in equation" in str(error)
            continue
        got, wanted = way(model, found, weights, inputs, [0, 1, 3, 5])
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * max(1, abs(wanted).max()))


@settings(max_examples=8, deadline=None)
@given(cards().filter(lambda card: card.causal))
def test_scores_that_do_not_read_the_blocks(card: Card) -> None:
    """The scores are made of the embeddings alone: the blocks are beside them, or left out."""
    first = card.model.equations[0]

    def start(x: Expr) -> Expr | None:
        stream = isinstance(x, Ref) and x.symbol.base == first.left.symbol.base
        return first.right if stream else None

    model = replace(card.model, equations=tuple(
        replace(e, right=transform(e.right, start)) if e.name == "logits" else e
        for e in card.model.equations
    ))  # fmt: skip
    inputs = card.given()
    n = np.asarray(inputs["t"]).shape[-1]
    check(model, {k: v / 4 for k, v in card.weights().items()}, inputs, [0, n // 2, n][n < 2 :])


@pytest.mark.parametrize("path", CAUSAL, ids=lambda p: p.rsplit("/", 1)[-1])
def test_an_incremental_form_is_a_card(path: str) -> None:
    for fixed in (False, True):
        form = derived(tiny(path), fixed=fixed).model
        for style in ("md", "latex", "json"):
            assert read(write(form, style)) == form


def test_a_derived_name_goes_with_the_blocks_that_it_is_of() -> None:
    text = HEAD.replace("FUNCTIONS", "").replace("| $R$ |", "| $U^i$ | $d × d$ |\n| $R$ |")
    body = r"""For $i = 1, …, 2$:

2. $A^i = softmax(causal(x U^i x^⊤)) x$

3. $y = tanh(x)$"""
    derived_names = "\n## Derived\n\n- $G^i = U^i {U^i}^⊤$\n- $K = R R^⊤$\n"
    model = read(text.replace("BODY", body) + derived_names)
    assert [e.name for e in model.derived] == ["G^i", "K"]
    form = derived(model).model
    assert read(write(form, "md")) == form
    assert not form.loops and [e.name for e in form.derived] == ["K"]


# Cards with ways of their own ---------------------------------------------------------------------

HEAD = r"""
# Odd

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 4 |
| $k$ | 3 |
| $n_{max}$ | 9 |
| $n$ | $≤ n_{max}$ |
| $h$ | $1, …, 2$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: tokens
- $s ∈ \{0, …, 1\}^n = 1$: something else of each position

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $S$ | $2 × d$ |
| $P$ | $n_{max} × d$ |
| $W_Q^h, W_K^h$ | $d × k$ |
| $W_V^h$ | $d × d$ |
| $R$ | $n_{max} × n_{max}$ |
| $w$ | $d$ |

## Functions

FUNCTIONS

## Forward pass

1. $x = E[t] + P[:n]$
BODY
9. $logits = y E^⊤$
"""

SCORES = r"(x W_Q^h) (x W_K^h)^⊤"
ATTEND = r"softmax(causal((x W_Q^h) (x W_K^h)^⊤)) (x W_V^h)"
FINE = {
    "everything in one formula": ["", rf"2. $y = \sum_h {ATTEND}$"],
    "a function that reads its argument as queries and as keys": [
        "- $attend(x: n × d; A, B) = softmax(causal((x A) (x B)^⊤)) x$: itself",
        r"2. $y = \sum_h attend(x; W_Q^h, W_K^h) W_V^h$",
    ],
    "a mask of its own that is added": [
        "- $low(n) = table_{j<n, l<n}(where(l <= j, 0, -inf))$: a mask",
        r"2. $y = \sum_h softmax((x W_Q^h) (x W_K^h)^⊤ + low(n)) x W_V^h$",
    ],
    "a mask written out, -1e9 for what is hidden": [
        "",
        r"""2. $B^h = (x W_Q^h) (x W_K^h)^⊤
3. $C^h = table_{j<n, l<n}(where(j < l, -1e9, B^h_{j,l}))$
4. $y = \sum_h softmax(C^h) x W_V^h$""".replace("^⊤\n", "^⊤$\n"),
    ],
    "a mask of ones and zeros on the weights": [
        "",
        r"""2. $B^h = exp((x W_Q^h) (x W_K^h)^⊤ / 8) ⊙ table_{j<n, l<n}(where(l <= j, 1, 0))$
3. $y = \sum_h (B^h / sum(B^h)) x W_V^h$""",
    ],
    "a strip of the past": [
        "",
        rf"2. $y = \sum_h {ATTEND.replace('causal(', 'window(').replace(')^⊤', ')^⊤; 2')}$",
    ],
    "the token before": [
        "",
        r"""2. $z = table_{j<n, c<d}(x_{j,c} - x_{max(j - 1, 0),c} / 2)$
3. $y = \sum_h softmax(causal((z W_Q^h) (x W_K^h)^⊤)) z W_V^h$""",
    ],
    "the first token": ["", rf"2. $y = \sum_h {ATTEND} + x_0$"],
    "an input besides the tokens": ["", rf"2. $y = \sum_h {ATTEND} ⊙ S[s]$"],
    "keys that another input hides": [
        "",
        rf"2. $y = \sum_h softmax(visible(causal({SCORES}); s)) (x W_V^h)$",
    ],
    "a bias for each pair of positions": [
        "",
        r"2. $y = \sum_h softmax(causal((x W_Q^h) (x W_K^h)^⊤ + R[:n, :n])) x W_V^h$",
    ],
    "a distance penalty": [
        "",
        r"2. $y = \sum_h softmax(causal(ALiBi((x W_Q^h) (x W_K^h)^⊤; h, 2))) x W_V^h$",
    ],
    "rotary positions": ["", r"2. $y = \sum_h softmax(causal(RoPE(x W_V^h) RoPE(x)^⊤)) x W_V^h$"],
    "a running mean, by a sum over positions": [
        "",
        r"""2. $u = table_{j<n, c<d}(\sum_{l=0}^{n-1}(where(l <= j, x_{l,c}, 0)))$
3. $y = u / table_{j<n, c<d}(j + 1)$""",
    ],
    "positions as columns": [
        "",
        r"""2. $X = x^⊤$
3. $y = X^⊤ + tanh({W_V^h}^⊤ X)^⊤$""".replace("W_V^h", "W_V^1"),
    ],
    "a number for each position": [
        "",
        r"""2. $g = sigmoid(x w)$
3. $z = softmax(causal(x x^⊤ + table_{j<n, l<n}(g_l)))$
4. $y = z x$""",
    ],
    "attention without a softmax": [
        "",
        r"2. $y = (x x^⊤ ⊙ table_{j<n, l<n}(where(l <= j, 1, 0))) x$",
    ],
    "the greatest value so far": [
        "",
        r"""2. $y = x + table_{j<n, c<d}(max_{l=0}^{n-1}(where(l <= j, x_{l,c}, -inf)))$""",
    ],
    "how many positions there are so far, and no rows of theirs": [
        "",
        r"2. $y = x ⊙ table_{j<n, c<d}(\sum_{l=0}^{n-1}(where(l <= j, 1, 0)))$",
    ],
    "a stream that the scores do not read": [
        "",
        r"""2. $u^0 = x$

For $i = 1, …, 2$:

3. $v^i = tanh(u^{i-1})$
4. $u^i = v^i + softmax(causal(v^i {v^i}^⊤)) v^i$

5. $y = tanh(x)$""",
    ],
}
OF_A_TABLE = {"a running mean, by a sum over positions"}  # whose rows are nobody's positions
ONLY_STACKED = {"keys that another input hides", "a number for each position"}
STUCK = {
    "no mask": [
        "2. $A = softmax(x x^⊤)$\n3. $z = A x$\n4. $y = softmax(causal(z z^⊤)) z$", "equation 2",
    ],
    "a mask the wrong way": [
        "2. $A = softmax(table_{j<n, l<n}(where(l >= j, (x x^⊤)_{j,l}, -inf)))$\n3. $y = A x$",
        "equation 2",
    ],
    "a mask one too late": [
        "2. $A = softmax(table_{j<n, l<n}(where(l <= j + 1, (x x^⊤)_{j,l}, -inf)))$\n3. $y = A x$",
        "equation 2",
    ],
    "a norm over positions": ["2. $y = LN(x^⊤)^⊤$", "equation 2"],
    "the length of the text": ["2. $y = x / n$", "equation 2"],
    "the next token": ["2. $y = table_{j<n, c<d}(x_{min(j + 1, n - 1),c})$", "equation 2"],
    "a mean over the text": ["2. $y = x + mean_{j=0}^{n-1}(x_j)$", "equation 2"],
    "a mean over the text, named": ["2. $c = mean_{j=0}^{n-1}(x_j)$\n3. $y = x + c$", "equation 2"],
    "a sum that a mask for the greatest does not hide": [
        "2. $y = x + table_{j<n, c<d}(mean_{l=0}^{n-1}(where(l <= j, x_{l,c}, 0)))$", "equation 2",
    ],
    "all but the first position": ["2. $y = x + stack(x[1:], x[:1])$", "equation 2"],
    "positions from the end": ["2. $y = x + P[n_{max} - n:n_{max}]$", "equation 2"],
    "a position far off": ["2. $y = x + x_{3}$", "equation 2"],
    "a mask on the weights, after they were divided": [
        "2. $y = (softmax(x x^⊤) ⊙ table_{j<n, l<n}(where(l <= j, 1, 0))) x$", "equation 2",
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FINE)
def test_cards_with_ways_of_their_own(name: str) -> None:
    functions, body = FINE[name]
    model = read(HEAD.replace("FUNCTIONS", functions).replace("BODY", body))
    assert (Traits(model).generation() is None) == (name in OF_A_TABLE)
    assert "reads later positions" not in costs(model).cache.why
    form = derived(model).model
    assert read(write(form, "md")) == form
    form = derived(model).model if name in ONLY_STACKED else derived(model, fixed=True).model
    assert read(write(form, "md")) == form
    weights = initial_weights(model, 2)
    weights = {k: np.random.default_rng(5).standard_normal(v.shape) / 2 for k, v in weights.items()}
    inputs = random_inputs(model, 4, 7)
    check(model, weights, inputs, list(range(8)))
    check(model, weights, inputs, [0, 2, 3, 7])


@pytest.mark.parametrize("name", STUCK)
def test_what_has_no_incremental_form_says_why(name: str) -> None:
    body, where = STUCK[name]
    model = read(HEAD.replace("FUNCTIONS", "").replace("BODY", body))
    with pytest.raises(VieteError, match=where):
        derived(model)
    assert Traits(model).generation() is None
    assert "reads later positions" in costs(model).cache.why
