"""Law 6, of formulas: a fused form equals its pattern, a fast version of a place its definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.strategies import peppered
from viete.errors import Text
from viete.evaluate.fast import FORMS, PLACES, FastArrays, found, gathered
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.plan.numpy_kernels import numpy_kernels
from viete.evaluate.plan.torch_kernels import torch_kernels
from viete.graph.card import CardData
from viete.graph.rules import scope
from viete.notation.parser import parse
from viete.notation.substitution import substitute
from viete.notation.tree import Expr, Ref, Symbol

torch = pytest.importorskip("torch")
KINDS = {"numpy": np.asarray, "torch": lambda a: torch.from_numpy(np.array(a))}
try:
    import jax

    KINDS["jax"] = jax.numpy.asarray
except ImportError:
    pass
LEADS = [(), ("h",), ("batch",), ("batch", "h")]


def arrays(values: dict[str, Value], like: Any, quick: bool) -> FastArrays:
    return FastArrays(CardData("functions"), {}, like, lambda key, loops: values[key], quick)


def named(e: Expr) -> Expr:
    """A rule's letters as values that a run would look up."""
    letters = {s.key: Ref(Symbol("value", s.base)) for group in scope().symbols.values()
               for s in group}  # fmt: skip
    return substitute(e, arguments=letters)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [text for text, _ in FORMS])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_form_equals_its_pattern(text: str, kind: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    lead = data.draw(st.sampled_from(LEADS))
    size = {"batch": 2, "h": 3}
    shape = (*(size[a] for a in lead), 4, 5)
    axes = (*lead, ROW, COL)
    make = KINDS[kind]
    special = data.draw(st.booleans())
    numbers = {k: rng.standard_normal(shape) for k in ("y", "a", "z")}
    if special:
        numbers = {k: peppered(rng, x) for k, x in numbers.items()}
    if "softmax" in text:  # a row with +∞ has no probabilities: one NaN, or all
        numbers["z"][numbers["z"] == np.inf] = 3
    values = {k: Value(make(x), axes) for k, x in numbers.items()}
    batch = tuple(a for a in lead if a == "batch")
    places = rng.integers(0, 5, (*(size[a] for a in batch), 4))
    values["t"] = Value(make(places), (*batch, COL))
    values["c"] = Value(Fraction(5), (), True)
    e = named(parse(Text(text), scope()))
    before = {k: np.array(v.array) for k, v in values.items() if v.axes}
    like = values["y"].array
    fast = arrays(values, like, True)
    assert found(e) is not None  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        got, wanted = fast.of(e), arrays(values, like, False).of(e)
    order = [got.axes.index(a) for a in wanted.axes]
    np.testing.assert_allclose(
        np.transpose(np.asarray(got.array), order), np.asarray(wanted.array), rtol=1e-5, atol=1e-6
    )
    for k, array in before.items():
        np.testing.assert_array_equal(np.asarray(values[k].array), array)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["relu_back", "masked", "softmax_back", "relu"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_plan_computes_special_values_as_the_formula_says(
    name: str, kind: str, dtype: str
) -> None:
    """Kernels of plans, on NaN, ±∞ and −0, also where the result takes an argument's memory."""
    rng = np.random.default_rng(3)
    g, y = (peppered(rng, rng.standard_normal((50, 8))).astype(dtype) for _ in range(2))
    hidden = rng.random((50, 8)) < 0.5
    with np.errstate(all="ignore"):
        args, wanted = {
            "relu_back": ((g, y), np.where(y > 0, g, 0)),
            "masked": ((g, hidden), np.where(hidden, -np.inf, g)),
            "softmax_back": ((g, y), y * (g - np.sum(g * y, axis=-1, keepdims=True))),
            "relu": ((g,), np.maximum(g, 0)),
        }[name]
        for own in (False, True):
            arrays = [KINDS[kind](a.copy()) for a in args]
            out = arrays[0] if own else KINDS[kind](np.empty_like(g))
            (numpy_kernels() if kind == "numpy" else torch_kernels())[name](
                out, tuple(arrays), ()
            )()
            np.testing.assert_allclose(np.asarray(out), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_place_equals_its_definition(name: str, kind: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    make = KINDS[kind]
    lead = data.draw(st.sampled_from([(), ("batch",)]))
    shape = (*(2 for _ in lead), 3, 6)
    y = Value(make(rng.standard_normal(shape)), (*lead, ROW, COL))
    t = Value(make(rng.integers(0, 4, shape[:-1])), (*lead, COL))

    def whole(k: int) -> Value:
        return Value(Fraction(k), (), True)

    heads = Value(np.arange(3.0), ("h",), True)
    args = {
        "gathered": [y, t, whole(4)],
        "placed": [y, whole(data.draw(st.integers(0, 2))), whole(5)],
        "part": [y, data.draw(st.sampled_from([heads, whole(1)])), whole(2)],
        "column": [
            y,
            data.draw(
                st.sampled_from([Value(np.arange(6.0), ("h",), True), heads, whole(2), whole(7)])
            ),
        ],
        "onehot": [t, whole(4)],
    }[name]
    like = y.array
    got = arrays({}, like, True).call(name, list(args))
    wanted = arrays({}, like, False).call(name, list(args))
    order = [got.axes.index(a) for a in wanted.axes]
    np.testing.assert_allclose(
        np.transpose(np.asarray(got.array), order), np.asarray(wanted.array), rtol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gathered_over_a_batch_is_the_sum_of_the_sequences(kind: str) -> None:
    rng = np.random.default_rng(0)
    y, t = rng.standard_normal((2, 3, 6)), rng.integers(0, 4, (2, 3))
    make = KINDS[kind]
    args = [Value(make(y), ("batch", ROW, COL)), Value(make(t), ("batch", COL)),
            Value(Fraction(4), (), True)]  # fmt: skip
    it = arrays({}, args[0].array, True)
    got = gathered(it, args, batch=True)
    assert got is not None and got.axes == (ROW, COL)
    wanted = np.zeros((4, 6))
    for b in range(2):
        for j in range(3):
            wanted[t[b, j]] += y[b, j]
    np.testing.assert_allclose(np.asarray(got.array), wanted, rtol=1e-5)
