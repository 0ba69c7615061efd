"""Law 3: the adjoint equals the derivative: of autograd, of finite differences, and exactly."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from viete import read
from viete.cards.writer import write
from viete.rewrite.adjoint.grad import with_loss

torch = pytest.importorskip("torch")

from tests.laws.differentiating import along, by_autograd, error, greatest, loss_of  # noqa: E402

NAMES = [Path(p).stem for p in shipped()]


@pytest.fixture(scope="module", params=shipped(), ids=NAMES)
def system(request: pytest.FixtureRequest) -> tuple:
    """A shipped card, its loss, weights, inputs, and the run of its backward equations."""
    model = tiny(request.param)
    drawn = random_weights(model, 3, scale=0.3)
    weights = {k: v + 0.7 if v.ndim == 1 else v for k, v in drawn.items()}
    inputs, of = random_inputs(model, 5), loss_of(model)
    return model, of, weights, inputs, model.grad(of)


def slope_error(
    model: vt.Card, of: str | None, weights: dict, inputs: dict, run: dict, seed: int = 0
) -> float:
    """How far the derivative in a random direction is from central differences."""
    whole, loss = with_loss(model, of)
    found, way = along(
        lambda w: float(whole.run(None, w, names=[loss.key], **inputs)[loss.key]), weights, seed
    )
    grads = {}
    for name in weights:
        try:
            grads[name] = np.asarray(run["∂" + name])
        except vt.VieteError:
            continue
    derived = sum(float((g * way[k]).sum()) for k, g in grads.items())
    size = sum(float(np.abs(g).sum()) for g in grads.values())
    return abs(found - derived) / max(size, 1e-9)


# Shipped cards ------------------------------------------------------------------------------------


def test_a_shipped_card_against_autograd(system) -> None:
    model, of, weights, inputs, derived = system
    run = derived.run(None, weights, **inputs)
    truth = by_autograd(model, of, weights, inputs)
    assert greatest(truth) > 1e-6
    assert {k for k in truth if np.abs(truth[k]).max() > 0} <= weights.keys()
    assert error(run, truth) <= 1e-10


def test_a_shipped_card_against_finite_differences(system) -> None:
    model, of, weights, inputs, derived = system
    run = derived.run(None, weights, **inputs)
    assert slope_error(model, of, weights, inputs, run) < 1e-6


def test_backward_equations_run_from_the_definitions_too(system) -> None:
    _, _, weights, inputs, derived = system
    quick = derived.run(None, weights, **inputs)
    slow = derived.run(None, weights, exact_definitions=True, **inputs)
    assert error(quick, {k: np.asarray(slow["∂" + k]) for k in weights
                         if "∂" + k in slow}) <= 1e-10  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "simple-transformer"])
def test_the_same_equations_on_torch_and_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    model = tiny(next(p for p in shipped() if Path(p).stem == name))
    weights, inputs = random_weights(model, 1), random_inputs(model, 2)
    derived = model.grad(loss_of(model))
    truth = derived.run(None, weights, **inputs)

    def gradients(w: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        run = derived.run(None, w, **given)
        return {"∂" + k: run["∂" + k] for k in weights}

    # One program of JAX compiles faster than its parts.
    for make, f in ((torch.tensor, gradients), (jax.numpy.asarray, jax.jit(gradients))):
        found = f(*({k: make(v) for k, v in x.items()} for x in (weights, inputs)))
        assert error(found, {k: np.asarray(truth["∂" + k]) for k in weights}) < 1e-12


def test_a_batch_has_derivatives_of_its_own() -> None:
    model = tiny(next(p for p in shipped() if Path(p).stem == "gpt2"))
    weights, inputs = random_weights(model), random_inputs(model, n=4, batch=3)
    derived = model.grad("cross_entropy(logits; t)")
    whole = derived.run(None, weights, **inputs)["∂W_1^1"]
    for k in range(3):
        one = derived.run(inputs["t"][k], weights)["∂W_1^1"]
        np.testing.assert_allclose(whole[k], one, rtol=1e-11, atol=1e-14)


# Random cards -------------------------------------------------------------------------------------


@st.composite
def losses(draw: st.DrawFn, card: Card) -> str | None:
    """A scalar over a random card: its own loss, or what one might ask."""
    own = [e.name for e in card.model.equations]
    looped = "loop" in card.has
    first, last = ("x^0", "x^N") if looped else ("x_0", "x_1")
    choices = [
        "cross_entropy(logits; t)", "<logits_0, logits_1>", f"log(1 + <{last}_0, {last}_2>^2)",
        f"<{first}_1, {last}_1> / 2", "logits_{1,t_1} - mean(logits_0)",
        f"\\sum_{{j=0}}^{{n - 1}} <{last}_j, {last}_j>",
        "cross_entropy(logits; t) + 3 * <E_0, E_1>", "<E_1, E_1>",  # terms that no text changes
        "sum(where(logits_0 > 0, log(1 + logits_0^2), logits_1 / (1 + logits_0^2)))",  # guards
    ]  # fmt: skip
    if looped and card.model.sizes["N"] >= 1:
        choices += ["<x^1_0, x^1_1>", "\\sum_{i=1}^{N} <o^i_0, x^i_1>"]
    if "L" in own:
        choices.append("L")
    return draw(st.sampled_from(choices))


@given(st.data())
def test_a_random_card_with_a_random_loss(data: st.DataObject) -> None:
    card = data.draw(cards())
    model, of = card.model, data.draw(losses(card))
    weights, inputs = card.weights(), card.given()
    truth = by_autograd(model, of, weights, inputs)
    assume(greatest(truth) > 1e-9 and all(np.isfinite(a).all() for a in truth.values()))
    derived = model.grad(of)
    run = derived.run(None, weights, **inputs)
    assert error(run, truth) < 1e-9, of
    assert slope_error(model, of, weights, inputs, run, card.seed) < 1e-5, of


GUARDED = """# Guarded
## Dimensions
| symbol | value |
| --- | --- |
| $m$ | 4 |
## Parameters
| symbol | shape |
| --- | --- |
| $x$ | $m$ |
## Forward pass
1. $o = x$
"""
STEPS = ["log(1 + @)", "sqrt(@)", "exp(@ / 8)", "1 / @", "@^{-1/2}", "@ ⊙ @", "SiLU(@)",
         "table_{k<m}(sqrt(@_k))", "where(@ > 1, 2 * @, @)"]  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), min_size=1, max_size=4),
       st.booleans())  # fmt: skip
def test_what_stands_where_it_is_not_chosen_changes_no_derivative(
    steps: list[tuple[str, bool]], entries: bool
) -> None:
    """Below a `where`, in one equation or in several: ∂ is that of harmless numbers there."""
    e, lines = "x", list[str]()

    def name() -> str:
        lines.append(f"{'abcd'[len(lines)]} = {e}")
        return lines[-1][0]

    for step, named in steps:
        if "_k" in step and len(e) > 1:
            e = name()
        e = step.replace("@", e if len(e) == 1 else f"({e})")
        e = name() if named and len(lines) < 3 else e
    if entries:
        e = e if len(e) == 1 else name()
        lines.append(rf"L = \sum_{{k=0}}^{{m - 1}}(where(abs(x_k - 5/4) < 1, {e}_k, x_k))")
    else:
        lines.append(f"L = sum(where(abs(x - 5/4) < 1, {e}, x))")
    text = GUARDED + "\n".join(f"{k}. ${f}$" for k, f in enumerate(lines, 2)) + "\n"
    model = read(text)
    derived = model.grad("L")
    true = derived.run(None, {"x": np.array([0.5, 3, 4, 2])})["∂x"]
    assert np.isfinite(true).all()
    for bad in (np.array([0.5, 0, -1, 2]), np.array([0.5, 1000, -8, 2])):
        np.testing.assert_allclose(derived.run(None, {"x": bad})["∂x"], true, rtol=1e-12)
        module = model.to_torch({"x": bad}, "L")  # the same program for both
        module()[1].backward()
        np.testing.assert_allclose(module.gradients()["x"], true, rtol=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_a_random_backward_card_reads_back(data: st.DataObject) -> None:
    card = data.draw(cards())
    derived = card.model.grad(data.draw(losses(card)))
    for form in ("md", "latex", "json"):
        text = write(derived, form)
        again = read(text)
        assert again == derived, form
        assert write(again, form) == text, form


@pytest.mark.parametrize("path", shipped(), ids=NAMES)
def test_a_shipped_backward_card_reads_back_and_runs(path: str) -> None:
    model = tiny(path)
    derived = model.grad(loss_of(model))
    again = read(write(derived, "md"))
    assert again == derived
    weights, inputs = random_weights(model), random_inputs(model)
    a, b = derived.run(None, weights, **inputs), again.run(None, weights, **inputs)
    for name in weights:
        np.testing.assert_array_equal(a["∂" + name], b["∂" + name])


def test_a_loop_of_one_turn_runs_down_in_a_backward_pass_alone() -> None:
    """``For i = 1, …, 1`` looks the same in either direction."""
    model = read("""# One turn
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 3 |
## Parameters
| symbol | shape |
| --- | --- |
| $A, M$ | $d × d$ |
## Forward pass
1. $x^0 = A$

For $i = 1, …, 1$:

2. $x^i = tanh(x^{i-1} M)$
3. $y^0 = x^1$

For $i = 1, …, 1$:

4. $y^i = sin(y^{i-1} M) ⊙ x^i$
5. $L = <y^1_0, y^1_1>$
""")
    derived = model.grad()
    assert [x.down for x in model.loops] == [False, False]
    assert [x.down for x in derived.loops] == [False, False, True, True]
    assert all(read(write(derived, form)) == derived for form in ("md", "latex", "json"))
    weights = random_weights(model)
    assert error(derived.run(None, weights), by_autograd(model, None, weights, {})) < 1e-12


# Exactly ------------------------------------------------------------------------------------------

RATIONAL = """# Linear, ReLU, linear
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 3 |
| $d$ | 2 |
| $k$ | 3 |
| $n_{max}$ | 4 |
| $n$ | $≤ n_{max}$ |
## Inputs
- $t ∈ \\{0, …, V-1\\}^n$
## Parameters
| symbol | shape | value |
| --- | --- | --- |
| $E$ | $V × d$ | [1/2 -1; 2/3 1/5; -3 1/7] |
| $W$ | $d × k$ | [1 -1/2 3/4; 2/5 1 -1] |
| $b$ | $k$ | [1/3 -1/6 1/8] |
| $U$ | $k × d$ | [1 0; -2/3 1/2; 1/9 3] |
## Forward pass
1. $x = E[t]$
2. $F = ReLU(x W + b)$
3. $y = x + F U$
4. $L = \\sum_{j=0}^{n - 1} <y_j, y_j> / n$
"""


@pytest.mark.slow
def test_a_rational_card_equals_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    tokens = [2, 0, 1, 0]
    model = read(RATIONAL)
    values = model.exact_weights
    run = model.grad().run(tokens, values, meaning="exact")
    symbols, numbers = {}, {}
    for name, rows in values.items():
        array = np.array(rows, dtype=object)
        letters = np.empty(array.shape, dtype=object)
        for at in np.ndindex(array.shape):
            letters[at] = sympy.Symbol(f"{name}{at}")
            value = Fraction(array[at])
            numbers[letters[at]] = sympy.Rational(value.numerator, value.denominator)
        symbols[name] = letters
    loss = 0
    for t in tokens:
        x = symbols["E"][t]
        hidden = [sympy.Max(z, 0) for z in x @ symbols["W"] + symbols["b"]]
        loss += sum(v**2 for v in x + hidden @ symbols["U"]) / sympy.Integer(len(tokens))
    for name, letters in symbols.items():
        for at in np.ndindex(letters.shape):
            true = sympy.diff(loss, letters[at]).subs(numbers)
            assert run["∂" + name][at].rational == Fraction(int(true.p), int(true.q)), (name, at)


def test_softmax_and_cross_entropy_are_exact() -> None:
    from viete.meanings.exact.numbers import Number

    text = RATIONAL.replace(
        "4. $L = \\sum_{j=0}^{n - 1} <y_j, y_j> / n$",
        "4. $p = softmax(y)$\n5. $L = cross_entropy(y; s) + p_{0,1}$",
    )
    text = text.replace("^n$\n## Param", "^n$\n- $s ∈ \\{0, 1\\}^n$\n## Param")
    model = read(text)
    run = model.grad().run([1, 2], model.exact_weights, s=[1, 0], meaning="exact")
    y, found = run["y"], run["∂y"]
    for j, target in enumerate([1, 0]):
        powers = [v.exp() for v in y[j]]
        p = [v / (powers[0] + powers[1]) for v in powers]
        for k in range(2):
            true = (p[k] - (1 if k == target else 0)) / Number.of(2)
            if j == 0:
                true = true + p[1] * ((1 if k == 1 else 0) - p[k])
            assert found[j, k] == true


def test_the_lesson_s_gradients_are_exact() -> None:
    model = read(next(p for p in shipped() if Path(p).stem == "exact-lesson"))
    derived = model.grad("cross_entropy(logits; t)")
    run = derived.run([0, 1], model.exact_weights, meaning="exact")
    rounded = derived.run([0, 1], model.initial_weights())
    for name in model.parameter_shapes:
        exact = np.vectorize(float)(run["∂" + name])
        np.testing.assert_allclose(exact, rounded["∂" + name], atol=1e-12)
    e = type(run["∂logits"][0, 0]).of(1).exp()
    assert run["∂logits"][0, 1] == (1 / e) / (2 * (1 + e + 1 / e))
    # A norm of two numbers is 1 and −1 whatever they are, so nothing before it gets a derivative.
    for name in ("W^Q", "W^K", "W^V", "P"):
        assert all(x.is_zero() for x in run["∂" + name].flat)


# Growth -------------------------------------------------------------------------------------------


def test_deriving_does_not_depend_on_the_number_of_blocks() -> None:
    llama = vt.read("llama")
    counts = set()
    for blocks in (0, 1, 8, 80):
        began = time.process_time()
        derived = llama.bind(N=blocks).grad("cross_entropy(logits; t)")
        assert time.process_time() - began < 2  # benchmarks/growth.py measures it
        counts.add(len(derived.equations))
    assert len(counts) == 1
