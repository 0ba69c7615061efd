"""Law 2: all meanings agree. Here: NumPy, PyTorch, JAX and a reading of the equations by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.nearness import close, host
from tests.laws.reference import Reference
from tests.laws.strategies import (
    Card,
    World,
    cards,
    expressions,
    random_inputs,
    random_weights,
    shipped,
    tiny,
    worlds,
)  # fmt: skip
from viete.evaluate.run import Run
from viete.meanings.run import run
from viete.notation.printer import show
from viete.notation.tree import Expr, Num, Ref

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

SHIPPED = pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)


def same(a: Run, b: Run, bound: float) -> None:
    assert list(a) == list(b)
    for name in b:
        close(a[name], b[name], name, bound)


# The libraries ------------------------------------------------------------------------------------

KINDS = {
    "numpy": lambda w: w,
    "torch": lambda w: {k: torch.from_numpy(v) for k, v in w.items()},
    "jax": lambda w: {k: jax.numpy.asarray(v) for k, v in w.items()},
}


def agree(model: vt.Card, given: dict[str, Any], seed: int, kinds: tuple[str, ...]) -> None:
    """All libraries, in float64 to 1e-12 and in float32 to its rounding, against NumPy in float64.

    JAX compiles everything once more for float32, so it does that only when it is alone.
    """
    weights = random_weights(model, seed)
    single = {k: v.astype("float32") for k, v in weights.items()}
    reference = run(model, None, weights, **given)
    from_single = run(model, None, {k: v.astype("float64") for k, v in single.items()}, **given)
    for kind in kinds:
        found = run(model, None, KINDS[kind](weights), **given)
        same(found, reference, 1e-12)
        assert all("64" in str(x) or "int" in str(x) for x in (found[k].dtype for k in found))
    for kind in ("numpy", *(k for k in kinds if k != "jax" or len(kinds) == 1)):
        found = run(model, None, KINDS[kind](single), **given)
        same(found, from_single, 2e-3)
        assert not any("float64" in str(found[name].dtype) for name in found)


@given(cards(), st.sampled_from([None, 2]))
def test_torch_agrees_with_numpy_on_random_cards(card: Card, batch: int | None) -> None:
    agree(card.model, card.given(batch=batch), card.seed, ("torch",))


@pytest.mark.slow
@settings(max_examples=2)  # JAX compiles each operation for each shape
@given(cards())
def test_jax_agrees_with_numpy_on_random_cards(card: Card) -> None:
    agree(card.model, card.given(), card.seed, ("jax",))


@SHIPPED
def test_all_agree_on_shipped_cards(path: str) -> None:
    model = tiny(path)
    agree(model, random_inputs(model), 1, ("torch", "jax"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@SHIPPED
def test_half_precision_runs(path: str, dtype: str) -> None:
    model = tiny(path)
    weights = random_weights(model, 1, scale=0.2)
    given = random_inputs(model)
    half = {k: torch.from_numpy(v).to(getattr(torch, dtype)) for k, v in weights.items()}
    found, reference = run(model, None, half, **given), run(model, None, weights, **given)
    assert list(found) == list(reference)
    for name in found:
        if found[name].dtype.is_floating_point:
            assert found[name].dtype == getattr(torch, dtype), name
            close(found[name], reference[name], name, 0.2)


# Batches, parts and prefixes ----------------------------------------------------------------------


@given(cards())
def test_a_batch_is_each_sequence_by_itself(card: Card) -> None:
    weights, given = card.weights(), card.given(batch=3)
    together = run(card.model, None, weights, **given)
    for k in range(3):
        alone = run(card.model, None, weights, **{name: x[k] for name, x in given.items()})
        for name in alone:
            whole = together[name]
            # What depends on no input (a table of positions) has no batch.
            part = whole[k] if whole.ndim > alone[name].ndim else whole
            close(part, alone[name], name, 1e-12)


@given(st.data())
def test_wanted_names_are_as_in_the_whole_run(data: st.DataObject) -> None:
    card = data.draw(cards())
    weights, given = card.weights(), card.given()
    whole = run(card.model, None, weights, **given)
    names = data.draw(st.lists(st.sampled_from(list(whole)), min_size=1, max_size=3, unique=True))
    part = run(card.model, None, weights, names=names, **given)
    assert set(part) == set(names)
    for name in names:
        assert np.array_equal(part[name], whole[name], equal_nan=True)


@given(cards(causal=True), st.integers(1, 4))
def test_a_causal_card_sees_no_later_token(card: Card, n: int) -> None:
    t = card.given()["t"]
    whole = run(card.model, t, card.weights(), names=["logits"])["logits"]
    part = run(card.model, t[:n], card.weights(), names=["logits"])["logits"]
    close(part, whole[:n], bound=1e-12)


# Members and formulas -----------------------------------------------------------------------------


@given(cards())
def test_every_member_of_a_family_can_be_asked_for(card: Card) -> None:
    made = run(card.model, None, card.weights(), **card.given())
    for name in made:
        symbol, loops = made.symbol(name), dict(zip("i", made.program.names[name][1], strict=False))
        letters = [s for s in symbol.slots if s not in loops]
        whole = made[name]
        ranges = [made.program.range_of(s) for s in letters]
        for members in product(*ranges):
            at = loops | dict(zip(letters, members, strict=True))
            one = Ref(symbol, tuple(Num(Fraction(at[s])) for s in symbol.slots))
            place = tuple(m - 1 for m in members)
            assert np.array_equal(made[show(one)], whole[place], equal_nan=True), show(one)
        for row in range(whole.shape[len(letters)] if whole.ndim > len(letters) else 0):
            picked = f"({show(made.parse(name))})[{row}]"
            place = (slice(None),) * len(letters) + (row,)
            assert np.array_equal(made[picked], whole[place], equal_nan=True), picked


def by_hand(world: World, e: Expr, kind: str) -> None:
    weights = KINDS[kind](random_weights(world.model, 3, scale=0.4))
    n = world.number["n"]
    tokens = np.arange(n) * 3 % world.number["V"]
    made = run(world.model, tokens, weights)
    found = host(made[show(e)])
    if any(c.chosen for c in made.conventions(show(e))):  # W x, of a square W, means x W
        e = made.parse(show(e))
    exact = random_weights(world.model, 3, scale=0.4)
    hand = Reference(world.model, exact, {world.model.inputs[0].name: tokens})
    varies = e.free
    if varies:
        parts = [hand.of(e, {world.head: h + 1}) for h in range(world.number["H"])]
        wanted = np.stack(np.broadcast_arrays(*parts))
    else:
        wanted = hand.of(e, {})
    close(found, wanted, show(e), 1e-9)


@pytest.mark.filterwarnings("ignore::viete.errors.ConventionWarning")
@settings(max_examples=100)
@given(st.data())
def test_any_formula_is_a_key(data: st.DataObject) -> None:
    world = data.draw(worlds())
    e, _ = data.draw(expressions(world, tame=True, depth=3, free="heads"))
    by_hand(world, e, data.draw(st.sampled_from(["numpy", "torch"])))


QUESTIONS = (
    "logits_{-1,1}", "|x^i_{-1}|", "⟨x^1_j - x^0_j, U_1⟩", "cos(x^1_0, x^0_0)", "tr(W_QK^{1,h})",
    "A^{1,h}_{-1,0}", "logits(x^0)_{-1,1}", "max(logits_{-1}) - mean(logits_{-1})",
    "rank(logits_{-1}; 1)", "∂(logits_{-1,1})/∂x^1_{-1}", "logits_{-1,1} with A^{2,h} = 0",
    "x^1_{-1} with x^0_j = 2 x^0_j for j ≥ 1",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["attention-only-2", *(pytest.param(x, marks=pytest.mark.slow) for x in ("pythia", "llama"))],
)
def test_a_question_has_one_answer(name: str) -> None:
    """Exact numbers and bounds answer what floats do: values, norms, derivatives, changes."""
    card = tiny(next(p for p in shipped() if Path(p).stem == name))
    weights = {k: np.round(4 * v) / 4 for k, v in random_weights(card, 1).items()}
    given = random_inputs(card, 1, 2)
    plain, exact, bounds = (
        card.run(**given, weights=weights, meaning=m) for m in ("float", "exact", "interval")
    )
    for question in QUESTIONS:
        want = np.asarray(plain[question], float)
        got = np.vectorize(float)(np.asarray(exact[question], object))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=question)
        low, high = np.moveaxis(np.asarray(bounds[question].tolist(), float), -1, 0)
        assert (low <= got + 1e-12).all() and (got - 1e-12 <= high).all(), question


def as_read(model: vt.Card, weights: dict[str, np.ndarray], given: dict[str, Any]) -> None:
    """Every value of a run, beside a second reading that takes none of them from it."""
    made, hand = run(model, None, weights, **given), Reference(model, weights, given)
    for name in made:
        close(made[name], hand.whole(name), name, 1e-10)


@given(cards())
def test_a_run_is_as_read_by_hand(card: Card) -> None:
    as_read(card.model, card.weights(), card.given(n=4))


@SHIPPED
def test_shipped_cards_run_as_read_by_hand(path: str) -> None:
    model = tiny(path)
    as_read(model, random_weights(model, 1), random_inputs(model, n=3))


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_fraction_among_whole_numbers_stays_one(kind: str) -> None:
    model = tiny(next(p for p in shipped() if Path(p).stem == "exact-lesson"))
    made = run(model, [0, 1], KINDS[kind](random_weights(model)))
    found = made["where(1 < 0, argmax(logits), 1/2)"]
    assert host(found).tolist() == [0.5, 0.5]
