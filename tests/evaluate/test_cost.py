"""Costs against published counts, and what the cache and the embeddings are derived from."""

import time
from fractions import Fraction

import pytest

from viete import read
from viete.analysis.cost import costs
from viete.cards.catalogue import find
from viete.errors import VieteError

PLAIN = """
# GPT-2 as nanoGPT sizes it: no biases

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 50257 |
| $d$ | 768 |
| $N$ | 12 |
| $H$ | 12 |
| $d_k$ | $d / H$ |
| $d_f$ | $4 d$ |
| $n_{max}$ | 1024 |
| $n$ | $≤ n_{max}$ |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $P$ | $n_{max} × d$ |
| $γ_1^i$, $γ_2^i$ | $d$ |
| $W_Q^{i,h}, W_K^{i,h}, W_V^{i,h}$ | $d × d_k$ |
| $W_O^i$ | $d × d$ |
| $W_1^i$ | $d × d_f$ |
| $W_2^i$ | $d_f × d$ |
| $γ$ | $d$ |

## Forward pass

1. $x^0 = E[t] + P[:n]$

For $i = 1, …, N$:

2. $u^i = LN(x^{i-1}; γ_1^i)$
3. $Q^{i,h} = u^i W_Q^{i,h}$
4. $K^{i,h} = u^i W_K^{i,h}$
5. $V^{i,h} = u^i W_V^{i,h}$
6. $S^{i,h} = Q^{i,h} {K^{i,h}}^⊤$
7. $M^{i,h} = causal(S^{i,h} / \\sqrt{d_k})$
8. $A^{i,h} = softmax(M^{i,h})$
9. $C^i = concat_h(A^{i,h} V^{i,h})$
10. $a^i = x^{i-1} + C^i W_O^i$
11. $v^i = LN(a^i; γ_2^i)$
12. $f^i = GELU(v^i W_1^i)$
13. $x^i = a^i + f^i W_2^i$
14. $logits = LN(x^N; γ) E^⊤$
"""


@pytest.fixture(scope="module")
def plain():
    return read(PLAIN)


def shipped(name, **dims):
    return read(find(name)).bind(**dims)


def by_name(counted):
    return {e.equation.name: e for e in counted.equations}


# -- parameters ------------------------------------------------------------------------------------


def test_rows_are_formulas():
    rows = {r.parameter.name: r for r in costs(shipped("pythia")).parameters.rows}
    assert str(rows["W_Q^{i,h}"].all.symbolic) == "H N d d_k"
    assert str(rows["W_Q^{i,h}"].each) == "d d_k = 32,768"


def test_gpt2_parameters(plain):
    """nanoGPT's sizing notebook; with biases, its count leaves out the position embedding alone."""
    found = costs(plain).parameters
    assert found.total.number == 124_337_664
    assert found.position.number == 786_432
    assert found.token.number == found.unembedding.number == 38_597_376
    assert found.without_embeddings.number == 84_953_088 + 768
    rows = {r.parameter.name: (r.all.number, r.embeds) for r in found.rows}
    assert rows["E"] == (38_597_376, {"token", "unembedding"})
    assert rows["W_1^i"] == (12 * 2_359_296, frozenset())
    biased = costs(shipped("gpt2")).parameters
    assert biased.total.number - biased.position.number == 123_653_376
    assert biased.total.number == 124_439_808  # the released model


def test_embeddings_that_encoders_have():
    found = costs(shipped("bert")).parameters
    embeds = {r.parameter.name: set(r.embeds) for r in found.rows if r.embeds}
    assert embeds == {"W_E": {"token"}, "W_P": {"position"}, "W_S": {"token"}}


# -- operations ------------------------------------------------------------------------------------


def test_gpt2_flops(plain):
    """nanoGPT's sizing notebook, forward at T = 1024; products alone, as it counts."""
    found = costs(plain)
    one = {name: e.forward.products.number // 12 for name, e in by_name(found).items()}
    assert one["Q^{i,h}"] + one["K^{i,h}"] + one["V^{i,h}"] == 3_623_878_656
    assert one["S^{i,h}"] == 1_610_612_736
    assert one["C^i"] == 1_610_612_736
    assert one["a^i"] == 1_207_959_552
    assert one["f^i"] == one["x^i"] == 4_831_838_208
    assert by_name(found)["logits"].forward.products.number == 79_047_426_048
    assert found.forward.products.number == 291_648_307_200
    assert found.backward.products.number == 583_296_614_400
    assert found.step.products.number == 874_944_921_600


def test_biases_change_no_product(plain):
    assert costs(shipped("gpt2")).step.products.number == costs(plain).step.products.number


# Chinchilla, table A4: layers, width, MLP width, heads, training FLOPs of 2048 tokens.
CHINCHILLA = [
    (10, 640, 2560, 10, 929877196800),
    (20, 1024, 4096, 16, 4135248199680),
    (24, 1280, 5120, 10, 7353453772800),
    (26, 1792, 7168, 14, 14670316437504),
    (28, 2048, 8192, 16, 20220437594112),
    (40, 3584, 14336, 28, 83021046743040),
]


@pytest.mark.parametrize("layers, d, f, heads, flops", CHINCHILLA)
def test_chinchilla_table_a4(plain, layers, d, f, heads, flops):
    """Appendix F counts what we do, but: no logits here, of entrywise work the softmax alone
    (3 per entry, as its definition gives), and backward always twice forward."""
    model = plain.bind(N=layers, d=d, H=heads, n_max=2048)
    assert model.sizes["d_f"] == f
    found = by_name(costs(model))
    blocks = sum(e.forward.products.number for name, e in found.items() if name != "logits")
    softmax = found["A^{i,h}"].forward.operations.number
    assert softmax == layers * 3 * heads * 2048**2
    assert 3 * (blocks + softmax) == flops


def test_simple_transformer_step():
    """Forward and backward of 64 texts of 256: about 80.6 GFLOP by hand."""
    found = costs(shipped("simple-transformer"), {"T": 256}, batch=64)
    per_token = 2 * (3 * 256 * 64 + 2 * 256 * 64 + 64 * 256 + 2 * 256 * 1024 + 256 * 772)
    assert found.forward_per_token.products.number == per_token == 1_640_448
    assert found.forward.products.number == 64 * 256 * per_token
    assert found.step.products.number == 3 * 64 * 256 * per_token == 80_631_300_096
    assert abs(found.step.products.number / 80.6e9 - 1) < 0.01
    assert str(found.tokens) == "64 T = 16,384"


def test_data_needs_no_gradient():
    card = """
# m
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 3 |
| $n$ | $≤ 4$ |
## Inputs
- $X ∈ ℝ^{n × d}$
## Parameters
| symbol | shape |
| --- | --- |
| $W$, $U$ | $d × d$ |
## Forward pass
1. $G = X^T X$
2. $Y = X W$
3. $Z = Y U$
4. $k = argmax(Z)$
"""
    found = costs(read(card))
    assert [e.forward.products.number for e in found.equations] == [72, 72, 72, 0]
    assert [e.backward.products.number for e in found.equations] == [0, 72, 144, 0]


def test_a_large_card_is_quick():
    """80 blocks of Llama's size are multiplied, not unrolled."""
    model = shipped("llama", N=80, d=8192, H=64, G=8, d_f=28672)
    took = []
    for _ in range(3):
        start = time.process_time()
        found = costs(model)
        took.append(time.process_time() - start)
    assert min(took) < 0.1
    assert found.parameters.total.number == 68_976_648_192  # Llama 2 70B


# -- memory ----------------------------------------------------------------------------------------


def cached(counted):
    return {r.left.key: (str(r.each.symbolic), str(r.along)) for r in counted.cache.rows}


def test_bytes():
    found = costs(shipped("pythia"))
    assert found.weights.bytes("float16").number == 2 * 70_426_624
    assert found.weights.bytes("float64").number == 8 * 70_426_624
    assert str(found.cache.per_token.bytes("bfloat16")) == "4 H N d_k = 12,288"
    assert found.cache.full.bytes("int8").number == 2 * 6 * 512 * 2048
    with pytest.raises(VieteError, match="unknown dtype 'float'; use one of float64"):
        found.weights.bytes("float")


def test_cache_is_keys_and_values():
    assert cached(costs(shipped("pythia"))) == {
        "K^{i,h}": ("H N d_k", "n"), "V^{i,h}": ("H N d_k", "n"),
    }  # fmt: skip


def test_grouped_queries_share_keys():
    found = costs(shipped("llama", N=80, d=8192, H=64, G=8, d_f=28672))
    assert cached(found) == {"K^{i,g}": ("G N d_k", "n"), "V^{i,g}": ("G N d_k", "n")}
    assert found.cache.per_token.bytes("float16").number == 2 * 2 * 80 * 8 * 128


def test_an_encoder_has_no_cache():
    cache = costs(shipped("bert")).cache
    assert cache.rows == () and cache.full.number == 0
    assert "A^{i,h} reads later positions" in cache.why


def test_a_decoder_keeps_keys_of_its_source():
    found = costs(shipped("transformer-2017"), {"m": 10, "n": 7})
    assert cached(found) == {
        "K_d^{i,h}": ("H N d_k", "n"), "V_d^{i,h}": ("H N d_k", "n"),
        "K_c^{i,h}": ("H N d_k", "m"), "V_c^{i,h}": ("H N d_k", "m"),
    }  # fmt: skip
    assert found.cache.per_token.number == 2 * 6 * 512
    assert found.cache.full.number == 2 * 6 * 512 * (7 + 10)


ATTENTION = """
# m
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 4 |
| $w$ | 3 |
| $n$ | $≤ 8$ |
## Inputs
- $t ∈ \\{{0, …, 9\\}}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $10 × d$ |
| $W_Q, W_K$ | $d × d$ |
## Forward pass
1. $x = E[t]$
2. $Q = x W_Q$
3. $K = x W_K$
{}
"""


def attention(*equations):
    lines = "\n".join(f"{i}. ${e}$" for i, e in enumerate(equations, 4))
    return costs(read(ATTENTION.format(lines)))


def test_a_window_keeps_its_width():
    found = attention("S = Q K^T", "A = softmax(window(S; w))", "y = A x")
    rows = {r.left.key: (str(r.positions), r.all.number) for r in found.cache.rows}
    assert rows == {"K": ("w = 3", 12), "x": ("w = 3", 12)}
    found = attention(
        "A = softmax(window(Q K^T; w))", "B = softmax(causal(Q Q^T))", "y = A x + B x"
    )
    rows = {r.left.key: str(r.positions) for r in found.cache.rows}
    assert rows == {"K": "w = 3", "Q": "n = 8", "x": "n = 8"}


@pytest.mark.parametrize(
    "mask",
    [
        "softmax(causal(S))",
        "softmax(table_{j<n,k<n}(where(k <= j, S_{j,k}, -inf)))",
        "softmax(table_{j<n,k<n}(where(k > j, -inf, S_{j,k})))",
        "softmax(table_{j<n,k<n}(where(j >= k, S_{j,k}, -10000)))",
        "S ⊙ table_{j<n,k<n}(where(k < j + 1, 1, 0))",
        "sigmoid(causal(S))",
    ],
)
def test_masks_that_hide_the_future(mask):
    found = attention("S = Q K^T", f"A = {mask}", "y = A x")
    assert found.cache.why == ""
    assert set(cached(found)) == {"K", "x"}


@pytest.mark.parametrize(
    "equation",
    [
        "y = softmax(Q K^T) x",
        "y = softmax(table_{j<n,k<n}(where(k <= j + 1, (Q K^T)_{j,k}, -inf))) x",
        "y = causal(softmax(Q K^T)) x",
        "y = x + mean_{j=0}^{n-1}(x_j)",
        "y = x + x_{n-1}",
    ],
)
def test_reading_ahead(equation):
    found = attention(equation)
    assert found.cache.rows == ()
    assert found.cache.why.startswith("y reads later positions")


def test_reading_ahead_through_a_summary():
    found = attention("c = mean_{j=0}^{n-1}(x_j)", "y = x + c")
    assert found.cache.why.startswith("y reads later positions")


def test_no_position_reads_another():
    found = attention("y = ReLU(Q) ⊙ K", "p = y_{n-1}")
    assert found.cache.why == "no position reads a named value of another one"


def test_reading_one_position_back():
    found = attention("y = table_{j<n,c<d}(where(j > 0, x_{j-1,c}, 0))")
    assert found.cache.why == "" and set(cached(found)) == {"x"}


# -- numbers ---------------------------------------------------------------------------------------


def test_formulas_stay_where_numbers_are_missing():
    text = PLAIN.replace("| $V$ | 50257 |", "| $V$ | |")
    found = costs(read(text))
    assert found.parameters.token.number is None
    assert str(found.parameters.token) == "V d"
    assert found.forward.products.number is None
    assert found.parameters.without_embeddings.number == 84_953_856
    values = {**found.model.sizes, "n": Fraction(1024), "V": Fraction(50257)}
    assert found.forward.products.symbolic.evaluate(values) == 291_648_307_200


def test_lengths_default_to_the_greatest(plain):
    assert costs(plain).lengths == {"n": 1024}
    assert costs(plain, {"n": 1}).forward.products.number < 291_648_307_200 // 1024 + 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (({"m": 4},), "no length m; its lengths are n"),
        (({"n": 1025},), "n must be a whole number from 1 to 1024, not 1025"),
        (({"n": 0},), "n must be a whole number"),
        (({}, 0), "the batch must be a whole number"),
    ],
)
def test_bad_arguments(plain, arguments, words):
    with pytest.raises(VieteError, match=words):
        costs(plain, *arguments)


def test_dimensions_that_do_not_divide(plain):
    with pytest.raises(VieteError, match="must be a whole number"):
        costs(plain.bind(H=5))


def test_a_reduction_of_a_column_is_counted():
    """mean(sum(x)): each row of one entry to one number, as a run takes it."""
    model = read(
        "# T\n## Dimensions\n| symbol | value |\n| --- | --- |\n| $n$ | 4 |\n| $k$ | 3 |\n"
        "## Parameters\n| symbol | shape |\n| --- | --- |\n| $x$ | $n × k$ |\n"
        "## Forward pass\n1. $s = mean(sum(x))$\n2. $L = \\sum_{j=0}^{n - 1} s_{j,0}$"
    )
    first, _ = costs(model).equations
    assert first.forward.operations.number == 4 * 3 + 4
