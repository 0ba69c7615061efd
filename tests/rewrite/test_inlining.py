"""Definitions put in, sizes that values hide: every rewriting and export takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_weights
from viete.rewrite.incremental import incremental

CARD = """# Put in

## Dimensions

| symbol | value |
| --- | --- |
| $M$ | 7 |
| $d$ | 3 |
| $n$ | $≤ 9$ |

## Inputs

- $t ∈ \\{{0, …, M - 1\\}}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $M × d$ |
| $W$ | $d × M$ |
| $W_V$ | $d × d$ |
{section}
## Forward pass

1. $x = E[t]$
2. ${value} = {y}$
3. $logits = {value} W$
4. $L = cross_entropy(logits; t)$
"""
CHOICES = "\n## Choices\n\n| config | is | then |\n| --- | --- | --- |\n| `act` | own | ${}$ |\n"
FUNCTIONS = "\n## Functions\n\n- ${}$\n"
TOKENS = np.array([1, 4, 4, 0, 6])
# A definition, its use, and what y then is.
USES: dict[str, tuple[str, str, Any]] = {
    "a letter of the use": (
        "f(z) = \\sum_{j=0}^{1} (z * (j + 1))", "table_{j<n, k<d}(f(x_{j,k}))", lambda x: 3 * x),
    "a size of a row": (
        "f(z: d) = table_{j<d}(2 * z_j)", "table_{j<n, k<d}(f(x_j)_k)", lambda x: 2 * x),
    "both sizes": (
        "f(z: r × c) = table_{j<r, k<c}(z_{j,k} * c / r)", "f(x)", lambda x: x * 3 / 5),
    "a size in a slice": (
        "f(z: r × c) = concat(z[:, c - 1:], z[:, :c - 1])", "f(x)", lambda x: np.roll(x, 1, 1)),
    "letters within letters": (
        "f(z: m) = table_{j<m}(\\sum_{k=0}^{m - 1} (z_k * (j + k + 1)))",
        "table_{k<n, j<d}(f(x_k)_j + k)",
        lambda x: x @ (np.add.outer(range(3), range(3)) + 1) + np.arange(5)[:, None]),
}  # fmt: skip


def given(model: vt.Card) -> dict[str, Any]:
    return random_weights(model, 3)


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-12)


def program(model: vt.Card) -> dict[str, Any]:
    """The NumPy program of a card."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(model.export(to="numpy"), "exported.py", "exec"), names)
    return names


@pytest.mark.parametrize("section", [CHOICES, FUNCTIONS], ids=["choice", "function"])
@pytest.mark.parametrize("name", USES)
def test_a_definition_is_what_it_says_wherever_it_is_put(name: str, section: str) -> None:
    function, use, expected = USES[name]
    model = vt.read(CARD.format(section=section.format(function), y=use, value="y"))
    assert model == vt.read(model.write())
    weights = given(model)
    run = model.run(TOKENS, weights)
    same(run["y"], expected(np.asarray(run["x"])))
    derived = model.grad()
    assert vt.read(derived.write()) == derived
    true = slopes(model, weights)
    found = derived.run(TOKENS, weights)
    step = model.planned(weights)
    step(TOKENS[None])
    exported = program(model)
    logits, _, kept = exported["forward"](TOKENS, **weights)
    same(logits, run["logits"])
    backward = exported["backward"](kept, TOKENS, **weights)
    for key in ("E", "W"):
        np.testing.assert_allclose(np.asarray(found["∂" + key]), true[key], rtol=1e-5, atol=1e-7)
        same(step.gradients[key], found["∂" + key])
        same(backward[key], found["∂" + key])
    for to in ("torch", "jax"):
        compile(model.export(to=to), to, "exec")


def slopes(model: vt.Card, weights: dict[str, Any]) -> dict[str, Any]:
    """Central differences of the loss by each entry of E and W."""
    out = {}
    for key in ("E", "W"):
        out[key] = np.zeros_like(weights[key])
        for place in np.ndindex(weights[key].shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = weights[key].copy()
                moved[place] += step
                ends.append(float(model.run(TOKENS, weights | {key: moved})["L"]))
            out[key][place] = (ends[0] - ends[1]) / 2e-5
    return out


@pytest.mark.parametrize("size, value", [("V", "V"), ("d", "d"), ("n", "n"), ("M", "M")])
def test_a_value_may_have_the_name_of_a_size(size: str, value: str) -> None:
    """V the number of tokens and V = x W_V: in rewritings the size is called V_size."""
    other, text = (CARD.format(section="", y="x W_V", value=name) for name in ("z", value))
    if size == "V":
        text = text.replace("$M$", "$V$").replace("M -", "V -").replace("M ×", "V ×")
        text = text.replace("× M", "× V")
    old, new = vt.read(other), vt.read(text)
    weights = given(old)
    same(new.run(TOKENS, weights)[value], old.run(TOKENS, weights)["z"])
    derived = new.grad()
    assert f"{size}_size" in {d.name for d in derived.dims}
    back = vt.read(derived.write())
    assert back == derived
    a, b = old.grad().run(TOKENS, weights), back.run(TOKENS, weights)
    step = new.planned(weights)
    step(TOKENS[None])
    exported = program(new)
    _, loss, kept = exported["forward"](TOKENS, **weights)
    same(loss, b["L"])
    backward = exported["backward"](kept, TOKENS, **weights)
    for key in weights:
        for found in (b["∂" + key], step.gradients[key], backward[key]):
            same(found, a["∂" + key])
    for fixed in (False, True):
        form = incremental(new, None, fixed)
        assert vt.read(form.write()) == form
    for to in ("torch", "jax"):
        compile(new.export(to=to), to, "exec")
