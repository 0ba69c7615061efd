"""An index ``-k`` is the place size − k of its axis, in every meaning, cards and lengths."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, random_weights
from viete.analysis.cost import costs
from viete.ask.card_claims import check_claims
from viete.errors import Text, VieteError
from viete.notation.parser import parse
from viete.notation.printer import STYLES, show
from viete.notation.tree import Apply, Num, Pick, Ref, num, place_from_end

CARD = r"""# From the end

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $n$ | ≤ 6 |

## Inputs

- $t ∈ \{0, …, V-1\}^n$

## Functions

- $shifted(z: n × d) = z + tanh(z_{LAST})$

## Parameters

| parameter | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W$ | $d × V$ |

## Forward pass

1. $x = E[t] + E[t_{LAST}]$
2. $S = x x^T$
3. $A = softmax(S)$
4. $y = FORMULA$
5. $logits = y W$
6. $z = <y_{LAST}, W[:, LAST_V]> + logits[0, LAST_V] + S[LAST, LAST]$
7. $L = sum(log(1 + exp(logits_{LAST}))) + z$
"""


def card(formula: str = "shifted(A x)", k: int | None = 1) -> vt.Card:
    """The card with its places counted from the end, or, with none, from 0."""
    text = CARD.replace("FORMULA", formula)
    if k is not None:
        return vt.read(text.replace("LAST_V", f"-{k}").replace("LAST", f"-{k}"))
    return vt.read(text.replace("LAST_V", "V - 1").replace("LAST", "n - 1"))


MINUS, PLUS = card(), card(k=None)


@settings(max_examples=15, deadline=None)
@given(cards(), st.data())
def test_it_is_counted_from_0_in_random_cards(random: Card, data: st.DataObject) -> None:
    """Of every value of a random card, rows and columns."""
    model = random.model
    weights = random_weights(model)
    run = model.run(None, weights, **random_inputs(model, data.draw(st.integers(0, 9))))
    for equation in model.equations:
        left = equation.left.symbol
        shape = np.shape(run[equation.name]) if not left.slots else ()
        for axis in range(len(shape)) if len(shape) <= 2 else ():
            k = data.draw(st.integers(1, shape[axis]))
            before = ":, " * axis
            last = run[f"{equation.name}[{before}-{k}]"]
            first = run[f"{equation.name}[{before}{shape[axis] - k}]"]
            np.testing.assert_array_equal(last, first)
            with pytest.raises(VieteError, match=f"-{shape[axis] + 1} is not an index"):
                _ = run[f"{equation.name}[{before}-{shape[axis] + 1}]"]


@pytest.mark.parametrize("meaning", ["float", "exact", "interval"])
@pytest.mark.parametrize("t", [[3], [1, 2, 4], [4, 0, 0, 1, 3, 2]])
def test_every_meaning_of_a_run(meaning: str, t: list[int]) -> None:
    weights = {k: np.round(v, 2) for k, v in MINUS.initial_weights(0).items()}
    names = ("x", "S") if meaning == "exact" else ("y", "L")
    a, b = (m.run(t, weights, meaning=meaning) for m in (MINUS, PLUS))
    assert all(str(a[name]) == str(b[name]) for name in names)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_every_library(library: str) -> None:
    """Also of a batch of texts, and of a run that is recorded and replayed."""
    xp = pytest.importorskip(library)
    plain = MINUS.initial_weights(3)
    weights = {k: xp.asarray(v) for k, v in plain.items()}
    for t in ([1, 2, 3], [4, 0, 1], [[1, 2], [3, 4]]):
        found, expected = MINUS.run(t, weights), PLUS.run(t, plain)
        for name, again in ("L", "L"), ("x_{-1}", "x_{n - 1}"), ("W[:, -2]", "W[:, 3]"):
            np.testing.assert_allclose(np.asarray(found[name]), expected[again], rtol=1e-5)


def test_the_derivative() -> None:
    weights, t = MINUS.initial_weights(1), [1, 2, 4, 2]
    a, b = MINUS.grad(), PLUS.grad()
    assert [e.name for e in a.equations] == [e.name for e in b.equations]
    one, two = (m.run(t, weights) for m in (a, b))
    for name in ("partial{E}", "partial{W}", "L"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-12)
        assert np.any(one[name])


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_code(library: str) -> None:
    """Idiomatic where there surely are so many places; else looked at, for Python would wrap."""
    if library != "numpy":
        pytest.importorskip(library)
    weights, t = MINUS.initial_weights(2), np.array([1, 2, 4])
    code = MINUS.export(library)
    assert re.search(r"logits\[(\.\.\., )?-1(, :)?\]", code) and "inside" not in code
    far = card(k=2).export(library)
    assert re.search(r"W(\.permute\(1, 0\))?\[:, -2\]", far) and "inside(n - 2, n)" in far
    space: dict[str, Any] = {"__name__": "written"}
    exec(code, space)
    expected = PLUS.run(t, weights)
    if library == "torch":
        torch = space["torch"]
        made = space["FromTheEnd"]().double()
        tensors = {k: torch.as_tensor(v) for k, v in weights.items()}
        made.load_state_dict(space["renamed"](tensors))
        found = made(torch.as_tensor(t))[0].detach().numpy()
    else:
        found = space["forward"](t, **weights)[0]
    np.testing.assert_allclose(np.asarray(found), expected["logits"], rtol=1e-5)


def test_costs() -> None:
    a, b = costs(MINUS), costs(PLUS)
    same = {f.name for f in fields(a)} - {"model", "equations"}
    assert all(getattr(a, name) == getattr(b, name) for name in same) and len(same) > 5


@pytest.mark.parametrize("text", ["x_{-1}", "p_{-2,-1}", "p[-1, 0]", "p[:, -3]", "(x + x)[-1]"])
@pytest.mark.parametrize("style", STYLES)
def test_it_is_printed_as_it_was_written(text: str, style: str) -> None:
    scope = MINUS.scope.inside([])
    formula = parse(Text(text.replace("p", "S")), scope)
    printed = show(formula, style)
    assert "len" not in printed and "cols" not in printed and "rows" not in printed
    assert parse(Text(printed), scope) == formula
    assert vt.read(MINUS.write()) == MINUS


def test_only_a_number_as_written_counts_from_the_end() -> None:
    run = MINUS.run([1, 2, 3], MINUS.initial_weights(0))
    for computed in ("x_{0 - 1}", "table_{j<n}(sum(x_{j - 1}))"):
        with pytest.raises(VieteError, match="index -1 is outside 0 to 2"):
            _ = run[computed]
    x = Ref(MINUS.symbols["x"])
    assert show(Pick(x, (num(-1),))) == "x_{0-1}"
    assert Pick(x, (Num(num(-1).value),)).from_end(0) is None
    assert Pick(x, (place_from_end(x, 0, 2),)).from_end(0) == 2
    assert Pick(x, (place_from_end(Apply("neg", (x,)), 0, 2),)).from_end(0) is None


@pytest.mark.parametrize(
    "formula",
    ["causal(S) x + x_{-1}", "causal(S) x + x_{n - 1}", "table_{j<n, k<d}(x_{-1,k})"],
)
def test_what_reads_the_last_position_has_no_cache_and_no_padding(formula: str) -> None:
    text = CARD.replace(" + E[t_{LAST}]", "").replace("softmax(S)", "softmax(causal(S))")
    text = text.split("6. $z")[0].replace(
        "shifted(z: n × d) = z + tanh(z_{LAST})", "twice(z) = 2 z"
    )
    model = vt.read(text.replace("FORMULA", f"A x + {formula}".replace("causal(S)", "A")))
    with pytest.raises(VieteError, match="a position reads later ones"):
        model.incremental()
    with pytest.raises(VieteError, match="takes no padding: y picks a position counted from the"):
        model.padded()
    causal = vt.read(text.replace("FORMULA", "A x + E_{-1}"))
    causal.padded()
    weights, t = causal.initial_weights(0), [1, 2, 4]
    whole, step = causal.run(t, weights), causal.incremental()
    past = {i.name: whole[i.name.removesuffix("_past")][:2] for i in step.inputs if i.name != "t"}
    new = step.run([4], weights, **past)
    np.testing.assert_allclose(new["logits"][-1], whole["logits_{-1}"], rtol=1e-12)


def test_a_claim_may_count_from_the_end() -> None:
    text = CARD.replace("FORMULA", "A x").replace("LAST_V", "-1").replace("LAST", "-1")
    claims = "\n## Claims\n\n- $y_{-1} = y_{n - 1}$\n- $y_{-1} = A_{-1} x$\n- $y_{-1} = y_0$\n"
    found = check_claims(vt.read(text + claims))
    assert [v.failure is None for v in found.verdicts] == [True, True, False]
