"""The named functions against other implementations, and inferred shapes against real ones."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import (
    Card,
    cards,
    expressions,
    random_inputs,
    random_weights,
    shipped,
    tiny,
    worlds,
)  # fmt: skip
from viete.analysis.shapes import Shapes
from viete.analysis.types import Type
from viete.errors import VieteError
from viete.evaluate.array import COL, ROW, Value
from viete.evaluate.fast import FastArrays
from viete.evaluate.run import Run
from viete.graph.card import CardData
from viete.library.functions import library
from viete.meanings.run import run
from viete.notation.printer import show

torch = pytest.importorskip("torch")
F = torch.nn.functional

quick = pytest.mark.parametrize("quick", [True, False], ids=["fast", "definition"])


def of(name: str, *args: Any, quick: bool = False) -> np.ndarray:
    """A function of the library; numbers are exact, vectors are rows."""
    like = np.zeros(0)
    values = []
    for a in args:
        if isinstance(a, np.ndarray):
            values.append(Value(a, (ROW, COL)[2 - a.ndim :]))
        else:
            values.append(Value(Fraction(str(a)), (), True))
    it = FastArrays(CardData("functions"), {}, like, lambda key, loops: values[0], quick)
    out = it.call(name, values)
    order = [out.axes.index(a) for a in (ROW, COL) if a in out.axes]
    return np.transpose(np.asarray(it.lift(out)), order)


def t(a: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(a))


def check(_name: str, found: np.ndarray, wanted: Any, bound: float = 1e-12) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


RNG = np.random.default_rng(7)
Z = 3 * RNG.standard_normal((5, 8))
S = RNG.standard_normal((4, 6))
GAMMA, BETA = RNG.standard_normal(8), RNG.standard_normal(8)


# Rows to rows -------------------------------------------------------------------------------------


@quick
@pytest.mark.parametrize("z", [Z, Z[0]], ids=["matrix", "vector"])
def test_rows(z: np.ndarray, quick: bool) -> None:
    check("softmax", of("softmax", z, quick=quick), scipy.special.softmax(z, axis=-1))
    check("logsumexp", of("logsumexp", z, quick=quick), scipy.special.logsumexp(z, axis=-1))
    check("logsoftmax", of("logsoftmax", z, quick=quick), scipy.special.log_softmax(z, axis=-1))
    for ε in ("1e-5", "0.5", "0"):
        norm = F.layer_norm(t(z), (8,), t(GAMMA), t(BETA), float(ε))
        check("LN", of("LN", z, GAMMA, BETA, ε, quick=quick), norm)
        check("RMSNorm", of("RMSNorm", z, GAMMA, ε, quick=quick),
              F.rms_norm(t(z), (8,), t(GAMMA), float(ε)))  # fmt: skip
    check(
        "LN", of("LN", z, quick=quick), (z - z.mean(-1, keepdims=True)) / z.std(-1, keepdims=True)
    )
    check("LN", of("LN", z, GAMMA, quick=quick), F.layer_norm(t(z), (8,), t(GAMMA), None, 0))
    check("RMSNorm", of("RMSNorm", z, quick=quick), z / np.sqrt((z**2).mean(-1, keepdims=True)))
    check("var", of("var", z, quick=quick), z.var(-1))
    check("std", of("std", z, quick=quick), z.std(-1))


@quick
@settings(max_examples=25)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=6), st.integers(0, 7))
def test_top_keeps_the_greatest_and_of_equals_the_first(
    quick: bool, row: list[int], k: int
) -> None:
    z = np.array([row, row[::-1], [0] * len(row)], dtype=float)
    kept = np.zeros(z.shape)
    for j in range(3):
        for c in sorted(range(len(row)), key=lambda c: (-z[j, c], c))[:k]:
            kept[j, c] = z[j, c]
    check("top", of("top", z, k, quick=quick), kept, 0)


@quick
@settings(max_examples=25)
@given(st.lists(st.sampled_from((-2, 0, 1, 1, np.inf, -np.inf)), min_size=1, max_size=6), st.data())
def test_the_rank_counts_what_is_greater(
    quick: bool, row: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(row) - 1))
    z = np.array([row, row[::-1]], dtype=float)
    check("places", of("places", len(row)), np.arange(len(row)))
    check("entry", of("entry", z, k, quick=quick), z[:, k], 0)
    check("entry", of("entry", z[0], k, quick=quick), z[0, k], 0)
    check("rank", of("rank", z, k, quick=quick), 1 + (z > z[:, [k]]).sum(-1), 0)
    check("rank", of("rank", z[0], k, quick=quick), 1 + (z[0] > z[0, k]).sum(), 0)


# Entry by entry -----------------------------------------------------------------------------------


@quick
@pytest.mark.parametrize("z", [Z, Z[0], 40 * Z], ids=["matrix", "vector", "large"])
def test_entries(z: np.ndarray, quick: bool) -> None:
    with np.errstate(over="ignore"):
        check("sigmoid", of("sigmoid", z, quick=quick), scipy.special.expit(z))
        check("ReLU", of("ReLU", z, quick=quick), F.relu(t(z)))
        check("GELU", of("GELU", z, quick=quick), F.gelu(t(z)))
        check("GELU_tanh", of("GELU_tanh", z, quick=quick), F.gelu(t(z), approximate="tanh"))
        check("SiLU", of("SiLU", z, quick=quick), F.silu(t(z)))
        check("softplus", of("softplus", z, quick=quick), np.logaddexp(z, 0))
        check("clip", of("clip", z, "0.5", quick=quick), np.clip(z, -0.5, 0.5))
        check("softcap", of("softcap", z, 30, quick=quick), 30 * np.tanh(z / 30))
        check("held", of("held", z, quick=quick), z)
        check("dropout", of("dropout", z, np.array(0.1), quick=quick), z)  # outside of training
        w, u = RNG.standard_normal((8, 3)), RNG.standard_normal((8, 3))
        gated = F.silu(t(z) @ t(w)) * (t(z) @ t(u))
        check("SwiGLU", of("SwiGLU", z, w, u, quick=quick), gated, 1e-10)


# Who sees whom ------------------------------------------------------------------------------------


@quick
@pytest.mark.parametrize("shape", [(4, 4), (4, 6), (1, 5), (4, 3)])
def test_masks(shape: tuple[int, int], quick: bool) -> None:
    n, m = shape
    scores = RNG.standard_normal(shape)
    seen = np.array([0, 1, 1, 0, 1, 1])[:m]
    causal, window, visible = (np.full(shape, -np.inf) for _ in range(3))
    for j in range(n):
        for k in range(m):
            position = j + m - n  # of row j, counted as the columns are
            if k <= position:
                causal[j, k] = scores[j, k]
                if position - k < 2:
                    window[j, k] = scores[j, k]
            if seen[k]:
                visible[j, k] = scores[j, k]
    check("causal", of("causal", scores, quick=quick), causal)
    check("window", of("window", scores, 2, quick=quick), window)
    check("visible", of("visible", scores, seen, quick=quick), visible)
    own = np.eye(*scores.shape, k=scores.shape[1] - scores.shape[0], dtype=bool)
    unpadded = np.where(seen.astype(bool) | own, scores, -np.inf)
    check("unpadded", of("unpadded", scores, seen, quick=quick), unpadded)
    off = scores > 0
    scores = np.where(off, RNG.choice((1.0, np.nan, np.inf), shape), scores)
    check("switched", of("switched", scores, 1 - off, quick=quick), np.where(off, 0, scores))
    check("counted", of("counted", seen, quick=quick), np.cumsum(seen) * seen)


# Positions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 6, 7])
def test_sinusoidal(d: int) -> None:
    wanted = np.array(
        [
            [(np.sin, np.cos)[c % 2](j / 10000 ** (2 * (c // 2) / d)) for c in range(d)]
            for j in range(5)
        ]
    )
    check("sinusoidal", of("sinusoidal", 5, d), wanted)


@pytest.mark.parametrize(("d", "share"), [(8, "1"), (8, "1/2"), (8, "1/4"), (2, "1")])
@pytest.mark.parametrize("base", [10000, 500])
def test_rope_is_a_rotation_of_complex_numbers(d: int, share: str, base: int) -> None:
    """Columns m and m + r/2 are the parts of one complex number, turned by j θ^{-2m/r}."""
    x = RNG.standard_normal((5, d))
    r = int(Fraction(share) * d)
    m, j = np.arange(r // 2), np.arange(5)[:, None]
    turned = (x[:, : r // 2] + 1j * x[:, r // 2 : r]) * np.exp(1j * j * base ** (-2 * m / r))
    wanted = np.concatenate([turned.real, turned.imag, x[:, r:]], axis=1)
    check("RoPE", of("RoPE", x, share, base), wanted)
    angles = j * float(base) ** (-2 * m / r)
    check("angles", of("angles", 5, r, base), angles)
    a, b = x[:, : r // 2], x[:, r // 2 : r]
    check("rotate", of("rotate", a, b, angles), wanted[:, :r])
    if share == "1" and base == 10000:
        check("RoPE", of("RoPE", x), wanted)


@pytest.mark.parametrize(("d", "r"), [(8, 8), (8, 4), (5, 2)])
def test_rope_of_neighbours(d: int, r: int) -> None:
    """Columns 2 m and 2 m + 1 are the parts of one complex number."""
    x = RNG.standard_normal((5, d))
    m, j = np.arange(r // 2), np.arange(5)[:, None]
    angles = j * 500.0 ** (-2 * m / r)
    turned = (x[:, :r:2] + 1j * x[:, 1:r:2]) * np.exp(1j * angles)
    wanted = x.copy()
    wanted[:, :r:2], wanted[:, 1:r:2] = turned.real, turned.imag
    check("RoPE_pairs", of("RoPE_pairs", x, r, 500), wanted)
    check("pair_angles", of("pair_angles", 5, r, 500), np.repeat(angles, 2, axis=1))
    y = x[:, :r:2] + 1j * x[:, 1:r:2]
    found = x[:, :r] @ of("quarter", r)
    check("quarter", found[:, ::2] + 1j * found[:, 1::2], 1j * y)


def test_rope_makes_scores_depend_on_distance_alone() -> None:
    q, k = (np.tile(RNG.standard_normal(6), (7, 1)) for _ in range(2))
    scores = of("RoPE", q) @ of("RoPE", k).T
    for offset in range(-6, 7):
        diagonal = np.diagonal(scores, offset)
        assert np.allclose(diagonal, diagonal[0])


def test_frequencies_given() -> None:
    x, pace = RNG.standard_normal((5, 8)), of("freq", 6, 100)
    check("freq", pace, 100.0 ** (-np.arange(3) / 3))
    check("spun", of("spun", x, pace), of("RoPE", x, "3/4", 100))


def test_frequencies_of_llama_3() -> None:
    """Pairs are told apart by their wavelengths, as in the released code."""
    pace, context = of("freq", 16, 500), 256
    wave = 2 * np.pi / pace
    between = (context / wave - 1) / (4 - 1)
    wanted = (1 - between) * pace / 8 + between * pace
    wanted = np.where(wave > context / 1, pace / 8, np.where(wave < context / 4, pace, wanted))
    check("freq_llama3", of("freq_llama3", pace, 8, 1, 4, context), wanted)
    assert wanted[0] == pace[0] and wanted[-1] == pace[-1] / 8


@pytest.mark.parametrize(("base", "context"), [(500, 256), (10000, 4096), (100, 8)])
def test_frequencies_of_yarn(base: int, context: int) -> None:
    pace = of("freq", 16, base)

    def pair(turns: int) -> float:
        """The pair, counted with fractions, that turns so often (Peng et al. 2023, eq. 23)."""
        return 8 * np.log(context / (2 * np.pi * turns)) / np.log(base)

    low, high = max(np.floor(pair(32)), 0), min(np.ceil(pair(1)), 15)
    check("turns", of("turns", 8, base, 32, context), low)
    check("turned", of("turned", 8, base, 1, context), high)
    ramp = np.clip((np.arange(8) - low) / max(high - low, 0.001), 0, 1)
    wanted = ramp * pace / 4 + (1 - ramp) * pace
    check("freq_yarn", of("freq_yarn", pace, base, 4, 1, 32, context), wanted)


def slopes(heads: int) -> list[float]:
    """As in the released code of Press, Smith & Lewis 2021, `get_slopes`."""
    power = 2 ** (heads.bit_length() - 1)
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first if power == heads else first + slopes(2 * power)[::2][: heads - power]


@pytest.mark.parametrize("shape", [(4, 4), (2, 5)])
def test_alibi(shape: tuple[int, int]) -> None:
    n, m = shape
    scores = RNG.standard_normal(shape)
    distance = (np.arange(n)[:, None] + m - n) - np.arange(m)[None, :]
    for heads in (1, 3, 4, 8, 12):
        for h, slope in enumerate(slopes(heads), 1):
            check("ALiBi", of("ALiBi", scores, h, heads), scores - slope * distance)
            check("slope", of("slope", h, heads), slope)


@pytest.mark.parametrize("heads", [*range(1, 34), 112, *(2**k - 1 for k in range(6, 31, 3)), 2**29])
def test_power(heads: int) -> None:
    check("power", of("power", heads), 2.0 ** (heads.bit_length() - 1))


# Loss ---------------------------------------------------------------------------------------------


@quick
def test_cross_entropy(quick: bool) -> None:
    targets = np.array([0, 7, 3, 3, 1])
    wanted = F.cross_entropy(t(Z), torch.from_numpy(targets)).item()
    check("cross_entropy", of("cross_entropy", Z, targets, quick=quick), wanted)
    some = np.array([0, -100, 3, -100, 1])
    there = (some != -100).astype(float)
    check("has_target", of("has_target", some, quick=quick), there)
    check("share", of("share", np.arange(5.0), quick=quick), np.arange(5.0)[:, None] / 10)
    check("cross_entropy", of("cross_entropy", Z, some, quick=quick),
          F.cross_entropy(t(Z), torch.from_numpy(some)).item())  # fmt: skip
    weights = np.array([1.0, 0, 2, 0.5, 0])
    each = F.cross_entropy(t(Z), torch.from_numpy(targets), reduction="none").numpy()
    check("weighted_loss", of("weighted_loss", Z, targets, weights, quick=quick),
          np.average(each, weights=weights))  # fmt: skip


@quick
def test_places(quick: bool) -> None:
    places = np.array([2, 0, 2, 5])
    hot = np.eye(6)[places]
    check("onehot", of("onehot", places, 6, quick=quick), hot)
    check("spread", of("spread", Z[:, :1], Z, quick=quick), np.broadcast_to(Z[:, :1], Z.shape))
    check("gathered", of("gathered", S, places, 6, quick=quick), hot.T @ S)
    wanted = np.zeros((7, 6))
    wanted[2:6] = S
    check("placed", of("placed", S, 2, 7, quick=quick), wanted)
    check("part", of("part", S, 1, 2, quick=quick), S[:, 2:4])
    check("column", of("column", S, 2, quick=quick), S[:, 2:3])
    wanted = S.copy()
    wanted[[3, 0]] = S[:2] + 1
    check("written", of("written", S, S[:2] + 1, np.array([3, 0]), quick=quick), wanted)
    check("stack", of("stack", S, S[:2], quick=quick), np.concatenate([S, S[:2]]))


# Vectors ------------------------------------------------------------------------------------------


@quick
def test_vectors(quick: bool) -> None:
    norm, u, v = np.linalg.norm, Z[0], Z[1]
    check("length", of("length", v, quick=quick), norm(v))
    check("length", of("length", Z, quick=quick), norm(Z, axis=1))  # a column
    check("length", of("length", -3, quick=quick), 3)
    check("unit", of("unit", Z, quick=quick), Z / norm(Z, axis=1)[:, None])
    check("centred", of("centred", Z, quick=quick), Z - Z.mean(axis=1)[:, None])
    check("tr", of("tr", Z[:, :5], quick=quick), np.trace(Z))
    cosine = u @ v / (norm(u) * norm(v))
    check("cosine", of("cosine", u, v, quick=quick), cosine)
    check("cosine", of("cosine", Z, v, quick=quick), Z @ v / (norm(Z, axis=1) * norm(v)))
    check("angle", of("angle", u, v, quick=quick), np.arccos(cosine))
    check("angle", of("angle", v, v, quick=quick), 0)
    check("angle", of("angle", v, -2 * v, quick=quick), np.pi)
    check("twice_arctan", of("twice_arctan", 3, 4, quick=quick), 2 * np.arctan2(3, 4))
    e, tiny_one = np.eye(8)[0], 1e-9  # whose cosine is 1
    check("angle", of("angle", e, e + tiny_one * np.eye(8)[1], quick=quick) / tiny_one, 1)
    assert np.isnan(of("angle", v, 0 * v, quick=quick))


ANGLE = """# Words for vectors

## Inputs

- $v ∈ ℝ^d$
- $w ∈ ℝ^d$

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | {d} |

## Forward pass

1. $u = c(v)$
2. $y = |u| + ‖w‖$

## Claims

- $⟨u, LN(w)⟩ = {scale} |u| \\cos{{θ_{{u,c(w)}}}}$
- $⟨u, LN(w)⟩ = {scale} |u| cos(u, c(w))$
- ${scale} \\lVert u \\rVert \\cos θ_{{u,c(w)}} = \\left\\| {scale} u \\right\\| cos θ_{{u,c(w)}}$
"""


@given(st.integers(3, 9))
@settings(max_examples=5)
def test_a_vector_times_a_normalized_one_is_a_length_and_an_angle(d: int) -> None:
    """⟨v, LN(w)⟩ = √d |v| cos θ for v with mean 0, at γ = 1, β = 0, ε = 0; without √d it fails."""
    checked = [vt.read(ANGLE.format(d=d, scale=scale)).check() for scale in ("√d", "")]
    held = [[v.failure is None for v in claims.verdicts] for claims in checked]
    assert held == [[True] * 3, [False, False, True]]


def test_the_words_for_vectors_are_questions() -> None:
    card = vt.read(ANGLE.format(d=3, scale="√d"))
    v, w = [2, 0, 1], [3, 1, -1]
    run, exact = card.run(np.array(v) / 1, w=np.array(w) / 1), card.run(v, w=w, meaning="exact")
    for question, wanted in {"|v - w|": "sqrt(6)", "|v_0 - w_0|": "1", "θ_{v,v}": "0"}.items():
        assert str(exact[question]) == wanted
        assert run[question] == pytest.approx(float(exact[question]))


LEARNED = """# Derivatives

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 3 |

## Parameters

| symbol | shape |
| --- | --- |
| $v$ | $d$ |
| $w$ | $d$ |
| $W$ | $d × d$ |

## Forward pass

1. $L = |v_0| + tr(W W) + θ_{v,w} + cos(c(v), w) + |W|_{1,0} + |c(w)|$
"""


def test_the_words_for_vectors_have_derivatives() -> None:
    weights = {"v": Z[3, :3], "w": Z[4, :3], "W": Z[:3, :3]}
    back = vt.read(LEARNED).grad().run(weights=weights)
    asked = {k: t(x).requires_grad_() for k, x in weights.items()}
    vt.read(LEARNED).run(weights=asked)["L"].backward()
    for name, x in asked.items():
        check("gradient", back[f"∂{name}"], x.grad)


def test_a_base_of_the_cards_own_is_no_angle() -> None:
    text = ANGLE.format(d=3, scale="√d").replace("| $d$ | 3 |", "| $d$ | 3 |\n| $θ$ | 10000 |")
    with pytest.raises(VieteError, match=r"between two vectors is angle\(a, b\) here"):
        vt.read(text)


def test_every_function_of_the_library_is_tested() -> None:
    tested = re.findall(r'check\("(\w+)"', Path(__file__).read_text("utf-8"))
    assert not library().keys() - set(tested)


# Shapes -------------------------------------------------------------------------------------------


def sizes_of(made: Run, found: Type) -> tuple[int, ...]:
    return tuple(int(s.evaluate(made.sizes)) for s in found.shape)


def inferred_is_computed(model: CardData, made: Run) -> None:
    shapes = Shapes(model)
    names = [(name, made.symbol(name)) for name in made]
    for name, symbol in names:
        found = shapes.types[symbol.key]
        letters = [s for s in symbol.slots if s in found.family]
        family = tuple(len(made.program.range_of(s)) for s in letters)
        assert made[name].shape == family + sizes_of(made, found), name
    for k, equation in enumerate(model.equations):
        assert shapes.computed[k] == shapes.types[equation.name].shape or all(
            a.evaluate(made.sizes) == b.evaluate(made.sizes)
            for a, b in zip(shapes.computed[k], shapes.types[equation.name].shape, strict=True)
        )


@given(cards())
def test_shapes_inferred_are_shapes_computed(card: Card) -> None:
    inferred_is_computed(card.model, run(card.model, None, card.weights(), **card.given()))


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_shapes_of_shipped_cards(path: str) -> None:
    model = tiny(path)
    inferred_is_computed(model, run(model, None, random_weights(model), **random_inputs(model)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=60)
@given(st.data())
def test_shape_of_any_formula(data: st.DataObject) -> None:
    world = data.draw(worlds())
    e, shape = data.draw(expressions(world, depth=3, free="heads"))
    n = world.number["n"]
    made = run(world.model, np.arange(n), random_weights(world.model))
    found = Shapes(world.model).of(e)
    assert sizes_of(made, found) == tuple(world.number[s] for s in shape)
    assert found.family <= e.free  # rows(A^h) is the same for every h
    family = (world.number["H"],) * len(found.family)
    assert np.shape(made[show(e)]) == family + sizes_of(made, found), show(e)


def test_a_column_has_two_sizes() -> None:
    from viete import read

    model = read(
        "# m\n## Dimensions\n| symbol | value |\n|-|-|\n| $d$ | 3 |\n## Inputs\n"
        "- $X ∈ ℝ^{d × d}$: x\n## Forward pass\n1. $m = mean(X)$\n1. $Y = X - m$\n"
    )
    made = run(model, X=np.arange(9.0).reshape(3, 3))
    assert [str(s) for s in Shapes(model).types["m"].shape] == ["d", "1"]
    assert made["m"].shape == (3, 1)
