"""Cards written by hand: what is said twice must agree, and errors say what would be right."""

from __future__ import annotations

import numpy as np
import pytest

from viete import read
from viete.cards.catalogue import find
from viete.cards.writer import write
from viete.errors import VieteError
from viete.evaluate.initial_weights import initial_weights

CARD = """# Tiny

## Model Architecture

- **model_name**: Tiny
- **vocab_size**: 12
- **embedding_dim**: 6
- **context_length**: 4
- **num_blocks**: 1
- **num_heads**: 1

## Notation

- `x`: Input tokens, x ∈ {0,1,...,11}^L where L=4
- `E`: Embedding matrix (vocab_size × d_model)
- `A`: Attention weights (after softmax)
- `d_k`: Dimension of keys (= d_model / num_heads = 6)
- `L`: Sequence length (= 4)
- `d_{model}`: Model dimension (= 6)

## Parameters

| Parameter | Shape | Type | Description |
|-----------|-------|------|-------------|
| E | 12 × 6 | float32 | Token embedding |
| W^Q | 6 × 6 | float32 | Queries |
| W^{out} | 6 × 12 | float32 | Output |

## Forward Pass Equations

1. **h_0** = `E[x]`
   - Embedding lookup
   - Shape: (batch, L, d_model)

2. **Q** = `h_0 W^Q`
   - Shape: (batch, L, d_k)

3. **A** = `softmax(Q Q^T / sqrt(d_k))`
   - Shape: (batch, L, L)

4. **h_1** = `LN(GELU(A h_0) + h_0)`
   - Shape: (batch, L, d_model)

5. **y** = `argmax(h_1 W^{out})`
   - Shape: (batch, L)
"""
INPUT = "- `x`: Input tokens, x ∈ {0,1,...,11}^L where L=4\n"


def edited(*changes: tuple[str, str]) -> str:
    card = CARD
    for old, new in changes:
        assert card.count(old) == 1
        card = card.replace(old, new)
    return card


def refusal(*changes: tuple[str, str], at: str) -> str:
    """The message for the edited card, whose caret must stand in the line with ``at``."""
    with pytest.raises(VieteError) as caught:
        read(edited(*changes))
    assert caught.value.where is not None
    assert at in caught.value.where.text
    assert "^" in str(caught.value)
    return caught.value.message


def test_as_it_stands() -> None:
    model = read(CARD)
    assert model.sizes["vocab_size"] == 12
    assert len(model.equations) == 5


# -- facts and equations ---------------------------------------------------------------------------


def looped(i: str, blocks: int) -> list[tuple[str, str]]:
    return [
        ("num_blocks**: 1", f"num_blocks**: {blocks}"),
        ("**h_0** = `E[x]`", "**h^0** = `E[x]`"),
        ("2. **Q** = `h_0 W^Q`", f"For each block $i = {i}$:\n\n2. **Q^i** = `h^{{i-1}} W^Q`"),
        ("**A** = `softmax(Q Q^T ", "**A^i** = `softmax(Q^i {Q^i}^T "),
        ("**h_1** = `LN(GELU(A h_0) + h_0)`", "**h^i** = `LN(GELU(A^i h^{i-1}) + h^{i-1})`"),
        ("argmax(h_1 W", "argmax(h^3 W"),
    ]


def test_blocks() -> None:
    said = refusal(("num_blocks**: 1", "num_blocks**: 2"), at="num_blocks")
    assert "no loop" in said and "For $i = 1, …, num_blocks$:" in said
    read(edited(*looped("1, …, 3", 3)))
    read(edited(*looped("1, …, num_blocks", 3)))
    assert "i over 3" in refusal(*looped("1, …, 3", 2), at="num_blocks")


def test_heads() -> None:
    alone = ("(= d_model / num_heads = 6)", "(= 6)")
    read(edited(alone))
    said = refusal(alone, ("num_heads**: 1", "num_heads**: 2"), at="num_heads")
    assert "no equation has 2 heads" in said
    # Where the dimension is used, its other statements catch it.
    refusal(("num_heads**: 1", "num_heads**: 2"), at="d_model / num_heads")


def test_vocabulary() -> None:
    said = refusal(("{0,1,...,11}", "{0,1,...,99}"), at="vocab_size")
    assert said == "vocab_size is 12, but x has 100 token numbers"
    more = [("| E | 12 × 6", "| E | 14 × 6"), ("(vocab_size × d_model)", "")]
    assert refusal(*more, at="vocab_size") == "vocab_size is 12, but E has 14 rows"
    symbol = ("- `L`: Seq", "- `V`: Vocabulary size (= 10)\n- `L`: Seq")
    assert refusal(symbol, at="`V`") == "V is 10, but x has 12 token numbers"


def test_embedding_columns() -> None:
    said = refusal(("embedding_dim**: 6", "embedding_dim**: 8"), at="embedding_dim")
    assert said == "embedding_dim is 8, but E has 6 columns"


def test_lengths() -> None:
    said = refusal(("(= 4)", "(= 9)"), (" where L=4", ""), at="`L`")
    assert said.startswith("L is 9 here, but context_length is 4")
    assert "L is 7 here, but 4" in refusal(("where L=4", "where L=7"), at="L=7")


@pytest.mark.parametrize("size", ["12 × 6", "12 x d_model", "vocab_size \\times embedding_dim"])
def test_sizes_in_words(size: str) -> None:
    read(edited(("vocab_size × d_model", size)))


def test_wrong_sizes_in_words() -> None:
    for size in ("d_model × vocab_size", "12 × 7", "12 x 61"):
        assert "E is described as" in refusal(("vocab_size × d_model", size), at="`E`")
    # Equations' own values have a shape too; words that are not sizes are prose.
    said = refusal(("(after softmax)", "(L × d_model)"), at="`A`")
    assert said == "A is described as L × d_model, but its shape is L × L"
    read(edited(("(after softmax)", "(rows × columns)")))


# -- spellings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["Output shape: {}", "Shape = {}", "**Shape:** {}",
                                      "**Output shape**: {}", "Shape is {}"])  # fmt: skip
def test_stated_shapes(spelling: str) -> None:
    right = "Shape: (batch, L, d_k)"
    model = read(edited((right, spelling.format("(batch, L, d_k)"))))
    assert model.equations[1].stated is not None
    said = refusal((right, spelling.format("(batch, L, L)")), at="(batch, L, L)")
    assert said.startswith("the shape stated for Q is")


def test_cases() -> None:
    cases = "\\begin{{cases}} h_0 & {} 1 < 2 \\\\ 0 & \\text{{otherwise}} \\end{{cases}}"
    one, other = (
        read(edited(("LN(GELU(A h_0) + h_0)", cases.format(said)))) for said in ("\\text{if }", "")
    )
    assert one == other


# -- messages --------------------------------------------------------------------------------------


def test_how_inputs_are_declared() -> None:
    said = refusal((INPUT, ""), at="E[x]")
    assert said.startswith("unknown symbol x") and "under Inputs: $t ∈ {0, …, V-1}^n$" in said
    assert "under Inputs" in refusal(("E[x]", "E[z]"), at="E[z]")


def test_a_name_is_whole() -> None:
    change = ("- `d_{model}`: Model dimension (= 6)\n", "- `d_f`: Inner (= 6)\n")
    assert "unknown symbol d_model;" in refusal(change, at="d_model / num_heads")


@pytest.mark.parametrize(
    "name, written, right",
    [("GELU", "gelu", "GELU"), ("LN", "LayerNorm", "LN"), ("LN", "layer_norm", "LN"),
     ("LN", "rmsnorm", "RMSNorm"), ("GELU", "relu", "ReLU"), ("GELU", "swish", "SiLU"),
     ("LN", "RMS_Norm", "RMSNorm")],
)  # fmt: skip
def test_functions_by_other_names(name: str, written: str, right: str) -> None:
    said = refusal((f"{name}(", f"{written}("), at=f"{written}(")
    assert said == f"unknown function {written}; did you mean {right}?"


@pytest.mark.parametrize("line", ["for i from 1 to 3:", "For each $i$ in 1..3:"])
def test_loops_in_code(line: str) -> None:
    said = refusal(("2. **Q**", f"{line}\n\n2. **Q**"), at=line)
    assert said == "a loop is written For $i = 1, …, N$:"
    refusal(("   - Shape: (batch, L, d_k)\n", f"{line}\n"), at=line)


def test_a_loop_may_stand_in_backticks() -> None:
    """As inputs, rows and equations may."""
    text = "# T\n## Dimensions\n| symbol | value |\n| --- | --- |\n| `N` | 3 |\n"
    text += "## Input\n- `y ∈ ℝ`\n## Forward pass\n1. `x^0 = y`\n\n"
    text += "For `i = 1, …, N`:\n\n2. `x^i = 2 * x^{i-1}`\n"
    assert read(text).run(None, {}, y=1.5)["x^3"] == 12


# -- a shipped card that others' configs would fit -------------------------------------------------


def test_roberta_is_not_bert() -> None:
    bert = read(find("bert"))
    config = {key: 8 for d in bert.dims for key in d.config.split(" or ")[0].split(", ") if key}
    read(find("bert"), config | {"model_type": "bert"})
    with pytest.raises(VieteError, match="model_type is roberta"):
        read(find("bert"), config | {"model_type": "roberta"})


# -- as the references and code write it -----------------------------------------------------------

WORDS = r"""# Words

## Vocabulary

`a` `b` `z`

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 4 |
| $head_{size}$ | 8 |
| $num_{heads}$ | 4 |
| $k$ | $head_{size} / 4$ |
| $n$ | $≤ 8$ |
| $h$ | $1, …, num_{heads}$ |

## Inputs

- $t ∈ \{0, 1, 2\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $3 × d$ |
| $Q^h, K^h$ | $d × k$ |
| $P$ | $head_{size} × d$ |

## Forward pass

1. $x = E[t]$
2. $w^h = x Q^h @ (x K^h)^T$
3. $y = concat_h(w^h x K^h) P$
4. $logits = concat([y, x])$
5. $last = logits[:, -1, :]$
6. $b = E["b"] + E[z]$
7. $tower = 2^3^2 + 0 * b$
"""


def test_words_of_the_vocabulary_last_rows_and_lists() -> None:
    model = read(WORDS)
    weights = initial_weights(model, 0)
    run = model.run([0, 2, 1], weights)
    np.testing.assert_allclose(run["last"], run["logits"][-1])
    np.testing.assert_allclose(run["logits"], np.hstack([run["y"], run["x"]]))
    np.testing.assert_allclose(run["b"], weights["E"][1] + weights["E"][2])
    np.testing.assert_allclose(run['E["a"]'], weights["E"][0])
    np.testing.assert_allclose(run["tower"], 512)
    assert read(write(model, "md")) == model
    with pytest.raises(VieteError, match='"q" is not a word of the vocabulary; it has a b z'):
        run['E["q"]']


def test_a_number_that_is_what_a_dimension_is() -> None:
    """The 4 of head_size / 4 stands for the number of heads, as long as there are four."""
    assert read(WORDS).sizes["k"] == 2
    with pytest.raises(VieteError, match="inner sizes"):
        read(WORDS.replace("| $num_{heads}$ | 4 |", "| $num_{heads}$ | 2 |"))
    # Two dimensions of one value are two sizes.
    with pytest.raises(VieteError, match="inner sizes"):
        read(WORDS.replace("| $num_{heads}$", "| $e$ | 4 |\n| $num_{heads}$").replace(
            "| $P$ | $head_{size} × d$", "| $P$ | $head_{size} × e$").replace(
            "$tower = 2^3^2 + 0 * b$", "$tower = x (E^T E) + y (E^T E)$"))  # fmt: skip
