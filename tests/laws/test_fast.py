"""Law 6: a fast version of a named function equals its definition, and alters no one's array."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.strategies import Card, cards, peppered
from viete import read
from viete.analysis.kinds import OF_REALS
from viete.errors import VieteError
from viete.evaluate.fast import PLACES, VERSIONS, FastArrays
from viete.evaluate.labelled import COL, ROW, Value
from viete.graph.card import CardData
from viete.meanings.run import run

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

NAMES = [
    "GELU",
    "GELU_tanh",
    "LN",
    "RMSNorm",
    "ReLU",
    "SiLU",
    "causal",
    "cross_entropy",
    "held",
    "length",
    "logsoftmax",
    "logsumexp",
    "sigmoid",
    "softmax",
    "softplus",
    "top",
]
MODEL = CardData("functions")
KINDS = {"numpy": np.asarray, "torch": lambda a: torch.from_numpy(np.array(a)),
         "jax": jax.numpy.asarray}  # fmt: skip
ROUNDING = {"float64": 1e-11, "float32": 2e-3}


def test_every_fast_version_is_tested() -> None:
    named = VERSIONS.keys() - PLACES.keys()
    assert sorted(named) == NAMES
    # Of whole numbers these are whole, or roots of whole ones.
    assert named - {"ReLU", "held", "length", "top"} == OF_REALS


@st.composite
def arguments(draw: st.DrawFn, name: str) -> list[tuple[Any, tuple[str, ...]]]:
    """Random arrays with their axes, for one function; plain numbers have none."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    lead = draw(st.sampled_from([(), ("h",), ("batch", "h"), ("batch",)]))
    matrix = name in ("causal", "cross_entropy", "top") or draw(st.booleans())
    axes = (*lead, ROW, COL) if matrix else (*lead, COL)
    rows = draw(st.integers(1, 4))
    columns = rows + draw(st.integers(0, 2)) if name == "causal" else draw(st.integers(2, 5))
    length = {"batch": 2, "h": 3, ROW: rows, COL: columns}
    scale = draw(st.sampled_from([1.0, 30.0, 1000.0]))
    z = scale * rng.standard_normal([length[a] for a in axes])
    if draw(st.booleans()):
        z = peppered(rng, z)
        if name == "cross_entropy":  # a row with +∞ has no probabilities
            z[z == np.inf] = np.nan
    if name in ("softmax", "logsoftmax", "logsumexp") and draw(st.booleans()):
        hidden = rng.random(z.shape) < 0.4
        hidden[..., 0] = False  # a row that is hidden altogether has no probabilities
        z[hidden] = -np.inf
    order = draw(st.permutations(range(len(axes))))  # a transposed score matrix, say
    z, axes = np.transpose(z, order), tuple(axes[k] for k in order)
    out: list[tuple[Any, tuple[str, ...]]] = [(z, axes)]
    if name == "cross_entropy":
        ints = draw(st.sampled_from([(), ("batch",)])) if "batch" in axes else ()
        targets = rng.integers(0, columns, [length[a] for a in ints] + [rows])
        out.append((targets, (*ints, COL)))
    if name == "top":
        if draw(st.booleans()):
            out[0] = np.round(z / scale), axes  # some are equal
        out.append((Fraction(draw(st.integers(0, 6)), draw(st.integers(1, 2))), ()))
    if name in ("LN", "RMSNorm"):
        for plain in (1, 0) if name == "LN" else (1,):
            vector = draw(st.booleans())
            family = draw(st.booleans()) and "h" in lead
            shape = ([3] if family else []) + [columns]
            axes = (("h",) if family else ()) + (COL,)
            out.append((rng.standard_normal(shape), axes) if vector else (Fraction(plain), ()))
        if "h" in lead and draw(st.booleans()):
            out.append((rng.random(3), ("h",)))
        else:
            out.append((draw(st.sampled_from([Fraction(0), Fraction("1e-5"), Fraction(1)])), ()))
    return out


def call(
    name: str,
    args: list[tuple[Any, tuple[str, ...]]],
    quick: bool,
    kind: str = "numpy",
    dtype: str = "float64",
    fresh: bool = False,
) -> tuple[np.ndarray, list[Any], Value]:
    """The value, its axes in the order of the first argument's, and the arrays that were given."""
    given: list[Any] = []
    for a, _ in args:
        if isinstance(a, np.ndarray):
            a = KINDS[kind](a.astype(dtype) if a.dtype.kind == "f" else a.copy())
        given.append(a)
    it = FastArrays(MODEL, {}, given[0], lambda key, loops: None, quick)  # type: ignore[arg-type,return-value]
    values = [
        Value(a, axes, isinstance(a, Fraction), fresh and not isinstance(a, Fraction))
        for a, (_, axes) in zip(given, args, strict=True)
    ]
    out = it.call(name, values)
    order = [a for a in args[0][1] if a in out.axes]
    order += [a for a in out.axes if a not in order]
    array = np.asarray(out.array.double() if kind == "torch" else out.array, np.float64)
    return np.transpose(array, [out.axes.index(a) for a in order]), given, out


def equals_definition(name: str, args: list[Any], kind: str, dtype: str, fresh: bool) -> None:
    rounded = [
        (
            a.astype(dtype).astype("float64")
            if isinstance(a, np.ndarray) and a.dtype.kind == "f"
            else a,
            axes,
        )
        for a, axes in args
    ]
    with np.errstate(all="ignore"):
        wanted, _, _ = call(name, rounded, quick=False)
    found, given, out = call(name, args, True, kind, dtype, fresh)
    assert found.shape == wanted.shape
    assert dtype in str(out.array.dtype)
    sure = np.isfinite(wanted)  # where the definition overflows, the fast version may do better
    z = rounded[0][0]
    tame = np.abs(z[np.isfinite(z)]).max(initial=0) < 30  # nothing overflows but what is infinite
    probable = None
    if name in ("softmax", "logsoftmax"):  # a row with +∞ has no probabilities: one NaN, or all
        axis = args[0][1].index(COL)
        least = (z == np.inf).any(axis=axis, keepdims=True)
        if name == "softmax":  # NaN for all of it, and by the definition where it does not vanish
            beside = np.broadcast_to(least, z.shape)
            with np.errstate(over="ignore"):
                lost = (np.exp(z) == np.inf) | np.isnan(z).any(axis=axis, keepdims=True)
            assert np.isnan(found[beside]).all()
            assert np.array_equal(wanted[beside], np.where(lost, np.nan, 0)[beside], True)
        probable = (z.max(axis=axis) > -np.inf) & ~least.squeeze(axis)
        sure &= ~least
        wanted = np.where(least, np.nan, wanted)
        found = np.where(least & np.isnan(found).any(axis=axis, keepdims=True), np.nan, found)
    size = max(1.0, float(np.max(np.abs(wanted[sure]), initial=0)))
    bound = ROUNDING[dtype] * size
    if name in ("LN", "RMSNorm"):  # dividing by a small deviation makes rounding larger
        bound *= 1e2
    assert np.all(np.abs(found[sure] - wanted[sure]) <= bound), name
    assert not np.isnan(found).any() or np.isnan(wanted).any()
    if tame or (probable is None and name not in ("cross_entropy", "logsumexp", "softplus")):
        assert np.array_equal(found[~sure], wanted[~sure], equal_nan=True), name
    if name == "softplus":
        assert np.allclose(found[z > 40], z[z > 40], rtol=ROUNDING[dtype])
    if name == "softmax":
        assert probable is not None
        assert np.allclose(found.sum(axis=axis)[probable], 1, atol=ROUNDING[dtype])
    if not fresh:
        for a, (before, _) in zip(given, args, strict=True):
            if isinstance(before, np.ndarray):
                same = before.astype(dtype) if before.dtype.kind == "f" else before
                kept = np.array_equal(np.asarray(a), same, equal_nan=True)
                assert kept, f"{name} has written into its argument"


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(data=st.data())
def test_fast_equals_definition(name: str, kind: str, data: st.DataObject) -> None:
    args = data.draw(arguments(name))
    dtype, fresh = data.draw(st.sampled_from(["float64", "float32"])), data.draw(st.booleans())
    equals_definition(name, args, kind, dtype, fresh)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)  # JAX compiles each operation for each shape
@given(data=st.data())
def test_fast_equals_definition_on_jax(name: str, data: st.DataObject) -> None:
    equals_definition(name, data.draw(arguments(name)), "jax",
                      data.draw(st.sampled_from(["float64", "float32"])), False)  # fmt: skip


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_scores_too_large_for_exp(kind: str) -> None:
    """Where the definition would overflow, the fast version gives the limit."""
    z = np.array([[1e5, 1e5, -1e5], [0.0, -np.inf, 1e4]])
    soft, _, _ = call("softmax", [(z, (ROW, COL))], True, kind)
    assert np.allclose(soft, [[0.5, 0.5, 0], [0, 0, 1]])
    log, _, _ = call("logsoftmax", [(z, (ROW, COL))], True, kind)
    assert np.allclose(log, [[-np.log(2), -np.log(2), -2e5 - np.log(2)], [-1e4, -np.inf, 0]])
    total, _, _ = call("logsumexp", [(z, (ROW, COL))], True, kind)
    assert np.allclose(total, [1e5 + np.log(2), 1e4])
    loss, _, _ = call("cross_entropy", [(z, (ROW, COL)), (np.array([0, 2]), (COL,))], True, kind)
    assert np.allclose(loss, np.log(2) / 2)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_constants_are_brought_to_the_kind_of_the_weights(kind: str) -> None:
    """LN(sinusoidal(n, d); γ): what is normalized is made in NumPy, and γ is a weight."""
    z, gamma = np.arange(12.0).reshape(3, 4) ** 2, np.array([1.0, 2.0, 3.0, 4.0], "float32")
    it = FastArrays(MODEL, {}, KINDS[kind](gamma), lambda key, loops: None)  # type: ignore[arg-type,return-value]
    out = it.call("LN", [Value(z, (ROW, COL), True), Value(KINDS[kind](gamma), (COL,))])
    centred = z - z.mean(1, keepdims=True)
    assert "float32" in str(out.array.dtype)
    assert np.allclose(out.array, gamma * centred / z.std(1, keepdims=True), rtol=1e-5)


# Whole runs ---------------------------------------------------------------------------------------

MORE = {"LN": "; γ", "RMSNorm": "; γ", "top": "; 2"}
EVERY_ONE = read(r"""
# Every fast function of a weight, an input and a named value
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $n_{max}$ | 9 |
| $n$ | $≤ n_{max}$ |
| $h$ | $1, …, 2$ |
## Inputs
- $r ∈ ℝ^{n × n}$: numbers
- $t ∈ \{0, …, V - 1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $W^h$ | $V × V$ |
| $γ, β$ | $V$ |
## Forward pass
1. $S^h = W^h$
2. $X = r$
3. $C^h = W^h[t]$
""" + "\n".join(
    f"{k}. $Y_{{{k}}}^h = {name}({of}^h{MORE.get(name, '')})$\n"
    f"{k}. $Z_{{{k}}} = {name}({'X' if of == 'S' else 'r'}{'; 2' if name == 'top' else ''})$"
    for k, (name, of) in enumerate(
        [(name, of) for name in NAMES if name != "cross_entropy" for of in "SW"], 4
    )
) + "\n99. $L^h = cross_entropy(C^h; t)$\n")  # fmt: skip


def test_no_run_writes_into_what_it_was_given_or_has_named() -> None:
    rng = np.random.default_rng(0)
    weights = {"W^h": rng.standard_normal((2, 5, 5)), "gamma": np.ones(5), "beta": np.zeros(5)}
    r, t = rng.standard_normal((4, 4)), np.array([1, 4, 0, 2])
    before = {k: v.copy() for k, v in weights.items()} | {"r": r.copy(), "t": t.copy()}
    first, second = (run(EVERY_ONE, weights=weights, r=r, t=t) for _ in range(2))
    for name, array in (weights | {"r": r, "t": t}).items():
        assert np.array_equal(array, before[name]), name
    assert np.array_equal(first["S^h"], weights["W^h"])
    assert np.array_equal(first["X"], r)
    slow = run(EVERY_ONE, weights=weights, r=r, t=t, exact_definitions=True)
    for name in first:
        assert np.array_equal(first[name], second[name]), name
        assert np.allclose(first[name], slow[name], rtol=1e-12, atol=1e-12), name


@given(cards())
def test_a_card_runs_alike_with_fast_functions_and_definitions(card: Card) -> None:
    weights, inputs = card.weights(), card.given()
    weights = {k: v / 4 for k, v in weights.items()}  # scores that exp can take
    kept = {k: np.copy(v) for k, v in {**weights, **inputs}.items()}
    made = run(card.model, None, weights, **inputs)
    values = {name: np.copy(made[name]) for name in made}
    slow = run(card.model, None, weights, exact_definitions=True, **inputs)
    again = run(card.model, None, weights, **inputs)
    for name, value in values.items():
        assert np.array_equal(made[name], value) and np.array_equal(again[name], value), name
        assert np.allclose(value, slow[name], rtol=1e-9, atol=1e-9), name
    for name, array in {**weights, **inputs}.items():
        assert np.array_equal(array, kept[name]), f"a run has written into {name}"


# Indices outside ---------------------------------------------------------------------------------

PLACES_CARD = r"""
# A formula of computed indices
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $n$ | $≤ 9$ |
## Inputs
- $t ∈ \{-100, …, 9\}^n$
- $w ∈ ℝ^n$
- $Y ∈ ℝ^{n × V}$
## Parameters
| symbol | shape |
| --- | --- |
| $W$ | $1$ |
## Forward pass
1. $u = t - 3$
2. $s = t$
3. $r = FORMULA$
"""
OF_PLACES = ["gathered(Y; u, V)", "gathered(Y; s, 3)", "onehot(u, V)", "cross_entropy(Y; u)",
             "cross_entropy(Y; s)", "cross_entropy(Y; t)", "weighted_loss(Y; u, w)",
             "softmax(Y) - onehot(s, V)", "Y[u]"]  # fmt: skip
TEXTS = [[3, 4, 5, 7], [0, 3, 4, 5], [3, 8, 9, 4], [-100, 3, 4, 1], [-100, 3, 4, 5], [-100] * 4]


@pytest.mark.parametrize("formula", OF_PLACES)
def test_indices_outside_give_what_the_definition_gives_or_are_refused(formula: str) -> None:
    """Of an index from the end, one too large and -100, in a run, a recorded run and PyTorch."""
    card, rng = read(PLACES_CARD.replace("FORMULA", formula)), np.random.default_rng(0)
    Y, kinds = rng.standard_normal((4, 5)), [np.ones(1), torch.ones(1, dtype=torch.float64)] * 2

    def value(text: list[int], W: Any, exact_definitions: bool) -> Any:
        given = {"t": np.array(text), "w": np.arange(1.0, 5), "Y": Y}
        try:
            found = run(card, None, {"W": W}, exact_definitions=exact_definitions, **given)
            return np.asarray(found["r"])
        except VieteError as error:
            return type(error)

    for text in TEXTS:
        wanted = value(text, kinds[0], True)
        for W in kinds:
            found = value(text, W, False)
            if wanted is VieteError:
                assert found is VieteError, text
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=str(text))


def test_targets_of_another_length_are_refused_where_the_card_is_read() -> None:
    text = PLACES_CARD.replace("FORMULA", "cross_entropy(Y^⊤; t)")
    with pytest.raises(VieteError, match="the same n everywhere, and gets V and n"):
        read(text)
